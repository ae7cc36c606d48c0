//! The bytes of a node.
//!
//! ```text
//! offset    bytes   every node; all numbers little endian, keys as the user gives them
//! +  0         8    guard: version (32 bits, and 32 zero bits), or hash            -> consistency/
//! +  8         1    level; leaves are level 0
//! +  9         1    flags: 1 = freed, 2 = no upper fence
//! + 10         2    inner nodes: count of children, less 1; sorted leaves: count of entries; two-level leaves: 0
//! + 12         4    version, incremented by every write of the whole node
//! + 16         8    right sibling, a remote pointer; 0 = none
//! + 24         8    number of the index that the node belongs to
//! + 32         K    lower fence: the smallest key that the node may hold
//! + 32 + K     K    upper fence: the smallest key above the node's keys; unused if flag 2 is set
//! + 32 + 2K         inner node: leftmost child 8, then (key K, child 8) by increasing key
//!                   sorted leaf: (key K, value V) by increasing key
//!                   two-level leaf: entries in any order, free ones among them (below)
//! last 4            rear version
//! after it          if nodes contain their locks: the lock, 8 bytes, which no READ or WRITE of the node accesses
//!
//! Entries with 32-bit versions or a hash begin at multiples of 4 and are padded to a multiple of 4 (shown as p), so
//! that no version straddles two words: a version must not be torn. Entries with versions of one byte have no padding.
//!
//! entry of a two-level leaf, under versions        under a hash
//! +  0         4    version                        +  0      8   guard: count of writes, and hash
//! +  4         K    key                            +  8      K   key
//! +  4 + K     V+p  value                          +  8 + K  V+p value
//! last 4            version
//!
//! entry of a two-level leaf, under byte versions
//! +  0         1    version
//! +  1         K    key
//! +  1 + K     V    value
//! last 1            version
//! ```
//!
//! The lowest possible key, all bytes zero, needs no mark: it is the lower fence of the leftmost nodes. Every
//! byte string of length K is a legal key, so "no upper fence" is a flag and "free" is a bit of the entry's
//! guard (Sherman uses sentinel keys).

use super::options::Leaves;
use crate::consistency::Consistency;
use crate::error::IndexError;
use crate::memory::slot::SlotKind;
use crate::mutant::Mutant;
use std::ops::Range;

/// Version of everything that the map shows, and of the parameters in the directory entry.
pub const FORMAT: u32 = 2;

/// Smallest and largest key, bytes.
pub const KEY_BYTES: Range<usize> = 8..1025;
/// Largest value of a tree whose values have one length, bytes.
pub const VALUE_BYTES_MAX: usize = 4096;
/// Bytes of the value field of an entry in a tree with values of any length.
pub const VALUE_SLOT_BYTES: Range<usize> = 16..257;
/// Smallest and largest node, bytes.
pub const NODE_BYTES: Range<usize> = 256..(1 << 18) + 1;
/// The paper's node, bytes.
pub const NODE_BYTES_DEFAULT: usize = 1024;
/// Smallest capacity of a node, which must be able to split.
const CAPACITY_MIN: usize = 4;

pub(super) const LEVEL: usize = 8;
pub(super) const FLAGS: usize = 9;
pub(super) const COUNT: usize = 10;
pub(super) const VERSION: usize = 12;
pub(super) const SIBLING: usize = 16;
pub(super) const INDEX: usize = 24;
pub(super) const LOWER: usize = 32;
pub(super) const POINTER_BYTES: usize = 8;
const REAR_BYTES: usize = 4;

/// Bytes of a version, and the alignment that keeps it within one word.
const VERSION_BYTES: usize = 4;

/// Offset of the first entry or child.
const fn body_of(key_bytes: usize) -> usize {
    (LOWER + 2 * key_bytes).next_multiple_of(VERSION_BYTES)
}

/// The values of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// Values of one length, stored in their entries.
    #[default]
    Fixed,
    /// Values of 0 B to 16 MiB: short ones in their entries, others as overflow values.
    AnyLength,
}

