//! What is measured on: a process's attachment to a pool, of a fabric that is known when the program is built, so that
//! the fabric itself is measured.

use farwood_fabric::{Client, Fabric};
use farwood_transport::shm::{ShmFabric, ShmPool};
use farwood_transport::tcp::{ServedFabric, ServedPool, Way};

/// A process's attachment to a pool, whatever the fabric.
pub(crate) trait ComputeNode: Sync {
    /// The fabric of its clients.
    type Fabric: Fabric;

    /// A new client for the calling thread.
    fn client(&self) -> Client<Self::Fabric>;
}

impl ComputeNode for ShmPool {
    type Fabric = ShmFabric;

    fn client(&self) -> Client<ShmFabric> {
        ShmPool::client(self)
    }
}

impl<W: Way> ComputeNode for ServedPool<W> {
    type Fabric = ServedFabric<W>;

    fn client(&self) -> Client<ServedFabric<W>> {
        ServedPool::client(self)
    }
}
