//! Slots of inner nodes: partial key, kind of child and pointer in one word, so that every change is one CAS (SMART,
//! "lock-free internal nodes").
//!
//! # Map
//!
//! ```text
//!  63     59 58  56 55       48 47                                        0
//! +---------+------+-----------+------------------------------------------+
//! | class 5 | kind | partial 8 |            packed pointer 48             |   leaf of words or lines, inner
//! |    0    | kind | partial 8 | was free 1  |        generation 32       |   free, vacant, closed
//! +---------+------+-----------+------------------------------------------+
//!   kind   0 free      no partial key owns this slot yet
//!          1 vacant    a partial key owns the slot permanently, and it has no child
//!          2 closed    the slot was free (bit 32 is set) or vacant, and its node is about to be replaced
//!          3 leaf      class: size of the leaf in words (format/object.rs)
//!          4 inner     class: size of the inner node (format/object.rs); a hint if the node is typed
//!          5 leaf      class: size of the leaf in lines of 64 bytes
//!          6 frozen    a leaf as 3, in a node that is about to be replaced: no client replaces the pointer without
//!                      the lock of the node
//! ```
//!
//! A slot without a child contains the generation of its node, so that a CAS meant for an earlier node at the same
//! address fails. A partial key keeps its slot for as long as the node lives, so that two clients never give it two
//! slots.

use super::object::{CLASSES, InnerRef, LeafClass, LeafGrain, LeafRef, NodeSize, RawInner, RawLeaf};
use farwood_fabric::Packed;

/// Contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// No child; no partial key owns the slot yet.
    Free,
    /// No child; a partial key owns the slot.
    Vacant,
    /// No child, and none can be added: the node is about to be replaced.
    Closed,
    /// A leaf.
    Leaf(LeafRef),
    /// An inner node.
    Inner(InnerRef),
    /// A word that is not a valid slot.
    Damaged,
}

/// One slot, as a word of remote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeSlot(u64);

const PARTIAL_SHIFT: u32 = 48;
const KIND_SHIFT: u32 = 56;
const CLASS_SHIFT: u32 = 59;
/// Bit of a closed slot that was free.
const WAS_FREE: u64 = 1 << 32;
const FREE: u64 = 0;
const VACANT: u64 = 1;
const CLOSED: u64 = 2;
const LEAF: u64 = 3;
const INNER: u64 = 4;
const LEAF_OF_LINES: u64 = 5;
const FROZEN: u64 = 6;

const fn word(class: u64, kind: u64, partial: u8, low: u64) -> NodeSlot {
    NodeSlot(class << CLASS_SHIFT | kind << KIND_SHIFT | (partial as u64) << PARTIAL_SHIFT | low)
}

impl NodeSlot {
    /// A word that is not a valid slot.
    pub const DAMAGED: Self = Self(0b111 << KIND_SHIFT);

    /// A free slot in a node of `generation`.
    pub const fn free(generation: u32) -> Self {
        word(0, FREE, 0, generation as u64)
    }

    /// A vacant slot that `partial` owns, in a node of `generation`.
    pub const fn vacant(partial: u8, generation: u32) -> Self {
        word(0, VACANT, partial, generation as u64)
    }

    /// A slot that points to a leaf.
    pub fn leaf(partial: u8, LeafRef { at, class }: LeafRef) -> Self {
        let kind = match class.grain() {
            LeafGrain::Words => LEAF,
            LeafGrain::Lines => LEAF_OF_LINES,
        };
        word(u64::from(class.number()), kind, partial, Packed::pack(at).bits())
    }

    /// A slot that points to an inner node.
    pub fn inner(partial: u8, InnerRef { at, size }: InnerRef) -> Self {
        word(size as u64, INNER, partial, Packed::pack(at).bits())
    }

    /// The closed state of a slot without a child.
    #[must_use]
    pub const fn closed(self) -> Self {
        let was_free = if self.is_free() { WAS_FREE } else { 0 };
        Self(self.with_kind(CLOSED).0 | was_free)
    }

    /// Whether the slot was closed while it was free.
    pub const fn is_closed_free(self) -> bool {
        self.is_closed() && self.0 & WAS_FREE != 0
    }

    /// Whether the slot points to a leaf, and a CAS without a lock may replace the pointer.
    #[inline]
    pub const fn is_swappable(self) -> bool {
        self.kind() == LEAF
    }

    /// The frozen state of a slot that is swappable.
    #[must_use]
    pub const fn frozen(self) -> Self {
        self.with_kind(FROZEN)
    }

    /// Returns the slot as it is in a node that is not about to be replaced.
    #[must_use]
    pub const fn thawed(self) -> Self {
        if self.kind() == FROZEN { self.with_kind(LEAF) } else { self }
    }

    const fn with_kind(self, kind: u64) -> Self {
        Self(self.0 & !(0b111 << KIND_SHIFT) | kind << KIND_SHIFT)
    }

    /// Returns a slot for the same child with another partial key, for use in another node.
    #[must_use]
    pub const fn under(self, partial: u8) -> Self {
        Self(self.0 & !(0xFF << PARTIAL_SHIFT) | (partial as u64) << PARTIAL_SHIFT)
    }

