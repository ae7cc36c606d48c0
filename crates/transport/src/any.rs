//! The fabrics of this room as one, for those who learn from a URL which it is. Static dispatch ends here
//! (`docs/decisions/0005-dispatch.md`): whoever measures takes the fabric itself.

use crate::etcd::EtcdAddress;
use crate::shm::{PoolName, ShmFabric, ShmPool};
use crate::tcp::{PoolAddress, TcpFabric, TcpPool};
use farwood_fabric::{
    Address, Capabilities, Client, ClientId, Doorbell, Fabric, FabricError, PoolShape, Revocation,
};
use std::fmt;

/// Where a pool is. Shown as its URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In shared memory, under a name.
    Shm(PoolName),
    /// Where its memory nodes listen.
    Tcp(PoolAddress),
    /// Where they are looked up.
    Etcd(EtcdAddress),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shm(name) => write!(f, "shm://{name}"),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
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
    Tcp(TcpFabric),
}

/// A process's attachment to a pool of any kind.
#[derive(Clone, Debug)]
pub enum AnyPool {
    /// In shared memory.
    Shm(ShmPool),
    /// Over TCP.
    Tcp(TcpPool),
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

impl AnyPool {
    /// A client for the calling thread.
    pub fn client(&self) -> Client<AnyFabric> {
        Client::new(match self {
            Self::Shm(pool) => AnyFabric::Shm(pool.fabric()),
            Self::Tcp(pool) => AnyFabric::Tcp(pool.fabric()),
        })
    }

    /// The memory nodes and their sizes.
    pub fn shape(&self) -> &PoolShape {
        either!(self, pool => pool.shape())
    }
}
