//! Nodes of the tree by id.
//!
//! ```text
//! page: a node of level 0, with the head of a node of the R*-tree (`layout.rs`), except
//! + 16  8  number of the index, bit 63 set            + 24  8  bytes of its records     + 32 24  zero
//! the words of the lines that follow, without their versions, hold the records, in the order of (word, text)
//!
//! record, padded to a multiple of 8 bytes
//! +  0  8  word of the id                             + 40  2  bytes of the text        + 42  2  zero
//! +  8 32  rectangle                                  + 44  4  bytes of the payload
//! + 48     text, then the payload; if both together would be too long for a page: reference to a blob (`blob.rs`)
//!
//! inner node: a node of the R*-tree of level 1 or more, bit 63 of the number of the index set. An entry has as its
//! rectangle a point: the upper and the lower 32 bits of the least word that may be below it; 0 in the first entry.
//! ```

use super::super::tree::layout::{
    BLOCK_ENTRIES, Entry, INDEX_WORD, LEVEL_WORD, LINE_BYTES, LINE_WORDS, Layout, NodeRef, bytes_of,
    damage_of, head_of, sealed_level_word,
};
use super::super::tree::rectangle::Rectangle;
use super::{RecordId, TEXT_MAX};

/// Bytes of a record before its text.
const RECORD_HEAD_BYTES: usize = 48;
/// Bytes of a reference to a blob.
const REFERENCE_BYTES: usize = 8;
/// A page holds at least that many records of the greatest length.
const RECORDS_LEAST: usize = 4;
/// The word of a page that has the bytes of its records.
pub(in crate::catfish) const USED_WORD: usize = 3;
/// Marks the number of the index in nodes of the tree by id.
const RECORDS_MARK: u64 = 1 << 63;
/// Marks it in nodes of blobs.
const BLOBS_MARK: u64 = 1 << 62;

/// Fewest blocks of a node in an index with records: a record with the longest text fits into a quarter of a page.
pub(in crate::catfish) const BLOCKS_LEAST: usize = 5;

/// The layout of nodes of the tree by id.
pub(in crate::catfish) fn records_layout(layout: &Layout) -> Layout {
    Layout { index: layout.index | RECORDS_MARK, ..*layout }
}

/// The layout of nodes of blobs.
pub(in crate::catfish) fn blobs_layout(layout: &Layout) -> Layout {
    Layout { index: layout.index | BLOBS_MARK, ..*layout }
}

/// Bytes that a page, or a node of a blob, holds.
pub(in crate::catfish) const fn page_bytes(layout: &Layout) -> usize {
    BLOCK_ENTRIES * 8 * 5 * layout.blocks
}

/// Maximum bytes of a record in a page. The payload of a longer one is a blob.
const fn record_bytes_max(layout: &Layout) -> usize {
    page_bytes(layout) / RECORDS_LEAST / 8 * 8
}

/// A record as a page stores it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::catfish) struct StoredRecord {
    pub(in crate::catfish) id: RecordId,
    pub(in crate::catfish) bounds: Rectangle,
    pub(in crate::catfish) payload: StoredPayload,
}

/// The payload of a stored record.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::catfish) enum StoredPayload {
    Inline(Vec<u8>),
    /// The word of a reference to the root of a blob, and the bytes of the payload.
    Blob(u64, u32),
}

impl StoredRecord {
    /// The order of records in a page.
    pub(in crate::catfish) fn key(&self) -> (u64, &str) {
        (self.id.word(), self.id.text())
    }

    /// Its bytes in a page.
    pub(in crate::catfish) fn bytes(&self) -> usize {
        let payload = match &self.payload {
            StoredPayload::Inline(payload) => payload.len(),
            StoredPayload::Blob(..) => REFERENCE_BYTES,
        };
        (RECORD_HEAD_BYTES + self.id.text().len() + payload).next_multiple_of(8)
    }

    fn encode(&self, body: &mut Vec<u8>) {
        let (word, text) = self.key();
        let [min, max] = [self.bounds.min(), self.bounds.max()];
        body.extend(word.to_le_bytes());
        body.extend([min[0], min[1], max[0], max[1]].map(f64::to_le_bytes).as_flattened());
        body.extend((text.len() as u16).to_le_bytes());
        body.extend([0; 2]);
        let reference;
        let (bytes, payload) = match &self.payload {
            StoredPayload::Inline(payload) => (payload.len() as u32, payload.as_slice()),
            StoredPayload::Blob(root, bytes) => {
                reference = root.to_le_bytes();
                (*bytes, reference.as_slice())
            }
        };
        body.extend(bytes.to_le_bytes());
        body.extend(text.as_bytes());
        body.extend(payload);
        body.resize(body.len().next_multiple_of(8), 0);
    }

