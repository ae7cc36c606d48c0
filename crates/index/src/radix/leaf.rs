//! Leaves: one key and its value, changed in place under a lock at the rear (SMART, "update-in-place leaf nodes").
//!
//! # Map
//!
//! ```text
//! leaf of k key bytes and v value bytes, in a room of one of 32 sizes
//! +  0      8    reverse pointer (radix/reverse.rs), changed by CAS
//! +  8      8    checksum of k + v + 16 bytes from + 16
//! + 16      4    low bits of the index's number      + 20   2   k
//! + 22      1    state: 1 live, 2 removed, 3 moved   + 23   1   0
//! + 24      4    version of the room                 + 28   4   v
//! + 32      k    key
//! + 32 + k  v    value, then zeros
//! last word 8    lock word
//!
//! ```
//!
//! What one WRITE covers begins behind the reverse pointer, and its last word is the lock: the release rides with the
//! write-back. The lock's word belongs to the room and outlives the leaves in it; the checksum does not cover it, and
//! neither the reverse pointer.

use super::reverse::Reverse;
use farwood_fabric::{Object, Torn};
use std::ops::{Deref, DerefMut, Range};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const CHECKSUM: usize = 8;
const COVERED: usize = 16;
const NUMBER: usize = 16;
const KEY_BYTES: usize = 20;
const STATE: usize = 22;
const VERSION: usize = 24;
const VALUE_BYTES: usize = 28;
const KEY: usize = 32;
const LOCK_BYTES: usize = 8;

/// How many sizes of rooms there are.
pub const CLASSES: usize = 32;
/// Bytes of the rooms.
const ROOMS: [usize; CLASSES] = [
    48, 56, 64, 72, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280,
    1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192,
];
/// Most bytes of a key and a value together that a leaf holds.
pub const ENTRY_BYTES_MAX: usize = ROOMS[CLASSES - 1] - KEY - LOCK_BYTES;

/// The size of a leaf's room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(u8);

impl Class {
    /// All sizes, the smallest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CLASSES as u8).map(Self)
    }

    /// The smallest room for such an entry; `None`: there is none.
    #[inline]
    pub fn for_entry(key_bytes: usize, value_bytes: usize) -> Option<Self> {
        let bytes = KEY + key_bytes + value_bytes + LOCK_BYTES;
        let at = ROOMS.partition_point(|&room| room < bytes);
        (at < CLASSES).then_some(Self(at as u8))
    }

    /// The size by its number in slots, of which 5 bits count.
    #[inline]
    pub const fn of_number(number: u8) -> Self {
        Self(number & (CLASSES as u8 - 1))
    }

    /// The number.
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Bytes of the room.
    #[inline]
    pub const fn bytes(self) -> usize {
        ROOMS[self.0 as usize]
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
            && word(bytes, CHECKSUM) == leaf.checksum();
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
        Reverse::from_word(word(&self.bytes, 0))
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

    /// Where the value is, bytes into the leaf.
    #[inline]
    pub fn value_range(&self) -> Range<usize> {
        KEY + self.key_bytes()..self.end()
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        &self.bytes[self.value_range()]
    }

    #[inline]
    fn end(&self) -> usize {
        (KEY + self.key_bytes()).saturating_add(half(&self.bytes, VALUE_BYTES) as usize)
    }

    #[inline]
    fn checksum(&self) -> u64 {
        xxh3_64_with_seed(&self.bytes[COVERED..self.end()], 0)
    }

    /// Whether the room holds a value of so many bytes under this key.
    pub fn has_room(&self, value_bytes: usize) -> bool {
        KEY + self.key_bytes() + value_bytes + LOCK_BYTES <= self.bytes.len()
    }

    /// What a write-back covers: everything behind the reverse pointer, with the lock at its end.
    #[inline]
    pub fn with_lock(&self) -> &[u8] {
        &self.bytes[CHECKSUM..]
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
    /// Gives the leaf another value, which its room holds, and frees the lock in the copy.
    pub fn set_value(&mut self, value: &[u8]) {
        let at = KEY + self.key_bytes();
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

/// The leaf of `key` and `value`, live, in a room of `class`.
pub fn image(
    class: Class,
    reverse: Reverse,
    (number, version): (u32, u32),
    (key, value): (&[u8], &[u8]),
) -> Leaf<Vec<u8>> {
    let mut bytes = vec![0; class.bytes()];
    bytes[..8].copy_from_slice(&reverse.word().to_le_bytes());
    bytes[NUMBER..NUMBER + 4].copy_from_slice(&number.to_le_bytes());
    bytes[KEY_BYTES..KEY_BYTES + 2].copy_from_slice(&(key.len() as u16).to_le_bytes());
    bytes[STATE] = State::Live as u8;
    bytes[VERSION..VERSION + 4].copy_from_slice(&version.to_le_bytes());
    bytes[KEY..KEY + key.len()].copy_from_slice(key);
    let mut leaf = Leaf { bytes };
    leaf.set_value(value);
    leaf
}

/// Where the part of a leaf lies that a write-back covers, bytes into the leaf.
pub const WRITE_BACK: u64 = CHECKSUM as u64;

const _: () = assert!(NUMBER == COVERED && COVERED == CHECKSUM + 8);
const _: () = assert!(VALUE_BYTES + 4 == KEY && VERSION + 4 == VALUE_BYTES);
const _: () = assert!(super::key::KEY_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(super::key::KEY_BYTES_MAX < ENTRY_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: LeafFormat = LeafFormat { number: 3 };

    fn leaf(key: &[u8], value: &[u8]) -> Leaf<Vec<u8>> {
        let class = Class::for_entry(key.len(), value.len()).expect("it fits");
        image(class, Reverse::unlinked(5), (3, 5), (key, value))
    }

    #[test]
    fn a_leaf_gives_back_what_it_holds() {
        for (key, value) in [(&b""[..], &b""[..]), (b"k", b"value"), (&[7; 4096], &[9; 4000])] {
            let mut leaf = leaf(key, value);
            assert_eq!(RawLeaf::check(&leaf.bytes, &FORMAT), Ok(()));
            assert_eq!(
                (leaf.key(), leaf.value(), leaf.state(), leaf.version()),
                (key, value, State::Live, 5)
            );
            assert!(!leaf.reverse().is_linked() && leaf.has_room(value.len()));
            leaf.set_state(State::Removed);
            assert_eq!((RawLeaf::check(&leaf.bytes, &FORMAT), leaf.state()), (Ok(()), State::Removed));
        }
        assert_eq!(Class::for_entry(8, 8).map(Class::bytes), Some(56));
        assert_eq!(Class::for_entry(4096, ENTRY_BYTES_MAX - 4095), None);
    }

    #[test]
    fn a_mixture_of_two_values_is_torn() {
        let old = leaf(b"some key", b"a value that is old");
        let mut new = old.clone();
        new.set_value(b"another one");
        for split in (16..old.bytes.len() - 8).step_by(8) {
            for (low, high) in [(&old, &new), (&new, &old)] {
                let mixed: Vec<_> = low.bytes[..split].iter().chain(&high.bytes[split..]).copied().collect();
                // What lies behind a shorter value means nothing.
                let is = |whole: &Leaf<Vec<u8>>| {
                    let end = KEY + whole.key().len() + whole.value().len();
                    mixed[CHECKSUM..end] == whole.bytes[CHECKSUM..end]
                };
                let same = is(&old) || is(&new);
                assert_eq!(RawLeaf::check(&mixed, &FORMAT).is_ok(), same, "split at {split}");
            }
        }
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
