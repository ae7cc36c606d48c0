//! The pools that a URL can name, as one.

use crate::error::{Error, Result};
use farwood_fabric::{Client, ClientId, FabricError, NodeId, PoolShape};
use farwood_transport::any::{AnyFabric, Place};
use farwood_transport::rdma::{self, DeviceSpec, NodeCard, RdmaPool};
use farwood_transport::shm::{Pages, PoolName, Presence, SegmentDir, ShmError, ShmPool};
use farwood_transport::tcp::{Credentials, Fresh, NodeReport, PoolAddress, TcpPool};
use std::sync::Arc;

/// This process's attachment to a pool.
pub(crate) enum AnyPool {
    /// In shared memory.
    Shm(ShmPool, SegmentDir, PoolName),
    /// Over TCP.
    Tcp(TcpPool),
    /// Over RDMA.
    Rdma(RdmaPool),
}

/// What is known of a memory node's memory.
pub(crate) struct NodeMemory {
    pub(crate) resident_bytes: u64,
    pub(crate) pages: Option<Pages>,
    pub(crate) report: Option<NodeReport>,
    pub(crate) card: Option<NodeCard>,
}

impl NodeMemory {
    fn of(report: NodeReport, card: Option<NodeCard>) -> Self {
        Self { resident_bytes: report.resident_bytes, pages: None, report: Some(report), card }
    }
}

/// Why something of a pool could not be seen.
pub(crate) enum Unseen {
    Shm(ShmError),
    Fabric(FabricError),
}

/// Who can tell which clients are alive.
pub(crate) enum Liveness<'a> {
    Shm(Presence),
    Tcp(&'a TcpPool),
    Rdma(&'a RdmaPool),
}

impl AnyPool {
    /// Attaches to the pool that is there, or that `fresh` memory nodes become.
    pub(crate) fn open(place: &Place, fresh: Fresh) -> Result<Self> {
        match place {
            Place::Shm(name) => {
                let dir = SegmentDir::from_env();
                let pool =
                    ShmPool::open(&dir, name).map_err(|source| Error::Pool { operation: "open", source })?;
                Ok(Self::Shm(pool, dir, name.clone()))
            }
            Place::Tcp(address) => Self::open_tcp(address, fresh),
            Place::Rdma(address) => Self::open_rdma(address, fresh),
            Place::Etcd(etcd) => {
                let found = etcd.discover().map_err(|source| Error::Etcd { operation: "open", source })?;
                Self::open_tcp(&found, fresh)
            }
        }
    }

    fn open_tcp(address: &PoolAddress, fresh: Fresh) -> Result<Self> {
        let failed = |source| Error::Tcp { operation: "open", source };
        let credentials = Credentials::find(address).map_err(failed)?;
        TcpPool::open_with(address, credentials, fresh).map(Self::Tcp).map_err(failed)
    }

    fn open_rdma(address: &PoolAddress, fresh: Fresh) -> Result<Self> {
        let failed = |source| Error::Rdma { operation: "open", source };
        let credentials = Credentials::find(address).map_err(|source| failed(source.into()))?;
        let device = DeviceSpec::find(address).map_err(failed)?;
        let queue_pairs = rdma::queue_pairs(address).map_err(failed)?;
        let opened = RdmaPool::open(address, credentials, &device, queue_pairs, fresh);
        opened.map(Self::Rdma).map_err(failed)
    }

    /// Where a memory node is, if that is a place of its own.
    pub(crate) fn address_of(&self, node: NodeId) -> Option<&str> {
        let address = match self {
            Self::Shm(..) => return None,
            Self::Tcp(pool) => pool.address(),
            Self::Rdma(pool) => pool.address(),
        };
        address.nodes().get(usize::from(node.0)).map(String::as_str)
    }

    /// A client for the calling thread.
    pub(crate) fn client(&self) -> Client<AnyFabric> {
        Client::new(match self {
            Self::Shm(pool, ..) => AnyFabric::Shm(pool.fabric()),
            Self::Tcp(pool) => AnyFabric::Tcp(pool.fabric()),
            Self::Rdma(pool) => AnyFabric::Rdma(pool.fabric()),
        })
    }

    pub(crate) fn leave(&self) {
        match self {
            Self::Shm(pool, ..) => pool.leave(),
            Self::Tcp(pool) => pool.leave(),
            Self::Rdma(pool) => pool.leave(),
        }
    }

    pub(crate) fn shape(&self) -> &PoolShape {
        match self {
            Self::Shm(pool, ..) => pool.shape(),
            Self::Tcp(pool) => pool.shape(),
            Self::Rdma(pool) => pool.shape(),
        }
    }

    pub(crate) fn identity(&self) -> ClientId {
        match self {
            Self::Shm(pool, ..) => pool.identity(),
            Self::Tcp(pool) => pool.identity(),
            Self::Rdma(pool) => pool.identity(),
        }
    }

    /// What is known of each memory node's memory.
    pub(crate) fn memory(&self) -> Result<Vec<NodeMemory>, Unseen> {
        Ok(match self {
            Self::Shm(pool, ..) => {
                let of = |(pages, resident_bytes)| NodeMemory {
                    resident_bytes,
                    pages: Some(pages),
                    report: None,
                    card: None,
                };
                pool.memory().map_err(Unseen::Shm)?.into_iter().map(of).collect()
            }
            Self::Tcp(pool) => {
                let reports = pool.reports().map_err(Unseen::Fabric)?;
                reports.into_iter().map(|report| NodeMemory::of(report, None)).collect()
            }
            Self::Rdma(pool) => {
                let reports = pool.reports().map_err(Unseen::Fabric)?.into_iter();
                let nodes = reports.zip(pool.cards());
                nodes.map(|(report, card)| NodeMemory::of(report, Some(*card))).collect()
            }
        })
    }

    pub(crate) fn liveness(&self) -> Result<Liveness<'_>> {
        match self {
            Self::Shm(_, dir, name) => {
                let segment =
                    dir.open(name, 0, 0).map_err(|source| Error::Pool { operation: "examine", source })?;
                Ok(Liveness::Shm(Presence::new(Arc::new(segment))))
            }
            Self::Tcp(pool) => Ok(Liveness::Tcp(pool)),
            Self::Rdma(pool) => Ok(Liveness::Rdma(pool)),
        }
    }
}

impl Liveness<'_> {
    /// Whether a client in the client table is there.
    pub(crate) fn is_alive(&self, client: ClientId) -> Result<bool, Unseen> {
        match self {
            Self::Shm(presence) => {
                presence.is_gone(u32::from(client.slot)).map(|gone| !gone).map_err(Unseen::Shm)
            }
            Self::Tcp(pool) => pool.is_alive(client).map_err(Unseen::Fabric),
            Self::Rdma(pool) => pool.is_alive(client).map_err(Unseen::Fabric),
        }
    }
}
