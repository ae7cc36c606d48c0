//! The format of a record.
//!
//! ```text
//! + 0   4   bytes of the record, a multiple of 8      + 4   1   kind, below    + 5   3   zero
//! + 8   8   number of the record, from 1
//! + 16  8   number of the last record that was durable when this one was written
//! + 24  8   checksum: XXH3-64 of the record with 0 here; its seed is the salt of the log
//! + 32  2   client slot    + 34  2   zero             + 36  4   epoch          (of the compute node)
//! + 40  8   number of the connection
//! + 48  8   tag of the frame
//! + 56  4   number of effects                         + 60  4   number of answers of atomics
//! + 64      effects: offset in the memory 8, bytes 4, zero 4, the bytes, to a multiple of 8
//!           answers: words
//! ```
//!
//! Kinds: 1 the changes of a frame, 2 a change by the memory node itself, 3 the begin of a cut, whose number is the
//! only answer. Numbers are little-endian. The first word of a record is never 0, so zeros are the end of a segment
//! that was allocated in advance. Identity, connection and tag name the frame, so that a copy of the log on another
//! machine can answer a frame that is sent again.

use farwood_fabric::ClientId;
use farwood_fabric::{u32_at, u64_at};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(super) const HEAD_BYTES: usize = 64;
/// The alignment of records.
pub(super) const WORD_BYTES: usize = 8;
const CHECKSUM: usize = 24;
/// Bytes of an effect before its data.
const EFFECT_BYTES: usize = 16;
/// The largest record: a frame has at most 16 MiB, and an effect is at most as long as its verb.
pub(super) const RECORD_BYTES_MAX: usize = 64 << 20;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// The changes of a frame of a compute node.
    Frame = 1,
    /// A change by the memory node itself: its header, or a fence.
    Node = 2,
    /// The begin of a cut: its number is the only answer.
    Cut = 3,
}

/// The frame that a record belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon) struct Origin {
    /// The compute node; `None`: the memory node itself, or a compute node without an identity yet.
    pub(in crate::daemon) client: Option<ClientId>,
    /// The number of the connection.
    pub(in crate::daemon) connection: u64,
    /// The tag of the frame.
    pub(in crate::daemon) tag: u64,
}

/// Appends a record to a buffer.
#[derive(Debug)]
pub(super) struct RecordBuilder {
    start: usize,
    effects: u32,
    answers: Vec<u64>,
}

impl RecordBuilder {
    pub(super) fn begin(buffer: &mut Vec<u8>) -> Self {
        let start = buffer.len();
        buffer.resize(start + HEAD_BYTES, 0);
        Self { start, effects: 0, answers: Vec::new() }
    }

    pub(super) fn effect(&mut self, buffer: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
        buffer.extend(offset.to_le_bytes());
        buffer.extend((bytes.len() as u32).to_le_bytes());
        buffer.extend([0; 4]);
        buffer.extend_from_slice(bytes);
        buffer.resize(buffer.len().next_multiple_of(8), 0);
        self.effects += 1;
    }

    pub(super) fn answer(&mut self, word: u64) {
        self.answers.push(word);
    }

    /// Whether the record changes nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.effects == 0
    }

    /// Removes the record.
    pub(super) fn cancel(self, buffer: &mut Vec<u8>) {
        buffer.truncate(self.start);
    }

    /// Completes the record.
    pub(super) fn end(
        self,
        buffer: &mut Vec<u8>,
        (kind, origin): (RecordKind, Origin),
        [number, durable, salt]: [u64; 3],
    ) {
        buffer.extend(self.answers.iter().flat_map(|word| word.to_le_bytes()));
        let record = &mut buffer[self.start..];
        let bytes = record.len() as u32;
        let client = origin.client.unwrap_or(ClientId { slot: u16::MAX, epoch: 0 });
        record[..4].copy_from_slice(&bytes.to_le_bytes());
        record[4] = kind as u8;
        record[8..16].copy_from_slice(&number.to_le_bytes());
        record[16..24].copy_from_slice(&durable.to_le_bytes());
        record[32..34].copy_from_slice(&client.slot.to_le_bytes());
        record[36..40].copy_from_slice(&client.epoch.to_le_bytes());
        record[40..48].copy_from_slice(&origin.connection.to_le_bytes());
        record[48..56].copy_from_slice(&origin.tag.to_le_bytes());
        record[56..60].copy_from_slice(&self.effects.to_le_bytes());
        record[60..64].copy_from_slice(&(self.answers.len() as u32).to_le_bytes());
        let checksum = xxh3_64_with_seed(record, salt);
        record[CHECKSUM..CHECKSUM + 8].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// An intact record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogRecord<'b> {
    pub(super) number: u64,
    pub(super) durable: u64,
    pub(super) bytes: usize,
    kind: u8,
    effects: u32,
    answers: u32,
    body: &'b [u8],
}

impl<'b> LogRecord<'b> {
    /// The record at the start of `bytes`; `None`: there is no intact one.
    pub(super) fn first(bytes: &'b [u8], salt: u64) -> Option<Self> {
        let record = Self::unchecked(bytes)?;
        let bytes = &bytes[..record.bytes];
        // Bytes that cannot be a head are not worth a checksum of all that would follow.
        let is_head = bytes[5..8] == [0; 3] && bytes[34..36] == [0; 2] && record.durable < record.number;
        if !is_head {
            return None;
        }
        // The checksum was made with 0 in its place.
        let mut hash = xxhash_rust::xxh3::Xxh3::with_seed(salt);
        hash.update(&bytes[..CHECKSUM]);
        hash.update(&[0; 8]);
        hash.update(&bytes[CHECKSUM + 8..]);
        (hash.digest() == u64_at(bytes, CHECKSUM)).then_some(record)
    }

