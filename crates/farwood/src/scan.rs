//! Scans as iterators, which fetch entries in batches.

use crate::codec::{Codec, Key, KeyRange, Prefix, Value, prefix_of};
use crate::error::{Error, Result};
use crate::span::Span;
use crate::tree::Tree;
use crate::width::Width;
use farwood_index::ordered::Entries;
use farwood_index::sherman::Direction;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// Entries of the first batch; each further batch is four times as large as the one before.
const BATCH_FIRST: usize = 64;
/// Entries of the largest batch.
const BATCH_MAX: usize = 4096;
/// Entries of the first batch if values have any length (up to 16 MiB each).
const BATCH_FIRST_ANY: usize = 4;
/// The target size of a batch in bytes, if values have any length.
const BATCH_BYTES: usize = 4 << 20;

/// An iterator over entries. An error ends the iteration.
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct Scan<K, V> {
    tree: Arc<Tree>,
    span: Span,
    direction: Direction,
    /// The remaining entries up to the limit.
    remaining: usize,
    batch_max: usize,
    /// The entries of the batch that the scan fetched last.
    entries: Entries,
    /// Entries of the batch that the iterator has returned.
    returned: usize,
    failed: Option<Error>,
    done: bool,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> Scan<K, V> {
    pub(crate) fn new(tree: Arc<Tree>, range: &impl KeyRange<K>) -> Self {
        let span = Span::new::<K, _>(&tree, range);
        Self::of(tree, span)
    }

    /// A scan of the keys that begin with `prefix`.
    pub(crate) fn of_prefix(tree: Arc<Tree>, prefix: &impl Prefix<K>) -> Self {
        let span = match prefix_of(prefix) {
            Ok(prefix) => Ok(Span::of_prefix(tree.key_width(), prefix.as_ref())),
            Err(why) => Err(tree.unfit("scan", "prefix", why)),
        };
        Self::of(tree, span)
    }

    /// A scan of `span`, or one whose first item is the error.
    fn of(tree: Arc<Tree>, span: Result<Span>) -> Self {
        let mut scan = Self::all(tree);
        match span {
            Ok(span) => scan.span = span,
            Err(error) => scan.failed = Some(error),
        }
        scan
    }

    pub(crate) fn all(tree: Arc<Tree>) -> Self {
        let batch_max = match tree.value_width() {
            Width::Exactly(_) => BATCH_FIRST,
            Width::UpTo(_) => BATCH_FIRST_ANY,
        };
        Self {
            span: Span::all(tree.key_width()),
            tree,
            direction: Direction::Forward,
            remaining: usize::MAX,
            batch_max,
            entries: Entries::new(),
            returned: 0,
            failed: None,
            done: false,
            types: PhantomData,
        }
    }

    /// Limits the scan to `limit` entries. The scan fetches no further entries, so prefer it to [`Iterator::take`].
    pub fn limit(mut self, limit: usize) -> Self {
        self.remaining = self.remaining.min(limit);
        self
    }

    /// Reverses the order: from the end of the range, by decreasing key.
    pub fn reverse(mut self) -> Self {
        self.direction = Direction::Backward;
        self
    }

    /// Returns all entries of the scan as of one moment during this call. The range must lie in at most 32 leaves
    /// (about 900 entries of 8-byte keys and values). [2 RT if the parent of the leaves is cached, 1 more for values
    /// stored outside their leaf; the same again each time that a client changes one of the leaves during the call]
    ///
    /// # Errors
    /// [`Error::Unfit`]; [`Error::Index`]: the range is too wide, or the leaves
    /// change too often.
    pub fn snapshot(mut self) -> Result<Vec<(K, V)>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.remaining == 0 || self.span.is_void() {
            return Ok(Vec::new());
        }
        let tree = &*self.tree;
        tree.snapshot(self.span.range(), self.direction, self.remaining, &mut self.entries)?;
        self.entries.iter().map(|entry| decode(tree, entry)).collect()
    }

    /// Fetches the next batch.
    fn fetch(&mut self) -> Result<()> {
        let limit = self.remaining.min(self.batch_max);
        if limit == 0 || self.span.is_void() {
            self.done = true;
            return Ok(());
        }
        self.tree.scan(self.span.range(), self.direction, limit, &mut self.entries)?;
        self.returned = 0;
        let entry_bytes = (self.entries.bytes() / self.entries.len().max(1)).max(1);
        self.batch_max = (self.batch_max * 4).min(BATCH_MAX).min((BATCH_BYTES / entry_bytes).max(1));
        self.remaining -= self.entries.len();
        self.done = self.entries.len() < limit;
        if let Some((last, _)) = self.entries.iter().next_back() {
            self.span.pass(last, self.direction);
        }
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
        loop {
            if let Some(entry) = self.entries.get(self.returned) {
                let entry = self.tree.check_process("scan").and_then(|()| decode(&self.tree, entry));
                self.returned = if entry.is_ok() { self.returned + 1 } else { self.entries.len() };
                self.done |= entry.is_err();
                return Some(entry);
            }
            if let Some(error) = self.failed.take() {
                self.done = true;
                return Some(Err(error));
            }
            if self.done {
                return None;
            }
            self.failed = self.fetch().err();
        }
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
