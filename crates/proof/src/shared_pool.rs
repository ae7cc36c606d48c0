//! Pools that several processes of this machine attach to, for tests that kill processes.

use crate::served::{self, Served, Transport};
use crate::shm::{self, Shm};
use farwood_fabric::{Client, ClientId, Fabric};
use farwood_testkit::Harness;
use farwood_transport::shm::{ShmFabric, ShmPool};
use farwood_transport::tcp::{ServedFabric, ServedPool, VerbTransport};
use std::path::Path;

/// A pool under test, its address for other processes, and a folder for their files.
pub trait SharedPool: Harness + Default {
    /// The type of a process's attachment.
    type Pool: PoolAttachment<Fabric = Self::Fabric>;

    /// This process's attachment.
    fn pool(&self) -> &Self::Pool;

    /// The address that another process passes to [`attach`](Self::attach).
    fn address(&self) -> String;

    /// Attaches to the pool, possibly in another process.
    fn attach(address: &str) -> Self::Pool;

    /// The test's folder.
    fn folder(&self) -> &Path;
}

/// A process's attachment to a pool: a compute node.
pub trait PoolAttachment: Send + Sync {
    /// The fabric.
    type Fabric: Fabric;

    /// A client for the calling thread.
    fn client(&self) -> Client<Self::Fabric>;

    /// The identity of the compute node.
    fn identity(&self) -> ClientId;
}

impl SharedPool for Shm {
    type Pool = ShmPool;

    fn pool(&self) -> &ShmPool {
        Shm::pool(self)
    }

    fn address(&self) -> String {
        self.path().display().to_string()
    }

    fn attach(address: &str) -> ShmPool {
        shm::attach(Path::new(address))
    }

    fn folder(&self) -> &Path {
        self.path()
    }
}

impl PoolAttachment for ShmPool {
    type Fabric = ShmFabric;

    fn client(&self) -> Client<ShmFabric> {
        ShmPool::client(self)
    }

    fn identity(&self) -> ClientId {
        ShmPool::identity(self)
    }
}

impl<K: Transport> SharedPool for Served<K> {
    type Pool = ServedPool<K::VerbTransport>;

    fn pool(&self) -> &Self::Pool {
        Served::pool(self)
    }

    fn address(&self) -> String {
        self.address()
    }

    fn attach(address: &str) -> Self::Pool {
        served::attach::<K>(address)
    }

    fn folder(&self) -> &Path {
        Served::folder(self)
    }
}

impl<W: VerbTransport> PoolAttachment for ServedPool<W> {
    type Fabric = ServedFabric<W>;

    fn client(&self) -> Client<ServedFabric<W>> {
        ServedPool::client(self)
    }

    fn identity(&self) -> ClientId {
        ServedPool::identity(self)
    }
}
