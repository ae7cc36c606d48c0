//! Format of the inner-node hash table (Sphinx §III-A, Figure 3; RACE hashing, ATC'21): entries, buckets, subtables,
//! directories. All functions are pure.
//!
//! # Map
//!
//! ```text
//! after the root node: one word for each memory node, which points to its directory
//!  63      56 55    48 47                                               0
//! +----------+--------+--------------------------------------------------+
//! |  depth   |    0   |       packed pointer to the directory            |
//! +----------+--------+--------------------------------------------------+
//!
//! directory of depth g: 2^g words; the highest g bits of a hash are the number of its word
//!  63      56 55    48 47                                               0
//! +----------+--------+--------------------------------------------------+
//! | depth d  |    0   |       packed pointer to the subtable             |   2^(g-d) consecutive words are equal
//! +----------+--------+--------------------------------------------------+
//!
//! subtable: groups of three buckets of 64 bytes
//! +--------+----------+--------+--------+----------+--------+--
//! | main 0 | overflow | main 1 | main 2 | overflow | main 3 | ..     READ of a main bucket: with its overflow
//! +--------+----------+--------+--------+----------+--------+--
//!
//! bucket: header, then 7 entries
//!  63              40 39                      16 15       9   8    7    0
//! +------------------+--------------------------+-----------+---+-------+
//! | index's number   |  highest d bits of all   |  0x5A >> 1| M | depth |   M: the subtable is being split
//! |       24         |     hashes in it, 24     |           |   |   d   |
//! +------------------+--------------------------+-----------+---+-------+
//!
//! entry; 0: none
//!  63     62 61  60 59        48 47                                     0
//! +---------+------+------------+----------------------------------------+
//! | gen. 2  | size | fingerpr. 12 |    packed pointer to the inner node    |   the paper's fp2, type, address
//! +---------+------+------------+----------------------------------------+
//! ```
//!
//! The hash of a prefix determines its fingerprint, two main buckets and a word of the directory. An entry is a hint:
//! the node that it leads to identifies its own prefix. Entries carry the low bits of the node's generation only so
//! that the entries of two consecutive nodes at one address differ.

use crate::radix::inner::{InnerRef, NodeHeader, NodeSize, RawInner};
use crate::radix::prefix::{PrefixHash, mixed};
use crate::radix::tree::NodeHandle;
use farwood_fabric::{Checked, NodeId, Object, Packed, Remote, Torn, u64_at};

/// Bytes of a bucket: a header and seven entries.
pub const BUCKET_BYTES: usize = 64;
/// Bytes of a main bucket with its overflow bucket.
pub const PAIR_BYTES: usize = 2 * BUCKET_BYTES;
/// Bytes of a group.
pub const GROUP_BYTES: usize = 3 * BUCKET_BYTES;
/// Words of a bucket.
pub const BUCKET_WORDS: usize = BUCKET_BYTES / 8;
/// Greatest depth of a directory. Its words then fill a chunk.
pub const DEPTH_MAX: u8 = 20;
/// Maximum groups of a subtable, as a power of two. A subtable then fills a twentieth of a chunk.
pub const GROUPS_LOG2_MAX: u8 = 11;

const FINGERPRINT_BITS: u32 = 12;
const FINGERPRINT_SHIFT: u32 = 48;
const SIZE_SHIFT: u32 = 60;
const GENERATION_SHIFT: u32 = 62;
const DEPTH_SHIFT: u32 = 56;
const MAGIC: u64 = 0x5A << 8;
const MAGIC_MASK: u64 = 0xFE << 8;
const MOVING: u64 = 1 << 8;

/// Position of the entry of a prefix: the memory node, and the hash that determines subtable and buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TablePosition {
    /// The memory node that stores the subtable.
    pub home: NodeId,
    hash: u64,
}

/// A constant that is combined with the hash from which tables take bits, so that these differ from the bits that the
/// filter and the choice of the memory node use.
const TABLE: u64 = 0xA076_1D64_78BD_642F;

