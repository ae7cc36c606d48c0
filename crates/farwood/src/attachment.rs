//! This process's attachment to a pool, over any transport that this build has.

use crate::error::{Error, Result};
#[cfg(any(feature = "tcp", feature = "spatial"))]
use farwood_fabric::FabricError;
use farwood_fabric::{Access, Client, ClientId, NodeId, PoolShape};
use farwood_transport::any::{AnyFabric, PoolLocation};
#[cfg(feature = "rdma")]
use farwood_transport::rdma::{self, DeviceSpec, NodeDevice, RdmaPool};
use farwood_transport::shm::{Pages, SegmentDir, ShmError, ShmPool};
#[cfg(feature = "tcp")]
use farwood_transport::tcp::{Credentials, FreshNodePolicy, HostPort, NodeReport, PoolAddress, TcpPool};

/// This process's attachment to a pool.
pub(crate) enum Attachment {
    /// In shared memory.
    Shm(ShmPool),
    /// Over TCP.
    #[cfg(feature = "tcp")]
    Tcp(TcpPool),
    /// Over RDMA.
    #[cfg(feature = "rdma")]
    Rdma(RdmaPool),
}

/// Evaluates the same expression for the pool of any transport.
macro_rules! each_pool {
    ($self:ident, $pool:ident => $value:expr) => {
        match $self {
            Self::Shm($pool) => $value,
            #[cfg(feature = "tcp")]
            Self::Tcp($pool) => $value,
            #[cfg(feature = "rdma")]
            Self::Rdma($pool) => $value,
        }
    };
}

/// The treatment of memory nodes over TCP or RDMA that belong to no pool yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreshNodes {
    /// The process forms a pool of them.
    FormPool,
    /// Opening the pool fails.
    Refused,
}

#[cfg(feature = "tcp")]
impl From<FreshNodes> for FreshNodePolicy {
    fn from(fresh: FreshNodes) -> Self {
        match fresh {
            FreshNodes::FormPool => Self::FormPool,
            FreshNodes::Refused => Self::Refuse,
        }
    }
}

/// The memory of a memory node.
pub(crate) struct NodeMemory {
    pub(crate) resident_bytes: u64,
    pub(crate) pages: Option<Pages>,
    #[cfg(feature = "tcp")]
    pub(crate) report: Option<NodeReport>,
    #[cfg(feature = "rdma")]
    pub(crate) card: Option<NodeDevice>,
}

impl NodeMemory {
    fn of_shared_memory(pages: Pages, resident_bytes: u64) -> Self {
        Self {
            resident_bytes,
            pages: Some(pages),
            #[cfg(feature = "tcp")]
            report: None,
            #[cfg(feature = "rdma")]
            card: None,
        }
    }

    #[cfg(feature = "tcp")]
    fn of_served(report: NodeReport) -> Self {
        Self {
            resident_bytes: report.resident_bytes,
            pages: None,
            report: Some(report),
            #[cfg(feature = "rdma")]
            card: None,
        }
    }
}

/// A failed examination of a pool.
pub(crate) enum Unseen {
    Shm(ShmError),
    #[cfg(feature = "tcp")]
    Fabric(FabricError),
}

impl Attachment {
    /// Attaches to the pool at `place`.
    pub(crate) fn open(place: &PoolLocation, fresh: FreshNodes) -> Result<Self> {
        // Shared memory has no fresh nodes.
        let _ = fresh;
        match place {
            PoolLocation::Shm(name) => {
                let dir = SegmentDir::from_env();
                let pool =
                    ShmPool::open(&dir, name).map_err(|source| Error::Pool { operation: "open", source })?;
                Ok(Self::Shm(pool))
            }
            #[cfg(feature = "tcp")]
            PoolLocation::Tcp(address) => Self::open_tcp(address, fresh),
            #[cfg(feature = "rdma")]
            PoolLocation::Rdma(address) => Self::open_rdma(address, fresh),
            #[cfg(feature = "etcd")]
            PoolLocation::Etcd(etcd) => {
                let found = etcd.discover().map_err(|source| Error::Etcd { operation: "open", source })?;
                Self::open_tcp(&found, fresh)
            }
        }
    }

    /// Attaches to the pool at `place` for reading only.
    pub(crate) fn open_read_only(place: &PoolLocation) -> Result<Self> {
        match place {
            PoolLocation::Shm(name) => {
                let opened = ShmPool::open_read_only(&SegmentDir::from_env(), name);
                opened.map(Self::Shm).map_err(|source| Error::Pool { operation: "open", source })
            }
            #[cfg(feature = "tcp")]
            PoolLocation::Tcp(address) => Self::read_tcp(address),
            // A device executes every verb of a client.
            #[cfg(feature = "rdma")]
            PoolLocation::Rdma(_) => Err(Error::NoReader { pool: place.to_string() }),
            #[cfg(feature = "etcd")]
            PoolLocation::Etcd(etcd) => {
                let found = etcd.discover().map_err(|source| Error::Etcd { operation: "open", source })?;
                Self::read_tcp(&found)
            }
        }
    }

