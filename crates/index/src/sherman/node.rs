//! A local copy of a node: its header, and the code that inner nodes and leaves share.
//!
//! The functions are pure: they use no fabric and are not async. `B` holds the bytes: a checked copy of far memory, a
//! vector, a slice.

use super::layout::{COUNT, FLAGS, INDEX, LEVEL, Layout, SIBLING, VERSION};
use crate::consistency::{Consistency, checksum, versions};
use crate::key::compare;
use crate::memory::slot::MemorySlot;
use crate::mutant::Mutant;
use farwood_fabric::{Object, Remote, Torn, u32_at, u64_at};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::{Deref, DerefMut};

/// A node in far memory, for typed pointers.
#[derive(Debug)]
pub enum RawNode {}

/// Maximum levels of a tree: with a fan-out of at least four, a tree of 2^48 bytes has at most 24 levels.
pub const LEVELS_MAX: u8 = 32;

/// Whether a node is removed from the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freed {
    /// The node is marked as removed.
    Yes,
    /// The node is part of the tree.
    No,
}

pub(super) const FREED: u8 = 1;
pub(super) const NO_UPPER: u8 = 2;

impl Object for RawNode {
    type Format = Layout;

    /// Checks that the copy is one version of the node. Entries of two-level leaves are checked one by one, later.
    #[inline]
    fn check(bytes: &[u8], layout: &Layout) -> Result<(), Torn> {
        match layout.consistency {
            _ if layout.mutant == Some(Mutant::NoRearVersion) => Ok(()),
            Consistency::Versions | Consistency::ByteVersions if bytes.len() == layout.node_bytes => {
                versions::check_node(bytes)
            }
            Consistency::Checksum if bytes.len() == layout.node_bytes => {
                checksum::check_node(bytes, layout.hashed(bytes[LEVEL]))
            }
            // A part of a node.
            _ => Err(Torn),
        }
    }
}

/// A local copy of a node with its layout.
#[derive(Clone, Debug)]
pub struct Node<'l, B> {
    pub(super) layout: &'l Layout,
    pub(super) bytes: B,
}

impl<'l, B: Deref<Target = [u8]>> Node<'l, B> {
    /// Decodes a node from bytes that passed [`RawNode`]'s check or were built locally.
    ///
    /// # Errors
    /// The reason why the bytes are not a node of this tree, although they are one version.
    pub fn decode(layout: &'l Layout, bytes: B) -> Result<Self, String> {
        let node = Self { layout, bytes };
        if node.index() != layout.index {
            return Err(format!("it belongs to index number {}, not {}", node.index(), layout.index));
        }
        if node.level() >= LEVELS_MAX {
            return Err(format!("level {}", node.level()));
        }
        if node.bytes[FLAGS] & !(FREED | NO_UPPER) != 0 {
            return Err(format!("unknown flags {:#04x}", node.bytes[FLAGS]));
        }
        if node.count() > node.capacity() {
            return Err(format!("{} entries where {} fit", node.count(), node.capacity()));
        }
        if node.level() > 0
            && let Some(child) = (0..=node.count()).find(|&child| node.child_word(child).is_none())
        {
            return Err(format!("child {child} is null"));
        }
        Ok(node)
    }

    /// The level; leaves are level 0.
    #[inline]
    pub fn level(&self) -> u8 {
        self.bytes[LEVEL]
    }

    /// The capacity of the node: the number of separators, or of leaf entries.
    pub fn capacity(&self) -> usize {
        if self.level() == 0 { self.layout.leaf_capacity } else { self.layout.inner_capacity }
    }