    /// Decodes the first record of `body`, whose head is `head`.
    fn decode(body: &[u8], head: &RecordHead) -> Option<Self> {
        let edge = |at: usize| Some(f64::from_bits(farwood_fabric::u64_at(body.get(..40)?, 8 + 8 * at)));
        let bounds = Rectangle::new([edge(0)?, edge(1)?], [edge(2)?, edge(3)?]).ok()?;
        let (text, rest) = body.get(RECORD_HEAD_BYTES..)?.split_at_checked(head.text_bytes)?;
        let id = RecordId::from_parts(head.word, std::str::from_utf8(text).ok()?)?;
        let payload = if head.is_inline {
            StoredPayload::Inline(rest.get(..head.payload_bytes as usize)?.to_vec())
        } else {
            let root = NodeRef::from_word(u64::from_le_bytes(*rest.first_chunk()?))?;
            StoredPayload::Blob(root.word(), head.payload_bytes)
        };
        Some(Self { id, bounds, payload })
    }
}

/// The description of a stored record in its first bytes.
struct RecordHead {
    word: u64,
    text_bytes: usize,
    payload_bytes: u32,
    is_inline: bool,
    /// Bytes of the whole record in its page.
    bytes: usize,
}

impl RecordHead {
    /// Decodes the head of the first record of `body`, in which the record lies as a whole.
    fn decode(body: &[u8], layout: &Layout) -> Option<Self> {
        let head = body.first_chunk::<RECORD_HEAD_BYTES>()?;
        let lengths = farwood_fabric::u64_at(head, 40);
        let (text_bytes, zero, payload_bytes) =
            (usize::from(lengths as u16), (lengths >> 16) as u16, (lengths >> 32) as u32);
        let is_inline = is_inline(layout, text_bytes, payload_bytes as usize);
        let after_text = if is_inline { payload_bytes as usize } else { REFERENCE_BYTES };
        let bytes = (RECORD_HEAD_BYTES + text_bytes + after_text).next_multiple_of(8);
        let is_legal = zero == 0 && text_bytes <= TEXT_MAX && bytes <= body.len();
        let word = farwood_fabric::u64_at(head, 0);
        is_legal.then_some(Self { word, text_bytes, payload_bytes, is_inline, bytes })
    }
}

/// Whether a page holds the payload of a record itself.
pub(in crate::catfish) fn is_inline(layout: &Layout, text_bytes: usize, payload_bytes: usize) -> bool {
    let bytes = payload_bytes.saturating_add(RECORD_HEAD_BYTES + text_bytes);
    bytes <= record_bytes_max(layout)
}

/// The bytes of records.
pub(in crate::catfish) fn bytes_of_records(records: &[StoredRecord]) -> usize {
    records.iter().map(StoredRecord::bytes).sum()
}

/// The words of a page.
pub(in crate::catfish) fn page_image(layout: &Layout, at: NodeRef, records: &[StoredRecord]) -> Vec<u64> {
    let mut body = Vec::with_capacity(page_bytes(layout));
    for record in records {
        record.encode(&mut body);
    }
    body_image(&records_layout(layout), at, (0, records.len()), &body)
}

/// The words of a node whose lines hold `body`.
pub(super) fn body_image(
    layout: &Layout,
    at: NodeRef,
    (level, entries): (u8, usize),
    body: &[u8],
) -> Vec<u64> {
    assert!(body.len() <= page_bytes(layout), "the bytes fit the node");
    let mut words = vec![0; layout.node_words()];
    words[0] = at.version();
    words[INDEX_WORD] = layout.index;
    words[USED_WORD] = body.len() as u64;
    let lines = words[LINE_WORDS..].chunks_exact_mut(LINE_WORDS);
    for (line, bytes) in lines.zip(body.chunks(8 * (LINE_WORDS - 1))) {
        for (word, bytes) in line.iter_mut().zip(bytes.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(padded);
        }
    }
    for line in words.chunks_exact_mut(LINE_WORDS) {
        line[LINE_WORDS - 1] = at.version();
    }
    let bytes = bytes_of(words.iter().copied(), words.len());
    words[LEVEL_WORD] = sealed_level_word(&bytes, level, entries);
    words
}

/// The bytes in the lines of a node that [`body_image`] made; `None`: the node states a length that it cannot have.
pub(super) fn body_of(node: &[u8]) -> Option<Vec<u8>> {
    let lines = node.get(LINE_BYTES..)?.chunks_exact(LINE_BYTES);
    let mut body: Vec<u8> = lines.flat_map(|line| &line[..LINE_BYTES - 8]).copied().collect();
    let used = usize::try_from(farwood_fabric::u64_at(node, 8 * USED_WORD)).ok()?;
    (used <= body.len()).then(|| body.truncate(used))?;
    Some(body)
}