    #[cfg(feature = "tcp")]
    fn read_tcp(address: &PoolAddress) -> Result<Self> {
        let failed = |source| Error::Tcp { operation: "open", source };
        let credentials = Credentials::find(address).map_err(failed)?;
        TcpPool::open_read_only(address, credentials).map(Self::Tcp).map_err(failed)
    }

    /// What this process may do in the pool.
    pub(crate) fn access(&self) -> Access {
        if self.identity() == ClientId::NONE { Access::ReadOnly } else { Access::ReadWrite }
    }

    #[cfg(feature = "tcp")]
    fn open_tcp(address: &PoolAddress, fresh: FreshNodes) -> Result<Self> {
        let failed = |source| Error::Tcp { operation: "open", source };
        let credentials = Credentials::find(address).map_err(failed)?;
        TcpPool::open_with(address, credentials, fresh.into()).map(Self::Tcp).map_err(failed)
    }

    #[cfg(feature = "rdma")]
    fn open_rdma(address: &PoolAddress, fresh: FreshNodes) -> Result<Self> {
        let failed = |source| Error::Rdma { operation: "open", source };
        let credentials = Credentials::find(address).map_err(|source| failed(source.into()))?;
        let device = DeviceSpec::find(address).map_err(failed)?;
        let queue_pairs = rdma::queue_pairs(address).map_err(failed)?;
        let opened = RdmaPool::open(address, credentials, &device, queue_pairs, fresh.into());
        opened.map(Self::Rdma).map_err(failed)
    }

    /// The address of a memory node; `None` in shared memory.
    pub(crate) fn address_of(&self, node: NodeId) -> Option<&str> {
        match self {
            Self::Shm(..) => {
                let _ = node;
                None
            }
            #[cfg(feature = "tcp")]
            Self::Tcp(pool) => pool.address().nodes().get(usize::from(node.0)).map(HostPort::as_str),
            #[cfg(feature = "rdma")]
            Self::Rdma(pool) => pool.address().nodes().get(usize::from(node.0)).map(HostPort::as_str),
        }
    }

    /// Whether the memory nodes are in this machine's shared memory.
    #[cfg(feature = "spatial")]
    pub(crate) fn is_shared_memory(&self) -> bool {
        matches!(self, Self::Shm(..))
    }

    /// Whether each thread with a client has connections of its own.
    pub(crate) fn has_connections(&self) -> bool {
        !matches!(self, Self::Shm(..))
    }

    /// Creates a client for the calling thread.
    pub(crate) fn client(&self) -> Client<AnyFabric> {
        Client::new(match self {
            Self::Shm(pool) => AnyFabric::Shm(pool.fabric()),
            #[cfg(feature = "tcp")]
            Self::Tcp(pool) => AnyFabric::Tcp(pool.fabric()),
            #[cfg(feature = "rdma")]
            Self::Rdma(pool) => AnyFabric::Rdma(pool.fabric()),
        })
    }

    /// Whether the memory of a pool in shared memory is still that of its files.
    #[cfg(feature = "spatial")]
    pub(crate) fn check_files(&self) -> Result<(), FabricError> {
        match self {
            Self::Shm(pool) => pool.check_files(),
            #[cfg(feature = "tcp")]
            _ => Ok(()),
        }
    }

    pub(crate) fn leave(&self) {
        each_pool!(self, pool => pool.leave());
    }

    pub(crate) fn shape(&self) -> PoolShape {
        each_pool!(self, pool => pool.shape())
    }

    pub(crate) fn identity(&self) -> ClientId {
        each_pool!(self, pool => pool.identity())
    }

    /// The memory of each memory node.
    pub(crate) fn memory(&self) -> Result<Vec<NodeMemory>, Unseen> {
        Ok(match self {
            Self::Shm(pool) => {
                let nodes = pool.memory().map_err(Unseen::Shm)?.into_iter();
                nodes.map(|(pages, bytes)| NodeMemory::of_shared_memory(pages, bytes)).collect()
            }
            #[cfg(feature = "tcp")]
            Self::Tcp(pool) => {
                let reports = pool.reports().map_err(Unseen::Fabric)?;
                reports.into_iter().map(NodeMemory::of_served).collect()
            }
            #[cfg(feature = "rdma")]
            Self::Rdma(pool) => {
                let reports = pool.reports().map_err(Unseen::Fabric)?.into_iter();
                let nodes = reports.zip(pool.cards());
                nodes
                    .map(|(report, card)| NodeMemory { card: Some(*card), ..NodeMemory::of_served(report) })
                    .collect()
            }
        })
    }

    /// Whether a client in the client table is alive.
    pub(crate) fn is_alive(&self, client: ClientId) -> Result<bool, Unseen> {
        match self {
            Self::Shm(pool) => pool.is_alive(client).map_err(Unseen::Shm),
            #[cfg(feature = "tcp")]
            Self::Tcp(pool) => pool.is_alive(client).map_err(Unseen::Fabric),
            #[cfg(feature = "rdma")]
            Self::Rdma(pool) => pool.is_alive(client).map_err(Unseen::Fabric),
        }
    }
}
