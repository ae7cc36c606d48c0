//! What the inner-node hash table is made of (Sphinx §III-A, Figure 3; RACE hashing, ATC'21): entries, buckets,
//! subtables, directories. Pure.
//!
//! # Map
//!
//! ```text
//! beside the root node: one word for each memory node, of its table
//!  63      56 55    48 47                                               0
//! +----------+--------+--------------------------------------------------+
//! |  depth   |    0   |       packed pointer to the directory            |
//! +----------+--------+--------------------------------------------------+
//!
//! directory of depth g: 2^g words; that of a hash is the one numbered by its highest g bits
//!  63      56 55    48 47                                               0
//! +----------+--------+--------------------------------------------------+
//! | depth d  |    0   |       packed pointer to the subtable             |   2^(g-d) words in a row are the same
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
//! | gen. 2  | size |  print 12  |     packed pointer to the inner node   |   the paper's fp2, type, address
//! +---------+------+------------+----------------------------------------+
//! ```
//!
//! A prefix's hash gives its print, two main buckets, and the way through the directory. What an entry says is a hint:
//! the node that it leads to says itself of which prefix it is, and entries carry the low bits of its generation only
//! so that one word is not two nodes' in a row.

use crate::radix::inner::{self, RawInner, Size};
use crate::radix::prefix::{PrefixHash, mixed};
use crate::radix::tree::Sign;
use farwood_fabric::{Checked, NodeId, Object, Packed, Remote, Torn};

/// Bytes of a bucket: a header and seven entries.
pub const BUCKET_BYTES: usize = 64;
/// Bytes that are read of a main bucket: with its overflow bucket.
pub const PAIR_BYTES: usize = 2 * BUCKET_BYTES;
/// Bytes of a group.
pub const GROUP_BYTES: usize = 3 * BUCKET_BYTES;
/// Words of a bucket.
pub const BUCKET_WORDS: usize = BUCKET_BYTES / 8;
/// Most bits of a hash that a directory can tell apart: its words are then a chunk.
pub const DEPTH_MAX: u8 = 20;
/// Most groups of a subtable, as a power of two: its words are then a twentieth of a chunk.
pub const GROUPS_LOG2_MAX: u8 = 11;

const PRINT_BITS: u32 = 12;
const PRINT_SHIFT: u32 = 48;
const SIZE_SHIFT: u32 = 60;
const GENERATION_SHIFT: u32 = 62;
const DEPTH_SHIFT: u32 = 56;
const MAGIC: u64 = 0x5A << 8;
const MAGIC_MASK: u64 = 0xFE << 8;
const MOVING: u64 = 1 << 8;

/// Where a prefix's entry belongs: the memory node, and the hash that says where in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The memory node.
    pub home: NodeId,
    hash: u64,
}

/// Set in the hash from which tables take their bits, so that they are not those of the filter and of the places.
const TABLE: u64 = 0xA076_1D64_78BD_642F;

impl Spot {
    /// Where the entry of a prefix belongs, in a pool of that many memory nodes.
    #[inline]
    pub fn of(prefix: PrefixHash, nodes: u16) -> Self {
        Self { home: NodeId(prefix.place(nodes)), hash: mixed(prefix.word() ^ TABLE) }
    }

    /// The same spot, with few prints: for tests that want them to collide.
    #[must_use]
    pub const fn narrowed(self) -> Self {
        Self { hash: self.hash & !((1 << PRINT_BITS) - 2), ..self }
    }

    /// The highest `depth` bits of the hash.
    #[inline]
    pub const fn upper(self, depth: u8) -> u64 {
        if depth == 0 { 0 } else { self.hash >> (u64::BITS - depth as u32) }
    }

    /// The print, 12 bits.
    #[inline]
    pub const fn print(self) -> u16 {
        (self.hash & ((1 << PRINT_BITS) - 1)) as u16
    }