    /// Whether both slots point to the same object under the same partial key. The size of a typed node is a hint,
    /// which clients change without a lock.
    #[inline]
    pub const fn is_same_child(self, other: Self) -> bool {
        (self.0 ^ other.0) << (u64::BITS - CLASS_SHIFT) == 0 && (self.is_occupied() || self.0 == other.0)
    }

    /// The slot that a word of remote memory holds.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word for remote memory.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The partial key.
    #[inline]
    pub const fn partial(self) -> u8 {
        (self.0 >> PARTIAL_SHIFT) as u8
    }

    /// The generation of the node. Meaningful only in a slot without a child.
    #[inline]
    pub const fn generation(self) -> u32 {
        self.0 as u32
    }

    /// Whether the slot is free.
    #[inline]
    pub const fn is_free(self) -> bool {
        self.kind() == FREE
    }

    /// Whether the slot has no child, and its node is about to be replaced.
    #[inline]
    pub const fn is_closed(self) -> bool {
        self.kind() == CLOSED
    }

    /// Whether a CAS alone may put a child into the slot.
    #[inline]
    pub const fn is_open(self) -> bool {
        self.kind() <= VACANT
    }

    /// Whether the slot has a child.
    #[inline]
    pub const fn is_occupied(self) -> bool {
        matches!(self.kind(), LEAF | INNER | LEAF_OF_LINES | FROZEN)
    }

    const fn kind(self) -> u64 {
        self.0 >> KIND_SHIFT & 0b111
    }

    /// The contents of the slot.
    #[inline]
    pub fn child(self) -> Child {
        let class = (self.0 >> CLASS_SHIFT) as u8;
        let found = match self.kind() {
            FREE => return Child::Free,
            VACANT => return Child::Vacant,
            CLOSED => return Child::Closed,
            LEAF | FROZEN => self.leaf_of(LeafClass::of_number(LeafGrain::Words, class)),
            LEAF_OF_LINES => self.leaf_of(LeafClass::of_number(LeafGrain::Lines, class)),
            INNER => Packed::<RawInner>::unpack(self.0)
                .and_then(|at| NodeSize::of_number(class).map(|size| Child::Inner(InnerRef { at, size }))),
            _ => None,
        };
        found.unwrap_or(Child::Damaged)
    }

    #[inline]
    fn leaf_of(self, class: LeafClass) -> Option<Child> {
        Packed::<RawLeaf>::unpack(self.0).map(|at| Child::Leaf(LeafRef { at, class }))
    }
}

const _: () = assert!(Packed::<RawLeaf>::BITS == PARTIAL_SHIFT);
const _: () = assert!(CLASSES <= 1 << (u64::BITS - CLASS_SHIFT));

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::{Memory, NodeId, Remote};

    #[test]
    fn a_slot_round_trips_through_its_word() {
        let at = Remote::<RawLeaf>::new(NodeId(3), Memory::Host, 4096).expect("it is not null");
        let node = Remote::<RawInner>::new(NodeId(255), Memory::Host, 8 << 20).expect("it is not null");
        for partial in [0, 7, 255] {
            for class in LeafGrain::ALL.into_iter().flat_map(LeafClass::all) {
                let leaf = LeafRef { at, class };
                let slot = NodeSlot::from_word(NodeSlot::leaf(partial, leaf).word());
                assert_eq!((slot.partial(), slot.child()), (partial, Child::Leaf(leaf)));
                assert!(slot.is_occupied() && !slot.is_open());
                if class.grain() == LeafGrain::Words {
                    let frozen = slot.frozen();
                    assert_eq!((frozen.partial(), frozen.child()), (partial, Child::Leaf(leaf)));
                    assert!(slot.is_swappable() && frozen.is_occupied() && !frozen.is_swappable());
                    assert_eq!((frozen.thawed(), slot.thawed()), (slot, slot));
                }
            }
            for size in NodeSize::FIXED.into_iter().chain(NodeSize::TYPED) {
                let node = InnerRef { at: node, size };
                let slot = NodeSlot::inner(partial, node);
                assert_eq!((slot.partial(), slot.child()), (partial, Child::Inner(node)));
                assert_eq!(slot.under(9).child(), slot.child());
            }
            let vacant = NodeSlot::vacant(partial, 77);
            assert_eq!((vacant.partial(), vacant.generation(), vacant.child()), (partial, 77, Child::Vacant));
            assert_eq!((vacant.closed().child(), vacant.closed().generation()), (Child::Closed, 77));
        }
        assert_eq!((NodeSlot::free(5).child(), NodeSlot::free(5).generation()), (Child::Free, 5));
        let closed = NodeSlot::free(5).closed();
        assert_eq!((closed.child(), closed.generation(), closed.is_closed_free()), (Child::Closed, 5, true));
        assert!(!NodeSlot::vacant(0, 5).closed().is_closed_free());
    }

    #[test]
    fn slots_of_two_generations_differ() {
        assert_ne!(NodeSlot::free(1), NodeSlot::free(2));
        assert_ne!(NodeSlot::vacant(4, 1), NodeSlot::vacant(4, 2));
    }

    #[test]
    fn a_null_pointer_is_damage() {
        assert_eq!(NodeSlot(LEAF << KIND_SHIFT).child(), Child::Damaged);
        assert_eq!(NodeSlot(7 << KIND_SHIFT | 8).child(), Child::Damaged);
        assert_eq!(NodeSlot::DAMAGED.child(), Child::Damaged);
    }
}
