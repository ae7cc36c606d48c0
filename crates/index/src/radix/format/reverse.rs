//! Reverse pointers: every inner node and leaf names the node that links it (SMART, "reverse check").
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
//! | 0|          0           |       0       |   version of the object 32   |   not confirmed as linked
//! +--+----------------------+----------------------------------------------+
//! ```
//!
//! A reverse pointer changes only by CAS. Except for the first change, it changes only under the lock of the node that
//! links the object, **before** the slot changes. So if the reverse pointer of an object names a node, the node links
//! the object at that moment. An object in reused memory, to which old pointers may lead, is not confirmed as linked
//! until its slot points to it.

use super::object::RawInner;
use farwood_fabric::{Packed, Remote};

/// A reverse pointer, as a word of remote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reverse(u64);

const LINKED: u64 = 1 << 63;
const LEAF_MASK: u32 = 0x7FFF;
const INNER_MASK: u32 = 0x7F;

impl Reverse {
    /// The reverse pointer of a leaf that the node at `node`, of `generation`, links.
    #[inline]
    pub fn of_leaf(node: Remote<RawInner>, generation: u32) -> Self {
        Self(LINKED | u64::from(generation & LEAF_MASK) << 48 | Packed::pack(node).bits())
    }

    /// The reverse pointer of an inner node that the node at `node`, of `generation`, links under `partial`.
    #[inline]
    pub fn of_inner(node: Remote<RawInner>, generation: u32, partial: u8) -> Self {
        let generation = u64::from(generation & INNER_MASK) << 56;
        Self(LINKED | generation | u64::from(partial) << 48 | Packed::pack(node).bits())
    }

    /// The reverse pointer of an object that is not confirmed as linked.
    pub const fn unlinked(version: u32) -> Self {
        Self(version as u64)
    }

    /// The reverse pointer that a word of remote memory holds.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word for remote memory.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Whether the object is confirmed as linked.
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
    fn a_reverse_pointer_identifies_node_and_generation() {
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