    /// The two main buckets, among 2^(groups + 1), by number: they differ.
    #[inline]
    pub const fn buckets(self, groups_log2: u8) -> [u64; 2] {
        let mask = (2 << groups_log2) - 1;
        let (one, other) = (self.hash >> PRINT_BITS & mask, self.hash >> (2 * PRINT_BITS) & mask);
        [one, if other == one { other ^ 1 } else { other }]
    }

    /// Where what is read of its two buckets begins, bytes into a subtable.
    #[inline]
    pub fn pairs(self, groups_log2: u8) -> [u64; 2] {
        self.buckets(groups_log2)
            .map(|bucket| (bucket / 2) * GROUP_BYTES as u64 + (bucket % 2) * BUCKET_BYTES as u64)
    }

    /// Whether an entry of this spot may lie at word number `word` of a subtable.
    pub fn reaches(self, groups_log2: u8, word: usize) -> bool {
        let at = 8 * word as u64;
        self.pairs(groups_log2).into_iter().any(|pair| (pair..pair + PAIR_BYTES as u64).contains(&at))
    }
}

/// Bytes of a subtable.
pub const fn subtable_bytes(groups_log2: u8) -> usize {
    GROUP_BYTES << groups_log2
}

/// One entry, as a word of far memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// The entry of a node, at its spot.
    #[inline]
    pub fn new(spot: Spot, sign: &Sign) -> Self {
        Self(
            u64::from(sign.generation & 3) << GENERATION_SHIFT
                | (sign.size as u64) << SIZE_SHIFT
                | u64::from(spot.print()) << PRINT_SHIFT
                | Packed::pack(sign.node).bits(),
        )
    }

    /// The entry in a word of far memory; `None`: there is none.
    #[inline]
    pub const fn from_word(word: u64) -> Option<Self> {
        if word == 0 { None } else { Some(Self(word)) }
    }

    /// The word for far memory.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The print.
    #[inline]
    pub const fn print(self) -> u16 {
        (self.0 >> PRINT_SHIFT) as u16 & ((1 << PRINT_BITS) - 1)
    }

    /// Whether it can be the entry of a node with that header.
    #[inline]
    pub fn is_of(self, header: inner::Header) -> bool {
        let sized = self.node().is_some_and(|(_, size)| header.size() == size);
        sized && self.0 >> GENERATION_SHIFT == u64::from(header.generation() & 3)
    }

    /// The node that it leads to, and its size; `None`: nothing that an entry can hold.
    #[inline]
    pub fn node(self) -> Option<(Remote<RawInner>, Size)> {
        Some((Packed::unpack(self.0)?, Size::of_number((self.0 >> SIZE_SHIFT) as u8 & 3)?))
    }
}

/// A bucket's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header(u64);

impl Header {
    /// The header of all buckets of a subtable of that depth, for hashes with those highest bits.
    pub const fn new(number: u32, depth: u8, upper: u64) -> Self {
        Self((number as u64) << 40 | upper << 16 | MAGIC | depth as u64)
    }

    /// The same while the subtable is being split.
    #[must_use]
    pub const fn moving(self) -> Self {
        Self(self.0 | MOVING)
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

    /// Whether it is one, of the index of that number.
    #[inline]
    pub const fn is_of(self, number: u32) -> bool {
        self.0 & MAGIC_MASK == MAGIC && self.0 >> 40 == number as u64 & 0xFF_FFFF
    }

    /// How many bits all hashes in the subtable have in common.
    #[inline]
    pub const fn depth(self) -> u8 {
        self.0 as u8
    }

    /// Whether the subtable is being split, or its split was cut off.
    #[inline]
    pub const fn is_moving(self) -> bool {
        self.0 & MOVING != 0
    }

    /// Whether entries of a spot belong into the subtable.
    #[inline]
    pub const fn covers(self, spot: Spot) -> bool {
        spot.upper(self.depth()) == self.0 >> 16 & 0xFF_FFFF
    }
}

/// A pointer with a depth: a word of a directory, to a subtable, or of a table, to its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deep<T> {
    /// How many bits of a hash count.
    pub depth: u8,
    /// Where it is.
    pub at: Remote<T>,
}