impl TablePosition {
    /// The position of the entry of a prefix in a pool of `nodes` memory nodes.
    #[inline]
    pub fn of(prefix: PrefixHash, nodes: u16) -> Self {
        Self { home: NodeId(prefix.jump_bucket(nodes)), hash: mixed(prefix.word() ^ TABLE) }
    }

    /// Returns this position with one of two fingerprints, for tests of collisions.
    #[must_use]
    pub const fn narrowed(self) -> Self {
        Self { hash: self.hash & !((1 << FINGERPRINT_BITS) - 2), ..self }
    }

    /// The highest `depth` bits of the hash.
    #[inline]
    pub const fn upper(self, depth: u8) -> u64 {
        if depth == 0 { 0 } else { self.hash >> (u64::BITS - depth as u32) }
    }

    /// The fingerprint, 12 bits.
    #[inline]
    pub const fn fingerprint(self) -> u16 {
        (self.hash & ((1 << FINGERPRINT_BITS) - 1)) as u16
    }

    /// Numbers of the two main buckets, which differ, among 2^(groups + 1).
    #[inline]
    pub const fn buckets(self, groups_log2: u8) -> [u64; 2] {
        let mask = (2 << groups_log2) - 1;
        let (one, other) = (self.hash >> FINGERPRINT_BITS & mask, self.hash >> (2 * FINGERPRINT_BITS) & mask);
        [one, if other == one { other ^ 1 } else { other }]
    }

    /// Offsets of the two main buckets with their overflow buckets in a subtable, bytes.
    #[inline]
    pub fn pairs(self, groups_log2: u8) -> [u64; 2] {
        self.buckets(groups_log2)
            .map(|bucket| (bucket / 2) * GROUP_BYTES as u64 + (bucket % 2) * BUCKET_BYTES as u64)
    }

    /// Whether word `word` of a subtable may hold an entry of this position.
    pub fn reaches(self, groups_log2: u8, word: usize) -> bool {
        let at = 8 * word as u64;
        self.pairs(groups_log2).into_iter().any(|pair| (pair..pair + PAIR_BYTES as u64).contains(&at))
    }
}

/// Bytes of a subtable.
pub const fn subtable_bytes(groups_log2: u8) -> usize {
    GROUP_BYTES << groups_log2
}

/// One entry, as a word of remote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableEntry(u64);

impl TableEntry {
    /// The entry of `handle` at its position.
    #[inline]
    pub fn new(position: TablePosition, handle: &NodeHandle) -> Self {
        Self(
            u64::from(handle.generation & 3) << GENERATION_SHIFT
                | (handle.node.size as u64) << SIZE_SHIFT
                | u64::from(position.fingerprint()) << FINGERPRINT_SHIFT
                | Packed::pack(handle.node.at).bits(),
        )
    }

    /// The entry that a word of remote memory holds; `None` if there is none.
    #[inline]
    pub const fn from_word(word: u64) -> Option<Self> {
        if word == 0 { None } else { Some(Self(word)) }
    }

    /// The word for remote memory.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The fingerprint.
    #[inline]
    pub const fn fingerprint(self) -> u16 {
        (self.0 >> FINGERPRINT_SHIFT) as u16 & ((1 << FINGERPRINT_BITS) - 1)
    }

    /// Whether this may be the entry of a node with `header`.
    #[inline]
    pub fn is_of(self, header: NodeHeader) -> bool {
        let sized = self.node().is_some_and(|node| header.size() == node.size);
        sized && self.0 >> GENERATION_SHIFT == u64::from(header.generation() & 3)
    }

    /// The node that the entry leads to; `None` if the word is damaged.
    #[inline]
    pub fn node(self) -> Option<InnerRef> {
        let at = Packed::unpack(self.0)?;
        Some(InnerRef { at, size: NodeSize::of_number((self.0 >> SIZE_SHIFT) as u8 & 3)? })
    }
}

