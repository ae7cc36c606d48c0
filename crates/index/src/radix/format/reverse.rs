//! The reverse pointer, at the beginning of every inner node and leaf: where it is linked, as it says itself (SMART,
//! "reverse check").
//!
//! # Map
//!
//! ```text
//!  63 62                  48 47                                           0
//! +--+----------------------+----------------------------------------------+
//! | 1| generation of the    |   packed pointer to the node that links it   |   a leaf, linked
//! |  | node, 15 bits        |                                              |
//! +--+------------+---------+----------------------------------------------+
//! | 1| generation | partial |   packed pointer to the node that links it   |   an inner node, linked
//! |  |      7     |  key 8  |                                              |
//! +--+------------+---------+----------------------------------------------+
//! | 0|          0           |       0       |    version of the room 32    |   not known to be linked
//! +--+----------------------+----------------------------------------------+
//! ```
//!
//! It changes only by CAS, and but for the first time only under the lock of the node that links the object,
//! **before** the slot does. So whoever sees that an object names a node knows that the node links it at that moment.
//! What lies in a room to which old pointers lead is not known to be linked until it is.

use super::inner::RawInner;
use farwood_fabric::{Packed, Remote};

/// A reverse pointer, as a word of far memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reverse(u64);

const LINKED: u64 = 1 << 63;
const LEAF_MASK: u32 = 0x7FFF;
const INNER_MASK: u32 = 0x7F;

impl Reverse {
    /// A leaf's that is linked in the node at `node`, of that generation.
    #[inline]
    pub fn of_leaf(node: Remote<RawInner>, generation: u32) -> Self {
        Self(LINKED | u64::from(generation & LEAF_MASK) << 48 | Packed::pack(node).bits())
    }

    /// An inner node's that is linked in the node at `node`, of that generation, under that partial key.
    #[inline]
    pub fn of_inner(node: Remote<RawInner>, generation: u32, partial: u8) -> Self {
        let generation = u64::from(generation & INNER_MASK) << 56;
        Self(LINKED | generation | u64::from(partial) << 48 | Packed::pack(node).bits())
    }

    /// Not known to be linked.
    pub const fn unlinked(version: u32) -> Self {
        Self(version as u64)
    }

    /// The reverse pointer in a word of far memory.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word for far memory.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Whether the object is known to have been linked.
    #[inline]
    pub const fn is_linked(self) -> bool {
        self.0 & LINKED != 0
    }
}

const _: () = assert!(Packed::<RawInner>::BITS == 48 && LINKED == 1 << 63);

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::{Memory, NodeId};

    #[test]
    fn a_reverse_pointer_tells_node_and_generation() {
        let node = |offset| Remote::new(NodeId(1), Memory::Host, offset).expect("it is not null");
        let one = Reverse::of_leaf(node(4096), 7);
        assert!(one.is_linked() && !Reverse::unlinked(u32::MAX).is_linked());
        assert_eq!(one, Reverse::from_word(one.word()));
        assert_eq!(one, Reverse::of_leaf(node(4096), 7));
        assert_ne!(one, Reverse::of_leaf(node(4096), 8));
        assert_ne!(one, Reverse::of_leaf(node(8192), 7));
        let inner = Reverse::of_inner(node(4096), 7, 255);
        assert!(inner.is_linked());
        assert_ne!(inner, Reverse::of_inner(node(4096), 7, 254));
        assert_ne!(inner, Reverse::of_inner(node(4096), 6, 255));
    }
}
