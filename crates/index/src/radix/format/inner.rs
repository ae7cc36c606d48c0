//! Inner nodes: a header of 8 bytes, a hash of the prefix of all keys below, and slots of 8 bytes.
//!
//! # Map
//!
//! ```text
//! inner node of n = 4, 16, 48 or 256 slots; 72, 168, 424 or 2088 bytes
//! +  0     8    header, changed by CAS
//! +  8     8    reverse pointer (format/reverse.rs), changed by CAS
//! + 16     8    hash of the prefix of all keys below (format/prefix.rs), xor the header's salt
//! + 24     8    slot 0: of the key that ends here
//! + 32   8 n    slots; n = 256: in the order of their partial keys; otherwise in the order of allocation
//! + 32 + 8 n  8 rear: generation 32 | low bits of the index's number 32
//!
//! typed node: 2080 bytes of memory, without the rear; the first n = 5, 9, 17, .. 129, 256 slots are in use
//!
//! header
//!  63            32 31       16 15  12 11   8 7     4 3  2 1   0
//! +----------------+-----------+------+------+-------+----+-----+   state: 1 live, 2 dead
//! |  generation    |   depth   |   0  | type | level | n  |state|   n: 0 for 4 slots, 1: 16, 2: 48, 3: 256, typed
//! +----------------+-----------+------+------+-------+----+-----+   type: 0 fixed size, 1 for 4 slots, 2: 8, .. 7: 256
//! ```
//!
//! The *depth* is the length of the prefix that all keys below share, counted from the beginning of the key; the hash
//! covers the whole prefix. So a client that follows any pointer, however old, can check whether the node covers a key,
//! and a prefix of any length needs no chain of nodes (path compression). Depth and hash never change, even when
//! another node is inserted above.
//!
//! The *generation* counts the nodes that used this memory. It is in the header, in every slot without a child and at
//! the rear, and it salts the hash; `tree/fetch.rs` states what it proves about a copy. Slots are allocated strictly in
//! order and keep their partial keys, so the first free slot proves that only the slots before it have partial keys.
//!
//! # Typed nodes
//!
//! A typed node grows in place: the client that puts a leaf into the last slot of a type then changes the type in the
//! header, each by a CAS (`tree/grow.rs`). Clients read only the slots in use, so there is no rear: the first three
//! words, which are in one line, prove that a copy is of one node. The type of a node changes, so it is not part of
//! the salt of the hash. In memory of zeros, a node has generation 0: a free slot of generation 0 is zero, so the
//! slots behind those in use need not be written.

use super::key::{KEY_BYTES_MAX, Step, step_at};
pub use super::object::{InnerRef, NodeSize, RawInner};

use super::object::INNER_FIXED_BYTES;
use super::prefix::{PrefixHash, mixed};
use super::reverse::Reverse;
use super::slot::NodeSlot;
use farwood_fabric::{Object, Torn, u64_at};
use std::ops::{Deref, DerefMut};

/// Offset of the header in a node, bytes.
pub const HEADER: u64 = 0;
/// Offset of the reverse pointer in a node, bytes. It follows the header, so that the proof that a copy is of one node
/// includes the reverse pointer.
pub const REVERSE: u64 = 8;
/// Offset of the hash in a node, bytes.
pub(crate) const HASH: usize = 16;
/// Offset of slot 0 in a node, bytes.
const SLOTS: usize = 24;
/// Highest level that a header can hold.
pub const LEVEL_MAX: u8 = 15;
const TYPE_SHIFT: u32 = 8;
const TYPE_MASK: u64 = 0b1111 << TYPE_SHIFT;

/// Life state of an inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// The node is the node of its prefix, if it is linked.
    Live = 1,
    /// The node was replaced or is about to be replaced.
    Dead = 2,
}

/// Header of an inner node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeHeader(u64);

