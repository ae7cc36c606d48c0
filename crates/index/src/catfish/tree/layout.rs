//! Nodes in far memory: lines of 64 bytes, each with the version of its node.
//!
//! ```text
//! node of n blocks, n = 1 to 64: 64 (1 + 5 n) bytes, holding up to 7 n entries
//! line 0: head
//! +  0  8  version: 1 << 32 | generation. The first word of a node
//! +  8  1  level; leaves are level 0        + 9  1  zero      + 10  2  entries      + 12  4  hash
//! + 16  8  number of the index
//! + 24 32  bounds of all entries: least x, least y, greatest x, greatest y; zero where there are none
//! + 56  8  version, again
//! block k at 64 + 320 k: five lines, for entries 7 k to 7 k + 6
//!   line 0  7 x 8  least x      + 56 8 version        line 1  7 x 8  least y      + 56 8 version
//!   line 2  7 x 8  greatest x   + 56 8 version        line 3  7 x 8  greatest y   + 56 8 version
//!   line 4  7 x 8  leaf: id; inner node: reference    + 56 8 version
//!
//! reference to a node, 8 bytes; 0 = none
//!  63            32 31                              0
//! +----------------+---------------------------------+
//! |  generation    |   offset in host memory / 64    |   never generation 0
//! +----------------+---------------------------------+
//! ```
//!
//! Coordinates are doubles. Positions without an entry hold least edges of +infinity and greatest edges of -infinity,
//! which no query matches. All nodes are on the memory node of the index (`head.rs`), so a reference alone gives an
//! address, in up to 256 GiB.
//!
//! **How a copy is checked.** A node is written once and never changed ([`catfish`](crate::catfish) gives the reason);
//! its slot may later hold another node, with the next generation. The reference tells a reader which generation to
//! expect, and the check yields either that complete node or [`Torn`]:
//!
//! * [`Scheme::Lines`] (NICs, which never tear a line): every line has the expected version. The server sets the
//!   version of a line to 0 before it changes the line, and to the new version afterwards. So if a copy of a line has a
//!   version other than 0, all its bytes belong to the node of that version.
//! * [`Scheme::Pair`] (shared memory and TCP, which tear all but words): the first and the last word of the node have
//!   the expected version. The server stores in ascending order, the READs of the fabric load in descending order;
//!   `crates/transport/src/shm/copying.rs` proves that such a copy is not torn. The proof treats the versions of the
//!   lines between as ordinary bytes.
//!
//! Neither scheme detects bytes that changed at rest. The *hash* detects them: the lower half of XXH3-64 over the
//! blocks, seeded with XXH3-64 over number and bounds, seeded with the level and the count of entries. A copy that
//! passes its check and has another hash is damaged. The hash does not cover the version at the end of line 0: before a
//! server stores another node in the slot, it sets that version to 0 and then changes the first word. So a copy that
//! [`Scheme::Pair`] accepts may have 0 there.

use super::rectangle::Rectangle;
use crate::mutant::Mutant;
use farwood_fabric::{Capabilities, Capability, Memory, NodeId, Object, Remote, ServerMemory, Torn, u64_at};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Version of this format.
pub const FORMAT: u32 = 2;
/// Bytes of a line, which a NIC reads whole (FaRM; Catfish §III-B).
pub const LINE_BYTES: usize = farwood_fabric::LINE_BYTES;
/// Entries of a block: words of a line, less its version.
pub const BLOCK_ENTRIES: usize = LINE_BYTES / 8 - 1;
/// Lines of a block: one for each edge of the entries, and one for their ids or references.
const BLOCK_LINES: usize = 5;
/// Maximum levels of a tree, whose inner nodes have at least two children.
pub(in crate::catfish) const LEVELS_MAX: u8 = 64;
/// Maximum blocks of a node.
pub const BLOCKS_MAX: usize = 64;
/// Default bytes of a ring of messages, in one direction (Catfish §V-B).
pub const RING_BYTES_DEFAULT: u64 = 256 << 10;
/// Legal bytes of a ring: a ring must hold several requests, and a chunk must hold two rings and an inbox.
pub const RING_BYTES: std::ops::RangeInclusive<u64> = 1024..=2 << 20;
/// Blocks of a node by default: 42 entries in 1,984 bytes.
pub const BLOCKS_DEFAULT: usize = 6;

