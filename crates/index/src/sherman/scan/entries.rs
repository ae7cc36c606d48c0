//! The entries that a scan found.

use crate::error::IndexError;
use crate::sherman::layout::{Layout, Values};
use crate::sherman::node::RawNode;
use farwood_fabric::Remote;
use std::ops::Range as Span;

/// The entries that a scan found, and its buffers. A scan that reuses them allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct ShermanEntries {
    key_bytes: usize,
    value_bytes: usize,
    bytes: Vec<u8>,
    count: usize,
    /// Buffer to sort the entries of a leaf in.
    pub(super) slots: Vec<u16>,
    /// Buffer for the key that a scan has reached.
    pub(super) cursor: Vec<u8>,
    /// Positions of values of any length; `None`: values have one length and directly follow their keys.
    pub(super) values: Option<ScannedValues>,
    /// The leaves that a snapshot scan visited.
    pub(super) visited: Option<Vec<LeafImage>>,
}

/// A leaf as a snapshot scan first read it.
#[derive(Clone, Debug)]
pub(super) struct LeafImage {
    pub(super) at: Remote<RawNode>,
    pub(super) bytes: Vec<u8>,
}

/// Values of any length that a scan found.
#[derive(Clone, Debug, Default)]
pub(super) struct ScannedValues {
    /// The bytes of the overflow values, concatenated.
    bytes: Vec<u8>,
    /// The position of each entry's value.
    pub(super) spans: Vec<ValueSpan>,
}

/// The position of a value of any length.
#[derive(Clone, Debug)]
pub(super) enum ValueSpan {
    /// A position in the bytes of the entries.
    Inline(Span<usize>),
    /// A position in the bytes of the overflow values.
    Overflow(Span<usize>),
}

impl ShermanEntries {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether the scan found no entry.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Key and value number `at`, in the order of the scan.
    #[inline]
    pub fn get(&self, at: usize) -> Option<(&[u8], &[u8])> {
        (at < self.count).then(|| self.entry(at))
    }

    #[inline]
    fn entry(&self, at: usize) -> (&[u8], &[u8]) {
        let (key, slot) = self.slot(at);
        match &self.values {
            None => (key, slot),
            Some(values) => match &values.spans[at] {
                ValueSpan::Inline(span) => (key, &self.bytes[span.clone()]),
                ValueSpan::Overflow(span) => (key, &values.bytes[span.clone()]),
            },
        }
    }

    /// The key of entry `at` and the value field of its leaf entry.
    #[inline]
    pub(super) fn slot(&self, at: usize) -> (&[u8], &[u8]) {
        let step = self.key_bytes + self.value_bytes;
        self.bytes[at * step..(at + 1) * step].split_at(self.key_bytes)
    }

    /// Keys and values, in the order of the scan.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + DoubleEndedIterator {
        (0..self.count).map(|at| self.entry(at))
    }

    /// Removes all entries, for a scan of a tree of this layout.
    pub(super) fn begin(&mut self, layout: &Layout) {
        (self.key_bytes, self.value_bytes, self.count) = (layout.key_bytes, layout.value_bytes, 0);
        self.bytes.clear();
        self.values = match layout.values {
            Values::Fixed => None,
            Values::AnyLength => Some(ScannedValues::default()),
        };
        self.visited = None;
    }

    /// As [`begin`](Self::begin), for a scan that records the leaves it visits.
    pub(super) fn begin_snapshot(&mut self, layout: &Layout) {
        self.begin(layout);
        self.visited = Some(Vec::new());
    }

    /// Keeps the entries if the scan succeeded, and removes them otherwise.
    pub(super) fn only_if(&mut self, done: Result<(), IndexError>) -> Result<(), IndexError> {
        if done.is_err() {
            self.truncate(0);
        }
        done
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.values.as_ref().map_or(0, |values| values.bytes.len())
    }

    /// Keeps only the first `count` entries.
    pub(super) fn truncate(&mut self, count: usize) {
        self.count = count;
        self.bytes.truncate(count * (self.key_bytes + self.value_bytes));
    }

    /// Copies the key and the value field of entry `from` over those of entry `to`.
    pub(super) fn shift(&mut self, from: usize, to: usize) {
        let step = self.key_bytes + self.value_bytes;
        self.bytes.copy_within(from * step..(from + 1) * step, to * step);
    }

    /// Adds an entry: its key, directly followed by its value.
    #[inline]
    pub(super) fn push(&mut self, entry: &[u8]) {
        match <&[u8; 16]>::try_from(entry) {
            // An 8-byte key with an 8-byte value, copied without a call.
            Ok(entry) => self.bytes.extend_from_slice(entry),
            Err(_) => self.bytes.extend_from_slice(entry),
        }
        self.count += 1;
    }

    /// The position of the inline value of entry `at`: `length` bytes, in the last `field_bytes` of the entry.
    pub(super) fn inline_span(&self, at: usize, field_bytes: usize, length: usize) -> ValueSpan {
        debug_assert!(length <= field_bytes && field_bytes <= self.value_bytes);
        let start = (at + 1) * (self.key_bytes + self.value_bytes) - field_bytes;
        ValueSpan::Inline(start..start + length)
    }
}

impl ScannedValues {
    /// Appends an overflow value; returns its position.
    pub(super) fn append(&mut self, value: &[u8]) -> ValueSpan {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        ValueSpan::Overflow(start..self.bytes.len())
    }
}