impl NodeHeader {
    /// Creates a header.
    pub const fn new(state: NodeState, size: NodeSize, level: u8, depth: usize, generation: u32) -> Self {
        let level = if level > LEVEL_MAX { LEVEL_MAX } else { level };
        assert!(depth <= KEY_BYTES_MAX, "a prefix is no longer than a key");
        let (size, node_type) = if size.is_typed() {
            (NodeSize::All as u64, 1 + (size as u64 - NodeSize::Typed4 as u64))
        } else {
            (size as u64, 0)
        };
        Self(
            state as u64
                | size << 2
                | (level as u64) << 4
                | node_type << TYPE_SHIFT
                | (depth as u64) << 16
                | (generation as u64) << 32,
        )
    }

    /// The header that a word of remote memory holds.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word for remote memory.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The header with another state.
    #[must_use]
    pub const fn with_state(self, state: NodeState) -> Self {
        Self(self.0 & !0b11 | state as u64)
    }

    /// The header of the same node after it has grown in place to `size`.
    #[must_use]
    pub const fn with_size(self, size: NodeSize) -> Self {
        let grown = Self::new(NodeState::Live, size, 0, 0, 0);
        Self(self.0 & !TYPE_MASK | grown.0 & TYPE_MASK)
    }

    /// Whether both are headers of one node in one state. The type of a typed node may differ.
    #[inline]
    pub const fn is_of_node(self, other: Self) -> bool {
        (self.0 ^ other.0) & !TYPE_MASK == 0
    }

    /// The state; `None` if the word is not a header.
    #[inline]
    pub const fn state(self) -> Option<NodeState> {
        match self.0 & 0b11 {
            1 => Some(NodeState::Live),
            2 => Some(NodeState::Dead),
            _ => None,
        }
    }

    /// Size of the node.
    #[inline]
    pub const fn size(self) -> NodeSize {
        let fixed = (self.0 >> 2 & 0b11) as u8;
        let node_type = ((self.0 & TYPE_MASK) >> TYPE_SHIFT) as u8;
        let number = if node_type == 0 { fixed } else { NodeSize::All as u8 + node_type };
        match NodeSize::of_number(number) {
            Some(size) => size,
            None => NodeSize::Typed256,
        }
    }

    /// Whether the type is one of the seven.
    const fn has_type(self) -> bool {
        self.0 & TYPE_MASK == Self(0).with_size(self.size()).0 & TYPE_MASK
    }

    /// Number of nodes above the node when it was created.
    pub const fn level(self) -> u8 {
        (self.0 >> 4) as u8 & LEVEL_MAX
    }

    /// Length of the prefix that all keys below share.
    #[inline]
    pub const fn depth(self) -> usize {
        (self.0 >> 16) as u16 as usize
    }

    /// Number of nodes that used this memory.
    #[inline]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The hash field of a node with this header and `prefix`, in the index with number `number`.
    #[inline]
    pub fn hash(self, prefix: &[u8], number: u32) -> u64 {
        PrefixHash::of(prefix).word() ^ self.salt(number)
    }