/// Header of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketHeader(u64);

impl BucketHeader {
    /// The header of all buckets of a subtable of `depth`, for hashes whose highest bits are `upper`.
    pub const fn new(number: u32, depth: u8, upper: u64) -> Self {
        Self((number as u64) << 40 | upper << 16 | MAGIC | depth as u64)
    }

    /// The header while the subtable is being split.
    #[must_use]
    pub const fn moving(self) -> Self {
        Self(self.0 | MOVING)
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

    /// Whether this is a header of the index with number `number`.
    #[inline]
    pub const fn is_of(self, number: u32) -> bool {
        self.0 & MAGIC_MASK == MAGIC && self.0 >> 40 == number as u64 & 0xFF_FFFF
    }

    /// Number of bits that all hashes in the subtable share.
    #[inline]
    pub const fn depth(self) -> u8 {
        self.0 as u8
    }

    /// Whether the subtable is being split, or its split was interrupted.
    #[inline]
    pub const fn is_moving(self) -> bool {
        self.0 & MOVING != 0
    }

    /// Whether a subtable with the header `listed` can have this header during a split: its hashes share at most one
    /// bit more or less.
    pub const fn is_of_split(self, listed: Self) -> bool {
        let (depth, other) = (self.depth(), listed.depth());
        let (upper, other_upper) = (self.0 >> 16 & 0xFF_FFFF, listed.0 >> 16 & 0xFF_FFFF);
        if depth >= other {
            depth - other <= 1 && upper >> (depth - other) == other_upper
        } else {
            other - depth == 1 && upper == other_upper >> 1
        }
    }

    /// Whether the entry of a position belongs in the subtable.
    #[inline]
    pub const fn covers(self, position: TablePosition) -> bool {
        position.upper(self.depth()) == self.0 >> 16 & 0xFF_FFFF
    }
}

/// A pointer with a depth: a word of a directory, which points to a subtable, or the word that points to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthPointer<T> {
    /// Number of bits of a hash that are used.
    pub depth: u8,
    /// Address.
    pub at: Remote<T>,
}

impl<T> DepthPointer<T> {
    /// The pointer that a word of remote memory holds; `None` if it is damaged.
    #[inline]
    pub fn from_word(word: u64) -> Option<Self> {
        let depth = (word >> DEPTH_SHIFT) as u8;
        let at = Packed::unpack(word)?;
        (depth <= DEPTH_MAX).then_some(Self { depth, at })
    }

    /// The word for remote memory.
    pub fn word(self) -> u64 {
        u64::from(self.depth) << DEPTH_SHIFT | Packed::pack(self.at).bits()
    }
}

/// Type of a subtable in remote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawSubtable {}

/// Type of a directory in remote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawDirectory {}

/// Type of whole buckets of a subtable in remote memory. Each word changes separately; the headers identify the
/// subtable.
#[derive(Debug)]
pub enum RawBuckets {}

impl Object for RawBuckets {
    type Format = u32;

    #[inline]
    fn check(bytes: &[u8], number: &u32) -> Result<(), Torn> {
        let whole = (0..bytes.len() / BUCKET_BYTES)
            .all(|bucket| BucketHeader::from_word(word(bytes, bucket * BUCKET_WORDS)).is_of(*number));
        whole.then_some(()).ok_or(Torn)
    }
}

/// Word `number` of a copy.
#[inline]
pub fn word(bytes: &[u8], number: usize) -> u64 {
    u64_at(bytes, 8 * number)
}

/// Whether word `number` of a subtable is the header of a bucket.
#[inline]
pub const fn is_header(number: usize) -> bool {
    number.is_multiple_of(BUCKET_WORDS)
}

