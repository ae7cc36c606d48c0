//! Options of a radix tree, chosen at run time. The variants of the systems combine them.

use crate::lock::{LocalLocks, LockMemory, LockOptions, LockWidth, Release};
use crate::radix::leaf::LeafGrain;

/// Locks of inner nodes. A compute node hands a lock over to its own clients at most four times in a row, as in
/// Sherman.
pub(crate) const NODE_LOCKS: LockOptions = LockOptions {
    memory: LockMemory::Host,
    width: LockWidth::Word,
    release: Release::Write,
    local: LocalLocks::Queued { hand_over_max: 4 },
};

/// How a new key is put into a slot that has no child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserts {
    /// While holding the node's lock.
    Locked,
    /// By one CAS.
    LockFree,
}

/// How a value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates {
    /// By a new leaf, whose pointer replaces the old one under the node's lock.
    OutOfPlace,
    /// In the leaf, under its lock.
    InPlace,
}

/// When the lock of a leaf is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafLock {
    /// By a separate verb, after the write-back has completed.
    Apart,
    /// By the write-back, whose last word is the lock.
    Rear,
}

/// Sizes of inner nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeSizing {
    /// The smallest size that holds the children.
    Fitting,
    /// 256 slots each, as the published artifact reserves them.
    Preallocated,
}

/// How a scan reads nodes and leaves.
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
    /// How a new key is put into a slot.
    pub inserts: Inserts,
    /// How a value is replaced.
    pub updates: Updates,
    /// When the lock of a leaf is released.
    pub leaf_lock: LeafLock,
    /// Sizes of inner nodes.
    pub node_sizing: NodeSizing,
    /// How a scan reads nodes and leaves.
    pub scans: Scans,
    /// Unit of the leaf sizes.
    pub grain: LeafGrain,
    /// Most bytes of key and value together in a leaf; a longer value is an overflow value.
    pub inline_bytes: usize,
}
