//! Leaves: one key and its value, changed in place under a lock at the rear (SMART, "update-in-place leaf nodes").
//!
//! # Map
//!
//! ```text
//! leaf of k key bytes and v value bytes, in a room of one of 32 sizes of its grain
//! +  0      4    low bits of the index's number      + 4    4   version of the room
//! +  8      8    reverse pointer (radix/reverse.rs), changed by CAS
//! + 16      8    checksum of k + v + 8 bytes from + 24, salted with the first 8
//! + 24      2    k                                   + 26   1   state: 1 live, 2 removed, 3 moved
//! + 27      1    0: the value; 1: a link to it (extent.rs)      + 28   4   v
//! + 32      k    key
//! + 32 + k  v    value or link, then zeros
//! last word 8    lock word
//! ```
//!
//! What a write-back covers begins behind the reverse pointer, and its last word is the lock: the release rides with
//! it. The lock's word belongs to the room and outlives the leaves in it; the checksum does not cover it, and neither
//! the reverse pointer. But that lies between two words that are of one leaf only, the version and the checksum that
//! is salted with it, so that what proves a copy to be one leaf proves it for the reverse pointer as well
//! (`tree/fetch.rs`).

use super::reverse::Reverse;
use crate::memory::overflow::Link;
use farwood_fabric::{Object, Torn};
use std::ops::{Deref, DerefMut};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const NUMBER: usize = 0;
const VERSION: usize = 4;
/// Where the reverse pointer is, bytes into a leaf.
pub const REVERSE: u64 = 8;
const CHECKSUM: usize = 16;
const COVERED: usize = 24;
const KEY_BYTES: usize = 24;
const STATE: usize = 26;
const FORM: usize = 27;
const VALUE_BYTES: usize = 28;
const KEY: usize = 32;
const LOCK_BYTES: usize = 8;

/// Bytes of a write-back in which all lies that marking a leaf changes, but for its lock.
///
/// So a leaf that is marked by who dies meanwhile is marked or is not, however long it is.
pub const FRONT_BYTES: usize = KEY - CHECKSUM;

/// How many sizes of rooms there are of each grain.
pub const CLASSES: usize = 32;
/// Bytes of the rooms, by grain.
const ROOMS: [[usize; CLASSES]; 2] = [
    [
        48, 56, 64, 72, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280,
        1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192,
    ],
    [
        64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768, 832, 896, 960, 1024, 1152, 1280, 1408,
        1536, 1664, 1792, 1920, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192,
    ],
];
/// Bytes of the largest room.
pub const ROOM_BYTES_MAX: usize = ROOMS[0][CLASSES - 1];
/// What [`FORM`] says where a leaf has a link.
const IS_LINK: u8 = 1;
/// Most bytes of a key and a value together that a leaf holds.
pub const ENTRY_BYTES_MAX: usize = ROOM_BYTES_MAX - KEY - LOCK_BYTES;

/// What the sizes of an index's leaves are multiples of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grain {
    /// Words: as much as is needed, within a quarter.
    Words = 0,
    /// Lines of 64 bytes (Sphinx §IV, "LeafLen").
    Lines = 1,
}

impl Grain {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Words, Self::Lines];
}

/// The size of a leaf's room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    grain: Grain,
    number: u8,
}

impl Class {
    /// All sizes of a grain, the smallest first.
    pub fn all(grain: Grain) -> impl Iterator<Item = Self> {
        (0..CLASSES as u8).map(move |number| Self { grain, number })
    }

    /// The smallest room for an entry; `None`: there is none.
    #[inline]
    pub fn of(grain: Grain, entry: &Entry<'_>) -> Option<Self> {
        Self::for_entry(grain, entry.key.len(), entry.content.bytes())
    }

    /// The smallest room for a key and what is with it of so many bytes; `None`: there is none.
    #[inline]
    pub fn for_entry(grain: Grain, key_bytes: usize, value_bytes: usize) -> Option<Self> {
        let bytes = KEY + key_bytes + value_bytes + LOCK_BYTES;
        let at = ROOMS[grain as usize].partition_point(|&room| room < bytes);
        (at < CLASSES).then_some(Self { grain, number: at as u8 })
    }

    /// The size by its number in slots, of which 5 bits count.
    #[inline]
    pub const fn of_number(grain: Grain, number: u8) -> Self {
        Self { grain, number: number & (CLASSES as u8 - 1) }
    }