/// The bytes of a subtable without entries.
pub fn empty_subtable(groups_log2: u8, header: BucketHeader) -> Vec<u8> {
    let words = subtable_bytes(groups_log2) / 8;
    (0..words).flat_map(|number| if is_header(number) { header.word() } else { 0 }.to_le_bytes()).collect()
}

/// Copies of the two main buckets of a position, each with its overflow bucket.
#[derive(Debug)]
pub struct BucketPairs {
    /// Addresses of the pairs.
    at: [Remote<RawBuckets>; 2],
    copies: [Checked<RawBuckets>; 2],
}

impl BucketPairs {
    /// The copies that were read at `at`.
    pub fn new(at: [Remote<RawBuckets>; 2], copies: [Checked<RawBuckets>; 2]) -> Self {
        Self { at, copies }
    }

    /// The headers.
    pub fn headers(&self) -> impl Iterator<Item = BucketHeader> {
        let headers = |copy: &Checked<RawBuckets>| [word(copy, 0), word(copy, BUCKET_WORDS)];
        self.copies.iter().flat_map(headers).map(BucketHeader::from_word)
    }

    /// Addresses and contents of the words that can hold entries and of which `holds` is true. The words of a shared
    /// overflow bucket are included once.
    #[inline]
    fn words_where(&self, holds: impl Fn(u64) -> bool + Copy) -> impl Iterator<Item = (Remote<u64>, u64)> {
        let end = self.at[0].word() + PAIR_BYTES as u64;
        let shared = self.at[0].word()..end;
        let of = move |pair: usize| {
            let (at, copy) = (self.at[pair], &*self.copies[pair]);
            let slots = (0..PAIR_BYTES / 8).filter(|&number| !is_header(number));
            let words =
                slots.map(|number| (number, word(copy, number))).filter(move |(_, word)| holds(*word));
            words.map(move |(number, word)| (at.part::<u64>(8 * number as u64), word))
        };
        of(0).chain(of(1).filter(move |(at, _)| !shared.contains(&at.word())))
    }

    /// The entries with `fingerprint`, and their addresses.
    pub fn candidates(&self, fingerprint: u16) -> impl Iterator<Item = (Remote<u64>, TableEntry)> {
        let is_candidate =
            move |word| TableEntry::from_word(word).is_some_and(|entry| entry.fingerprint() == fingerprint);
        self.words_where(is_candidate).filter_map(|(at, word)| Some((at, TableEntry::from_word(word)?)))
    }

    /// Addresses of the copies of `entry`, in the order that all clients agree on.
    pub fn addresses_of(&self, entry: TableEntry) -> Vec<Remote<u64>> {
        let found = self.words_where(move |word| word == entry.word());
        let mut addresses: Vec<_> = found.map(|(at, _)| at).collect();
        addresses.sort_unstable_by_key(|at| at.word());
        addresses
    }

    /// Number of free words.
    pub fn free_words(&self) -> usize {
        self.words_where(|word| word == 0).count()
    }

    /// Address of a free word in the emptier of the two pairs.
    pub fn free(&self) -> Option<Remote<u64>> {
        let free = |pair: usize| {
            let slots = (0..PAIR_BYTES / 8).filter(|&number| !is_header(number));
            slots.filter(move |&number| word(&self.copies[pair], number) == 0)
        };
        let counts = [free(0).count(), free(1).count()];
        let pair = usize::from(counts[1] > counts[0]);
        let number = free(pair).next()?;
        Some(self.at[pair].part(8 * number as u64))
    }
}

