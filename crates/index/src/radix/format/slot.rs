//! A slot of an inner node: partial key, kind of child and pointer in one word, so that every change is one CAS
//! (SMART, "lock-free internal nodes").
//!
//! # Map
//!
//! ```text
//!  63     59 58  56 55       48 47                                        0
//! +---------+------+-----------+------------------------------------------+
//! | class 5 | kind | partial 8 |            packed pointer 48             |   leaf of words or lines, inner
//! |    0    | kind | partial 8 |      0      |        generation 32       |   free, vacant, closed
//! +---------+------+-----------+------------------------------------------+
//!   kind   0 free      no partial key has this slot yet
//!          1 vacant    the slot is the partial key's for good, and there is no child
//!          2 closed    it was free or vacant, and its node is about to be replaced
//!          3 leaf      class: size of the leaf's room, in words (radix/leaf.rs)
//!          4 inner     class: size of the inner node (radix/inner.rs)
//!          5 leaf      class: size of the leaf's room, in lines of 64 bytes
//! ```
//!
//! A slot without a child carries its node's generation: a CAS that was meant for a node that lay there before fails.
//! Once a partial key has a slot it keeps it for as long as its node lives, so that two clients never give it two.

use super::inner::{RawInner, Size};
use super::leaf::{Class, Grain, RawLeaf};
use farwood_fabric::{Packed, Remote};

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// No partial key has the slot yet.
    Free,
    /// The partial key has no child.
    Vacant,
    /// No child, and there will be none: the node is about to be replaced.
    Closed,
    /// A leaf.
    Leaf(Remote<RawLeaf>, Class),
    /// An inner node.
    Inner(Remote<RawInner>, Size),
    /// Nothing that a slot can hold.
    Damaged,
}

/// One slot, as a word of far memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u64);

const PARTIAL_SHIFT: u32 = 48;
const KIND_SHIFT: u32 = 56;
const CLASS_SHIFT: u32 = 59;
const FREE: u64 = 0;
const VACANT: u64 = 1;
const CLOSED: u64 = 2;
const LEAF: u64 = 3;
const INNER: u64 = 4;
const LEAF_OF_LINES: u64 = 5;

const fn word(class: u64, kind: u64, partial: u8, low: u64) -> Slot {
    Slot(class << CLASS_SHIFT | kind << KIND_SHIFT | (partial as u64) << PARTIAL_SHIFT | low)
}

impl Slot {
    /// A slot that no partial key has, in a node of that generation.
    pub const fn free(generation: u32) -> Self {
        word(0, FREE, 0, generation as u64)
    }

    /// The slot of a partial key without a child, in a node of that generation.
    pub const fn vacant(partial: u8, generation: u32) -> Self {
        word(0, VACANT, partial, generation as u64)
    }

    /// A slot that points to a leaf.
    pub fn leaf(partial: u8, leaf: Remote<RawLeaf>, class: Class) -> Self {
        let kind = match class.grain() {
            Grain::Words => LEAF,
            Grain::Lines => LEAF_OF_LINES,
        };
        word(u64::from(class.number()), kind, partial, Packed::pack(leaf).bits())
    }

    /// A slot that points to an inner node.
    pub fn inner(partial: u8, node: Remote<RawInner>, size: Size) -> Self {
        word(size as u64, INNER, partial, Packed::pack(node).bits())
    }

    /// What the slot becomes before its node is replaced, where it has no child.
    #[must_use]
    pub const fn closed(self) -> Self {
        let rest = self.0 & !(0b111 << KIND_SHIFT);
        Self(rest | CLOSED << KIND_SHIFT)
    }

    /// The same child under another partial key: in another node.
    #[must_use]
    pub const fn under(self, partial: u8) -> Self {
        Self(self.0 & !(0xFF << PARTIAL_SHIFT) | (partial as u64) << PARTIAL_SHIFT)
    }