    /// The count in the header: keys of an inner node, entries of a sorted leaf.
    #[inline]
    pub fn count(&self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[COUNT], self.bytes[COUNT + 1]]))
    }

    /// Whether the node is marked as removed from the tree.
    #[inline]
    pub fn freed(&self) -> bool {
        self.bytes[FLAGS] & FREED != 0
    }

    /// The number of WRITEs of the whole node.
    #[inline]
    pub fn version(&self) -> u32 {
        u32_at(&self.bytes, VERSION)
    }

    /// The number of the index that the node belongs to.
    pub fn index(&self) -> u64 {
        self.word(INDEX)
    }

    /// The right sibling.
    #[inline]
    pub fn sibling(&self) -> Option<Remote<RawNode>> {
        Remote::from_word(self.word(SIBLING))
    }

    /// The lower fence: the smallest key that the node may hold.
    #[inline]
    pub fn lower(&self) -> &[u8] {
        &self.bytes[super::layout::LOWER..][..self.layout.key_bytes]
    }

    /// The upper fence: the smallest key above the node; `None`: the node has no upper bound.
    #[inline]
    pub fn upper(&self) -> Option<&[u8]> {
        let upper = &self.bytes[self.layout.upper()..][..self.layout.key_bytes];
        (self.bytes[FLAGS] & NO_UPPER == 0).then_some(upper)
    }

    /// Whether `key` lies at or above the upper fence: a node to the right covers it.
    #[inline]
    pub fn is_left_of(&self, key: &[u8]) -> bool {
        self.upper().is_some_and(|upper| compare(key, upper) != Ordering::Less)
    }

    /// Whether `key` lies below the lower fence: a node to the left covers it.
    #[inline]
    pub fn is_right_of(&self, key: &[u8]) -> bool {
        compare(key, self.lower()) == Ordering::Less
    }

    /// Returns the bytes of the node.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        u64_at(&self.bytes, at)
    }
}

/// The fences of a new node.
#[derive(Clone, Copy, Debug)]
pub struct Fences<'a> {
    /// The smallest key that the node may hold.
    pub lower: &'a [u8],
    /// The smallest key above the node's keys; `None`: there is no upper fence.
    pub upper: Option<&'a [u8]>,
}

impl<'l> Node<'l, Vec<u8>> {
    /// Seals a new node in `slot` and returns the bytes of its first WRITE. If nodes contain their locks and the slot
    /// never held a node, the bytes include a free lock; in a used slot the lock keeps its state.
    pub fn seal_in<T>(&mut self, slot: &MemorySlot<T>) -> Cow<'_, [u8]> {
        let high = self.layout.mutant == Some(Mutant::VersionsHigh);
        self.set_version(slot.version.unwrap_or(if high { versions::HIGH } else { 0 }));
        self.seal();
        if self.layout.slot_bytes == self.bytes.len() || slot.version.is_some() {
            return Cow::Borrowed(&self.bytes);
        }
        let mut bytes = self.bytes.clone();
        bytes.resize(self.layout.slot_bytes, 0);
        Cow::Owned(bytes)
    }

    /// Creates an empty node, which is not sealed.
    pub fn empty(
        layout: &'l Layout,
        level: u8,
        fences: Fences<'_>,
        sibling: Option<Remote<RawNode>>,
    ) -> Self {
        let mut node = Self { layout, bytes: vec![0; layout.node_bytes] };
        node.bytes[LEVEL] = level;
        node.bytes[INDEX..INDEX + 8].copy_from_slice(&layout.index.to_le_bytes());
        node.set_lower(fences.lower);
        node.set_upper(fences.upper);
        node.set_sibling(sibling);
        node.reseal_entries();
        if layout.mutant == Some(Mutant::VersionsHigh) {
            node.raise_entries();
        }
        node
    }
}