    /// As [`first`](Self::first), without the checksum.
    pub(super) fn unchecked(bytes: &'b [u8]) -> Option<Self> {
        let length = Self::length(bytes)?;
        let record = bytes.get(..length)?;
        Some(Self {
            number: u64_at(record, 8),
            durable: u64_at(record, 16),
            bytes: length,
            kind: record[4],
            effects: u32_at(record, 56),
            answers: u32_at(record, 60),
            body: &record[HEAD_BYTES..],
        })
    }

    /// The length in the head at the start of `bytes`; `None`: no record has it.
    pub(super) fn length(bytes: &[u8]) -> Option<usize> {
        let length = u32_at(bytes.get(..HEAD_BYTES)?, 0) as usize;
        let is_possible =
            (HEAD_BYTES..=RECORD_BYTES_MAX).contains(&length) && length.is_multiple_of(WORD_BYTES);
        is_possible.then_some(length)
    }

    /// The reason why a record with a right checksum cannot be applied; `None`: it can.
    pub(super) fn contradiction(&self) -> Option<String> {
        let answers_bytes = self.answers as usize * WORD_BYTES;
        let effects_bytes: usize =
            self.effects().map(|(_, bytes)| EFFECT_BYTES + bytes.len().next_multiple_of(WORD_BYTES)).sum();
        let is_whole = self.effects().count() == self.effects as usize
            && self.body.len() == effects_bytes + answers_bytes;
        match self.kind {
            _ if !is_whole => Some("does not have the effects and answers that it counts".to_owned()),
            kind if kind == RecordKind::Cut as u8 => {
                let is_cut = (self.effects, self.answers) == (0, 1);
                (!is_cut).then(|| "of a cut has other contents than its number".to_owned())
            }
            kind if kind == RecordKind::Frame as u8 || kind == RecordKind::Node as u8 => None,
            kind => Some(format!("has the kind {kind}, which this version does not know")),
        }
    }

    /// The number of the cut that begins with this record.
    pub(super) fn cut(&self) -> Option<u64> {
        (self.kind == RecordKind::Cut as u8 && self.body.len() == 8).then(|| u64_at(self.body, 0))
    }

    /// The effects: offsets in the memory, and bytes.
    pub(super) fn effects(&self) -> impl Iterator<Item = (u64, &'b [u8])> {
        let mut rest = self.body;
        (0..self.effects).map_while(move |_| {
            let head = rest.get(..EFFECT_BYTES)?;
            let length = u32_at(head, 8) as usize;
            let bytes = rest.get(EFFECT_BYTES..EFFECT_BYTES + length)?;
            rest = rest.get(EFFECT_BYTES + length.next_multiple_of(8)..)?;
            Some((u64_at(head, 0), bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin = Origin { client: Some(ClientId { slot: 3, epoch: 9 }), connection: 2, tag: 77 };

    fn record(number: u64, durable: u64) -> Vec<u8> {
        let mut buffer = vec![1; 8];
        let mut builder = RecordBuilder::begin(&mut buffer);
        builder.effect(&mut buffer, 4096, b"some bytes");
        builder.effect(&mut buffer, 8, &7_u64.to_le_bytes());
        builder.answer(6);
        builder.end(&mut buffer, (RecordKind::Frame, ORIGIN), [number, durable, 5]);
        buffer.split_off(8)
    }

    #[test]
    fn a_record_is_read_back() {
        let bytes = record(12, 10);
        let read = LogRecord::first(&bytes, 5).unwrap();
        assert_eq!((read.number, read.durable, read.bytes), (12, 10, bytes.len()));
        let effects: Vec<_> = read.effects().collect();
        assert_eq!(effects, [(4096, &b"some bytes"[..]), (8, &7_u64.to_le_bytes()[..])]);
        assert_eq!(LogRecord::first(&bytes, 6), None, "the salt of another log");
    }

    #[test]
    fn a_record_with_a_changed_bit_or_without_its_end_is_none() {
        let bytes = record(1, 0);
        for at in 0..bytes.len() {
            assert_eq!(LogRecord::first(&bytes[..at], 5), None, "{at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert_eq!(LogRecord::first(&damaged, 5), None, "{at}");
        }
        assert_eq!(LogRecord::first(&[0; 4096], 5), None);
    }

    #[test]
    fn a_cut_is_read_back() {
        let mut buffer = Vec::new();
        let mut builder = RecordBuilder::begin(&mut buffer);
        builder.answer(99);
        builder.end(&mut buffer, (RecordKind::Cut, ORIGIN), [1, 0, 5]);
        assert_eq!(LogRecord::first(&buffer, 5).unwrap().cut(), Some(99));
        assert_eq!(LogRecord::first(&record(1, 0), 5).unwrap().cut(), None);
    }

    #[test]
    fn a_cancelled_record_is_removed() {
        let mut buffer = vec![1; 8];
        let mut builder = RecordBuilder::begin(&mut buffer);
        builder.answer(1);
        assert!(builder.is_empty());
        builder.cancel(&mut buffer);
        assert_eq!(buffer, [1; 8]);
    }
}
