//! The trait that every transport implements.

use crate::capability::Capabilities;
use crate::doorbell::Doorbell;
use crate::error::FabricError;
use crate::ids::ClientId;
use crate::pointer::Address;
use crate::superblock::PoolShape;
use std::future::Future;

/// What became of an attempt to revoke a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// No further verb of that client can land, on any memory node: its locks may be broken.
    Gone,
    /// The client may still be alive, or a memory node could not confirm: its locks stand.
    Alive,
}

/// One client's connection to a pool of memory nodes.
///
/// The trait is used by static dispatch only (`docs/decisions/0005-dispatch.md`).
pub trait Fabric {
    /// What this fabric promises.
    fn capabilities(&self) -> &Capabilities;

    /// The memory nodes of the pool and their sizes.
    fn shape(&self) -> &PoolShape;

    /// Who this client's compute node is in the pool's client table; its clients share the identity, because
    /// they hand locks to each other and die together.
    fn identity(&self) -> ClientId;

    /// Executes a doorbell: chains in order, everything else in any order. The doorbell comes back answered.
    ///
    /// All requests are handed to the device before the future first yields; dropping the future does not
    /// take them back.
    fn submit(&self, doorbell: Doorbell) -> impl Future<Output = Result<Doorbell, FabricError>>;

    /// As [`submit`](Self::submit), for verbs that nobody waits for. A fabric that is done at once returns
    /// the doorbell for reuse. A failure is reported by the next `submit`, which then does nothing else; the one
    /// after it works again.
    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell>;

    /// Nanoseconds since some fixed moment, the same for all clients on one machine; the laboratory's time is
    /// virtual.
    fn now(&self) -> u64;

    /// A small number of the thread that asks, by which a client may keep apart what threads write; 0 where all
    /// clients are one thread's, or nobody counts them.
    fn thread(&self) -> usize {
        0
    }

    /// Lets at least `nanoseconds` pass; 0 only lets others run.
    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()>;

    /// Makes sure that no further verb of `client` can land anywhere in the pool, if that can be made sure of.
    ///
    /// It never revokes a client that can be seen to be alive; how death is told is the fabric's affair. A
    /// slow client is not a dead one: a lease alone never fences.
    fn revoke(&self, client: ClientId) -> impl Future<Output = Result<Revocation, FabricError>>;

    /// Makes `bytes` of host memory at `at` real, where the pool's memory is only promised until used.
    fn provision(&self, at: Address, bytes: u64) -> impl Future<Output = Result<(), FabricError>>;

    /// Notes that a client came along the path `mark`, a rare one. Fabrics for tests count; others need not.
    fn mark(&self, mark: &'static str) {
        let _ = mark;
    }
}

/// A borrowed connection is as good as an owned one.
impl<F: Fabric> Fabric for &F {
    fn capabilities(&self) -> &Capabilities {
        F::capabilities(self)
    }

    fn shape(&self) -> &PoolShape {
        F::shape(self)
    }

    fn identity(&self) -> ClientId {
        F::identity(self)
    }

    fn submit(&self, doorbell: Doorbell) -> impl Future<Output = Result<Doorbell, FabricError>> {
        F::submit(self, doorbell)
    }

    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell> {
        F::submit_detached(self, doorbell)
    }

    fn now(&self) -> u64 {
        F::now(self)
    }

    fn thread(&self) -> usize {
        F::thread(self)
    }

    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        F::sleep(self, nanoseconds)
    }

    fn revoke(&self, client: ClientId) -> impl Future<Output = Result<Revocation, FabricError>> {
        F::revoke(self, client)
    }

    fn provision(&self, at: Address, bytes: u64) -> impl Future<Output = Result<(), FabricError>> {
        F::provision(self, at, bytes)
    }

    fn mark(&self, mark: &'static str) {
        F::mark(self, mark);
    }
}
