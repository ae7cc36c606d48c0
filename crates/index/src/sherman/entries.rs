//! What a scan found.

use super::layout::{Layout, Values};
use super::snapshot::Seen;
use crate::error::IndexError;
use std::ops::Range as Span;

/// What a scan found, and room to find it in. Used again, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    key_bytes: usize,
    value_bytes: usize,
    bytes: Vec<u8>,
    count: usize,
    /// Room to sort a leaf's slots in.
    pub(super) slots: Vec<u16>,
    /// Room for the key that a scan has come to.
    pub(super) cursor: Vec<u8>,
    /// Where values of any length are; `None`: they have one length, and lie behind their keys.
    pub(super) far: Option<FarValues>,
    /// The leaves that were visited, where they are to be compared.
    pub(super) seen: Option<Vec<Seen>>,
}

/// Values of any length that a scan found.
#[derive(Clone, Debug, Default)]
pub(super) struct FarValues {
    /// Values that lay out of line.
    bytes: Vec<u8>,
    /// Where the value of each entry is.
    pub(super) places: Vec<Place>,
}

/// Where a value of any length is: from here to there,
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// in the entries' bytes;
    Near(Span<usize>),
    /// in the values that lay out of line.
    Far(Span<usize>),
}

impl Entries {
    /// No entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
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
        match &self.far {
            None => (key, slot),
            Some(far) => match &far.places[at] {
                Place::Near(span) => (key, &self.bytes[span.clone()]),
                Place::Far(span) => (key, &far.bytes[span.clone()]),
            },
        }
    }

    /// The key of entry `at` and what its leaf had for its value.
    #[inline]
    pub(super) fn slot(&self, at: usize) -> (&[u8], &[u8]) {
        let step = self.key_bytes + self.value_bytes;
        self.bytes[at * step..(at + 1) * step].split_at(self.key_bytes)
    }

    /// Keys and values, in the order of the scan.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> + DoubleEndedIterator {
        (0..self.count).map(|at| self.entry(at))
    }

    pub(super) fn begin(&mut self, layout: &Layout) {
        (self.key_bytes, self.value_bytes, self.count) = (layout.key_bytes, layout.value_bytes, 0);
        self.bytes.clear();
        self.far = match layout.values {
            Values::Fixed => None,
            Values::AnyLength => Some(FarValues::default()),
        };
        self.seen = None;
    }

    /// Begins a scan whose leaves are written down.
    pub(super) fn begin_snapshot(&mut self, layout: &Layout) {
        self.begin(layout);
        self.seen = Some(Vec::new());
    }

    /// What was found, if the scan came to its end; else nothing.
    pub(super) fn only_if(&mut self, done: Result<(), IndexError>) -> Result<(), IndexError> {
        if done.is_err() {
            self.truncate(0);
        }
        done
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.far.as_ref().map_or(0, |far| far.bytes.len())
    }

    /// Keeps only the first `count` entries.
    pub(super) fn truncate(&mut self, count: usize) {
        self.count = count;
        self.bytes.truncate(count * (self.key_bytes + self.value_bytes));
    }

    /// Copies the key and the slot of entry `from` over those of entry `to`.
    pub(super) fn shift(&mut self, from: usize, to: usize) {
        let step = self.key_bytes + self.value_bytes;
        self.bytes.copy_within(from * step..(from + 1) * step, to * step);
    }

    /// Adds an entry: its key, and its value right behind it.
    #[inline]
    pub(super) fn push(&mut self, entry: &[u8]) {
        match <&[u8; 16]>::try_from(entry) {
            // Numbers under numbers, copied without a call.
            Ok(entry) => self.bytes.extend_from_slice(entry),
            Err(_) => self.bytes.extend_from_slice(entry),
        }
        self.count += 1;
    }

    /// Where a value is that entry `at` has in itself: `length` bytes, in the last `room` of it.
    pub(super) fn near(&self, at: usize, room: usize, length: usize) -> Place {
        let start = (at + 1) * (self.key_bytes + self.value_bytes) - room;
        Place::Near(start..start + length)
    }
}

impl FarValues {
    /// Appends a value; yields where it is.
    pub(super) fn append(&mut self, value: &[u8]) -> Place {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        Place::Far(start..self.bytes.len())
    }
}
