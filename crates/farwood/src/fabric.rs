//! The fabrics that a URL can name, as one: static dispatch ends here (`docs/decisions/0005-dispatch.md`).

use crate::error::{Error, Result};
use crate::url::Place;
use farwood_fabric::{
    Address, Capabilities, Client, ClientId, Doorbell, Fabric, FabricError, PoolShape, Revocation,
};
use farwood_transport::shm::{Pages, PoolName, Presence, SegmentDir, ShmError, ShmFabric, ShmPool};
use farwood_transport::tcp::{TcpFabric, TcpPool, Token};
use std::path::Path;
use std::sync::Arc;

/// Where the file of the token is named that memory nodes over TCP may ask for.
const TOKEN_FILE: &str = "FARWOOD_TOKEN_FILE";

/// This process's attachment to a pool.
pub(crate) enum AnyPool {
    /// In shared memory.
    Shm(ShmPool, SegmentDir, PoolName),
    /// Over TCP.
    Tcp(TcpPool),
}

/// What is known of a memory node's memory.
pub(crate) struct NodeMemory {
    pub(crate) resident_bytes: u64,
    pub(crate) pages: Option<Pages>,
    pub(crate) connections: Option<u64>,
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
}

impl AnyPool {
    /// Attaches to the pool that is there.
    pub(crate) fn open(place: &Place) -> Result<Self> {
        match place {
            Place::Shm(name) => {
                let dir = SegmentDir::from_env();
                let pool =
                    ShmPool::open(&dir, name).map_err(|source| Error::Pool { operation: "open", source })?;
                Ok(Self::Shm(pool, dir, name.clone()))
            }
            Place::Tcp(address) => {
                let failed = |source| Error::Tcp { operation: "open", source };
                let file = std::env::var_os(TOKEN_FILE).filter(|file| !file.is_empty());
                let token =
                    file.map(|file| Token::from_file(Path::new(&file))).transpose().map_err(failed)?;
                TcpPool::open(address, token).map(Self::Tcp).map_err(failed)
            }
        }
    }

    /// A client for the calling thread.
    pub(crate) fn client(&self) -> Client<AnyFabric> {
        Client::new(match self {
            Self::Shm(pool, ..) => AnyFabric::Shm(pool.fabric()),
            Self::Tcp(pool) => AnyFabric::Tcp(pool.fabric()),
        })
    }

    pub(crate) fn leave(&self) {
        match self {
            Self::Shm(pool, ..) => pool.leave(),
            Self::Tcp(pool) => pool.leave(),
        }
    }

    pub(crate) fn shape(&self) -> &PoolShape {
        match self {
            Self::Shm(pool, ..) => pool.shape(),
            Self::Tcp(pool) => pool.shape(),
        }
    }

    pub(crate) fn identity(&self) -> ClientId {
        match self {
            Self::Shm(pool, ..) => pool.identity(),
            Self::Tcp(pool) => pool.identity(),
        }
    }

    /// What is known of each memory node's memory.
    pub(crate) fn memory(&self) -> Result<Vec<NodeMemory>, Unseen> {
        Ok(match self {
            Self::Shm(pool, ..) => {
                let of = |(pages, resident_bytes)| NodeMemory {
                    resident_bytes,
                    pages: Some(pages),
                    connections: None,
                };
                pool.memory().map_err(Unseen::Shm)?.into_iter().map(of).collect()
            }
            Self::Tcp(pool) => {
                let of = |(resident_bytes, connections)| NodeMemory {
                    resident_bytes,
                    pages: None,
                    connections: Some(connections),
                };
                pool.memory().map_err(Unseen::Fabric)?.into_iter().map(of).collect()
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
        }
    }
}

/// One client's connection to a pool of any kind.
#[derive(Debug)]
pub enum AnyFabric {
    /// In shared memory.
    Shm(ShmFabric),
    /// Over TCP.
    Tcp(TcpFabric),
}

/// Does with the fabric at hand what is to be done with any.
macro_rules! either {
    ($self:ident, $fabric:ident => $done:expr) => {
        match $self {
            Self::Shm($fabric) => $done,
            Self::Tcp($fabric) => $done,
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