impl<T> Deep<T> {
    /// The pointer in a word of far memory; `None`: it is none.
    #[inline]
    pub fn from_word(word: u64) -> Option<Self> {
        let depth = (word >> DEPTH_SHIFT) as u8;
        let at = Packed::unpack(word)?;
        (depth <= DEPTH_MAX).then_some(Self { depth, at })
    }

    /// The word for far memory.
    pub fn word(self) -> u64 {
        u64::from(self.depth) << DEPTH_SHIFT | Packed::pack(self.at).bits()
    }
}

/// A subtable's bytes, by the name under which far memory has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawSubtable {}

/// A directory's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawDirectory {}

/// Buckets of a subtable, whole ones: each word is changed for itself, and the headers say whose they are.
#[derive(Debug)]
pub enum RawBuckets {}

impl Object for RawBuckets {
    type Format = u32;

    #[inline]
    fn check(bytes: &[u8], number: &u32) -> Result<(), Torn> {
        let whole = (0..bytes.len() / BUCKET_BYTES)
            .all(|bucket| Header::from_word(word(bytes, bucket * BUCKET_WORDS)).is_of(*number));
        whole.then_some(()).ok_or(Torn)
    }
}

/// Word number `number`.
#[inline]
pub fn word(bytes: &[u8], number: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * number..8 * number + 8].try_into().expect("eight bytes"))
}

/// Whether word number `number` of a subtable is a bucket's header.
#[inline]
pub const fn is_header(number: usize) -> bool {
    number.is_multiple_of(BUCKET_WORDS)
}

/// The bytes of a subtable without entries.
pub fn empty(groups_log2: u8, header: Header) -> Vec<u8> {
    let words = subtable_bytes(groups_log2) / 8;
    (0..words).flat_map(|number| if is_header(number) { header.word() } else { 0 }.to_le_bytes()).collect()
}

/// Copies of a spot's two main buckets, each with its overflow bucket.
#[derive(Debug)]
pub struct Pairs {
    /// Where they are.
    at: [Remote<RawBuckets>; 2],
    copies: [Checked<RawBuckets>; 2],
}

impl Pairs {
    /// What was read there.
    pub fn new(at: [Remote<RawBuckets>; 2], copies: [Checked<RawBuckets>; 2]) -> Self {
        Self { at, copies }
    }

    /// The headers.
    pub fn headers(&self) -> impl Iterator<Item = Header> {
        let headers = |copy: &Checked<RawBuckets>| [word(copy, 0), word(copy, BUCKET_WORDS)];
        self.copies.iter().flat_map(headers).map(Header::from_word)
    }

    /// The words that can hold entries, with where they are; those of a shared overflow bucket once.
    fn words(&self) -> impl Iterator<Item = (Remote<u64>, u64)> {
        let end = self.at[0].word() + PAIR_BYTES as u64;
        let shared = self.at[0].word()..end;
        let of = |pair: usize| {
            let slots = (0..PAIR_BYTES / 8).filter(|&number| !is_header(number));
            slots.map(move |number| (self.at[pair].part(8 * number as u64), word(&self.copies[pair], number)))
        };
        of(0).chain(of(1).filter(move |(at, _): &(Remote<u64>, u64)| !shared.contains(&at.word())))
    }

    /// The entries with that print, and where they are.
    pub fn candidates(&self, print: u16) -> impl Iterator<Item = (Remote<u64>, Entry)> {
        let entries = self.words().filter_map(|(at, word)| Some((at, Entry::from_word(word)?)));
        entries.filter(move |(_, entry)| entry.print() == print)
    }

    /// Where such an entry is, once or several times, in the order in which all clients see them.
    pub fn places(&self, entry: Entry) -> Vec<Remote<u64>> {
        let found = self.words().filter(|(_, word)| *word == entry.word());
        let mut places: Vec<_> = found.map(|(at, _)| at).collect();
        places.sort_unstable_by_key(|at| at.word());
        places
    }

