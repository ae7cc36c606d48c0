//! Pools of memory nodes as a [`Harness`]: each test starts its own memory nodes in this process, over TCP, or over
//! RDMA if the machine has an RDMA device.

use farwood_fabric::{Client, NodeId, PoolShape};
use farwood_testkit::harness::{on_threads, serve_on_threads};
use farwood_testkit::{Harness, ServerHarness, need};
use farwood_transport::rdma::{self, DeviceSpec, RdmaPool};
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::{
    Credentials, FreshNodePolicy, MemoryNode, NodeSpec, PoolAddress, ServedFabric, ServedPool, TcpPool,
    TcpServer, VerbTransport,
};
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The pool's memory nodes and their sizes in tests.
const NODES: usize = 2;
const HOST_BYTES: u64 = 64 << 20;

/// A folder of one test, removed on drop.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("farwood-proof-served-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a directory is created");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed is left.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A transport: starts its memory nodes and opens their pools.
pub trait Transport: Sized + Sync + 'static {
    /// The transport of verbs.
    type VerbTransport: VerbTransport;

    /// Starts a memory node on a free port.
    fn start(spec: &NodeSpec) -> MemoryNode;

    /// Attaches this process to a pool.
    fn open(address: &PoolAddress) -> ServedPool<Self::VerbTransport>;
}

/// Memory nodes whose threads execute verbs.
#[derive(Debug)]
pub enum OverTcp {}

/// Memory nodes whose NIC executes verbs: the device that `FARWOOD_RDMA_DEVICE` names, or the first.
#[derive(Debug)]
pub enum OverRdma {}

impl Transport for OverTcp {
    type VerbTransport = <TcpPool as VerbTransportOf>::VerbTransport;

    fn start(spec: &NodeSpec) -> MemoryNode {
        MemoryNode::start(spec).expect("a memory node can be started")
    }

    fn open(address: &PoolAddress) -> TcpPool {
        TcpPool::open(address, Credentials::default()).expect("the pool can be opened")
    }
}

impl Transport for OverRdma {
    type VerbTransport = <RdmaPool as VerbTransportOf>::VerbTransport;

    fn start(spec: &NodeSpec) -> MemoryNode {
        rdma::serve(spec, &device()).expect("a memory node with an RDMA device can be started").0
    }

    fn open(address: &PoolAddress) -> RdmaPool {
        let queue_pairs = rdma::queue_pairs(address).expect("a valid number of queue pairs");
        RdmaPool::open(address, Credentials::default(), &device(), queue_pairs, FreshNodePolicy::FormPool)
            .expect("the pool can be opened")
    }
}

/// The transport of a pool's type.
pub trait VerbTransportOf {
    /// The transport of verbs.
    type VerbTransport: VerbTransport;
}

impl<W: VerbTransport> VerbTransportOf for ServedPool<W> {
    type VerbTransport = W;
}

/// The RDMA device of the tests.
fn device() -> DeviceSpec {
    let named = std::env::var("FARWOOD_RDMA_DEVICE").unwrap_or_else(|_| "auto".to_owned());
    named.parse().expect("FARWOOD_RDMA_DEVICE names a device")
}

/// Memory nodes whose NIC executes verbs. On a machine without an RDMA device the test is skipped ([`need`]).
#[track_caller]
pub fn rdma_or_skip() -> Option<Rdma> {
    has_rdma().then(Rdma::new)
}

/// Whether this machine has an RDMA device. Without one the test is skipped ([`need`]).
#[track_caller]
pub fn has_rdma() -> bool {
    need::met(need::RDMA_DEVICE, rdma::examine(&device())).is_some()
}

/// Memory nodes for one test, and this process's attachment to their pool.
#[derive(Debug)]
pub struct Served<K: Transport> {
    // Declared before the memory nodes, so that it leaves the pool while they still run.
    pool: ServedPool<K::VerbTransport>,
    nodes: Vec<MemoryNode>,
    folder: Folder,
}

/// A pool over TCP.
pub type Tcp = Served<OverTcp>;
/// A pool over RDMA.
pub type Rdma = Served<OverRdma>;

impl<K: Transport> Served<K> {
    /// A new pool of two memory nodes.
    ///
    /// # Panics
    /// If the operating system refuses a file, a port or a thread.
    pub fn new() -> Self {
        Self::with("")
    }

    /// Starts the pool with parameters in its address, such as `?queue-pairs=2`.
    ///
    /// # Panics
    /// If the operating system refuses a file, a port or a thread.
    pub fn with(parameters: &str) -> Self {
        let nodes: Vec<_> = (0..NODES).map(|_| start::<K>()).collect();
        let address: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
        let pool = attach::<K>(&format!("{}{parameters}", address.join(",")));
        Self { pool, nodes, folder: Folder::new() }
    }

    /// The address that another process passes to [`attach`].
    pub fn address(&self) -> String {
        self.pool.address().to_string()
    }

    /// This process's attachment.
    pub fn pool(&self) -> &ServedPool<K::VerbTransport> {
        &self.pool
    }

    /// The test's folder.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// The memory nodes.
    pub fn nodes(&self) -> &[MemoryNode] {
        &self.nodes
    }
}

impl<K: Transport> Default for Served<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// Starts a memory node on a free port.
///
/// # Panics
/// If the operating system refuses a file, a port or a thread.
pub fn start<K: Transport>() -> MemoryNode {
    K::start(&NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), HOST_BYTES))
}

/// Attaches to the pool of a [`Served`], which another process may have created.
///
/// # Panics
/// If there is no such pool.
pub fn attach<K: Transport>(address: &str) -> ServedPool<K::VerbTransport> {
    K::open(&address.parse().expect("a valid address"))
}

impl<K: Transport> Harness for Served<K> {
    type Fabric = ServedFabric<K::VerbTransport>;

    fn client(&self) -> Client<Self::Fabric> {
        self.pool.client()
    }

    fn separate_client(&self) -> Client<Self::Fabric> {
        attach::<K>(&self.address()).client()
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        block_on(work)
    }

    fn run_clients<T: Send>(
        &self,
        count: usize,
        work: impl AsyncFn(usize, Client<Self::Fabric>) -> T + Sync,
    ) -> Vec<T> {
        on_threads(self, count, work)
    }

    fn shape(&self) -> PoolShape {
        PoolShape { nodes: NODES as u16, host_bytes: HOST_BYTES, ..self.pool.shape() }
    }
}

impl<K: Transport> ServerHarness for Served<K> {
    type Server = TcpServer;

    fn server(&self, node: NodeId) -> TcpServer {
        self.nodes[usize::from(node.0)].server()
    }

    fn serve<S: Send, C: Send>(
        &self,
        server: impl AsyncFnOnce(TcpServer) -> S + Send,
        client: impl AsyncFnOnce(Client<Self::Fabric>) -> C + Send,
    ) -> (S, C) {
        serve_on_threads(self, server, client)
    }
}