impl<B: DerefMut<Target = [u8]>> Node<'_, B> {
    pub(super) fn set_lower(&mut self, lower: &[u8]) {
        let at = super::layout::LOWER;
        self.bytes[at..at + self.layout.key_bytes].copy_from_slice(lower);
    }

    pub(super) fn set_upper(&mut self, upper: Option<&[u8]>) {
        let at = self.layout.upper();
        self.bytes[FLAGS] &= !NO_UPPER;
        match upper {
            Some(upper) => self.bytes[at..at + self.layout.key_bytes].copy_from_slice(upper),
            None => self.bytes[FLAGS] |= NO_UPPER,
        }
    }

    pub(super) fn set_sibling(&mut self, sibling: Option<Remote<RawNode>>) {
        let word = sibling.map_or(0, Remote::word);
        self.bytes[SIBLING..SIBLING + 8].copy_from_slice(&word.to_le_bytes());
    }

    pub(super) fn set_count(&mut self, count: usize) {
        debug_assert!(count <= self.capacity(), "a reader rejects a larger count");
        // Cannot fail: `Layout::new` refuses nodes with more entries.
        let count = u16::try_from(count).expect("capacities fit 16 bits");
        self.bytes[COUNT..COUNT + 2].copy_from_slice(&count.to_le_bytes());
    }

    /// Marks the node as removed from the tree, or removes the mark.
    pub(super) fn set_freed(&mut self, freed: Freed) {
        match freed {
            Freed::Yes => self.bytes[FLAGS] |= FREED,
            Freed::No => self.bytes[FLAGS] &= !FREED,
        }
    }

    pub(super) fn set_version(&mut self, version: u32) {
        self.bytes[VERSION..VERSION + 4].copy_from_slice(&version.to_le_bytes());
    }

    /// Increments the version and writes the guards, before a WRITE of the whole node.
    pub fn seal(&mut self) {
        let version = self.version().wrapping_add(1);
        self.set_version(version);
        self.reseal_entries();
        match self.layout.consistency {
            Consistency::Versions | Consistency::ByteVersions => {
                versions::seal_node(&mut self.bytes, version);
            }
            Consistency::Checksum => {
                let covered = self.layout.hashed(self.level());
                checksum::seal_node(&mut self.bytes, covered);
            }
        }
        debug_assert!(RawNode::check(&self.bytes, self.layout).is_ok(), "readers accept a sealed node");
        debug_assert!(Node::decode(self.layout, &*self.bytes).is_ok(), "readers can decode a sealed node");
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Sizes;
    use super::super::options::Leaves;
    use super::*;

    fn layout(consistency: Consistency, leaves: Leaves) -> Layout {
        let sizes = Sizes { key_bytes: 16, value_bytes: 8, node_bytes: 512 };
        Layout::new(sizes, leaves, consistency, 77).unwrap()
    }

    #[test]
    fn a_sealed_node_is_read_back() {
        for consistency in [Consistency::Versions, Consistency::ByteVersions, Consistency::Checksum] {
            for leaves in [Leaves::Sorted, Leaves::TwoLevel] {
                if leaves == Leaves::Sorted && consistency == Consistency::ByteVersions {
                    continue;
                }
                let layout = layout(consistency, leaves);
                let sibling = Remote::from_word(4096);
                let (lower, upper) = ([1; 16], [9; 16]);
                let fences = Fences { lower: &lower, upper: Some(&upper) };
                let mut node = Node::empty(&layout, 0, fences, sibling);
                node.seal();
                assert_eq!(RawNode::check(&node.bytes, &layout), Ok(()));
                let node = Node::decode(&layout, &node.bytes[..]).unwrap();
                assert_eq!((node.level(), node.version(), node.sibling()), (0, 1, sibling));
                assert!(node.is_right_of(&[0; 16]) && !node.is_right_of(&[1; 16]));
                assert!(node.is_left_of(&[9; 16]) && !node.is_left_of(&[8; 16]));
            }
        }
    }

    #[test]
    fn every_key_is_covered_without_an_upper_fence() {
        let layout = layout(Consistency::Versions, Leaves::TwoLevel);
        let node = Node::empty(&layout, 0, Fences { lower: &[0; 16], upper: None }, None);
        for key in [[0; 16], [255; 16]] {
            assert!(!node.is_left_of(&key) && !node.is_right_of(&key));
        }
    }

    #[test]
    fn bytes_that_are_not_a_node_of_this_tree_are_rejected() {
        let layout = layout(Consistency::Versions, Leaves::Sorted);
        let mut good = Node::empty(&layout, 1, Fences { lower: &[0; 16], upper: None }, None);
        good.set_leftmost(Remote::from_word(64).unwrap());
        let good = good.bytes;
        assert!(Node::decode(&layout, &good[..]).is_ok());
        for (byte, value, reason) in [
            (INDEX, 1, "index number"),
            (LEVEL, 200, "level"),
            (FLAGS, 8, "flags"),
            (COUNT + 1, 9, "entries"),
        ] {
            let mut bad = good.clone();
            bad[byte] = value;
            assert!(Node::decode(&layout, &bad[..]).unwrap_err().contains(reason), "{reason}");
        }
    }
}