    /// How many places are free for an entry.
    pub fn room(&self) -> usize {
        self.words().filter(|(_, word)| *word == 0).count()
    }

    /// Where there is room for an entry: in the emptier of the two.
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

const _: () = assert!(Packed::<RawInner>::BITS == PRINT_SHIFT && PRINT_SHIFT + PRINT_BITS == SIZE_SHIFT);
const _: () = assert!(DEPTH_MAX as u32 + 3 * PRINT_BITS <= u64::BITS && DEPTH_MAX <= 24);
const _: () = assert!((GROUPS_LOG2_MAX as u32) < PRINT_BITS);

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::Memory;
    use proptest::prelude::*;

    fn sign(number: u64, generation: u32) -> Sign {
        let node = Remote::new(NodeId(3), Memory::Host, 4096 + 8 * number).expect("it is not null");
        Sign { prefix: PrefixHash::of(&number.to_be_bytes()), node, size: Size::Sixteen, generation }
    }

    proptest! {
        #[test]
        fn an_entry_survives_its_word(number in 0_u64..1 << 40, generation: u32) {
            let sign = sign(number, generation);
            let spot = Spot::of(sign.prefix, 5);
            let entry = Entry::from_word(Entry::new(spot, &sign).word()).expect("it is one");
            prop_assert_eq!((entry.print(), entry.node()), (spot.print(), Some((sign.node, sign.size))));
            let next = Sign { generation: generation.wrapping_add(1), ..sign };
            prop_assert!(entry != Entry::new(spot, &next));
        }

        #[test]
        fn a_spot_has_two_buckets_of_a_subtable(number: u64, groups_log2 in 0..=GROUPS_LOG2_MAX) {
            let spot = Spot::of(PrefixHash::from_word(number), 3);
            let [one, other] = spot.buckets(groups_log2);
            prop_assert!(one != other && one.max(other) < 2 << groups_log2);
            let words = subtable_bytes(groups_log2) / 8;
            let reached = (0..words).filter(|&word| spot.reaches(groups_log2, word)).count();
            prop_assert_eq!(reached, if one / 2 == other / 2 { 24 } else { 32 });
        }

        #[test]
        fn a_header_covers_half_of_what_the_one_above_covers(number: u64, depth in 0..DEPTH_MAX) {
            let spot = Spot::of(PrefixHash::from_word(number), 3);
            let upper = spot.upper(depth);
            prop_assert!(Header::new(9, depth, upper).covers(spot));
            let half = |bit| Header::new(9, depth + 1, upper << 1 | bit).covers(spot);
            prop_assert!(half(0) != half(1));
            let moving = Header::new(9, depth, upper).moving();
            prop_assert!(moving.is_of(9) && !moving.is_of(8) && moving.is_moving());
            prop_assert_eq!((moving.depth(), moving.covers(spot)), (depth, true));
        }
    }

    #[test]
    fn an_empty_subtable_has_headers_and_nothing_else() {
        let bytes = empty(2, Header::new(7, 3, 5));
        assert_eq!((bytes.len(), RawBuckets::check(&bytes, &7)), (subtable_bytes(2), Ok(())));
        assert_eq!(RawBuckets::check(&bytes, &6), Err(Torn));
        assert_eq!(RawBuckets::check(&[0; 128], &0), Err(Torn));
        let entries = (0..bytes.len() / 8).filter(|&number| !is_header(number));
        assert!(entries.into_iter().all(|number| word(&bytes, number) == 0));
    }

    #[test]
    fn narrowed_spots_have_two_prints() {
        let prints = (0..1000).map(|number| Spot::of(PrefixHash::from_word(number), 1).narrowed().print());
        assert_eq!(prints.collect::<std::collections::BTreeSet<_>>().len(), 2);
    }
}
