//! Leaves: one key and its value, changed in place under a lock at the rear (SMART, "update-in-place leaf nodes").
//!
//! # Map
//!
//! ```text
//! leaf of k key bytes and v value bytes, of one of the 32 size classes of its grain
//! +  0      4    low bits of the index's number      + 4    4   version of the leaf
//! +  8      8    reverse pointer (format/reverse.rs), changed by CAS
//! + 16      8    checksum of k + v + 8 bytes from + 24, salted with the first 8
//! + 24      2    k                                   + 26   1   state: 1 live, 2 removed, 3 moved
//! + 27      1    0: the value; 1: a link to it (memory/overflow.rs)      + 28   4   v
//! + 32      k    key
//! + 32 + k  v    value or link, then zeros
//! last word 8    lock word
//! ```
//!
//! A write-back covers the bytes from the checksum to the lock word at the end, so that one WRITE also releases the
//! lock. The lock word belongs to the memory and outlives the leaves that use it. The checksum covers neither the lock
//! word nor the reverse pointer. But the reverse pointer lies between two words that belong to one leaf only, the
//! version and the checksum that is salted with it, so that the proof that a copy is of one leaf includes the reverse
//! pointer (`tree/fetch.rs`).

pub use super::object::{ENTRY_BYTES_MAX, LEAF_BYTES_MAX, LeafClass, LeafGrain, LeafRef, RawLeaf};

use super::key::KEY_BYTES_MAX;
use super::object::{LEAF_HEADER_BYTES, LOCK_BYTES};
use super::reverse::Reverse;
use crate::memory::overflow::Link;
use farwood_fabric::{Object, Torn, u32_at, u64_at};
use std::ops::{Deref, DerefMut};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const NUMBER: usize = 0;
const VERSION: usize = 4;
/// Offset of the reverse pointer in a leaf, bytes.
pub const REVERSE: u64 = 8;
const CHECKSUM: usize = 16;
const COVERED: usize = 24;
const KEY_BYTES: usize = 24;
const STATE: usize = 26;
const FORM: usize = 27;
const VALUE_BYTES: usize = 28;
const KEY: usize = LEAF_HEADER_BYTES;

/// Bytes at the start of a write-back that contain every change of a leaf's state, except the release of its lock.
///
/// If a WRITE of this length is all or nothing, a leaf of any length changes its state completely or not at all when
/// its writer crashes.
pub const FRONT_BYTES: usize = KEY - CHECKSUM;

/// The byte at [`FORM`] in a leaf that holds a link to an overflow value.
const IS_LINK: u8 = 1;
/// Life state of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafState {
    /// The leaf holds the value of its key.
    Live = 1,
    /// The key was removed. The slot that points to the leaf is about to be emptied.
    Removed = 2,
    /// The value of the key is about to move to another leaf.
    Moved = 3,
}

/// The value in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafValue<'a> {
    /// The bytes of the value, stored in the leaf.
    Inline(&'a [u8]),
    /// A link to the overflow value.
    Overflow(Link),
}

impl LeafValue<'_> {
    /// Bytes in the leaf.
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Inline(value) => value.len(),
            Self::Overflow(_) => Link::BYTES,
        }
    }
}

/// Key and value of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafEntry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value, or a link to it.
    pub value: LeafValue<'a>,
}

impl LeafEntry<'_> {
    /// The smallest class of `grain` that holds the entry; `None` if no class is large enough.
    #[inline]
    pub fn class(&self, grain: LeafGrain) -> Option<LeafClass> {
        LeafClass::for_entry(grain, self.key.len(), self.value.bytes())
    }
}

/// First word of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafId {
    /// Low bits of the index number.
    pub number: u32,
    /// Number of leaves that used this memory.
    pub version: u32,
}

/// Format parameters of leaves.
#[derive(Clone, Copy, Debug)]
pub struct LeafFormat {
    /// Low bits of the index number.
    pub number: u32,
}

impl Object for RawLeaf {
    type Format = LeafFormat;

    #[inline]
    fn check(bytes: &[u8], format: &LeafFormat) -> Result<(), Torn> {
        let leaf = Leaf { bytes };
        let fits = leaf.key_bytes() <= KEY_BYTES_MAX && leaf.end() + LOCK_BYTES <= bytes.len();
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
    u64_at(bytes, at)
}

#[inline]
fn half(bytes: &[u8], at: usize) -> u32 {
    u32_at(bytes, at)
}

/// A leaf in local memory, with all bytes of its class.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<B> {
    bytes: B,
}

impl<B: Deref<Target = [u8]>> Leaf<B> {
    /// Wraps a copy that passed its check.
    #[inline]
    pub fn new(bytes: B) -> Self {
        Self { bytes }
    }

    /// All bytes, with unused ones at the end.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The reverse pointer.
    #[inline]
    pub fn reverse(&self) -> Reverse {
        Reverse::from_word(word(&self.bytes, REVERSE as usize))
    }

