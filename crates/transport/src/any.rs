//! All fabrics of this crate as one type, for programs that learn the fabric from a URL. Static dispatch ends
//! here (`docs/decisions/0005-dispatch.md`).

#[cfg(feature = "etcd")]
use crate::etcd::EtcdAddress;
#[cfg(feature = "rdma")]
use crate::rdma::{RdmaFabric, RdmaPool};
use crate::shm::{PoolName, ShmFabric, ShmMemory, ShmPool, ShmServer};
#[cfg(feature = "tcp")]
use crate::tcp::{PoolAddress, TcpFabric, TcpMemory, TcpPool, TcpServer};
use farwood_fabric::{
    Access, Address, Capabilities, Client, ClientId, Doorbell, Fabric, FabricError, LINE_BYTES, LINE_WORDS,
    MemoryWork, PoolShape, Revocation, Server, ServerMemory,
};
use std::fmt;

/// The location of a pool. Displays as its URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PoolLocation {
    /// A name in shared memory.
    Shm(PoolName),
    /// The addresses of memory nodes.
    #[cfg(feature = "tcp")]
    Tcp(PoolAddress),
    /// The addresses of memory nodes whose devices execute verbs.
    #[cfg(feature = "rdma")]
    Rdma(PoolAddress),
    /// A pool to look up in etcd.
    #[cfg(feature = "etcd")]
    Etcd(EtcdAddress),
}

impl fmt::Display for PoolLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shm(name) => write!(f, "shm://{name}"),
            #[cfg(feature = "tcp")]
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            #[cfg(feature = "rdma")]
            Self::Rdma(address) => write!(f, "rdma://{address}"),
            #[cfg(feature = "etcd")]
            Self::Etcd(address) => write!(f, "etcd://{address}"),
        }
    }
}

/// One client's connection to a pool of any kind.
#[derive(Debug)]
pub enum AnyFabric {
    /// A client in shared memory.
    Shm(ShmFabric),
    /// A client over TCP.
    #[cfg(feature = "tcp")]
    Tcp(TcpFabric),
    /// A client over RDMA.
    #[cfg(feature = "rdma")]
    Rdma(RdmaFabric),
}

/// A process's attachment to a pool of any kind.
#[derive(Clone, Debug)]
pub enum AnyPool {
    /// A pool in shared memory.
    Shm(ShmPool),
    /// A pool over TCP.
    #[cfg(feature = "tcp")]
    Tcp(TcpPool),
    /// A pool over RDMA.
    #[cfg(feature = "rdma")]
    Rdma(RdmaPool),
}

/// Dispatches to the concrete transport.
macro_rules! dispatch {
    ($self:ident, $fabric:ident => $done:expr) => {
        match $self {
            Self::Shm($fabric) => $done,
            #[cfg(feature = "tcp")]
            Self::Tcp($fabric) => $done,
            #[cfg(feature = "rdma")]
            Self::Rdma($fabric) => $done,
        }
    };
}

impl Fabric for AnyFabric {
    #[inline]
    fn capabilities(&self) -> &Capabilities {
        dispatch!(self, fabric => fabric.capabilities())
    }

    #[inline]
    fn shape(&self) -> PoolShape {
        dispatch!(self, fabric => fabric.shape())
    }

    async fn find_added_nodes(&self) -> Result<(), FabricError> {
        dispatch!(self, fabric => fabric.find_added_nodes().await)
    }

    #[inline]
    fn identity(&self) -> ClientId {
        dispatch!(self, fabric => fabric.identity())
    }

    #[inline]
    fn access(&self) -> Access {
        dispatch!(self, fabric => fabric.access())
    }

    #[inline]
    async fn submit(&self, doorbell: Doorbell) -> Result<Doorbell, FabricError> {
        dispatch!(self, fabric => fabric.submit(doorbell).await)
    }

    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell> {
        dispatch!(self, fabric => fabric.submit_detached(doorbell))
    }

    #[inline]
    fn lock_tag(&self) -> u16 {
        dispatch!(self, fabric => fabric.lock_tag())
    }

    #[inline]
    fn now(&self) -> u64 {
        dispatch!(self, fabric => fabric.now())
    }

    #[inline]
    fn thread(&self) -> usize {
        dispatch!(self, fabric => fabric.thread())
    }

    async fn sleep(&self, nanoseconds: u64) {
        dispatch!(self, fabric => fabric.sleep(nanoseconds).await);
    }

    async fn alarm(&self, nanoseconds: u64) {
        dispatch!(self, fabric => fabric.alarm(nanoseconds).await);
    }

    async fn revoke(&self, client: ClientId) -> Result<Revocation, FabricError> {
        dispatch!(self, fabric => fabric.revoke(client).await)
    }

