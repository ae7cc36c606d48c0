//! Ranges of an index: what a scan returns, and in which order.

use crate::codec::{Encode, Key, KeyRange, Prefix, Value, prefix_of};
use crate::error::Result;
use crate::handle::Handle;
use crate::scan::{Scan, decode};
use crate::span::Span;
use farwood_index::ordered::Entries;
use farwood_index::sherman::Direction;
use std::fmt;
use std::marker::PhantomData;

/// A range of an index, before its entries are read. [`Index::range`](crate::Index::range) and
/// [`Index::prefix`](crate::Index::prefix) create it; `into_iter` or a `for` loop reads the entries.
///
/// ```
/// # use farwood::{BTree, Pool, PoolOptions};
/// # let url = format!("shm://doc-range-{}", std::process::id());
/// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
/// # let pool = Pool::open(&url)?;
/// let squares = pool.create_index::<u64, u64>("squares", &BTree::new())?;
/// for number in 0..100 {
///     squares.put(number, number * number)?;
/// }
/// let last: Vec<_> = squares.range(..).rev().limit(2).into_iter().collect::<Result<_, _>>()?;
/// assert_eq!(last, [(99, 9801), (98, 9604)]);
/// // Pages: each begins after the last key of the page before.
/// let page = squares.range(10..).after(12).limit(2).into_iter().collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(page, [(13, 169), (14, 196)]);
/// assert_eq!(squares.range(50..).remove_if(|_, square| square % 2 == 0)?, 25);
/// # drop((squares, pool));
/// # Pool::remove(&url)?;
/// # Ok::<(), farwood::Error>(())
/// ```
#[must_use = "a range reads its entries when it is iterated over"]
pub struct Range<K, V> {
    index: Handle,
    /// The keys, or the reason why a bound does not fit the index.
    span: Result<Span>,
    direction: Direction,
    limit: usize,
    /// The encoded key after which the entries begin, in the direction of the range.
    after: Option<Vec<u8>>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> Range<K, V> {
    pub(crate) fn new(index: Handle, range: &impl KeyRange<K>) -> Self {
        let span = Span::new::<K, _>(&index, range);
        Self::of(index, span)
    }

    pub(crate) fn of_prefix(index: Handle, prefix: &impl Prefix<K>) -> Self {
        let span = match prefix_of(prefix) {
            Ok(prefix) => Ok(Span::of_prefix(index.key_width(), prefix.as_ref())),
            Err(why) => Err(index.unfit("scan", "prefix", why)),
        };
        Self::of(index, span)
    }

    pub(crate) fn all(index: Handle) -> Self {
        let span = Span::all(index.key_width());
        Self::of(index, Ok(span))
    }

    fn of(index: Handle, span: Result<Span>) -> Self {
        let (direction, limit) = (Direction::Forward, usize::MAX);
        Self { index, span, direction, limit, after: None, types: PhantomData }
    }

    /// Begins after `key`, in the direction of the range: for the next page, give the last key of the present one. The
    /// key need not exist.
    pub fn after(mut self, key: impl Encode<K>) -> Self {
        match self.index.key::<K, _>("scan", &key) {
            Ok(key) => self.after = Some(key.as_ref().to_vec()),
            Err(error) => {
                if self.span.is_ok() {
                    self.span = Err(error);
                }
            }
        }
        self
    }

    /// Returns at most `limit` entries. Prefer it to [`Iterator::take`]: the scan reads no further leaves.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Reverses the order: from the end of the range, by decreasing key.
    pub fn rev(mut self) -> Self {
        self.direction = match self.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        self
    }

    /// The keys that are left after the first ones, in the direction of the range.
    fn remaining(&mut self) -> Result<Span> {
        let unread = Span::all(self.index.key_width());
        let mut span = std::mem::replace(&mut self.span, Ok(unread))?;
        if let Some(last) = &self.after {
            span.narrow(last, self.direction);
        }
        Ok(span)
    }

    /// Returns all entries of the range as of one moment during this call. The range must lie in at most 32 leaves
    /// (about 900 entries of 8-byte keys and values). [2 RT if the parent of the leaves is cached, 1 more for values
    /// stored outside their leaf; the same again each time that a client changes one of the leaves during the call]
    ///
    /// # Errors
    /// [`Error::Unfit`](crate::Error::Unfit); [`Error::Index`](crate::Error::Index): the range is too wide, the leaves
    /// change too often, or the index is a radix tree, which has no snapshots.
    pub fn snapshot(mut self) -> Result<Vec<(K, V)>> {
        let span = self.remaining()?;
        if self.limit == 0 || span.is_void() {
            return Ok(Vec::new());
        }
        let mut entries = Entries::new();
        self.index.snapshot(span.range(), self.direction, self.limit, &mut entries)?;
        entries.iter().map(|entry| decode(&self.index, entry)).collect()
    }

    /// Removes the entries of the range that `f` accepts; returns their number. Each removal is atomic: `f` is called
    /// again with the value that the entry has at that moment. It must be short, and must not use the pool. [as the
    /// iteration, and as [`Index::remove`](crate::Index::remove) for each entry that `f` accepts]
    ///
    /// # Errors
    /// As the iteration and as [`Index::remove`](crate::Index::remove). The entries up to the error are removed.
    pub fn remove_if(self, mut f: impl FnMut(&K, &V) -> bool + Send) -> Result<u64> {
        let index = self.index.clone();
        let mut removed = 0;
        for entry in self {
            let (key, value) = entry?;
            if !f(&key, &value) {
                continue;
            }
            let (mut undecoded, mut is_accepted) = (None, false);
            let mut accept = |value: Option<&[u8]>| {
                let value = value.map(|value| index.decode::<V>("remove", "value", value)).transpose();
                is_accepted = match value {
                    Ok(value) => value.is_some_and(|value| f(&key, &value)),
                    Err(error) => {
                        undecoded = Some(error);
                        false
                    }
                };
                is_accepted
            };
            index.remove_if("remove many", index.key::<K, _>("remove many", &key)?.as_ref(), &mut accept)?;
            undecoded.map_or(Ok(()), Err)?;
            removed += u64::from(is_accepted);
        }
        Ok(removed)
    }
}

impl<K: Key, V: Value> IntoIterator for Range<K, V> {
    type Item = Result<(K, V)>;
    type IntoIter = Scan<K, V>;

    /// Reads the entries. If a bound of the range does not fit the index, the first item is the error.
    fn into_iter(mut self) -> Scan<K, V> {
        let span = self.remaining();
        Scan::new(&self.index, span, self.direction, self.limit)
    }
}

impl<K, V> fmt::Debug for Range<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Range")
            .field("span", &self.span)
            .field("direction", &self.direction)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