const _: () = assert!(
    Packed::<RawInner>::BITS == FINGERPRINT_SHIFT && FINGERPRINT_SHIFT + FINGERPRINT_BITS == SIZE_SHIFT
);
const _: () = assert!(DEPTH_MAX as u32 + 3 * FINGERPRINT_BITS <= u64::BITS && DEPTH_MAX <= 24);
const _: () = assert!((GROUPS_LOG2_MAX as u32) < FINGERPRINT_BITS);

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::Memory;
    use proptest::prelude::*;

    fn handle(number: u64, generation: u32) -> NodeHandle {
        let at = Remote::new(NodeId(3), Memory::Host, 4096 + 8 * number).expect("it is not null");
        let node = InnerRef { at, size: NodeSize::Sixteen };
        NodeHandle { prefix: PrefixHash::of(&number.to_be_bytes()), depth: 8, node, generation }
    }

    proptest! {
        #[test]
        fn an_entry_round_trips_through_its_word(number in 0_u64..1 << 40, generation: u32) {
            let handle = handle(number, generation);
            let position = TablePosition::of(handle.prefix, 5);
            let entry = TableEntry::from_word(TableEntry::new(position, &handle).word()).expect("it is one");
            prop_assert_eq!((entry.fingerprint(), entry.node()), (position.fingerprint(), Some(handle.node)));
            let next = NodeHandle { generation: generation.wrapping_add(1), ..handle };
            prop_assert!(entry != TableEntry::new(position, &next));
        }

        #[test]
        fn a_position_has_two_buckets_of_a_subtable(number: u64, groups_log2 in 0..=GROUPS_LOG2_MAX) {
            let position = TablePosition::of(PrefixHash::from_word(number), 3);
            let [one, other] = position.buckets(groups_log2);
            prop_assert!(one != other && one.max(other) < 2 << groups_log2);
            let words = subtable_bytes(groups_log2) / 8;
            let reached = (0..words).filter(|&word| position.reaches(groups_log2, word)).count();
            prop_assert_eq!(reached, if one / 2 == other / 2 { 24 } else { 32 });
        }

        #[test]
        fn each_header_covers_half_of_the_positions_of_the_depth_above(number: u64, depth in 0..DEPTH_MAX) {
            let position = TablePosition::of(PrefixHash::from_word(number), 3);
            let upper = position.upper(depth);
            prop_assert!(BucketHeader::new(9, depth, upper).covers(position));
            let half = |bit| BucketHeader::new(9, depth + 1, upper << 1 | bit).covers(position);
            prop_assert!(half(0) != half(1));
            let listed = BucketHeader::new(9, depth, upper);
            let halves = [0, 1].map(|bit| BucketHeader::new(9, depth + 1, upper << 1 | bit));
            prop_assert!(halves.iter().all(|half| half.is_of_split(listed) && listed.is_of_split(*half)));
            prop_assert!(listed.moving().is_of_split(listed));
            let other = BucketHeader::new(9, depth, upper ^ 1);
            prop_assert!(depth == 0 || !other.is_of_split(listed));
            prop_assert!(!BucketHeader::new(9, depth + 2, upper << 2).is_of_split(listed));
            let moving = BucketHeader::new(9, depth, upper).moving();
            prop_assert!(moving.is_of(9) && !moving.is_of(8) && moving.is_moving());
            prop_assert_eq!((moving.depth(), moving.covers(position)), (depth, true));
        }
    }

    #[test]
    fn an_empty_subtable_has_only_headers() {
        let bytes = empty_subtable(2, BucketHeader::new(7, 3, 5));
        assert_eq!((bytes.len(), RawBuckets::check(&bytes, &7)), (subtable_bytes(2), Ok(())));
        assert_eq!(RawBuckets::check(&bytes, &6), Err(Torn));
        assert_eq!(RawBuckets::check(&[0; 128], &0), Err(Torn));
        let entries = (0..bytes.len() / 8).filter(|&number| !is_header(number));
        assert!(entries.into_iter().all(|number| word(&bytes, number) == 0));
    }

    #[test]
    fn narrowed_positions_have_two_fingerprints() {
        let fingerprints = (0..1000)
            .map(|number| TablePosition::of(PrefixHash::from_word(number), 1).narrowed().fingerprint());
        assert_eq!(fingerprints.collect::<std::collections::BTreeSet<_>>().len(), 2);
    }
}
