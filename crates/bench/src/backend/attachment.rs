//! A process's attachment to a pool of a fabric that is known at compile time, so that a run measures the fabric and
//! not the dispatch between fabrics.

use farwood_fabric::{Client, Fabric};
use farwood_transport::shm::{ShmFabric, ShmPool};
use farwood_transport::tcp::{ServedFabric, ServedPool, VerbTransport};

/// A process's attachment to a pool of one fabric.
pub(crate) trait ComputeNode: Sync {
    /// The fabric of its clients.
    type Fabric: Fabric;

    /// Creates a client for the calling thread.
    fn client(&self) -> Client<Self::Fabric>;
}

impl ComputeNode for ShmPool {
    type Fabric = ShmFabric;

    fn client(&self) -> Client<ShmFabric> {
        ShmPool::client(self)
    }
}

impl<W: VerbTransport> ComputeNode for ServedPool<W> {
    type Fabric = ServedFabric<W>;

    fn client(&self) -> Client<ServedFabric<W>> {
        ServedPool::client(self)
    }
}
