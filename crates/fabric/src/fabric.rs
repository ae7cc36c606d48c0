//! The trait that every transport implements.

use crate::capability::Capabilities;
use crate::doorbell::Doorbell;
use crate::error::FabricError;
use crate::ids::ClientId;
use crate::pointer::Address;
use crate::superblock::PoolShape;
use std::future::Future;

/// The outcome of an attempt to revoke a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// No memory node executes any further verb of the client: other clients may take over its locks.
    Gone,
    /// The client may be alive, or a memory node did not confirm: its locks are valid.
    Alive,
}

/// The verbs that a client may post.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// All verbs.
    #[default]
    ReadWrite,
    /// READs only. The client has no slot of the client table and takes no lock, so it leaves nothing to clean up, and
    /// completes no change of another client.
    ReadOnly,
}

impl Access {
    /// The verbs that a process may post: all of them if it has an identity.
    #[inline]
    pub fn of(client: Option<ClientId>) -> Self {
        if client.is_some() { Self::ReadWrite } else { Self::ReadOnly }
    }
}

/// CPU work of an index that depends on its data and its cache, besides the CPU time of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuWork {
    /// The search of a leaf whose entries are not sorted, compared with that of a sorted one.
    UnsortedLeaf,
    /// Copying a node and inserting the copy into the index cache.
    CacheAdmission,
    /// Removing a node from the index cache.
    CacheRemoval,
}

/// One client's connection to a pool of memory nodes.
///
/// The trait is used by static dispatch only (`docs/decisions/0005-dispatch.md`).
pub trait Fabric {
    /// The guarantees of this fabric.
    fn capabilities(&self) -> &Capabilities;

    /// The memory nodes of the pool that this client knows, and their sizes.
    fn shape(&self) -> PoolShape;

    /// Looks for memory nodes that were added to the pool; afterwards [`shape`](Self::shape) includes them. [1 RT, more
    /// for added memory nodes; 0 RT on a fabric whose pools have a fixed number of memory nodes]
    fn find_added_nodes(&self) -> impl Future<Output = Result<(), FabricError>>;

    /// The identity of this client's compute node in the pool's client table. The clients of a compute node share it,
    /// because they hand locks to each other and crash together.
    fn identity(&self) -> ClientId;

    /// The verbs that this client may post. If it may only read, [`identity`](Self::identity) is [`ClientId::NONE`],
    /// and a doorbell with another verb is refused with [`FabricError::ReadOnly`].
    #[inline]
    fn access(&self) -> Access {
        Access::ReadWrite
    }

    /// Executes the requests of a doorbell, chains in order, and returns the doorbell with the answers.
    ///
    /// All requests are posted before the future first yields. Dropping the future does not cancel them.
    fn submit(&self, doorbell: Doorbell) -> impl Future<Output = Result<Doorbell, FabricError>>;

    /// Posts the requests of a doorbell without waiting for answers. Returns the doorbell for reuse if they are
    /// executed already. The next `submit` reports a failure instead of executing its doorbell.
    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell>;

    /// A tag for a lock word that the client is about to store. The tags of a compute node count its lock acquisitions
    /// from 1 to 2^16 - 1 and then begin again at 1. So a CAS that frees the lock of a dropped acquisition frees no
    /// later acquisition of the same compute node. The tag is 0 if every post is complete when
    /// [`submit`](Self::submit) returns, because then no acquisition is dropped before its answer.
    fn lock_tag(&self) -> u16;

    /// Nanoseconds since a fixed moment, which is the same for all clients of a machine. The simulator returns
    /// virtual time.
    fn now(&self) -> u64;

    /// A small number that identifies the calling thread, for data structures with one part per thread; 0 if the fabric
    /// has only one thread or does not number them.
    fn thread(&self) -> usize {
        0
    }

    /// Sleeps at least `nanoseconds`; 0 yields.
    fn sleep(&self, nanoseconds: u64) -> impl Future<Output = ()>;

    /// Completes after at least `nanoseconds`, in parallel with another wait of the client, whose cost it does not
    /// change. A client that waits for other clients of its process uses it to find operations that nobody polls, and
    /// to limit its wait. A fabric that polls every woken operation may never complete it; these waits have no limit
    /// then.
    fn alarm(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        self.sleep(nanoseconds)
    }

    /// Fences `client` on all memory nodes, so that they execute no further verb of it.
    ///
    /// A client that is known to be alive is never revoked. Each fabric defines how it detects crashed clients; an
    /// expired lease alone is not enough, because slow clients are not crashed.
    fn revoke(&self, client: ClientId) -> impl Future<Output = Result<Revocation, FabricError>>;

    /// Reserves `bytes` of host memory at `at`, for pools whose memory the operating system allocates on first use.
    fn provision(&self, at: Address, bytes: u64) -> impl Future<Output = Result<(), FabricError>>;

    /// Records that a client took the rare path `mark`. Fabrics for tests count coverage marks; others ignore them.
    fn record_coverage(&self, mark: &'static str) {
        let _ = mark;
    }

    /// Charges the calling thread for CPU work in virtual time. Only the simulator does so; on other fabrics the work
    /// itself takes the time.
    #[inline]
    fn charge(&self, work: CpuWork) {
        let _ = work;
    }
}

/// Delegates to the referenced fabric.
impl<F: Fabric> Fabric for &F {
    fn capabilities(&self) -> &Capabilities {
        F::capabilities(self)
    }

    fn shape(&self) -> PoolShape {
        F::shape(self)
    }

    fn find_added_nodes(&self) -> impl Future<Output = Result<(), FabricError>> {
        F::find_added_nodes(self)
    }

    fn identity(&self) -> ClientId {
        F::identity(self)
    }

    fn access(&self) -> Access {
        F::access(self)
    }

    fn submit(&self, doorbell: Doorbell) -> impl Future<Output = Result<Doorbell, FabricError>> {
        F::submit(self, doorbell)
    }

    fn submit_detached(&self, doorbell: Doorbell) -> Option<Doorbell> {
        F::submit_detached(self, doorbell)
    }

    fn lock_tag(&self) -> u16 {
        F::lock_tag(self)
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

    fn alarm(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        F::alarm(self, nanoseconds)
    }

    fn revoke(&self, client: ClientId) -> impl Future<Output = Result<Revocation, FabricError>> {
        F::revoke(self, client)
    }

    fn provision(&self, at: Address, bytes: u64) -> impl Future<Output = Result<(), FabricError>> {
        F::provision(self, at, bytes)
    }

    fn record_coverage(&self, mark: &'static str) {
        F::record_coverage(self, mark);
    }

    #[inline]
    fn charge(&self, work: CpuWork) {
        F::charge(self, work);
    }
}