    /// Salt that distinguishes the hashes of nodes with the same prefix: the header without its state and type, and the
    /// number of the index.
    #[inline]
    pub const fn salt(self, number: u32) -> u64 {
        mixed(self.0 & !(0b11 | TYPE_MASK) ^ (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

/// Result of a search for a partial key in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotSearch {
    /// The slot that the partial key owns: its number and contents, possibly without a child.
    Slot(usize, NodeSlot),
    /// The partial key owns no slot; this is the first free slot.
    Free(usize, NodeSlot),
    /// The partial key owns no slot, and no slot is free.
    Full,
    /// The partial key owns no slot, and no slot of the type is free: the node grows in place.
    Outgrown,
}

/// The slot of a step in a node of 256 slots.
#[inline]
pub fn slot_of_all(step: Step) -> usize {
    match step {
        Step::End => 0,
        Step::Byte(byte) => 1 + usize::from(byte),
    }
}

/// The step of the keys below slot `number` of a node; the slot has a child.
#[inline]
pub fn step_of(number: usize, slot: NodeSlot) -> Step {
    if number == 0 { Step::End } else { Step::Byte(slot.partial()) }
}

/// Searches the slots of a node for a step.
#[inline]
pub fn find(size: NodeSize, step: Step, slot: impl Fn(usize) -> NodeSlot) -> SlotSearch {
    let byte = match step {
        Step::End => return SlotSearch::Slot(0, slot(0)),
        Step::Byte(_) if size == NodeSize::All => {
            let number = slot_of_all(step);
            return SlotSearch::Slot(number, slot(number));
        }
        Step::Byte(byte) => byte,
    };
    let mut is_closed = false;
    for number in 1..=size.slots() {
        let found = slot(number);
        if found.is_free() {
            return SlotSearch::Free(number, found);
        }
        if found.partial() == byte {
            return SlotSearch::Slot(number, found);
        }
        is_closed |= found.is_closed();
    }
    match size.next_in_place() {
        Some(_) if !is_closed => SlotSearch::Outgrown,
        _ => SlotSearch::Full,
    }
}

/// Format parameters of inner nodes.
#[derive(Clone, Copy, Debug)]
pub struct InnerFormat {
    /// Low bits of the index number.
    pub number: u32,
    /// Whether the nodes below the root are typed.
    pub is_typed: bool,
}

impl Object for RawInner {
    type Format = InnerFormat;

    fn check(bytes: &[u8], format: &InnerFormat) -> Result<(), Torn> {
        let node = Inner { bytes };
        let (header, size) = (node.header(), node.header().size());
        let generation = header.generation();
        let is_sized = if size.is_typed() {
            format.is_typed && header.has_type() && bytes.len() >= NodeSize::Typed4.bytes()
        } else {
            let rear = word_at(bytes, bytes.len() - 8);
            bytes.len() == size.bytes() && rear == u64::from(generation) | u64::from(format.number) << 32
        };
        let whole = header.state().is_some()
            && is_sized
            && header.depth() <= KEY_BYTES_MAX
            && node.slots_read().all(|slot| slot.is_occupied() || slot.generation() == generation);
        whole.then_some(()).ok_or(Torn)
    }
}

/// An inner node in local memory.
#[derive(Clone, Copy, Debug)]
pub struct Inner<B> {
    bytes: B,
}

#[inline]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64_at(bytes, at)
}

impl<B: Deref<Target = [u8]>> Inner<B> {
    /// Wraps a copy that passed its check.
    #[inline]
    pub fn new(bytes: B) -> Self {
        Self { bytes }
    }

    /// The bytes of the copy.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The reverse pointer.
    #[inline]
    pub fn reverse(&self) -> Reverse {
        Reverse::from_word(word_at(&self.bytes, REVERSE as usize))
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> NodeHeader {
        NodeHeader(word_at(&self.bytes, HEADER as usize))
    }

    /// The hash field.
    #[inline]
    pub fn hash(&self) -> u64 {
        word_at(&self.bytes, HASH)
    }

    /// The hash of the prefix that all keys below share.
    #[inline]
    pub fn prefix(&self, number: u32) -> PrefixHash {
        PrefixHash::from_word(self.hash() ^ self.header().salt(number))
    }

    /// Slot `number`; slot 0 belongs to the key that ends here.
    #[inline]
    pub fn slot(&self, number: usize) -> NodeSlot {
        NodeSlot::from_word(word_at(&self.bytes, SLOTS + 8 * number))
    }

    /// Whether the copy has fewer slots than the node has in use, because the node has grown in place.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.bytes.len() < self.header().size().bytes()
    }

    /// The slots in use.
    pub fn slots(&self) -> impl DoubleEndedIterator<Item = NodeSlot> + ExactSizeIterator {
        self.first_slots(self.header().size().slots() + 1)
    }

    /// The slots that were read: those in use, and of a typed node also slots behind them if they were read.
    pub fn slots_read(&self) -> impl DoubleEndedIterator<Item = NodeSlot> + ExactSizeIterator {
        let size = self.header().size();
        let count = if size.is_typed() { (self.bytes.len() - SLOTS) / 8 } else { size.slots() + 1 };
        self.first_slots(count)
    }

    fn first_slots(&self, count: usize) -> impl DoubleEndedIterator<Item = NodeSlot> + ExactSizeIterator {
        let slots = &self.bytes[SLOTS..SLOTS + 8 * count];
        slots.chunks_exact(8).map(|slot| NodeSlot::from_word(word_at(slot, 0)))
    }

    /// Whether `key` has the prefix of this node.
    #[inline]
    pub fn covers(&self, key: &[u8], number: u32) -> bool {
        covers(self.header(), self.hash(), key, number)
    }

    /// Searches for the slot of `key`.
    #[inline]
    pub fn find(&self, key: &[u8]) -> SlotSearch {
        let header = self.header();
        find(header.size(), step_at(key, header.depth()), |number| self.slot(number))
    }

    /// The children, in the order of their keys.
    pub fn children(&self) -> Vec<(Step, NodeSlot)> {
        let slots = self.slots().enumerate().filter(|(_, slot)| slot.is_occupied());
        let mut children: Vec<_> = slots.map(|(number, slot)| (step_of(number, slot), slot)).collect();
        children.sort_unstable_by_key(|(step, _)| *step);
        children
    }
}

impl<B: DerefMut<Target = [u8]>> Inner<B> {
    /// Changes the type of a copy of a typed node, for a mutant.
    pub(crate) fn set_size(&mut self, size: NodeSize) {
        let header = self.header().with_size(size).word();
        self.bytes[..8].copy_from_slice(&header.to_le_bytes());
    }
}

/// Whether `key` has the prefix of a node with this header and hash.
#[inline]
pub fn covers(header: NodeHeader, hash: u64, key: &[u8], number: u32) -> bool {
    key.get(..header.depth()).is_some_and(|prefix| header.hash(prefix, number) == hash)
}

/// The bytes of a node with this prefix and these children.
///
/// # Panics
/// If the children do not fit, or the prefix is not as long as the header says.
pub fn image(
    reverse: Reverse,
    header: NodeHeader,
    prefix: &[u8],
    number: u32,
    children: &[(Step, NodeSlot)],
) -> Vec<u8> {
    let (size, generation) = (header.size(), header.generation());
    debug_assert_eq!(prefix.len(), header.depth(), "the depth is the length of the prefix");
    // In used memory, the slots behind those in use still belong to an earlier node.
    let written = if generation == 0 { size } else { size.largest_in_place() };
    let mut bytes = Vec::with_capacity(written.bytes());
    let mut slots = vec![NodeSlot::free(generation); written.slots() + 1];
    slots[0] = NodeSlot::vacant(0, generation);
    if size == NodeSize::All {
        (0..=u8::MAX).for_each(|byte| slots[1 + usize::from(byte)] = NodeSlot::vacant(byte, generation));
    }
    let mut next = 1;
    for &(step, child) in children {
        let at = match step {
            Step::End => 0,
            Step::Byte(byte) if size == NodeSize::All => 1 + usize::from(byte),
            Step::Byte(_) => {
                next += 1;
                next - 1
            }
        };
        slots[at] = match step {
            Step::End => child.under(0),
            Step::Byte(byte) => child.under(byte),
        };
    }
    bytes.extend_from_slice(&header.word().to_le_bytes());
    bytes.extend_from_slice(&reverse.word().to_le_bytes());
    bytes.extend_from_slice(&header.hash(prefix, number).to_le_bytes());
    bytes.extend(slots.iter().flat_map(|slot| slot.word().to_le_bytes()));
    if !size.is_typed() {
        bytes.extend_from_slice(&(u64::from(generation) | u64::from(number) << 32).to_le_bytes());
    }
    debug_assert!(
        RawInner::check(&bytes, &InnerFormat { number, is_typed: size.is_typed() }).is_ok(),
        "readers accept a new node"
    );
    bytes
}

/// Offset of slot `number` in a node, bytes.
#[inline]
pub const fn slot_offset(number: usize) -> u64 {
    (SLOTS + 8 * number) as u64
}

const _: () = assert!(KEY_BYTES_MAX <= u16::MAX as usize && SLOTS + 16 == INNER_FIXED_BYTES);
const _: () = assert!(HASH + 8 == SLOTS && HEADER == 0 && REVERSE as usize + 8 == HASH);

#[cfg(test)]
mod tests {
    use super::super::object::{LeafClass, LeafGrain, LeafRef, RawLeaf};
    use super::*;
    use farwood_fabric::{Memory, NodeId, Remote};

    const NUMBER: u32 = 9;
    const FORMAT: InnerFormat = InnerFormat { number: NUMBER, is_typed: false };

    fn leaf(at: u64) -> NodeSlot {
        let at = Remote::<RawLeaf>::new(NodeId(1), Memory::Host, 4096 + 64 * at).expect("it is not null");
        NodeSlot::leaf(
            0,
            LeafRef { at, class: LeafClass::for_entry(LeafGrain::Words, 8, 8).expect("it fits") },
        )
    }

    fn node(size: NodeSize, steps: &[Step]) -> Vec<u8> {
        let children: Vec<_> = (0..).zip(steps).map(|(at, &step)| (step, leaf(at))).collect();
        image(Reverse::unlinked(6), NodeHeader::new(NodeState::Live, size, 1, 2, 6), b"ab", NUMBER, &children)
    }

    #[test]
    fn find_yields_the_children_and_no_others() {
        let steps = [Step::Byte(200), Step::End, Step::Byte(0), Step::Byte(7)];
        for size in NodeSize::FIXED.into_iter().chain(NodeSize::TYPED) {
            let bytes = node(size, &steps);
            let format = InnerFormat { is_typed: size.is_typed(), ..FORMAT };
            assert_eq!((bytes.len(), RawInner::check(&bytes, &format)), (size.memory_bytes(), Ok(())));
            let inner = Inner::new(&bytes[..]);
            for (at, step) in (0..).zip(steps) {
                let key = match step {
                    Step::End => vec![b'a', b'b'],
                    Step::Byte(byte) => vec![b'a', b'b', byte, 1, 2],
                };
                assert!(inner.covers(&key, NUMBER));
                let SlotSearch::Slot(_, slot) = inner.find(&key) else { panic!("{step:?} has a slot") };
                assert_eq!(slot.child(), leaf(at).child());
            }
            assert!(!inner.covers(b"a", NUMBER) && !inner.covers(b"ac", NUMBER) && !inner.covers(b"ab", 8));
            let other = inner.find(b"ab\x05");
            match size {
                NodeSize::All => assert_eq!(other, SlotSearch::Slot(6, NodeSlot::vacant(5, 6))),
                _ => assert_eq!(other, SlotSearch::Free(4, NodeSlot::free(6))),
            }
            let order: Vec<_> = inner.children().into_iter().map(|(step, _)| step).collect();
            assert_eq!(order, [Step::End, Step::Byte(0), Step::Byte(7), Step::Byte(200)]);
        }
    }

    #[test]
    fn a_typed_node_is_one_node_while_its_type_grows() {
        let steps: Vec<_> = (1..5).map(Step::Byte).collect();
        let bytes = node(NodeSize::Typed4, &steps);
        let inner = Inner::new(&bytes[..]);
        assert_eq!(inner.find(b"ab\x09"), SlotSearch::Free(5, NodeSlot::free(6)));
        assert_eq!((inner.slots().len(), inner.slots_read().len()), (6, 257));
        let steps: Vec<_> = (1..6).map(Step::Byte).collect();
        let mut outgrown = node(NodeSize::Typed4, &steps);
        assert_eq!(Inner::new(&outgrown[..]).find(b"ab\x09"), SlotSearch::Outgrown);
        let closed = NodeSlot::vacant(5, 6).closed();
        outgrown[slot_offset(5) as usize..][..8].copy_from_slice(&closed.word().to_le_bytes());
        assert_eq!(Inner::new(&outgrown[..]).find(b"ab\x09"), SlotSearch::Full);
        let header = inner.header();
        for (number, size) in (1..).zip(NodeSize::TYPED) {
            let grown = header.with_size(size);
            assert_eq!((grown.size(), grown.word() >> TYPE_SHIFT & 0b1111), (size, number));
            assert!(grown.is_of_node(header) && grown.has_type());
            assert!(!grown.is_of_node(header.with_state(NodeState::Dead)));
            assert_eq!(grown.hash(b"ab", NUMBER), header.hash(b"ab", NUMBER));
            let copy = Inner::new(&bytes[..NodeSize::Typed16.bytes()]);
            assert!(!copy.is_short());
        }
        let mut grown = bytes[..NodeSize::Typed8.bytes()].to_vec();
        grown[..8].copy_from_slice(&header.with_size(NodeSize::Typed16).word().to_le_bytes());
        assert!(Inner::new(&grown[..]).is_short());
        let format = InnerFormat { is_typed: true, ..FORMAT };
        assert_eq!(RawInner::check(&grown, &format), Ok(()));
        assert_eq!(RawInner::check(&grown, &FORMAT), Err(Torn));
        grown[1] = 8;
        assert_eq!(RawInner::check(&grown, &format), Err(Torn), "there is no type 8");
    }

    #[test]
    fn a_typed_node_in_unused_memory_ends_with_the_slots_in_use() {
        let header = NodeHeader::new(NodeState::Live, NodeSize::Typed4, 1, 2, 0);
        let bytes = image(Reverse::unlinked(0), header, b"ab", NUMBER, &[(Step::Byte(3), leaf(1))]);
        assert_eq!(bytes.len(), NodeSize::Typed4.bytes());
        assert_eq!(NodeSlot::free(0).word(), 0, "the slots behind are free because they are zero");
    }

    #[test]
    fn a_full_node_has_no_slot_for_another_partial_key() {
        let steps: Vec<_> = (1..5).map(Step::Byte).collect();
        assert_eq!(Inner::new(&node(NodeSize::Four, &steps)[..]).find(b"ab\x09"), SlotSearch::Full);
    }

    #[test]
    fn a_node_of_two_generations_is_torn() {
        let one = node(NodeSize::Sixteen, &[]);
        let header = NodeHeader::new(NodeState::Live, NodeSize::Sixteen, 1, 2, 7);
        let other = image(Reverse::unlinked(7), header, b"ab", NUMBER, &[]);
        let format = FORMAT;
        for split in (8..one.len()).step_by(8) {
            let mixed: Vec<_> = one[..split].iter().chain(&other[split..]).copied().collect();
            assert_eq!(RawInner::check(&mixed, &format), Err(Torn), "split at {split}");
        }
        assert_eq!(RawInner::check(&[0; 72], &format), Err(Torn));
        assert_eq!(RawInner::check(&one, &InnerFormat { number: 1, ..FORMAT }), Err(Torn));
    }

    #[test]
    fn the_hash_depends_on_the_generation_and_not_on_the_state() {
        let header = NodeHeader::new(NodeState::Live, NodeSize::Four, 0, 3, 5);
        let other = NodeHeader::new(NodeState::Live, NodeSize::Four, 0, 3, 6);
        assert_ne!(header.hash(b"abc", 1), other.hash(b"abc", 1));
        assert_eq!(header.hash(b"abc", 1), header.with_state(NodeState::Dead).hash(b"abc", 1));
        let bytes = image(Reverse::unlinked(5), header, b"abc", 1, &[]);
        assert_eq!(Inner::new(&bytes[..]).prefix(1), PrefixHash::of(b"abc"));
    }
}