pub(in crate::catfish) const LEVEL_WORD: usize = 1;
pub(in crate::catfish) const INDEX_WORD: usize = 2;
const BOUNDS_WORD: usize = 3;
/// Lowest bit of the count of entries in the word at [`LEVEL_WORD`].
const ENTRIES_SHIFT: u32 = 16;
/// Lowest bit of the hash in the word at [`LEVEL_WORD`].
const HASH_SHIFT: u32 = 32;
const WORDS_PER_LINE: usize = farwood_fabric::LINE_WORDS;
const VERSION_WORD: usize = WORDS_PER_LINE - 1;
/// This bit is set in every version, so no version equals [`UNDER_WAY`].
const VERSION_BIT: u64 = 1 << 32;
/// The version of a line that is being written.
pub(in crate::catfish) const UNDER_WAY: u64 = 0;

/// Least share of entries in a node other than the root, percent (R*-tree, section 4.2: 40 %).
const LEAST_PERCENT: usize = 40;
/// Share of the entries of an overfull node that are reinserted, percent (R*-tree, section 4.3: 30 %).
const REINSERT_PERCENT: usize = 30;

/// The checks on a copy of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Every line has the expected version.
    Lines,
    /// The first and the last word have the expected version.
    Pair,
}

impl Scheme {
    /// The scheme for nodes of `node_bytes` on a fabric with these capabilities; [`Scheme::Lines`] if both schemes are
    /// safe.
    ///
    /// # Errors
    /// The capability that the fabric lacks, if no check of copies is possible without it.
    pub fn choose(capabilities: &Capabilities, node_bytes: usize) -> Result<Self, Capability> {
        if capabilities.whole_bytes >= LINE_BYTES {
            return Ok(Self::Lines);
        }
        // A pair of versions detects every concurrent WRITE. It detects the server's stores only if processors of the
        // memory node execute the READs: a NIC reads in ascending order, and stores can overtake it.
        let needed = [Capability::CpuSeesWrite, Capability::VersionPair(node_bytes)];
        capabilities.missing(&needed).map_or(Ok(Self::Pair), Err)
    }

    /// The name of the scheme in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Pair => "pair",
        }
    }
}

/// Sizes of the nodes of one index, and how copies of them are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Blocks of a node.
    pub blocks: usize,
    /// The memory node of the tree.
    pub node: NodeId,
    /// Number of the index.
    pub index: u64,
    /// The scheme on this fabric.
    pub scheme: Scheme,
    /// Bytes of a ring of messages, in one direction.
    pub ring_bytes: u64,
}

impl Layout {
    /// Bytes of a node.
    pub const fn node_bytes(&self) -> usize {
        LINE_BYTES * (1 + BLOCK_LINES * self.blocks)
    }

    /// Words of a node.
    pub(in crate::catfish) const fn node_words(&self) -> usize {
        self.node_bytes() / 8
    }

    /// Entries that a node holds: M.
    pub const fn entries_max(&self) -> usize {
        BLOCK_ENTRIES * self.blocks
    }

    /// Entries that a node holds at least, unless it is the root: m.
    pub const fn entries_least(&self) -> usize {
        self.entries_max() * LEAST_PERCENT / 100
    }

    /// Entries of an overfull node that are reinserted: p.
    pub(in crate::catfish) const fn reinserted(&self) -> usize {
        (self.entries_max() + 1) * REINSERT_PERCENT / 100
    }

    /// The address of a node.
    pub fn at(&self, node: NodeRef) -> Remote<RawNode> {
        // Cannot fail: `NodeRef::from_word` refuses a reference of offset 0, and 38 bits are an offset of host memory.
        let Some(at) = Remote::new(self.node, Memory::Host, node.offset()) else {
            unreachable!("the offset of a reference is below 2^38, and not 0")
        };
        at
    }
}