    /// The state.
    #[inline]
    pub fn state(&self) -> LeafState {
        match self.bytes[STATE] {
            1 => LeafState::Live,
            2 => LeafState::Removed,
            _ => LeafState::Moved,
        }
    }

    /// Number of leaves that used this memory.
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

    /// The value, or a link to it.
    #[inline]
    pub fn value(&self) -> LeafValue<'_> {
        match self.link() {
            Some(link) => LeafValue::Overflow(link),
            None => LeafValue::Inline(&self.bytes[KEY + self.key_bytes()..self.end()]),
        }
    }

    /// The link to the overflow value, if the leaf has one.
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

    /// Whether the leaf is large enough for `content`.
    pub fn fits(&self, value: &LeafValue<'_>) -> bool {
        KEY + self.key_bytes() + value.bytes() + LOCK_BYTES <= self.bytes.len()
    }

    /// The bytes of a write-back that also releases the lock.
    #[inline]
    pub fn with_lock(&self) -> &[u8] {
        &self.bytes[CHECKSUM..]
    }

    /// Whether a write-back is all or nothing on a fabric where WRITEs of up to `bytes_max` bytes are.
    pub fn survives_writer(&self, bytes_max: usize) -> bool {
        self.with_lock().len() <= bytes_max
    }

    /// The bytes of a write-back that does not touch the lock.
    #[inline]
    pub fn without_lock(&self) -> &[u8] {
        &self.bytes[CHECKSUM..self.bytes.len() - LOCK_BYTES]
    }

    /// The bytes of a write-back of the state alone.
    pub fn front(&self) -> &[u8] {
        &self.bytes[CHECKSUM..CHECKSUM + FRONT_BYTES]
    }

    /// The bytes of the first WRITE of a leaf: everything except the lock word.
    pub fn first_write(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - LOCK_BYTES]
    }
}

