//! Scans as iterators, which fetch entries in batches.

use crate::codec::{Codec, Key, Value};
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::span::Span;
use crate::tree::Tree;
use crate::width::Width;
use farwood_index::ordered::Entries;
use farwood_index::sherman::Direction;
use std::fmt;
use std::marker::PhantomData;

/// Entries of the first batch; each further batch is four times as large as the one before.
const BATCH_FIRST: usize = 64;
/// Entries of the largest batch.
const BATCH_MAX: usize = 4096;
/// Entries of the first batch if values have any length (up to 16 MiB each).
const BATCH_FIRST_ANY: usize = 4;
/// The target size of a batch in bytes, if values have any length.
const BATCH_BYTES: usize = 4 << 20;

/// Entries that were fetched from one end of the range, in the order of their distance from it. Those from `first` to
/// `end` are left.
#[derive(Default)]
struct Batch {
    entries: Entries,
    first: usize,
    end: usize,
}

impl Batch {
    fn take_first(&mut self) -> Option<(&[u8], &[u8])> {
        let at = (self.first < self.end).then_some(self.first)?;
        self.first += 1;
        self.entries.get(at)
    }

    fn take_last(&mut self) -> Option<(&[u8], &[u8])> {
        self.end = (self.first < self.end).then(|| self.end - 1)?;
        self.entries.get(self.end)
    }
}

/// An iterator over entries, from both ends. An error ends the iteration.
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct Scan<K, V> {
    index: Handle,
    /// The keys that no batch contains.
    span: Span,
    /// The direction of `next`.
    direction: Direction,
    /// The number of entries that the iterator may still return.
    remaining: usize,
    batch_max: usize,
    /// The batches from the least and from the greatest key of the range.
    batches: [Batch; 2],
    /// Whether all entries of the range are in the batches.
    is_fetched: bool,
    failed: Option<Error>,
    types: PhantomData<fn() -> (K, V)>,
}

const fn other(direction: Direction) -> Direction {
    match direction {
        Direction::Forward => Direction::Backward,
        Direction::Backward => Direction::Forward,
    }
}

impl<K: Key, V: Value> Scan<K, V> {
    /// A scan of `span`, or one whose first item is the error.
    pub(crate) fn new(index: &Handle, span: Result<Span>, direction: Direction, limit: usize) -> Self {
        let index = index.here();
        let batch_max = match index.value_width() {
            Width::Exactly(_) => BATCH_FIRST,
            Width::UpTo(_) => BATCH_FIRST_ANY,
        };
        let (span, failed) = match span {
            Ok(span) => (span, None),
            Err(error) => (Span::all(index.key_width()), Some(error)),
        };
        Self {
            is_fetched: span.is_void() || failed.is_some(),
            index,
            span,
            direction,
            remaining: limit,
            batch_max,
            batches: Default::default(),
            failed,
            types: PhantomData,
        }
    }

    /// The next entry from the end of the range at which a scan in `direction` begins.
    fn take(&mut self, direction: Direction) -> Option<Result<(K, V)>> {
        if self.failed.is_none() && self.remaining > 0 {
            self.failed = self.check().err();
        }
        while self.remaining > 0 && self.failed.is_none() {
            let [own, beyond] = match (direction, &mut self.batches) {
                (Direction::Forward, [least, greatest]) => [least, greatest],
                (Direction::Backward, [least, greatest]) => [greatest, least],
            };
            let entry = match own.take_first() {
                None if self.is_fetched => beyond.take_last(),
                entry => entry,
            };
            if let Some(entry) = entry {
                let entry = decode(&self.index, entry);
                self.remaining = if entry.is_ok() { self.remaining - 1 } else { 0 };
                return Some(entry);
            }
            if self.is_fetched {
                return None;
            }
            self.failed = self.fetch(direction).err();
        }
        self.remaining = 0;
        self.failed.take().map(Err)
    }

    /// Refuses a forked child of the process that created the iterator, which may hold entries that the parent has
    /// fetched. [0 RT]
    ///
    /// # Errors
    /// [`Error::Index`]: `Forked`.
    pub fn check(&self) -> Result<()> {
        self.index.check_process("scan")
    }

    /// Fetches the next batch of a forward scan, from which no entries were taken; `None`: there are no more.
    #[cfg(feature = "backup")]
    pub(crate) fn next_batch(&mut self) -> Result<Option<&Entries>> {
        if self.is_fetched {
            return self.failed.take().map_or(Ok(None), Err);
        }
        self.fetch(Direction::Forward)?;
        Ok(Some(&self.batches[0].entries))
    }

    /// Fetches the next batch from the end at which a scan in `direction` begins.
    fn fetch(&mut self, direction: Direction) -> Result<()> {
        let limit = self.remaining.min(self.batch_max);
        let batch = match direction {
            Direction::Forward => &mut self.batches[0],
            Direction::Backward => &mut self.batches[1],
        };
        self.index.scan(self.span.range(), direction, limit, &mut batch.entries)?;
        let count = batch.entries.len();
        (batch.first, batch.end) = (0, count);
        let entry_bytes = (batch.entries.bytes() / count.max(1)).max(1);
        self.batch_max = (self.batch_max * 4).min(BATCH_MAX).min((BATCH_BYTES / entry_bytes).max(1));
        if let Some((last, _)) = batch.entries.iter().next_back() {
            self.span.pass(last, direction);
        }
        self.is_fetched = count < limit || self.span.is_void();
        Ok(())
    }
}

/// Decodes an entry.
#[inline]
pub(crate) fn decode<K: Codec, V: Codec>(tree: &Tree, (key, value): (&[u8], &[u8])) -> Result<(K, V)> {
    Ok((tree.decode("scan", "key", key)?, tree.decode("scan", "value", value)?))
}

impl<K: Key, V: Value> Iterator for Scan<K, V> {
    type Item = Result<(K, V)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.take(self.direction)
    }
}

/// A limit counts the entries from both ends together.
impl<K: Key, V: Value> DoubleEndedIterator for Scan<K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take(other(self.direction))
    }
}

impl<K: Key, V: Value> std::iter::FusedIterator for Scan<K, V> {}

impl<K, V> fmt::Debug for Scan<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan")
            .field("span", &self.span)
            .field("direction", &self.direction)
            .finish_non_exhaustive()
    }
}