/// A reference to a node: its slot, and the generation of the node there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeRef(u64);

impl std::fmt::Display for NodeRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "generation {} of the node at offset {:#x}", self.generation(), self.offset())
    }
}

impl NodeRef {
    /// Bytes of a memory node that references can address.
    pub const REACH: u64 = (LINE_BYTES as u64) << 32;

    pub(in crate::catfish) fn new(offset: u64, generation: u32) -> Self {
        assert!(offset.is_multiple_of(LINE_BYTES as u64) && 0 < offset && offset < Self::REACH, "{offset}");
        Self((u64::from(generation) << 32) | (offset / LINE_BYTES as u64))
    }

    /// The reference in a word of far memory; `None` where the word is not one.
    pub fn from_word(word: u64) -> Option<Self> {
        (word as u32 != 0 && word >> 32 != 0).then_some(Self(word))
    }

    /// The reference as a word of far memory.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Offset of the slot, bytes.
    pub const fn offset(self) -> u64 {
        (self.0 & u32::MAX as u64) * LINE_BYTES as u64
    }

    /// Generation of the node.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The version in the lines of the node.
    pub(in crate::catfish) const fn version(self) -> u64 {
        VERSION_BIT | self.generation() as u64
    }
}

/// The generation that follows the one in the first word of a slot. The slot may be empty. The result is never 0.
pub(in crate::catfish) fn next_generation(first_word: u64) -> u32 {
    (first_word as u32).wrapping_add(1).max(1)
}

/// The bytes of a node in far memory.
#[derive(Debug)]
pub enum RawNode {}

/// The node that a copy is checked against.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedNode {
    /// The node.
    pub node: NodeRef,
    /// The scheme of the check.
    pub scheme: Scheme,
    /// A fault of the check, for tests.
    pub(in crate::catfish) mutant: Option<Mutant>,
}

impl ExpectedNode {
    /// The node that `node` names.
    pub fn new(node: NodeRef, scheme: Scheme) -> Self {
        Self { node, scheme, mutant: None }
    }
}

impl Object for RawNode {
    type Format = ExpectedNode;

    fn check(bytes: &[u8], expected: &ExpectedNode) -> Result<(), Torn> {
        let wanted = match expected.mutant {
            Some(Mutant::GenerationIgnored) => word_of(bytes, 0),
            _ => expected.node.version(),
        };
        let whole = match expected.scheme {
            _ if expected.mutant == Some(Mutant::NoRearVersion) => word_of(bytes, 0) == wanted,
            Scheme::Lines => {
                word_of(bytes, 0) == wanted
                    && bytes.chunks_exact(LINE_BYTES).all(|line| word_of(line, VERSION_WORD) == wanted)
            }
            _ if expected.mutant == Some(Mutant::NoFrontVersion) => {
                word_of(bytes, bytes.len() / 8 - 1) == wanted
            }
            Scheme::Pair => word_of(bytes, 0) == wanted && word_of(bytes, bytes.len() / 8 - 1) == wanted,
        };
        whole.then_some(()).ok_or(Torn)
    }
}

fn word_of(bytes: &[u8], at: usize) -> u64 {
    u64_at(bytes, 8 * at)
}

/// A node that can be read word by word: a checked copy, or memory that does not change.
pub(in crate::catfish) trait NodeWords {
    /// The word at `at`, counted in words.
    fn word(&self, at: usize) -> u64;
    /// The words of line `at`, counted in lines.
    fn line(&self, at: usize) -> [u64; WORDS_PER_LINE];
}

/// Reads the words of a checked copy.
impl NodeWords for &[u8] {
    #[inline]
    fn word(&self, at: usize) -> u64 {
        word_of(self, at)
    }

    #[inline]
    fn line(&self, at: usize) -> [u64; WORDS_PER_LINE] {
        let (words, _) = self[LINE_BYTES * at..LINE_BYTES * (at + 1)].as_chunks();
        std::array::from_fn(|at| u64::from_le_bytes(words[at]))
    }
}

