//! Options of a radix tree, chosen at run time. The variants of the systems combine them.

use crate::lock::{LocalLocks, LockMemory, LockOptions, LockPauses, LockWidth, Release};
use crate::radix::leaf::LeafGrain;

/// Locks of inner nodes. A compute node hands a lock over to its own clients at most four times in a row, as in
/// Sherman.
pub(crate) const NODE_LOCKS: LockOptions = LockOptions {
    memory: LockMemory::Host,
    width: LockWidth::Word,
    release: Release::Write,
    local: LocalLocks::Queued { hand_over_max: 4 },
    pauses: LockPauses::Growing,
};

/// The method by which a new key is put into a slot that has no child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserts {
    /// The client holds the node's lock.
    Locked,
    /// The client links the leaf by one CAS, without a lock.
    LockFree,
}

/// The method by which a value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates {
    /// The client writes a new leaf, and replaces the pointer to the old leaf under the node's lock.
    OutOfPlace,
    /// The client changes the leaf under its lock.
    InPlace,
}

/// The verb that releases the lock of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafLock {
    /// A separate verb, after the write-back has completed.
    Apart,
    /// The write-back, whose last word is the lock.
    Rear,
}

/// Sizes of inner nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeSizing {
    /// The smallest size that holds the children.
    Fitting,
    /// 256 slots each, all of which a client reads.
    Preallocated,
    /// Memory for 256 slots each, of which a client reads those in use: 4, 8, 16, .. 256. Such a node grows in place, by
    /// two CASes (SMART, "homogeneous adaptive nodes").
    Typed,
}

impl NodeSizing {
    /// All values, with their names in records and on the command line.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Fitting, "fitting"), (Self::Typed, "typed"), (Self::Preallocated, "256")];

    /// The name in records and on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(sizing, _)| *sizing == self).map_or("", |(_, name)| name)
    }
}

/// The number of nodes and leaves that a scan reads at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scans {
    /// Many per doorbell, before the scan needs them.
    Batched,
    /// One per doorbell, when the scan needs it.
    OneByOne,
}

/// The options of one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeOptions {
    /// The method by which a new key is put into a slot.
    pub inserts: Inserts,
    /// The method by which a value is replaced.
    pub updates: Updates,
    /// The verb that releases the lock of a leaf.
    pub leaf_lock: LeafLock,
    /// Sizes of inner nodes.
    pub node_sizing: NodeSizing,
    /// The number of nodes and leaves that a scan reads at once.
    pub scans: Scans,
    /// Unit of the leaf sizes.
    pub grain: LeafGrain,
    /// Maximum number of bytes of key and value together in a leaf; a longer value is an overflow value.
    pub inline_bytes: usize,
}
