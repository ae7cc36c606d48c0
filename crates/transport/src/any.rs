//! The fabrics of this room as one, for those who learn from a URL which it is. Static dispatch ends here
//! (`docs/decisions/0005-dispatch.md`): whoever measures takes the fabric itself.

#[cfg(feature = "etcd")]
use crate::etcd::EtcdAddress;
#[cfg(feature = "rdma")]
use crate::rdma::{RdmaFabric, RdmaPool};
use crate::shm::{PoolName, ShmFabric, ShmMemory, ShmPool, ShmServer};
#[cfg(feature = "tcp")]
use crate::tcp::{PoolAddress, TcpFabric, TcpMemory, TcpPool, TcpServer};
use farwood_fabric::{
    Address, Capabilities, Client, ClientId, Doorbell, Fabric, FabricError, LINE_WORDS, LocalMemory,
    PoolShape, Revocation, Server,
};
use std::fmt;

/// Where a pool is. Shown as its URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In shared memory, under a name.
    Shm(PoolName),
    /// Where its memory nodes listen.
    #[cfg(feature = "tcp")]
    Tcp(PoolAddress),
    /// The same, of memory nodes whose cards execute verbs.
    #[cfg(feature = "rdma")]
    Rdma(PoolAddress),
    /// Where they are looked up.
    #[cfg(feature = "etcd")]
    Etcd(EtcdAddress),
}

impl fmt::Display for Place {
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
    /// In shared memory.
    Shm(ShmFabric),
    /// Over TCP.
    #[cfg(feature = "tcp")]
    Tcp(TcpFabric),
    /// Over RDMA.
    #[cfg(feature = "rdma")]
    Rdma(RdmaFabric),
}

/// A process's attachment to a pool of any kind.
#[derive(Clone, Debug)]
pub enum AnyPool {
    /// In shared memory.
    Shm(ShmPool),
    /// Over TCP.
    #[cfg(feature = "tcp")]
    Tcp(TcpPool),
    /// Over RDMA.
    #[cfg(feature = "rdma")]
    Rdma(RdmaPool),
}

/// Does with the fabric at hand what is to be done with any.
macro_rules! either {
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
        either!(self, fabric => fabric.capabilities())
    }

    #[inline]
    fn shape(&self) -> &PoolShape {
        either!(self, fabric => fabric.shape())
    }

    #[inline]
    fn identity(&self) -> ClientId {
        either!(self, fabric => fabric.identity())
    }

    #[inline]
    async fn submit(&self, doorbell: Doorbell) -> Result<Doorbell, FabricError> {
        either!(self, fabric => fabric.submit(doorbell).await)
    }

    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell> {
        either!(self, fabric => fabric.submit_detached(doorbell))
    }

    #[inline]
    fn now(&self) -> u64 {
        either!(self, fabric => fabric.now())
    }

    #[inline]
    fn thread(&self) -> usize {
        either!(self, fabric => fabric.thread())
    }

    async fn sleep(&self, nanoseconds: u64) {
        either!(self, fabric => fabric.sleep(nanoseconds).await);
    }

    async fn revoke(&self, client: ClientId) -> Result<Revocation, FabricError> {
        either!(self, fabric => fabric.revoke(client).await)
    }

    async fn provision(&self, at: Address, bytes: u64) -> Result<(), FabricError> {
        either!(self, fabric => fabric.provision(at, bytes).await)
    }
}

impl AnyPool {
    /// A client for the calling thread.
    pub fn client(&self) -> Client<AnyFabric> {
        Client::new(match self {
            Self::Shm(pool) => AnyFabric::Shm(pool.fabric()),
            #[cfg(feature = "tcp")]
            Self::Tcp(pool) => AnyFabric::Tcp(pool.fabric()),
            #[cfg(feature = "rdma")]
            Self::Rdma(pool) => AnyFabric::Rdma(pool.fabric()),
        })
    }

    /// The memory nodes and their sizes.
    pub fn shape(&self) -> &PoolShape {
        either!(self, pool => pool.shape())
    }
}

/// The server role of a memory node of any kind.
#[derive(Debug)]
pub enum AnyServer {
    /// In shared memory: any process that has the pool open may play it.
    Shm(AnyMemory, ShmServer),
    /// Over TCP: the memory node's own process.
    #[cfg(feature = "tcp")]
    Tcp(AnyMemory, TcpServer),
}

/// A memory node's own view of its memory, of any kind.
#[derive(Debug)]
pub enum AnyMemory {
    /// In shared memory.
    Shm(ShmMemory),
    /// Over TCP.
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

/// Does with the memory at hand what is to be done with any.
macro_rules! either_memory {
    ($self:ident, $memory:ident => $done:expr) => {
        match $self {
            Self::Shm($memory) => $done,
            #[cfg(feature = "tcp")]
            Self::Tcp($memory) => $done,
        }
    };
}

impl LocalMemory for AnyMemory {
    #[inline]
    fn load(&self, offset: u64) -> Result<u64, FabricError> {
        either_memory!(self, memory => memory.load(offset))
    }

    fn store(&self, offset: u64, word: u64) -> Result<(), FabricError> {
        either_memory!(self, memory => memory.store(offset, word))
    }

    #[inline]
    fn load_line(&self, offset: u64) -> Result<[u64; LINE_WORDS], FabricError> {
        either_memory!(self, memory => memory.load_line(offset))
    }

    #[inline]
    fn fetch_ahead(&self, offset: u64, bytes: u64) {
        either_memory!(self, memory => memory.fetch_ahead(offset, bytes));
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

    async fn compute(&self, _: u64) {}

    async fn look_on(&self, nanoseconds: u64) {
        match self {
            Self::Shm(_, server) => server.look_on(nanoseconds).await,
            #[cfg(feature = "tcp")]
            Self::Tcp(_, server) => server.look_on(nanoseconds).await,
        }
    }
}
