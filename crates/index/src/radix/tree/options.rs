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

/// Locks of leaves in their last words. They are not handed over.
const REAR_LOCKS: LockOptions =
    LockOptions { memory: LockMemory::Node, local: LocalLocks::Queued { hand_over_max: 0 }, ..NODE_LOCKS };
/// Locks of leaves in the baselines of SMART, as in its artifact: at most 8 consecutive hand-overs
/// (`MAX_HOCL_HANDOVER`), and no pauses between attempts, except in a long wait.
const HANDED_OVER_LOCKS: LockOptions = LockOptions {
    local: LocalLocks::Queued { hand_over_max: 8 },
    pauses: LockPauses::LongWait,
    ..REAR_LOCKS
};

/// Locks of leaves for which all clients of a compute node compete, as in Sphinx's paper.
const CONTENDED_LOCKS: LockOptions = LockOptions { local: LocalLocks::None, ..REAR_LOCKS };

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
    /// The client writes a new leaf, and replaces the pointer to the old leaf by one CAS, without a lock. The memory of
    /// replaced leaves and nodes is not reused, so this method is for measurement only.
    Swapped,
}

/// The memory of a leaf's lock, and the verb that releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafLock {
    /// The last word of the leaf; a separate verb, after the write-back has completed.
    Apart,
    /// The last word of the leaf; the write-back, whose last word is the lock.
    Rear,
    /// A table in the NIC's memory; a separate verb, after the write-back has completed, unless the lock is handed
    /// over within the compute node (HOCL).
    Table,
    /// As [`Rear`](Self::Rear), but the lock may be handed over within the compute node (E-HOCL). Then the write-back
    /// leaves the lock word alone.
    RearHandedOver,
    /// As [`Rear`](Self::Rear), but the clients of a compute node do not queue for it: each competes for the lock in
    /// remote memory.
    RearContended,
}

impl LeafLock {
    /// The name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apart => "released apart",
            Self::Rear => "at the rear",
            Self::Table => "in device memory, handed over",
            Self::RearHandedOver => "at the rear, handed over",
            Self::RearContended => "at the rear, each client competes",
        }
    }

    /// The locking method of leaves.
    pub(crate) const fn options(self) -> LockOptions {
        match self {
            Self::Apart | Self::Rear => REAR_LOCKS,
            Self::Table => LockOptions { memory: LockMemory::Device, ..HANDED_OVER_LOCKS },
            Self::RearHandedOver => HANDED_OVER_LOCKS,
            Self::RearContended => CONTENDED_LOCKS,
        }
    }
}

/// Sizes of inner nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeSizing {
    /// The smallest size that holds the children.
    Fitting,
    /// 256 slots each, all of which a client reads and keeps in its cache.
    Preallocated,
    /// Memory for 256 slots each, of which a client reads those in use: 4, 8, 16, .. 256. Such a node grows in place,
    /// by two CASes (SMART, "homogeneous adaptive nodes").
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

/// The part of an inner node that a search reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeReads {
    /// The whole node.
    Whole,
    /// Of a node with a slot for each byte: its header, reverse pointer and hash, and the slot of the key, by two READs
    /// in one doorbell. Only if the depth of the node is known before the READ: of the root, and of a node that a hash
    /// table leads to. Of other nodes all.
    OneSlot,
}

impl NodeReads {
    /// The name in records and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::OneSlot => "slot",
        }
    }
}

/// Unit of the memory that is allocated for nodes and leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Words.
    Words,
    /// 256 bytes, to which SMART's published artifact rounds every allocation up. For comparisons of memory.
    Steps256,
}

impl Allocation {
    /// The bytes that an object of `bytes` bytes takes.
    pub(crate) const fn rounded(self, bytes: u64) -> u64 {
        match self {
            Self::Words => bytes,
            Self::Steps256 => bytes.next_multiple_of(256),
        }
    }
}

/// The copies that a full node cache evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachePolicy {
    /// Those that no search has used for the longest time.
    RecentlyUsed,
    /// Those that were inserted first. The root is not kept. As in SMART's published artifact.
    FirstIn,
}

impl CachePolicy {
    /// The name in records and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::RecentlyUsed => "lru",
            Self::FirstIn => "fifo",
        }
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
    /// The memory of a leaf's lock, and the verb that releases it.
    pub leaf_lock: LeafLock,
    /// Sizes of inner nodes.
    pub node_sizing: NodeSizing,
    /// The part of an inner node that a search reads.
    pub node_reads: NodeReads,
    /// The number of nodes and leaves that a scan reads at once.
    pub scans: Scans,
    /// Unit of the leaf sizes.
    pub grain: LeafGrain,
    /// Unit of the allocated memory.
    pub allocation: Allocation,
    /// The copies that a full node cache evicts.
    pub cache_policy: CachePolicy,
    /// Maximum number of bytes of key and value together in a leaf; a longer value is an overflow value.
    pub inline_bytes: usize,
}

impl TreeOptions {
    /// Whether clients replace the pointers to leaves without a lock.
    #[inline]
    pub(crate) fn swaps_leaves(&self) -> bool {
        self.updates == Updates::Swapped
    }
}