/// Sizes, scheme and derived offsets of one tree's nodes, which are fixed when the tree is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value, or of the field of an entry for a value of any length.
    pub value_bytes: usize,
    /// The values of the tree.
    pub values: Values,
    /// Bytes of a node, as READs and WRITEs of the whole node transfer it.
    pub node_bytes: usize,
    /// Bytes of the slot of a node: the node and, if locks are stored in nodes, its lock after it.
    pub slot_bytes: usize,
    /// Layout of leaves.
    pub leaves: Leaves,
    /// Scheme for the nodes, and for the entries of two-level leaves.
    pub consistency: Consistency,
    /// Number of the index, in every node.
    pub index: u64,
    /// Bytes of a leaf's entry with its guards.
    pub entry_bytes: usize,
    /// Entries of a leaf.
    pub leaf_capacity: usize,
    /// Keys of an inner node; it has one child more.
    pub inner_capacity: usize,
    /// The defect of a mutant.
    pub(super) mutant: Option<Mutant>,
}

/// The sizes that the user chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a key, 8 to 1024.
    pub key_bytes: usize,
    /// Bytes of a value, 0 to 4096; of the field of an entry for a value of any length, 16 to 256.
    pub value_bytes: usize,
    /// Bytes of a node: a multiple of 64, 256 B to 256 KiB.
    pub node_bytes: usize,
}

impl Layout {
    /// The layout for these sizes, with locks outside of the nodes.
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] with the remedy.
    pub fn new(
        sizes: Sizes,
        leaves: Leaves,
        consistency: Consistency,
        index: u64,
    ) -> Result<Self, IndexError> {
        Self::with_lock(sizes, leaves, consistency, index, 0)
    }

    /// The layout for these sizes, with `lock_bytes` of each node for its lock.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_lock(
        sizes: Sizes,
        leaves: Leaves,
        consistency: Consistency,
        index: u64,
        lock_bytes: usize,
    ) -> Result<Self, IndexError> {
        let Sizes { key_bytes, value_bytes, node_bytes } = sizes;
        let refuse = |why: String| Err(IndexError::BadSizes(why));
        if !KEY_BYTES.contains(&key_bytes) {
            return refuse(format!("keys have 8 to 1024 bytes, not {key_bytes}"));
        }
        if value_bytes > VALUE_BYTES_MAX {
            return refuse(format!("values have at most {VALUE_BYTES_MAX} bytes, not {value_bytes}"));
        }
        if !NODE_BYTES.contains(&node_bytes) || !node_bytes.is_multiple_of(64) {
            return refuse(format!("nodes have a multiple of 64 bytes, 256 B to 256 KiB; not {node_bytes}"));
        }
        if leaves == Leaves::Sorted && consistency == Consistency::ByteVersions {
            return refuse(
                "sorted leaves have no versions in entries: choose versions or checksums".to_owned(),
            );
        }
        let guards = if leaves == Leaves::TwoLevel { consistency.entry_guards().1 } else { 0 };
        let alignment = if consistency == Consistency::ByteVersions { 1 } else { VERSION_BYTES };
        let entry_bytes = (key_bytes + value_bytes).next_multiple_of(alignment) + guards;
        let body_bytes = node_bytes.saturating_sub(body_of(key_bytes) + REAR_BYTES + lock_bytes);
        let leaf_capacity = body_bytes / entry_bytes;
        let inner_capacity = body_bytes.saturating_sub(POINTER_BYTES) / (key_bytes + POINTER_BYTES);
        if leaf_capacity.min(inner_capacity) < CAPACITY_MIN {
            let needed =
                body_of(key_bytes) + REAR_BYTES + lock_bytes + CAPACITY_MIN * entry_bytes.max(key_bytes + 16);
            return refuse(format!(
                "nodes of {node_bytes} bytes hold {leaf_capacity} entries of {entry_bytes} bytes, and must hold at \
                 least {CAPACITY_MIN}: choose at least {} bytes a node",
                needed.next_multiple_of(64)
            ));
        }
        let leaf_capacity = leaf_capacity.min(usize::from(u16::MAX));
        let inner_capacity = inner_capacity.min(usize::from(u16::MAX));
        Ok(Self {
            key_bytes,
            value_bytes,
            values: Values::Fixed,
            node_bytes: node_bytes - lock_bytes,
            slot_bytes: node_bytes,
            leaves,
            consistency,
            index,
            entry_bytes,
            leaf_capacity,
            inner_capacity,
            mutant: None,
        })
    }

    /// Returns this layout for values of another length.
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] where values of any length do not fit their entries.
    pub fn with_values(self, values: Values) -> Result<Self, IndexError> {
        if values == Values::AnyLength && !VALUE_SLOT_BYTES.contains(&self.value_bytes) {
            return Err(IndexError::BadSizes(format!(
                "entries have 16 to 256 bytes for a value of any length, not {}",
                self.value_bytes
            )));
        }
        Ok(Self { values, ..self })
    }

    /// The kind of slots that hold nodes.
    pub(super) fn node_slots(&self) -> SlotKind {
        SlotKind { bytes: self.slot_bytes as u32, of: 0 }
    }

    /// The offset of the upper fence.
    pub(super) fn upper(&self) -> usize {
        LOWER + self.key_bytes
    }

    /// The offset of the first entry or child.
    #[inline]
    pub(super) fn body(&self) -> usize {
        body_of(self.key_bytes)
    }

    /// The bytes of leaf entry `slot`, including its guards.
    #[inline]
    pub fn entry(&self, slot: usize) -> Range<usize> {
        let start = self.body() + slot * self.entry_bytes;
        start..start + self.entry_bytes
    }

    /// Bytes in front of an entry's key.
    #[inline]
    pub(super) fn entry_front(&self) -> usize {
        match self.leaves {
            Leaves::Sorted => 0,
            Leaves::TwoLevel => self.consistency.entry_guards().0,
        }
    }

    /// The bytes of the key of leaf entry `slot`.
    #[inline]
    pub(super) fn entry_key(&self, slot: usize) -> Range<usize> {
        let start = self.body() + slot * self.entry_bytes + self.entry_front();
        start..start + self.key_bytes
    }

    /// The bytes of the value of leaf entry `slot`.
    #[inline]
    pub(super) fn entry_value(&self, slot: usize) -> Range<usize> {
        let start = self.entry_key(slot).end;
        start..start + self.value_bytes
    }

    /// The bytes of key `at` of an inner node.
    #[inline]
    pub(super) fn separator(&self, at: usize) -> Range<usize> {
        let start = self.body() + POINTER_BYTES + at * (self.key_bytes + POINTER_BYTES);
        start..start + self.key_bytes
    }

    /// The bytes of child `at` of an inner node; child 0 is the leftmost.
    #[inline]
    pub(super) fn child(&self, at: usize) -> Range<usize> {
        let start = self.body() + at * (self.key_bytes + POINTER_BYTES);
        start..start + POINTER_BYTES
    }

    /// Leading bytes of a node that its hash covers: all, or only the header if entries have their own hashes.
    #[inline]
    pub(super) fn hashed(&self, level: u8) -> usize {
        if level == 0 && self.leaves == Leaves::TwoLevel { self.body() } else { self.node_bytes }
    }
}