    /// The slot in a word of far memory.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word for far memory.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The partial key.
    #[inline]
    pub const fn partial(self) -> u8 {
        (self.0 >> PARTIAL_SHIFT) as u8
    }

    /// The generation of the node, in a slot without a child.
    #[inline]
    pub const fn generation(self) -> u32 {
        self.0 as u32
    }

    /// Whether no partial key has the slot.
    #[inline]
    pub const fn is_free(self) -> bool {
        self.kind() == FREE
    }

    /// Whether the slot takes a child by CAS alone.
    #[inline]
    pub const fn is_open(self) -> bool {
        self.kind() <= VACANT
    }

    /// Whether the slot has a child.
    #[inline]
    pub const fn is_occupied(self) -> bool {
        matches!(self.kind(), LEAF | INNER | LEAF_OF_LINES)
    }

    const fn kind(self) -> u64 {
        self.0 >> KIND_SHIFT & 0b111
    }

    /// What the slot holds.
    #[inline]
    pub fn child(self) -> Child {
        let class = (self.0 >> CLASS_SHIFT) as u8;
        let found = match self.kind() {
            FREE => return Child::Free,
            VACANT => return Child::Vacant,
            CLOSED => return Child::Closed,
            LEAF => self.leaf_of(Class::of_number(Grain::Words, class)),
            LEAF_OF_LINES => self.leaf_of(Class::of_number(Grain::Lines, class)),
            INNER => Packed::<RawInner>::unpack(self.0)
                .and_then(|node| Size::of_number(class).map(|size| Child::Inner(node, size))),
            _ => None,
        };
        found.unwrap_or(Child::Damaged)
    }

    #[inline]
    fn leaf_of(self, class: Class) -> Option<Child> {
        Packed::<RawLeaf>::unpack(self.0).map(|leaf| Child::Leaf(leaf, class))
    }
}

const _: () = assert!(Packed::<RawLeaf>::BITS == PARTIAL_SHIFT);
const _: () = assert!(super::leaf::CLASSES <= 1 << (u64::BITS - CLASS_SHIFT));

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::{Memory, NodeId};

    #[test]
    fn a_slot_survives_its_word() {
        let leaf = Remote::<RawLeaf>::new(NodeId(3), Memory::Host, 4096).expect("it is not null");
        let node = Remote::<RawInner>::new(NodeId(255), Memory::Host, 8 << 20).expect("it is not null");
        for partial in [0, 7, 255] {
            for class in Grain::ALL.into_iter().flat_map(Class::all) {
                let slot = Slot::from_word(Slot::leaf(partial, leaf, class).word());
                assert_eq!((slot.partial(), slot.child()), (partial, Child::Leaf(leaf, class)));
                assert!(slot.is_occupied() && !slot.is_open());
            }
            for size in Size::ALL {
                let slot = Slot::inner(partial, node, size);
                assert_eq!((slot.partial(), slot.child()), (partial, Child::Inner(node, size)));
                assert_eq!(slot.under(9).child(), slot.child());
            }
            let vacant = Slot::vacant(partial, 77);
            assert_eq!((vacant.partial(), vacant.generation(), vacant.child()), (partial, 77, Child::Vacant));
            assert_eq!((vacant.closed().child(), vacant.closed().generation()), (Child::Closed, 77));
        }
        assert_eq!((Slot::free(5).child(), Slot::free(5).generation()), (Child::Free, 5));
    }

    #[test]
    fn slots_of_two_generations_differ() {
        assert_ne!(Slot::free(1), Slot::free(2));
        assert_ne!(Slot::vacant(4, 1), Slot::vacant(4, 2));
    }

    #[test]
    fn a_null_pointer_is_no_child() {
        assert_eq!(Slot(LEAF << KIND_SHIFT).child(), Child::Damaged);
        assert_eq!(Slot(7 << KIND_SHIFT | 8).child(), Child::Damaged);
    }
}