/// Decodes the records of a page, of which there are `count`.
///
/// # Errors
/// Describes the damage.
pub(in crate::catfish) fn records_of(
    node: &[u8],
    layout: &Layout,
    count: usize,
) -> Result<Vec<StoredRecord>, String> {
    records_with(node, layout, count, |_| true)
}

/// Decodes the records of a page, of which there are `count`, whose words are wanted, and the heads of the others.
///
/// # Errors
/// Describes the damage.
pub(in crate::catfish) fn records_with(
    node: &[u8],
    layout: &Layout,
    count: usize,
    is_wanted: impl Fn(u64) -> bool,
) -> Result<Vec<StoredRecord>, String> {
    let body = body_of(node).ok_or("it states more bytes than a page holds")?;
    let (mut rest, mut records) = (body.as_slice(), Vec::<StoredRecord>::new());
    let (mut found, mut last) = (0, 0);
    while !rest.is_empty() {
        let damaged = || format!("record {found} is damaged");
        let head = RecordHead::decode(rest, layout).ok_or_else(damaged)?;
        let mut is_ascending = found == 0 || last <= head.word;
        if is_wanted(head.word) {
            let record = StoredRecord::decode(rest, &head).ok_or_else(damaged)?;
            is_ascending &= records.last().is_none_or(|before| before.key() < record.key());
            records.push(record);
        }
        if !is_ascending {
            return Err(format!("record {found} is not greater than the one before"));
        }
        (rest, last) = (&rest[head.bytes..], head.word);
        found += 1;
    }
    (found == count).then_some(records).ok_or_else(|| format!("{found} records, and its head counts {count}"))
}

/// A child of an inner node: the least word that may be below it, and its reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::catfish) struct Child {
    pub(in crate::catfish) least: u64,
    pub(in crate::catfish) word: u64,
}

impl Child {
    /// The entry of an inner node.
    pub(in crate::catfish) fn entry(self) -> Entry {
        let point = [(self.least >> 32) as f64, f64::from(self.least as u32)];
        Entry { bounds: Rectangle::trusted(point, point), word: self.word }
    }

    /// The child in an entry; `None`: it is not one.
    pub(in crate::catfish) fn from_entry(entry: &Entry) -> Option<Self> {
        let part =
            |at: f64| (at >= 0.0 && at <= f64::from(u32::MAX) && at.fract() == 0.0).then_some(at as u64);
        let point = entry.bounds.min();
        let least = part(point[0])? << 32 | part(point[1])?;
        (entry.bounds.max().map(f64::to_bits) == point.map(f64::to_bits))
            .then_some(Self { least, word: entry.word })
    }
}

/// Decodes the children of an inner node.
///
/// # Errors
/// Describes the damage.
pub(in crate::catfish) fn children_of(entries: impl Iterator<Item = Entry>) -> Result<Vec<Child>, String> {
    let mut children = Vec::<Child>::new();
    for entry in entries {
        let child = Child::from_entry(&entry).filter(|child| NodeRef::from_word(child.word).is_some());
        let child = child.ok_or_else(|| format!("child {} is damaged", children.len()))?;
        if children.is_empty() && child.least != 0 {
            return Err(format!("the least word of its first child is {:#x}, not 0", child.least));
        }
        if children.last().is_some_and(|last| last.least >= child.least) {
            return Err(format!("child {} is not greater than the one before", children.len()));
        }
        children.push(child);
    }
    Ok(children)
}

/// The position of the child below which records with that word are.
pub(in crate::catfish) fn child_for(children: &[Child], word: u64) -> usize {
    children.partition_point(|child| child.least <= word).saturating_sub(1)
}

/// Checks a copy of a node of a blob, which must have that level. `blobs`: the layout of such nodes.
///
/// # Errors
/// Describes the damage.
pub(in crate::catfish) fn decode_blob(node: &[u8], blobs: &Layout, level: u8) -> Result<(), String> {
    let head = head_of(&node);
    let damage = damage_of(node).or_else(|| head.contradiction(blobs, None));
    let damage =
        damage.or_else(|| (head.level != level).then(|| format!("level {}, not {level}", head.level)));
    damage.map_or(Ok(()), Err)
}

const _: () =
    assert!(RECORD_HEAD_BYTES + TEXT_MAX + REFERENCE_BYTES <= 280 * BLOCKS_LEAST / RECORDS_LEAST / 8 * 8);