/// A node in the server's own memory, in a snapshot that is held.
pub(in crate::catfish) struct InPlace<'l, L> {
    pub(in crate::catfish) local: &'l L,
    pub(in crate::catfish) offset: u64,
}

impl<L: ServerMemory> NodeWords for InPlace<'_, L> {
    #[expect(clippy::inline_always, reason = "searches load lines in their inner loop")]
    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        // Cannot fail: `Nodes::at` has loaded the last word of the node.
        self.local.load(self.offset + 8 * at as u64).expect("a node lies within its memory node")
    }

    #[expect(clippy::inline_always, reason = "searches load lines in their inner loop")]
    #[inline(always)]
    fn line(&self, at: usize) -> [u64; WORDS_PER_LINE] {
        let offset = self.offset + (LINE_BYTES * at) as u64;
        // Cannot fail: as above.
        self.local.load_line(offset).expect("a node lies within its memory node")
    }
}

/// The head of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    pub(in crate::catfish) level: u8,
    pub(in crate::catfish) entries: usize,
    pub(in crate::catfish) index: u64,
    /// The bounds of all entries.
    pub(in crate::catfish) bounds: Option<Rectangle>,
}

/// Reads the head of a node.
pub(in crate::catfish) fn head_of(node: &impl NodeWords) -> Head {
    let line = node.line(0);
    let level_and_entries = line[LEVEL_WORD];
    let entries = usize::from((level_and_entries >> ENTRIES_SHIFT) as u16);
    let edge = |at: usize| f64::from_bits(line[BOUNDS_WORD + at]);
    let bounds = Rectangle::trusted([edge(0), edge(1)], [edge(2), edge(3)]);
    Head {
        level: level_and_entries as u8,
        entries,
        index: line[INDEX_WORD],
        bounds: (entries > 0).then_some(bounds),
    }
}

impl Head {
    /// Describes why the node cannot belong to an index with this layout, as a child of a node of level `below`
    /// (`None`: of any level). Returns `None` if it can. [`image`] asserts the same.
    pub(in crate::catfish) fn contradiction(&self, layout: &Layout, below: Option<u8>) -> Option<String> {
        let &Self { level, entries, index, .. } = self;
        if index != layout.index || entries > layout.entries_max() {
            return Some(format!("{entries} entries of index {index}"));
        }
        if level >= LEVELS_MAX || (level > 0 && entries == 0) {
            return Some(format!("level {level} with {entries} entries"));
        }
        let descends = below.is_none_or(|above| level.checked_add(1) == Some(above));
        (!descends).then(|| format!("level {level}, which is not one below its parent's"))
    }
}

/// The word of a node that contains its level, its count of entries, and its hash.
fn level_word(node: &[u8], level_and_entries: u32) -> u64 {
    let head = xxh3_64_with_seed(&node[8 * INDEX_WORD..8 * VERSION_WORD], level_and_entries.into());
    let hash = xxh3_64_with_seed(&node[LINE_BYTES..], head);
    u64::from(level_and_entries) | hash << HASH_SHIFT
}

/// The bytes of a node's words, of which there are `count`.
pub(in crate::catfish) fn bytes_of(words: impl IntoIterator<Item = u64>, count: usize) -> Vec<u8> {
    let mut bytes = vec![[0; 8]; count];
    for (bytes, word) in bytes.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    bytes.into_flattened()
}

/// Describes the damage of a copy that is not torn; returns `None` if its hash matches.
pub(in crate::catfish) fn damage_of(node: &[u8]) -> Option<String> {
    let found = word_of(node, LEVEL_WORD);
    (found != level_word(node, found as u32)).then(|| "its bytes do not match its hash".to_owned())
}