const _: () = assert!(LOWER == INDEX + 8 && SIBLING == VERSION + 4 && COUNT + 2 == VERSION);
const _: () = assert!(NODE_BYTES.start.is_multiple_of(VERSION_BYTES));
const _: () = assert!(NODE_BYTES.end <= 1 << 24, "the size of a slot fits a list of free slots");
const _: () = assert!(Consistency::Versions.entry_guards().0 == VERSION_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_versions_fit_the_entries_of_the_published_implementation() {
        let sizes = Sizes { key_bytes: 8, value_bytes: 8, node_bytes: 1024 };
        let layout = |consistency| Layout::new(sizes, Leaves::TwoLevel, consistency, 1).expect("they fit");
        let compact = layout(Consistency::ByteVersions);
        assert_eq!((compact.entry_bytes, compact.leaf_capacity), (18, 54));
        assert!(compact.entry(53).end <= 1024 - REAR_BYTES);
        assert_eq!(compact.entry_value(0).end + 1, compact.entry(0).end);
        let padded = layout(Consistency::Versions);
        assert_eq!((padded.entry_bytes, padded.leaf_capacity), (24, 40));
        assert!(Layout::new(sizes, Leaves::Sorted, Consistency::ByteVersions, 1).is_err());
    }

    #[test]
    fn no_version_straddles_two_words() {
        for (key_bytes, value_bytes) in [(8, 8), (9, 8), (16, 5), (13, 0), (28, 8), (11, 3)] {
            let sizes = Sizes { key_bytes, value_bytes, node_bytes: 1024 };
            let layout = Layout::new(sizes, Leaves::TwoLevel, Consistency::Versions, 1).expect("they fit");
            for slot in 0..layout.leaf_capacity {
                let entry = layout.entry(slot);
                assert!(entry.start.is_multiple_of(4) && entry.end.is_multiple_of(4), "{sizes:?}");
                assert!(layout.entry_value(slot).end <= entry.end - VERSION_BYTES);
                assert!(entry.end <= 1024 - REAR_BYTES);
            }
            assert!(layout.child(layout.inner_capacity).end <= 1024 - REAR_BYTES);
        }
    }
}
