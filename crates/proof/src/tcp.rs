//! TCP as a [`Harness`]: memory nodes of its own for each test, in this process.

use farwood_fabric::{Client, NodeId, PoolShape};
use farwood_testkit::harness::{on_threads, serve_on_threads};
use farwood_testkit::{Harness, ServerHarness};
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::{Credentials, MemoryNode, NodeSpec, PoolAddress, TcpFabric, TcpPool, TcpServer};
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The pool's memory nodes and their sizes in tests.
const NODES: usize = 2;
const HOST_BYTES: u64 = 64 << 20;

/// A folder of a test's own, removed on drop.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("farwood-proof-tcp-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a directory can be made");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in it, if it cannot be removed, harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Memory nodes for one test, and this process's attachment to their pool.
#[derive(Debug)]
pub struct Tcp {
    // Before the memory nodes: it leaves while they are there.
    pool: TcpPool,
    nodes: Vec<MemoryNode>,
    folder: Folder,
}

impl Tcp {
    /// A new pool of two memory nodes.
    ///
    /// # Panics
    /// Where the machine refuses.
    pub fn new() -> Self {
        let nodes: Vec<_> = (0..NODES).map(|_| start()).collect();
        let address: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
        Self { pool: attach(&address.join(",")), nodes, folder: Folder::new() }
    }

    /// Where another process finds the pool, with [`attach`].
    pub fn address(&self) -> String {
        self.pool.address().to_string()
    }

    /// This process's attachment.
    pub fn pool(&self) -> &TcpPool {
        &self.pool
    }

    /// A folder of the test's own.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// The memory nodes.
    pub fn nodes(&self) -> &[MemoryNode] {
        &self.nodes
    }
}

impl Default for Tcp {
    fn default() -> Self {
        Self::new()
    }
}

/// A memory node on some free port.
///
/// # Panics
/// Where the machine refuses.
pub fn start() -> MemoryNode {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    MemoryNode::start(&NodeSpec::new(listen, HOST_BYTES)).expect("a memory node can be started")
}

/// Attaches once more to the pool of a [`Tcp`], perhaps another process's.
///
/// # Panics
/// Where there is no such pool.
pub fn attach(address: &str) -> TcpPool {
    let address: PoolAddress = address.parse().expect("a good address");
    TcpPool::open(&address, Credentials::default()).expect("the pool can be opened")
}

impl Harness for Tcp {
    type Fabric = TcpFabric;

    fn client(&self) -> Client<TcpFabric> {
        self.pool.client()
    }

    fn stranger(&self) -> Client<TcpFabric> {
        attach(&self.address()).client()
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        block_on(work)
    }

    fn together<T: Send>(
        &self,
        count: usize,
        work: impl AsyncFn(usize, Client<TcpFabric>) -> T + Sync,
    ) -> Vec<T> {
        on_threads(self, count, work)
    }

    fn shape(&self) -> PoolShape {
        PoolShape { nodes: NODES as u16, host_bytes: HOST_BYTES, ..*self.pool.shape() }
    }
}

impl ServerHarness for Tcp {
    type Server = TcpServer;

    fn server(&self, node: NodeId) -> TcpServer {
        self.nodes[usize::from(node.0)].server()
    }

    fn serve<S: Send, C: Send>(
        &self,
        server: impl AsyncFnOnce(TcpServer) -> S + Send,
        client: impl AsyncFnOnce(Client<TcpFabric>) -> C + Send,
    ) -> (S, C) {
        serve_on_threads(self, server, client)
    }
}
