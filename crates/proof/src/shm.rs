//! Shared memory as a [`Harness`]: each test has its own pool.

use farwood_fabric::{Client, NodeId, PoolShape};
use farwood_testkit::harness::{on_threads, serve_on_threads};
use farwood_testkit::{Harness, ServerHarness};
use farwood_transport::runtime::block_on;
use farwood_transport::shm::{
    Backing, PoolName, PoolSpec, SegmentDir, ShmFabric, ShmPool, ShmServer, create,
};
use std::future::Future;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The name of every test's pool. Each test has its own directory.
const NAME: &str = "proof";

/// The pool's memory nodes and their sizes in tests.
const NODES: u16 = 2;
const HOST_BYTES: u64 = 64 << 20;
const DEVICE_BYTES: u64 = 256 << 10;

/// A directory in shared memory, removed on drop.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let shm = Path::new("/dev/shm");
        let root = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        loop {
            let name = format!("farwood-proof-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
            let path = root.join(name);
            match std::fs::create_dir(&path) {
                // A killed process with the same process id left this directory.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => {
                    created.expect("a directory in shared memory");
                    return Self(path);
                }
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A killed process may have left files, which are removed with the directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A pool in shared memory for one test, and this process's attachment to it.
#[derive(Debug)]
pub struct Shm {
    pool: ShmPool,
    directory: Scratch,
}

impl Shm {
    /// A new pool of two memory nodes.
    ///
    /// # Panics
    /// If the operating system refuses a file or memory.
    pub fn new() -> Self {
        Self::of_bytes(HOST_BYTES)
    }

    /// A new pool of two memory nodes of that size. It allocates only the memory that is used.
    ///
    /// # Panics
    /// If the operating system refuses a file or memory.
    pub fn of_bytes(host_bytes: u64) -> Self {
        let directory = Scratch::new();
        let spec = PoolSpec {
            name: name(),
            nodes: NODES,
            host_bytes,
            host_bytes_max: None,
            device_bytes: DEVICE_BYTES,
            backing: Backing::Growable,
            group: None,
            mode: None,
        };
        create(&SegmentDir::at(&directory.0), &spec).expect("a pool can be created");
        Self { pool: attach(&directory.0), directory }
    }

    /// The path that another process passes to [`attach`].
    pub fn path(&self) -> &Path {
        &self.directory.0
    }

    /// This process's attachment.
    pub fn pool(&self) -> &ShmPool {
        &self.pool
    }
}

impl Default for Shm {
    fn default() -> Self {
        Self::new()
    }
}

fn name() -> PoolName {
    NAME.parse().expect("a valid name")
}

/// Attaches to the pool of a [`Shm`], which another process may have created.
///
/// # Panics
/// If there is no such pool.
pub fn attach(path: &Path) -> ShmPool {
    ShmPool::open(&SegmentDir::at(path), &name()).expect("the pool can be opened")
}

impl Harness for Shm {
    type Fabric = ShmFabric;

    fn client(&self) -> Client<ShmFabric> {
        self.pool.client()
    }

    fn separate_client(&self) -> Client<ShmFabric> {
        attach(self.path()).client()
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        block_on(work)
    }

    fn run_clients<T: Send>(
        &self,
        count: usize,
        work: impl AsyncFn(usize, Client<ShmFabric>) -> T + Sync,
    ) -> Vec<T> {
        on_threads(self, count, work)
    }

    fn shape(&self) -> PoolShape {
        PoolShape { nodes: NODES, host_bytes: HOST_BYTES, device_bytes: DEVICE_BYTES, ..self.pool.shape() }
    }
}

impl ServerHarness for Shm {
    type Server = ShmServer;

    fn server(&self, node: NodeId) -> ShmServer {
        self.pool.server(node).expect("the pool has that node")
    }

    fn serve<S: Send, C: Send>(
        &self,
        server: impl AsyncFnOnce(ShmServer) -> S + Send,
        client: impl AsyncFnOnce(Client<ShmFabric>) -> C + Send,
    ) -> (S, C) {
        serve_on_threads(self, server, client)
    }
}