    /// What the size is a multiple of.
    #[inline]
    pub const fn grain(self) -> Grain {
        self.grain
    }

    /// The number among those of its grain.
    #[inline]
    pub const fn number(self) -> u8 {
        self.number
    }

    /// Bytes of the room.
    #[inline]
    pub const fn bytes(self) -> usize {
        ROOMS[self.grain as usize][self.number as usize]
    }
}

/// What has become of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its key has its value.
    Live = 1,
    /// Its key was removed. Its slot is about to be emptied.
    Removed = 2,
    /// Its key's value is about to be in another leaf.
    Moved = 3,
}

/// What a leaf has for its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The value.
    Here(&'a [u8]),
    /// Where the value is.
    Far(Link),
}

impl Content<'_> {
    /// Bytes that it takes in its leaf.
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Here(value) => value.len(),
            Self::Far(_) => Link::BYTES,
        }
    }
}

/// What a leaf holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value, or where it is.
    pub content: Content<'a>,
}

/// What is needed to interpret a leaf.
#[derive(Clone, Copy, Debug)]
pub struct LeafFormat {
    /// Low bits of the index's number.
    pub number: u32,
}

/// A leaf's bytes, with its room's, by the name under which far memory has them.
#[derive(Debug)]
pub enum RawLeaf {}

impl Object for RawLeaf {
    type Format = LeafFormat;

    #[inline]
    fn check(bytes: &[u8], format: &LeafFormat) -> Result<(), Torn> {
        let leaf = Leaf { bytes };
        let fits = leaf.end() + LOCK_BYTES <= bytes.len();
        let whole = fits
            && half(bytes, NUMBER) == format.number
            && matches!(bytes[STATE], 1..=3)
            && word(bytes, CHECKSUM) == leaf.checksum()
            && (bytes[FORM] == 0 || leaf.link().is_some());
        whole.then_some(()).ok_or(Torn)
    }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[inline]
fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// A leaf in local memory, with its room.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<B> {
    bytes: B,
}

impl<B: Deref<Target = [u8]>> Leaf<B> {
    /// The leaf in a copy that passed its check.
    #[inline]
    pub fn new(bytes: B) -> Self {
        Self { bytes }
    }

    /// All bytes of the room.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the leaf says that it is linked.
    #[inline]
    pub fn reverse(&self) -> Reverse {
        Reverse::from_word(word(&self.bytes, REVERSE as usize))
    }

    /// What has become of it.
    #[inline]
    pub fn state(&self) -> State {
        match self.bytes[STATE] {
            1 => State::Live,
            2 => State::Removed,
            _ => State::Moved,
        }
    }

    /// How many leaves lay in this room.
    pub fn version(&self) -> u32 {
        half(&self.bytes, VERSION)
    }

    #[inline]
    fn key_bytes(&self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[KEY_BYTES], self.bytes[KEY_BYTES + 1]]))
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.bytes[KEY..KEY + self.key_bytes()]
    }

    /// The value, or where it is.
    #[inline]
    pub fn content(&self) -> Content<'_> {
        match self.link() {
            Some(link) => Content::Far(link),
            None => Content::Here(&self.bytes[KEY + self.key_bytes()..self.end()]),
        }
    }

    /// Where the value is that lies out of line.
    #[inline]
    pub fn link(&self) -> Option<Link> {
        let at = KEY + self.key_bytes();
        if self.bytes[FORM] != IS_LINK || self.end() - at != Link::BYTES {
            return None;
        }
        Link::from_bytes(&self.bytes[at..self.end()])
    }

    #[inline]
    fn end(&self) -> usize {
        (KEY + self.key_bytes()).saturating_add(half(&self.bytes, VALUE_BYTES) as usize)
    }

    #[inline]
    fn checksum(&self) -> u64 {
        xxh3_64_with_seed(&self.bytes[COVERED..self.end()], word(&self.bytes, 0))
    }

    /// Whether the room holds this under the leaf's key.
    pub fn has_room(&self, content: &Content<'_>) -> bool {
        KEY + self.key_bytes() + content.bytes() + LOCK_BYTES <= self.bytes.len()
    }

    /// What a write-back covers: everything behind the reverse pointer, with the lock at its end.
    #[inline]
    pub fn with_lock(&self) -> &[u8] {
        &self.bytes[CHECKSUM..]
    }

    /// Whether another value's write-back lands whole or not at all where WRITEs up to so many bytes do.
    pub fn survives_writer(&self, bytes_max: usize) -> bool {
        self.with_lock().len() <= bytes_max
    }

    /// What a write-back covers that leaves the lock alone.
    #[inline]
    pub fn without_lock(&self) -> &[u8] {
        &self.bytes[CHECKSUM..self.bytes.len() - LOCK_BYTES]
    }

    /// What the first WRITE of a leaf covers: everything but the lock.
    pub fn first_write(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - LOCK_BYTES]
    }
}