    async fn provision(&self, at: Address, bytes: u64) -> Result<(), FabricError> {
        dispatch!(self, fabric => fabric.provision(at, bytes).await)
    }
}

impl AnyPool {
    /// Returns a client for the calling thread.
    pub fn client(&self) -> Client<AnyFabric> {
        Client::new(match self {
            Self::Shm(pool) => AnyFabric::Shm(pool.fabric()),
            #[cfg(feature = "tcp")]
            Self::Tcp(pool) => AnyFabric::Tcp(pool.fabric()),
            #[cfg(feature = "rdma")]
            Self::Rdma(pool) => AnyFabric::Rdma(pool.fabric()),
        })
    }

    /// Returns the memory nodes and their sizes.
    pub fn shape(&self) -> PoolShape {
        dispatch!(self, pool => pool.shape())
    }
}

/// The server role of a memory node of any kind.
#[derive(Debug)]
pub enum AnyServer {
    /// Shared memory: any process that has the pool open may take the role.
    Shm(AnyMemory, ShmServer),
    /// TCP: the memory node's own process takes the role.
    #[cfg(feature = "tcp")]
    Tcp(AnyMemory, TcpServer),
}

/// A memory node's own view of its memory, of any kind.
#[derive(Debug)]
pub enum AnyMemory {
    /// Memory of a segment.
    Shm(ShmMemory),
    /// Memory of a daemon.
    #[cfg(feature = "tcp")]
    Tcp(TcpMemory),
}

impl From<ShmServer> for AnyServer {
    fn from(server: ShmServer) -> Self {
        Self::Shm(AnyMemory::Shm(server.local().clone()), server)
    }
}

#[cfg(feature = "tcp")]
impl From<TcpServer> for AnyServer {
    fn from(server: TcpServer) -> Self {
        Self::Tcp(AnyMemory::Tcp(server.local().clone()), server)
    }
}

/// Dispatches to the concrete memory.
macro_rules! dispatch_memory {
    ($self:ident, $memory:ident => $done:expr) => {
        match $self {
            Self::Shm($memory) => $done,
            #[cfg(feature = "tcp")]
            Self::Tcp($memory) => $done,
        }
    };
}

impl ServerMemory for AnyMemory {
    #[inline]
    fn load(&self, offset: u64) -> Result<u64, FabricError> {
        dispatch_memory!(self, memory => memory.load(offset))
    }

    fn store(&self, offset: u64, word: u64) -> Result<(), FabricError> {
        dispatch_memory!(self, memory => memory.store(offset, word))
    }

    fn store_line(&self, offset: u64, words: &[u64; LINE_WORDS]) -> Result<(), FabricError> {
        dispatch_memory!(self, memory => memory.store_line(offset, words))
    }

    #[inline]
    fn load_line(&self, offset: u64) -> Result<[u64; LINE_WORDS], FabricError> {
        dispatch_memory!(self, memory => memory.load_line(offset))
    }

    fn execute<W: MemoryWork>(&self, work: W) -> W::Done {
        dispatch_memory!(self, memory => memory.execute(work))
    }

    #[inline]
    fn load_lines(&self, offset: u64, lines: &mut [[u8; LINE_BYTES]]) -> Result<(), FabricError> {
        dispatch_memory!(self, memory => memory.load_lines(offset, lines))
    }

    #[inline]
    fn fetch_ahead(&self, offset: u64, bytes: u64) {
        dispatch_memory!(self, memory => memory.fetch_ahead(offset, bytes));
    }
}

impl Server for AnyServer {
    type Local = AnyMemory;

    #[inline]
    fn local(&self) -> &AnyMemory {
        match self {
            Self::Shm(memory, _) => memory,
            #[cfg(feature = "tcp")]
            Self::Tcp(memory, _) => memory,
        }
    }

    async fn receive(&self) -> Result<u32, FabricError> {
        match self {
            Self::Shm(_, server) => server.receive().await,
            #[cfg(feature = "tcp")]
            Self::Tcp(_, server) => server.receive().await,
        }
    }

    async fn settle(&self) -> Result<(), FabricError> {
        match self {
            Self::Shm(_, server) => server.settle().await,
            #[cfg(feature = "tcp")]
            Self::Tcp(_, server) => server.settle().await,
        }
    }

    async fn compute(&self, _: u64) {}

    async fn busy_wait(&self, nanoseconds: u64) {
        match self {
            Self::Shm(_, server) => server.busy_wait(nanoseconds).await,
            #[cfg(feature = "tcp")]
            Self::Tcp(_, server) => server.busy_wait(nanoseconds).await,
        }
    }
}
