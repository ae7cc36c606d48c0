//! Inner nodes: a header of 8 bytes, slots of 8 bytes, and what tells which keys they cover.
//!
//! # Map
//!
//! ```text
//! inner node of n = 4, 16, 48 or 256 slots; 72, 168, 424 or 2088 bytes
//! +  0     8    header, changed by CAS
//! +  8     8    reverse pointer (radix/reverse.rs), changed by CAS
//! + 16     8    hash of the bytes that all keys below have in common (radix/prefix.rs), xor the header's salt
//! + 24     8    slot 0: of the key that ends here
//! + 32   8 n    slots; of 256: in the order of their partial keys; else in the order in which they were taken
//! + 32 + 8 n  8 rear: generation 32 | low bits of the index's number 32
//!
//! header
//!  63            32 31       16 15   8 7     4 3  2 1   0
//! +----------------+-----------+------+-------+----+-----+
//! |  generation    |   depth   |   0  | level | n  |state|   state: 1 live, 2 dead
//! +----------------+-----------+------+-------+----+-----+
//! ```
//!
//! The *depth* is how many bytes all keys below have in common, counted from the beginning of the key, and the hash is
//! made over all of them: whoever comes by any pointer, however old, sees whether the node covers a key, and a prefix
//! of any length needs no chain of nodes (path compression). Neither ever changes, not even where a node is put above
//! it.
//!
//! The *generation* counts the nodes that lay in this room. It is in every slot without a child, in front and at the
//! rear, and salts the hash; what holds for copies is in `tree/fetch.rs`. A node's slots are taken strictly one after
//! the other, and keep their partial keys: the first free slot proves that no partial key but those before it has one.

use super::key::{Step, step_at};
use super::prefix::{PrefixHash, mixed};
use super::reverse::Reverse;
use super::slot::Slot;
use farwood_fabric::{Object, Torn};
use std::ops::Deref;

/// Where the header is, bytes into a node.
pub const HEADER: u64 = 0;
/// Where the reverse pointer is, bytes into a node: behind the header, so that what proves a copy to be one node proves
/// it for the reverse pointer as well.
pub const REVERSE: u64 = 8;
/// Where the hash is, bytes into a node.
const HASH: usize = 16;
/// Where slot 0 is, bytes into a node.
const SLOTS: usize = 24;
/// Highest level that a header can say.
pub const LEVEL_MAX: u8 = 15;

/// How many slots a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Size {
    Four,
    Sixteen,
    FortyEight,
    All,
}

impl Size {
    /// All sizes, the smallest first.
    pub const ALL: [Self; 4] = [Self::Four, Self::Sixteen, Self::FortyEight, Self::All];

    /// Slots, without the one of the key that ends at the node.
    pub const fn slots(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Sixteen => 16,
            Self::FortyEight => 48,
            Self::All => 256,
        }
    }

    /// Bytes of a node.
    pub const fn bytes(self) -> usize {
        SLOTS + 8 * (self.slots() + 1) + 8
    }

    /// Keys below a node that is no larger than it has to be, at least.
    pub const fn keys_min(self) -> usize {
        match self {
            Self::Four => 2,
            Self::Sixteen => 1 + Self::Four.slots(),
            Self::FortyEight => 1 + Self::Sixteen.slots(),
            Self::All => 1 + Self::FortyEight.slots(),
        }
    }

    /// The smallest that has room for so many children, besides the key that ends at the node.
    pub fn fitting(children: usize) -> Self {
        Self::ALL.into_iter().find(|size| children <= size.slots()).unwrap_or(Self::All)
    }

    /// The size by its number in slots and headers.
    pub const fn of_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Four),
            1 => Some(Self::Sixteen),
            2 => Some(Self::FortyEight),
            3 => Some(Self::All),
            _ => None,
        }
    }
}

/// What has become of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is the node of its prefix, if it is linked.
    Live = 1,
    /// It was replaced, or is about to be.
    Dead = 2,
}

/// A node's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header(u64);