impl<B: DerefMut<Target = [u8]>> Leaf<B> {
    /// Gives the leaf another value, or link, which its room holds, and frees the lock in the copy.
    pub fn set_content(&mut self, content: &Content<'_>) {
        match content {
            Content::Here(value) => self.set_bytes(value, 0),
            Content::Far(link) => self.set_bytes(&link.to_bytes(), IS_LINK),
        }
    }

    fn set_bytes(&mut self, value: &[u8], form: u8) {
        let at = KEY + self.key_bytes();
        self.bytes[FORM] = form;
        self.bytes[VALUE_BYTES..VALUE_BYTES + 4].copy_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes[at..at + value.len()].copy_from_slice(value);
        self.bytes[at + value.len()..].fill(0);
        self.seal();
    }

    /// Marks the leaf, and frees the lock in the copy.
    pub fn set_state(&mut self, state: State) {
        self.bytes[STATE] = state as u8;
        let lock = self.bytes.len() - LOCK_BYTES;
        self.bytes[lock..].fill(0);
        self.seal();
    }

    fn seal(&mut self) {
        let checksum = self.checksum();
        self.bytes[CHECKSUM..CHECKSUM + 8].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// The leaf of an entry, live, in a room of `class`.
pub fn image(
    class: Class,
    reverse: Reverse,
    (number, version): (u32, u32),
    Entry { key, content }: Entry<'_>,
) -> Leaf<Vec<u8>> {
    let mut bytes = vec![0; class.bytes()];
    bytes[REVERSE as usize..CHECKSUM].copy_from_slice(&reverse.word().to_le_bytes());
    bytes[NUMBER..NUMBER + 4].copy_from_slice(&number.to_le_bytes());
    bytes[KEY_BYTES..KEY_BYTES + 2].copy_from_slice(&(key.len() as u16).to_le_bytes());
    bytes[STATE] = State::Live as u8;
    bytes[VERSION..VERSION + 4].copy_from_slice(&version.to_le_bytes());
    bytes[KEY..KEY + key.len()].copy_from_slice(key);
    let mut leaf = Leaf { bytes };
    leaf.set_content(&content);
    leaf
}

/// Where the part of a leaf lies that a write-back covers, bytes into the leaf.
pub const WRITE_BACK: u64 = CHECKSUM as u64;

const _: () = assert!(VERSION == NUMBER + 4 && REVERSE == 8 && CHECKSUM == REVERSE as usize + 8);
const _: () = assert!(COVERED == CHECKSUM + 8 && COVERED == KEY_BYTES && VALUE_BYTES + 4 == KEY);
const _: () = assert!(super::key::KEY_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(super::key::KEY_BYTES_MAX + Link::BYTES <= ENTRY_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::{Memory, NodeId, Remote};

    const FORMAT: LeafFormat = LeafFormat { number: 3 };

    fn leaf(key: &[u8], value: &[u8]) -> Leaf<Vec<u8>> {
        let class = Class::for_entry(Grain::Words, key.len(), value.len()).expect("it fits");
        image(class, Reverse::unlinked(5), (3, 5), Entry { key, content: Content::Here(value) })
    }

    #[test]
    fn a_leaf_gives_back_what_it_holds() {
        for (key, value) in [(&b""[..], &b""[..]), (b"k", b"value"), (&[7; 4096], &[9; 4000])] {
            let mut leaf = leaf(key, value);
            assert_eq!(RawLeaf::check(&leaf.bytes, &FORMAT), Ok(()));
            assert_eq!(
                (leaf.key(), leaf.content(), leaf.state(), leaf.version()),
                (key, Content::Here(value), State::Live, 5)
            );
            assert!(!leaf.reverse().is_linked() && leaf.has_room(&Content::Here(value)));
            leaf.set_state(State::Removed);
            assert_eq!((RawLeaf::check(&leaf.bytes, &FORMAT), leaf.state()), (Ok(()), State::Removed));
        }
        assert_eq!(Class::for_entry(Grain::Words, 8, 8).map(Class::bytes), Some(56));
        assert_eq!(Class::for_entry(Grain::Lines, 8, 64).map(Class::bytes), Some(128));
        for grain in Grain::ALL {
            assert_eq!(Class::for_entry(grain, 4096, ENTRY_BYTES_MAX - 4095), None);
            assert_eq!(Class::for_entry(grain, 4096, ENTRY_BYTES_MAX - 4096).map(Class::bytes), Some(8192));
        }
        assert!(Class::all(Grain::Lines).all(|class| class.bytes().is_multiple_of(64)));
    }

    #[test]
    fn a_mixture_of_two_values_is_torn() {
        let old = leaf(b"some key", b"a value that is old");
        let mut new = old.clone();
        new.set_content(&Content::Here(b"another one"));
        for split in (CHECKSUM + 8..old.bytes.len() - 8).step_by(8) {
            for (low, high) in [(&old, &new), (&new, &old)] {
                let mixed: Vec<_> = low.bytes[..split].iter().chain(&high.bytes[split..]).copied().collect();
                // What lies behind a shorter value means nothing.
                let is = |whole: &Leaf<Vec<u8>>| {
                    let end = KEY + whole.key().len() + whole.content().bytes();
                    mixed[CHECKSUM..end] == whole.bytes[CHECKSUM..end]
                };
                let same = is(&old) || is(&new);
                assert_eq!(RawLeaf::check(&mixed, &FORMAT).is_ok(), same, "split at {split}");
            }
        }
    }

    #[test]
    fn a_mixture_of_two_leaves_of_a_room_is_torn_even_of_the_same_entry() {
        let old = leaf(b"some key", b"a value");
        let class = Class::for_entry(Grain::Words, 8, 7).expect("it fits");
        let entry = Entry { key: b"some key", content: Content::Here(b"a value") };
        let new = image(class, Reverse::unlinked(6), (3, 6), entry);
        for split in [8, 16] {
            for (low, high) in [(&old, &new), (&new, &old)] {
                let mixed: Vec<_> = low.bytes[..split].iter().chain(&high.bytes[split..]).copied().collect();
                assert_eq!(RawLeaf::check(&mixed, &FORMAT), Err(Torn), "split at {split}");
            }
        }
    }

    #[test]
    fn a_value_may_lie_elsewhere() {
        let at = Remote::new(NodeId(1), Memory::Host, 1 << 20).expect("it is not null");
        let link = Link { at, version: 7, length: 1 << 24 };
        let mut leaf = leaf(b"some key", b"a value that has more bytes than a link has");
        leaf.set_content(&Content::Far(link));
        assert_eq!(RawLeaf::check(&leaf.bytes, &FORMAT), Ok(()));
        assert_eq!((leaf.content(), leaf.link()), (Content::Far(link), Some(link)));
        leaf.set_content(&Content::Here(&link.to_bytes()));
        assert_eq!((leaf.content(), leaf.link()), (Content::Here(&link.to_bytes()), None));
        let mut bad = leaf.clone();
        bad.bytes[FORM] = 2;
        bad.seal();
        assert_eq!(RawLeaf::check(&bad.bytes, &FORMAT), Err(Torn), "no form");
        leaf.set_bytes(b"short", IS_LINK);
        assert_eq!(RawLeaf::check(&leaf.bytes, &FORMAT), Err(Torn), "no link");
    }

    #[test]
    fn lengths_that_cannot_be_are_torn() {
        let good = leaf(b"some key", b"value").bytes;
        for (at, value) in [(KEY_BYTES, 255), (VALUE_BYTES + 3, 255), (STATE, 0), (NUMBER, 4), (KEY, 0)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(RawLeaf::check(&bad, &FORMAT), Err(Torn), "byte {at}");
        }
        assert_eq!(RawLeaf::check(&[0; 48], &FORMAT), Err(Torn));
    }
}
