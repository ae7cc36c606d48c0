//! What makes one radix tree differ from another, as values chosen at run time. The systems' variants are made of them.

use crate::radix::leaf::Grain;

/// How a new key comes into a slot that has no child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserts {
    /// Under the node's lock.
    Locked,
    /// By one CAS.
    LockFree,
}

/// How a value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates {
    /// By a new leaf, whose pointer is swapped in under the node's lock.
    OutOfPlace,
    /// In the leaf, under its lock.
    InPlace,
}

/// When the lock of a leaf comes free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafLock {
    /// When the write-back was answered.
    Apart,
    /// With the write-back, whose last word is the lock.
    Rear,
}

/// How large inner nodes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rooms {
    /// As large as their children need.
    Fitting,
    /// 256 slots each, as the published artifact reserves them.
    Preallocated,
}

/// How a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scans {
    /// What it will need, many to a doorbell.
    Batched,
    /// One node or leaf after the other.
    OneByOne,
}

/// What a tree is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How a new key comes into a slot.
    pub inserts: Inserts,
    /// How a value is replaced.
    pub updates: Updates,
    /// When the lock of a leaf comes free.
    pub leaf_lock: LeafLock,
    /// How large inner nodes are.
    pub rooms: Rooms,
    /// How a scan reads.
    pub scans: Scans,
    /// What the sizes of leaves are multiples of.
    pub grain: Grain,
    /// Bytes of key and value together up to which a value lies in its leaf; others lie out of line.
    pub inline_bytes: usize,
}