/// Positions of the words of entry `entry`: its four edges, and its id or reference.
#[inline]
pub(in crate::catfish) const fn words_of_entry(entry: usize) -> [usize; 5] {
    let first = (1 + BLOCK_LINES * (entry / BLOCK_ENTRIES)) * WORDS_PER_LINE + entry % BLOCK_ENTRIES;
    [
        first,
        first + WORDS_PER_LINE,
        first + 2 * WORDS_PER_LINE,
        first + 3 * WORDS_PER_LINE,
        first + 4 * WORDS_PER_LINE,
    ]
}

/// A rectangle and its word: the number of an item in a leaf, or the reference to a child.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::catfish) struct Entry {
    pub(in crate::catfish) bounds: Rectangle,
    pub(in crate::catfish) word: u64,
}

/// Reads an entry of a node.
pub(in crate::catfish) fn entry_of(node: &impl NodeWords, entry: usize) -> Entry {
    let [min_x, min_y, max_x, max_y, word] = words_of_entry(entry).map(|at| node.word(at));
    let bounds = Rectangle::trusted(
        [f64::from_bits(min_x), f64::from_bits(min_y)],
        [f64::from_bits(max_x), f64::from_bits(max_y)],
    );
    Entry { bounds, word }
}

/// The words of a node, ready to be stored.
pub(in crate::catfish) fn image(layout: &Layout, at: NodeRef, level: u8, entries: &[Entry]) -> Vec<u64> {
    assert!(entries.len() <= layout.entries_max(), "the entries fit the node");
    let mut words = vec![0; layout.node_words()];
    words[0] = at.version();
    words[INDEX_WORD] = layout.index;
    if let Some(bounds) = Rectangle::around(entries.iter().map(|entry| &entry.bounds)) {
        words[BOUNDS_WORD..BOUNDS_WORD + 4].copy_from_slice(&edges(&bounds));
    }
    for position in 0..layout.entries_max() {
        let (edges, word) = match entries.get(position) {
            Some(entry) => (edges(&entry.bounds), entry.word),
            None => {
                ([f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY].map(f64::to_bits), 0)
            }
        };
        let at = words_of_entry(position);
        for (at, edge) in at.into_iter().zip(edges) {
            words[at] = edge;
        }
        words[at[4]] = word;
    }
    for line in words.chunks_exact_mut(WORDS_PER_LINE) {
        line[VERSION_WORD] = at.version();
    }
    debug_assert!(words[words.len() - 1] == at.version(), "the last word of a node is its rear version");
    let bytes = bytes_of(words.iter().copied(), words.len());
    words[LEVEL_WORD] = sealed_level_word(&bytes, level, entries.len());
    words
}

/// The word of a node that contains its level, its count of entries, and the hash of its bytes.
pub(in crate::catfish) fn sealed_level_word(node: &[u8], level: u8, entries: usize) -> u64 {
    level_word(node, u32::from(level) | (entries as u32) << ENTRIES_SHIFT)
}

fn edges(bounds: &Rectangle) -> [u64; 4] {
    [bounds.min()[0], bounds.min()[1], bounds.max()[0], bounds.max()[1]].map(f64::to_bits)
}

/// The stores that write a line of an image, in their order: the version is withdrawn, the bytes follow in ascending
/// order, and the version comes last. In line 0 the first word of the node comes before the other bytes.
pub(in crate::catfish) fn stores_of_line(line: &[u64]) -> impl Iterator<Item = (usize, u64)> + '_ {
    let withdrawn = std::iter::once((VERSION_WORD, UNDER_WAY));
    withdrawn.chain(line.iter().copied().enumerate())
}

pub(in crate::catfish) const LINE_WORDS: usize = WORDS_PER_LINE;

const _: () = assert!(LINE_BYTES == 8 * WORDS_PER_LINE && BLOCK_ENTRIES == 7);
const _: () = assert!(BOUNDS_WORD + 4 == VERSION_WORD, "the head fills its line");
const _: () = assert!(words_of_entry(0)[0] == 8 && words_of_entry(6)[4] == 46, "block 0 begins at line 1");
const _: () = assert!(words_of_entry(7)[0] == 48, "block 1 begins at line 6");
const _: () =
    assert!(BLOCKS_MAX * BLOCK_ENTRIES < 1 << (HASH_SHIFT - ENTRIES_SHIFT), "the count has 16 bits");