impl Header {
    /// A header.
    pub const fn new(state: State, size: Size, level: u8, depth: usize, generation: u32) -> Self {
        let level = if level > LEVEL_MAX { LEVEL_MAX } else { level };
        assert!(depth <= u16::MAX as usize, "keys are shorter");
        Self(
            state as u64
                | (size as u64) << 2
                | (level as u64) << 4
                | (depth as u64) << 16
                | (generation as u64) << 32,
        )
    }

    /// The header in a word of far memory.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word for far memory.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The same node in another state.
    #[must_use]
    pub const fn with_state(self, state: State) -> Self {
        Self(self.0 & !0b11 | state as u64)
    }

    /// The state; `None`: no node was ever there.
    #[inline]
    pub const fn state(self) -> Option<State> {
        match self.0 & 0b11 {
            1 => Some(State::Live),
            2 => Some(State::Dead),
            _ => None,
        }
    }

    /// How many slots the node has.
    #[inline]
    pub const fn size(self) -> Size {
        match self.0 >> 2 & 0b11 {
            0 => Size::Four,
            1 => Size::Sixteen,
            2 => Size::FortyEight,
            _ => Size::All,
        }
    }

    /// How many nodes were above it when it was made.
    pub const fn level(self) -> u8 {
        (self.0 >> 4) as u8 & LEVEL_MAX
    }

    /// Bytes that all keys below have in common.
    #[inline]
    pub const fn depth(self) -> usize {
        (self.0 >> 16) as u16 as usize
    }

    /// How many nodes lay in this room.
    #[inline]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The hash of a node with this header whose keys all begin with `prefix`, of an index of that number.
    #[inline]
    pub fn hash(self, prefix: &[u8], number: u32) -> u64 {
        PrefixHash::of(prefix).word() ^ self.salt(number)
    }