impl<B: DerefMut<Target = [u8]>> Leaf<B> {
    /// Replaces the value, which must fit, and clears the lock word in the copy.
    pub fn set_value(&mut self, value: &LeafValue<'_>) {
        match value {
            LeafValue::Inline(value) => self.set_bytes(value, 0),
            LeafValue::Overflow(link) => self.set_bytes(&link.to_bytes(), IS_LINK),
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

    /// Sets the state, and clears the lock word in the copy.
    pub fn set_state(&mut self, state: LeafState) {
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

/// A live leaf of `class` that holds `entry`.
///
/// # Panics
/// If the entry does not fit.
pub fn image(
    class: LeafClass,
    reverse: Reverse,
    LeafId { number, version }: LeafId,
    LeafEntry { key, value }: LeafEntry<'_>,
) -> Leaf<Vec<u8>> {
    debug_assert!(key.len() <= KEY_BYTES_MAX, "keys are checked before they are stored");
    let mut bytes = vec![0; class.bytes()];
    bytes[REVERSE as usize..CHECKSUM].copy_from_slice(&reverse.word().to_le_bytes());
    bytes[NUMBER..NUMBER + 4].copy_from_slice(&number.to_le_bytes());
    bytes[KEY_BYTES..KEY_BYTES + 2].copy_from_slice(&(key.len() as u16).to_le_bytes());
    bytes[STATE] = LeafState::Live as u8;
    bytes[VERSION..VERSION + 4].copy_from_slice(&version.to_le_bytes());
    bytes[KEY..KEY + key.len()].copy_from_slice(key);
    let mut leaf = Leaf { bytes };
    leaf.set_value(&value);
    debug_assert!(RawLeaf::check(&leaf.bytes, &LeafFormat { number }).is_ok(), "readers accept a new leaf");
    leaf
}

impl Leaf<Vec<u8>> {
    /// The bytes of a leaf that was not fetched.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Offset of a write-back in a leaf, bytes.
pub const WRITE_BACK: u64 = CHECKSUM as u64;

const _: () = assert!(VERSION == NUMBER + 4 && REVERSE == 8 && CHECKSUM == REVERSE as usize + 8);
const _: () = assert!(COVERED == CHECKSUM + 8 && COVERED == KEY_BYTES && VALUE_BYTES + 4 == KEY);
const _: () = assert!(KEY_BYTES_MAX + Link::BYTES <= ENTRY_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::{Memory, NodeId, Remote};

    const FORMAT: LeafFormat = LeafFormat { number: 3 };

    fn leaf(key: &[u8], value: &[u8]) -> Leaf<Vec<u8>> {
        let class = LeafClass::for_entry(LeafGrain::Words, key.len(), value.len()).expect("it fits");
        image(
            class,
            Reverse::unlinked(5),
            LeafId { number: 3, version: 5 },
            LeafEntry { key, value: LeafValue::Inline(value) },
        )
    }

    #[test]
    fn key_value_and_state_are_read_back() {
        for (key, value) in [(&b""[..], &b""[..]), (b"k", b"value"), (&[7; 4096], &[9; 4000])] {
            let mut leaf = leaf(key, value);
            assert_eq!(RawLeaf::check(&leaf.bytes, &FORMAT), Ok(()));
            assert_eq!(
                (leaf.key(), leaf.value(), leaf.state(), leaf.version()),
                (key, LeafValue::Inline(value), LeafState::Live, 5)
            );
            assert!(!leaf.reverse().is_linked() && leaf.fits(&LeafValue::Inline(value)));
            leaf.set_state(LeafState::Removed);
            assert_eq!((RawLeaf::check(&leaf.bytes, &FORMAT), leaf.state()), (Ok(()), LeafState::Removed));
        }
        assert_eq!(LeafClass::for_entry(LeafGrain::Words, 8, 8).map(LeafClass::bytes), Some(56));
        assert_eq!(LeafClass::for_entry(LeafGrain::Lines, 8, 64).map(LeafClass::bytes), Some(128));
        for grain in LeafGrain::ALL {
            assert_eq!(LeafClass::for_entry(grain, 4096, ENTRY_BYTES_MAX - 4095), None);
            assert_eq!(
                LeafClass::for_entry(grain, 4096, ENTRY_BYTES_MAX - 4096).map(LeafClass::bytes),
                Some(8192)
            );
        }
        assert!(LeafClass::all(LeafGrain::Lines).all(|class| class.bytes().is_multiple_of(64)));
    }

    #[test]
    fn a_mixture_of_two_values_is_torn() {
        let old = leaf(b"some key", b"a value that is old");
        let mut new = old.clone();
        new.set_value(&LeafValue::Inline(b"another one"));
        for split in (CHECKSUM + 8..old.bytes.len() - 8).step_by(8) {
            for (low, high) in [(&old, &new), (&new, &old)] {
                let mixed: Vec<_> = low.bytes[..split].iter().chain(&high.bytes[split..]).copied().collect();
                // The bytes after a shorter value have no meaning.
                let is = |whole: &Leaf<Vec<u8>>| {
                    let end = KEY + whole.key().len() + whole.value().bytes();
                    mixed[CHECKSUM..end] == whole.bytes[CHECKSUM..end]
                };
                let same = is(&old) || is(&new);
                assert_eq!(RawLeaf::check(&mixed, &FORMAT).is_ok(), same, "split at {split}");
            }
        }
    }

    #[test]
    fn a_mixture_of_two_leaves_at_one_address_is_torn_even_with_the_same_entry() {
        let old = leaf(b"some key", b"a value");
        let class = LeafClass::for_entry(LeafGrain::Words, 8, 7).expect("it fits");
        let entry = LeafEntry { key: b"some key", value: LeafValue::Inline(b"a value") };
        let new = image(class, Reverse::unlinked(6), LeafId { number: 3, version: 6 }, entry);
        for split in [8, 16] {
            for (low, high) in [(&old, &new), (&new, &old)] {
                let mixed: Vec<_> = low.bytes[..split].iter().chain(&high.bytes[split..]).copied().collect();
                assert_eq!(RawLeaf::check(&mixed, &FORMAT), Err(Torn), "split at {split}");
            }
        }
    }

    #[test]
    fn a_link_is_read_back() {
        let at = Remote::new(NodeId(1), Memory::Host, 1 << 20).expect("it is not null");
        let link = Link { at, version: 7, length: 1 << 24, parts: 0 };
        let mut leaf = leaf(b"some key", b"a value that has more bytes than a link has");
        leaf.set_value(&LeafValue::Overflow(link));
        assert_eq!(RawLeaf::check(&leaf.bytes, &FORMAT), Ok(()));
        assert_eq!((leaf.value(), leaf.link()), (LeafValue::Overflow(link), Some(link)));
        leaf.set_value(&LeafValue::Inline(&link.to_bytes()));
        assert_eq!((leaf.value(), leaf.link()), (LeafValue::Inline(&link.to_bytes()), None));
        let mut bad = leaf.clone();
        bad.bytes[FORM] = 2;
        bad.seal();
        assert_eq!(RawLeaf::check(&bad.bytes, &FORMAT), Err(Torn), "no form");
        leaf.set_bytes(b"short", IS_LINK);
        assert_eq!(RawLeaf::check(&leaf.bytes, &FORMAT), Err(Torn), "no link");
    }

    #[test]
    fn invalid_lengths_are_torn() {
        let good = leaf(b"some key", b"value").bytes;
        for (at, value) in [(KEY_BYTES, 255), (VALUE_BYTES + 3, 255), (STATE, 0), (NUMBER, 4), (KEY, 0)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(RawLeaf::check(&bad, &FORMAT), Err(Torn), "byte {at}");
        }
        assert_eq!(RawLeaf::check(&[0; 48], &FORMAT), Err(Torn));
    }
}