const _: () = assert!(BLOCK_ENTRIES * 40 / 100 >= 2, "a node of one block can be split");

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(blocks: usize, scheme: Scheme) -> Layout {
        Layout { blocks, node: NodeId(0), index: 9, scheme, ring_bytes: 1024 }
    }

    fn expected(node: NodeRef, scheme: Scheme) -> ExpectedNode {
        ExpectedNode { node, scheme, mutant: None }
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn entries(count: usize) -> Vec<Entry> {
        let bounds = |at: usize| Rectangle::new([at as f64, -1.0], [at as f64 + 0.5, 2.0]).unwrap();
        (0..count).map(|at| Entry { bounds: bounds(at), word: 100 + at as u64 }).collect()
    }

    #[test]
    fn a_node_is_read_back() {
        for blocks in [1, 3, 6] {
            let layout = layout(blocks, Scheme::Lines);
            for count in [0, 1, layout.entries_max() - 1, layout.entries_max()] {
                let (at, entries) = (NodeRef::new(1 << 23, 7), entries(count));
                let node = bytes(&image(&layout, at, 2, &entries));
                assert_eq!(node.len(), layout.node_bytes());
                let node = node.as_slice();
                let head = head_of(&node);
                assert_eq!((head.level, head.entries, head.index), (2, count, 9));
                assert_eq!(head.bounds, Rectangle::around(entries.iter().map(|entry| &entry.bounds)));
                let read: Vec<_> = (0..count).map(|entry| entry_of(&node, entry)).collect();
                assert_eq!(read, entries);
            }
        }
    }

    #[test]
    fn a_changed_bit_of_a_node_is_noticed() {
        let layout = layout(1, Scheme::Lines);
        let at = NodeRef::new(1 << 23, 7);
        let node = bytes(&image(&layout, at, 1, &entries(5)));
        assert_eq!(damage_of(&node), None);
        for bit in 0..8 * node.len() {
            let mut damaged = node.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let is_whole = RawNode::check(&damaged, &expected(at, Scheme::Lines)).is_ok();
            assert!(!is_whole || damage_of(&damaged).is_some(), "bit {bit}");
        }
    }

    #[test]
    fn a_copy_with_an_older_line_is_torn() {
        let layout = layout(3, Scheme::Lines);
        let (old, new) = (NodeRef::new(1 << 23, 7), NodeRef::new(1 << 23, 8));
        let images = [(old, 20), (new, 21)].map(|(at, count)| bytes(&image(&layout, at, 0, &entries(count))));
        for lines in 1..layout.node_bytes() / LINE_BYTES {
            for (low, high) in [(0, 1), (1, 0)] {
                let mut mixed = images[low].clone();
                mixed[lines * LINE_BYTES..].copy_from_slice(&images[high][lines * LINE_BYTES..]);
                for node in [old, new] {
                    assert_eq!(RawNode::check(&mixed, &expected(node, Scheme::Lines)), Err(Torn));
                    assert_eq!(RawNode::check(&mixed, &expected(node, Scheme::Pair)), Err(Torn));
                }
            }
        }
        for scheme in [Scheme::Lines, Scheme::Pair] {
            assert_eq!(RawNode::check(&images[0], &expected(old, scheme)), Ok(()));
            assert_eq!(
                RawNode::check(&images[0], &expected(new, scheme)),
                Err(Torn),
                "the copy of another node"
            );
        }
    }

    /// A line that is copied at any moment has an expected version only together with the bytes that belong to it.
    #[test]
    fn between_any_two_stores_a_line_is_the_old_one_or_the_new_one_or_neither() {
        let layout = layout(1, Scheme::Lines);
        let images = [7, 8].map(|generation| {
            image(&layout, NodeRef::new(1 << 23, generation), 0, &entries(generation as usize - 1))
        });
        for line in 0..layout.node_bytes() / LINE_BYTES {
            let of = |image: &Vec<u64>| image[line * LINE_WORDS..][..LINE_WORDS].to_vec();
            let (old, new) = (of(&images[0]), of(&images[1]));
            let mut now = old.clone();
            for (at, word) in stores_of_line(&new) {
                now[at] = word;
                assert_ne!(now[VERSION_WORD], old[VERSION_WORD], "withdrawn first");
                assert!(now[VERSION_WORD] != new[VERSION_WORD] || now == new, "given last");
            }
            assert_eq!(now, new);
        }
    }

    /// A copy of a slot while one node replaces another: word `at` is read after `progress[at]` stores, from the last
    /// word to the first.
    fn copied_downward(old: &[u64], stores: &[(usize, u64)], progress: &[usize]) -> Vec<u8> {
        let word = |at: usize| {
            let last = stores[..progress[at]].iter().rev().find(|(stored, _)| *stored == at);
            last.map_or(old[at], |(_, word)| *word)
        };
        bytes(&(0..old.len()).map(word).collect::<Vec<_>>())
    }

    /// Two nodes of one slot, and their images.
    type Both = ([NodeRef; 2], [Vec<u64>; 2]);

    /// Two nodes of one slot, and the stores that turn the first into the second.
    fn succession() -> (Both, Vec<(usize, u64)>) {
        let layout = layout(1, Scheme::Pair);
        let nodes = [7, 8].map(|generation| NodeRef::new(1 << 23, generation));
        let images = nodes.map(|at| image(&layout, at, 0, &entries(at.generation() as usize - 1)));
        let lines = images[1].chunks_exact(LINE_WORDS).enumerate();
        let stores = lines.flat_map(|(line, words)| {
            stores_of_line(words).map(move |(at, word)| (line * LINE_WORDS + at, word))
        });
        let stores = stores.collect();
        ((nodes, images), stores)
    }

    proptest::proptest! {
        /// For any order of the stores and the loads: a copy with both versions is the expected node.
        #[test]
        fn a_pair_proves_a_copy_that_is_read_downward_while_it_is_stored_upward(
            mut progress in proptest::collection::vec(0..55_usize, 48),
        ) {
            let ((nodes, images), stores) = succession();
            proptest::prop_assert_eq!((images[0].len(), stores.len()), (48, 54));
            // Later words are read earlier, so they are read after fewer stores.
            progress.sort_unstable_by(|one, other| other.cmp(one));
            let copy = copied_downward(&images[0], &stores, &progress);
            for (node, image) in nodes.into_iter().zip(&images) {
                if RawNode::check(&copy, &expected(node, Scheme::Pair)).is_ok() {
                    proptest::prop_assert_eq!(&copy, &bytes(image));
                }
            }
        }
    }

    /// Without the check of the version that is read last, a mixture passes.
    #[test]
    fn the_first_version_alone_does_not_prove_a_copy() {
        let ((nodes, images), stores) = succession();
        // The last word is read before the first store, all others after the last one.
        let mut progress = vec![stores.len(); images[0].len()];
        *progress.last_mut().unwrap() = 0;
        let copy = copied_downward(&images[0], &stores, &progress);
        let broken = Some(Mutant::NoFrontVersion);
        let half = ExpectedNode { node: nodes[0], scheme: Scheme::Pair, mutant: broken };
        assert_eq!(RawNode::check(&copy, &half), Ok(()), "a mixture with the version of the old node");
        assert_ne!(copy, bytes(&images[0]));
        assert_eq!(RawNode::check(&copy, &expected(nodes[0], Scheme::Pair)), Err(Torn));
    }

    #[test]
    fn generations_never_repeat_and_skip_zero() {
        assert_eq!(next_generation(0), 1);
        assert_eq!(next_generation(VERSION_BIT | 5), 6);
        assert_eq!(next_generation(VERSION_BIT | u64::from(u32::MAX)), 1);
        assert_eq!(NodeRef::from_word(0), None);
        let node = NodeRef::new(NodeRef::REACH - 64, u32::MAX);
        assert_eq!(NodeRef::from_word(node.word()), Some(node));
    }
}