    /// What the hash of a node's prefix is told apart by from other nodes' of the same prefix: all of the header but
    /// its state, and the index.
    #[inline]
    pub const fn salt(self, number: u32) -> u64 {
        mixed(self.0 & !0b11 ^ (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

/// What a partial key finds in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its own slot, number and contents; there may be no child.
    Slot(usize, Slot),
    /// No slot of its own, and this is the first free one.
    Free(usize, Slot),
    /// No slot of its own, and none is free.
    Full,
}

/// The slot in which a key goes on so, where a node has one for every byte.
#[inline]
pub fn slot_of_all(step: Step) -> usize {
    match step {
        Step::End => 0,
        Step::Byte(byte) => 1 + usize::from(byte),
    }
}

/// How keys go on from a node through that slot of it, which has a child.
#[inline]
pub fn step_of(number: usize, slot: Slot) -> Step {
    if number == 0 { Step::End } else { Step::Byte(slot.partial()) }
}

/// Looks for a partial key in the slots of a node.
#[inline]
pub fn find(size: Size, step: Step, slot: impl Fn(usize) -> Slot) -> Found {
    let byte = match step {
        Step::End => return Found::Slot(0, slot(0)),
        Step::Byte(_) if size == Size::All => {
            let number = slot_of_all(step);
            return Found::Slot(number, slot(number));
        }
        Step::Byte(byte) => byte,
    };
    for number in 1..=size.slots() {
        let found = slot(number);
        if found.is_free() {
            return Found::Free(number, found);
        }
        if found.partial() == byte {
            return Found::Slot(number, found);
        }
    }
    Found::Full
}

/// What is needed to interpret an inner node.
#[derive(Clone, Copy, Debug)]
pub struct InnerFormat {
    /// Low bits of the index's number.
    pub number: u32,
}

/// An inner node's bytes, by the name under which far memory has them.
#[derive(Debug)]
pub enum RawInner {}

impl Object for RawInner {
    type Format = InnerFormat;

    fn check(bytes: &[u8], format: &InnerFormat) -> Result<(), Torn> {
        let node = Inner { bytes };
        let header = node.header();
        let rear = word_at(bytes, bytes.len() - 8);
        let generation = header.generation();
        let whole = header.state().is_some()
            && header.size().bytes() == bytes.len()
            && rear == u64::from(generation) | u64::from(format.number) << 32
            && node.slots().all(|slot| slot.is_occupied() || slot.generation() == generation);
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
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl<B: Deref<Target = [u8]>> Inner<B> {
    /// The node in a copy that passed its check.
    #[inline]
    pub fn new(bytes: B) -> Self {
        Self { bytes }
    }

    /// Where the node says that it is linked.
    #[inline]
    pub fn reverse(&self) -> Reverse {
        Reverse::from_word(word_at(&self.bytes, REVERSE as usize))
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> Header {
        Header(word_at(&self.bytes, HEADER as usize))
    }

    /// The hash of what all keys below have in common.
    #[inline]
    pub fn hash(&self) -> u64 {
        word_at(&self.bytes, HASH)
    }

    /// The hash of what all keys below have in common alone.
    #[inline]
    pub fn prefix(&self, number: u32) -> PrefixHash {
        PrefixHash::from_word(self.hash() ^ self.header().salt(number))
    }

    /// Slot number `number`; 0 is that of the key that ends here.
    #[inline]
    pub fn slot(&self, number: usize) -> Slot {
        Slot::from_word(word_at(&self.bytes, SLOTS + 8 * number))
    }

    /// All slots.
    pub fn slots(&self) -> impl DoubleEndedIterator<Item = Slot> + ExactSizeIterator {
        let slots = &self.bytes[SLOTS..SLOTS + 8 * (self.header().size().slots() + 1)];
        slots.chunks_exact(8).map(|slot| Slot::from_word(word_at(slot, 0)))
    }

    /// Whether a key may be below this node: it begins as all keys below do.
    #[inline]
    pub fn covers(&self, key: &[u8], number: u32) -> bool {
        covers(self.header(), self.hash(), key, number)
    }

    /// Looks for how `key` goes on.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Found {
        let header = self.header();
        find(header.size(), step_at(key, header.depth()), |number| self.slot(number))
    }

    /// The children, in the order of their keys.
    pub fn children(&self) -> Vec<(Step, Slot)> {
        let slots = self.slots().enumerate().filter(|(_, slot)| slot.is_occupied());
        let mut children: Vec<_> = slots.map(|(number, slot)| (step_of(number, slot), slot)).collect();
        children.sort_unstable_by_key(|(step, _)| *step);
        children
    }
}

/// Whether a node of that header and hash may have `key` below it.
#[inline]
pub fn covers(header: Header, hash: u64, key: &[u8], number: u32) -> bool {
    key.get(..header.depth()).is_some_and(|prefix| header.hash(prefix, number) == hash)
}

/// The bytes of a node whose keys all begin with `prefix`, and that has those children.
///
/// # Panics
/// Where the children do not fit.
pub fn image(
    (reverse, header): (Reverse, Header),
    prefix: &[u8],
    number: u32,
    children: &[(Step, Slot)],
) -> Vec<u8> {
    let (size, generation) = (header.size(), header.generation());
    let mut bytes = Vec::with_capacity(size.bytes());
    let mut slots = vec![Slot::free(generation); size.slots() + 1];
    slots[0] = Slot::vacant(0, generation);
    if size == Size::All {
        (0..=u8::MAX).for_each(|byte| slots[1 + usize::from(byte)] = Slot::vacant(byte, generation));
    }
    let mut next = 1;
    for &(step, child) in children {
        let at = match step {
            Step::End => 0,
            Step::Byte(byte) if size == Size::All => 1 + usize::from(byte),
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
    bytes.extend_from_slice(&(u64::from(generation) | u64::from(number) << 32).to_le_bytes());
    bytes
}

/// Where slot `number` lies, bytes into its node.
#[inline]
pub const fn slot_offset(number: usize) -> u64 {
    (SLOTS + 8 * number) as u64
}

const _: () = assert!(Size::Four.bytes() == 72 && Size::All.bytes() == 2088);
const _: () = assert!(super::key::KEY_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(HASH + 8 == SLOTS && HEADER == 0 && REVERSE as usize + 8 == HASH);

#[cfg(test)]
mod tests {
    use super::super::leaf::{Class, Grain, RawLeaf};
    use super::*;
    use farwood_fabric::{Memory, NodeId, Remote};

    const NUMBER: u32 = 9;

    fn leaf(at: u64) -> Slot {
        let leaf = Remote::<RawLeaf>::new(NodeId(1), Memory::Host, 4096 + 64 * at).expect("it is not null");
        Slot::leaf(0, leaf, Class::for_entry(Grain::Words, 8, 8).expect("it fits"))
    }

    fn node(size: Size, steps: &[Step]) -> Vec<u8> {
        let children: Vec<_> = (0..).zip(steps).map(|(at, &step)| (step, leaf(at))).collect();
        image((Reverse::unlinked(6), Header::new(State::Live, size, 1, 2, 6)), b"ab", NUMBER, &children)
    }

    #[test]
    fn a_node_finds_its_children_and_only_those() {
        let steps = [Step::Byte(200), Step::End, Step::Byte(0), Step::Byte(7)];
        for size in Size::ALL {
            let bytes = node(size, &steps);
            assert_eq!(
                (bytes.len(), RawInner::check(&bytes, &InnerFormat { number: NUMBER })),
                (size.bytes(), Ok(()))
            );
            let inner = Inner::new(&bytes[..]);
            for (at, step) in (0..).zip(steps) {
                let key = match step {
                    Step::End => vec![b'a', b'b'],
                    Step::Byte(byte) => vec![b'a', b'b', byte, 1, 2],
                };
                assert!(inner.covers(&key, NUMBER));
                let Found::Slot(_, slot) = inner.find(&key) else { panic!("{step:?} has a slot") };
                assert_eq!(slot.child(), leaf(at).child());
            }
            assert!(!inner.covers(b"a", NUMBER) && !inner.covers(b"ac", NUMBER) && !inner.covers(b"ab", 8));
            let other = inner.find(b"ab\x05");
            match size {
                Size::All => assert_eq!(other, Found::Slot(6, Slot::vacant(5, 6))),
                _ => assert_eq!(other, Found::Free(4, Slot::free(6))),
            }
            let order: Vec<_> = inner.children().into_iter().map(|(step, _)| step).collect();
            assert_eq!(order, [Step::End, Step::Byte(0), Step::Byte(7), Step::Byte(200)]);
        }
    }

    #[test]
    fn a_full_node_says_so() {
        let steps: Vec<_> = (1..5).map(Step::Byte).collect();
        assert_eq!(Inner::new(&node(Size::Four, &steps)[..]).find(b"ab\x09"), Found::Full);
    }

    #[test]
    fn a_node_of_two_generations_is_torn() {
        let one = node(Size::Sixteen, &[]);
        let header = Header::new(State::Live, Size::Sixteen, 1, 2, 7);
        let other = image((Reverse::unlinked(7), header), b"ab", NUMBER, &[]);
        let format = InnerFormat { number: NUMBER };
        for split in (8..one.len()).step_by(8) {
            let mixed: Vec<_> = one[..split].iter().chain(&other[split..]).copied().collect();
            assert_eq!(RawInner::check(&mixed, &format), Err(Torn), "split at {split}");
        }
        assert_eq!(RawInner::check(&[0; 72], &format), Err(Torn));
        assert_eq!(RawInner::check(&one, &InnerFormat { number: 1 }), Err(Torn));
    }

    #[test]
    fn the_hash_tells_generations_apart_and_states_not() {
        let header = Header::new(State::Live, Size::Four, 0, 3, 5);
        let other = Header::new(State::Live, Size::Four, 0, 3, 6);
        assert_ne!(header.hash(b"abc", 1), other.hash(b"abc", 1));
        assert_eq!(header.hash(b"abc", 1), header.with_state(State::Dead).hash(b"abc", 1));
        let bytes = image((Reverse::unlinked(5), header), b"abc", 1, &[]);
        assert_eq!(Inner::new(&bytes[..]).prefix(1), PrefixHash::of(b"abc"));
    }
}
