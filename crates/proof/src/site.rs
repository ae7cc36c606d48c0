//! Pools that other processes of this machine attach to: what tests of killed processes need to know of a fabric.

use crate::served::{self, Kind, Served};
use crate::shm::{self, Shm};
use farwood_fabric::{Client, ClientId, Fabric};
use farwood_testkit::Harness;
use farwood_transport::shm::{ShmFabric, ShmPool};
use farwood_transport::tcp::{ServedFabric, ServedPool, Way};
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

impl<K: Kind> Site for Served<K> {
    type Pool = ServedPool<K::Way>;

    fn pool(&self) -> &Self::Pool {
        Served::pool(self)
    }

    fn place(&self) -> String {
        self.address()
    }

    fn attach(place: &str) -> Self::Pool {
        served::attach::<K>(place)
    }

    fn folder(&self) -> &Path {
        Served::folder(self)
    }
}

impl<W: Way> Attached for ServedPool<W> {
    type Fabric = ServedFabric<W>;

    fn client(&self) -> Client<ServedFabric<W>> {
        ServedPool::client(self)
    }

    fn identity(&self) -> ClientId {
        ServedPool::identity(self)
    }
}
