//! Pools that other processes of this machine attach to: what tests of killed processes need to know of a fabric.

use crate::shm::{self, Shm};
use crate::tcp::{self, Tcp};
use farwood_fabric::{Client, ClientId, Fabric};
use farwood_testkit::Harness;
use farwood_transport::shm::{ShmFabric, ShmPool};
use farwood_transport::tcp::{TcpFabric, TcpPool};
use std::path::Path;

/// A pool under test, where other processes find it, and a folder for what they write.
pub trait Site: Harness + Default {
    /// A process's attachment to it.
    type Pool: Attached<Fabric = Self::Fabric>;

    /// This process's attachment.
    fn pool(&self) -> &Self::Pool;

    /// Where another process finds the pool, with [`attach`](Self::attach).
    fn place(&self) -> String;

    /// Attaches once more, perhaps in another process.
    fn attach(place: &str) -> Self::Pool;

    /// A folder of the test's own.
    fn folder(&self) -> &Path;
}

/// An attachment of a process: a compute node.
pub trait Attached: Send + Sync {
    /// The fabric.
    type Fabric: Fabric;

    /// A client, for the calling thread.
    fn client(&self) -> Client<Self::Fabric>;

    /// Who it is.
    fn identity(&self) -> ClientId;
}

impl Site for Shm {
    type Pool = ShmPool;

    fn pool(&self) -> &ShmPool {
        Shm::pool(self)
    }

    fn place(&self) -> String {
        self.path().display().to_string()
    }

    fn attach(place: &str) -> ShmPool {
        shm::attach(Path::new(place))
    }

    fn folder(&self) -> &Path {
        self.path()
    }
}

impl Attached for ShmPool {
    type Fabric = ShmFabric;

    fn client(&self) -> Client<ShmFabric> {
        ShmPool::client(self)
    }

    fn identity(&self) -> ClientId {
        ShmPool::identity(self)
    }
}

impl Site for Tcp {
    type Pool = TcpPool;

    fn pool(&self) -> &TcpPool {
        Tcp::pool(self)
    }

    fn place(&self) -> String {
        self.address()
    }

    fn attach(place: &str) -> TcpPool {
        tcp::attach(place)
    }

    fn folder(&self) -> &Path {
        Tcp::folder(self)
    }
}

impl Attached for TcpPool {
    type Fabric = TcpFabric;

    fn client(&self) -> Client<TcpFabric> {
        TcpPool::client(self)
    }

    fn identity(&self) -> ClientId {
        TcpPool::identity(self)
    }
}
