//! Loading an empty index.

use crate::argument::Call;
use crate::codec::{Encode, Key, Value};
use crate::error::{Error, Result};
use crate::handle::Handle;
use crate::inline_bytes::InlineBytes;
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;

/// The fill factor of nodes that leaves space for inserts.
const FILL: f64 = 0.8;

/// A bulk load of an empty index, created by [`Index::bulk_load`](crate::Index::bulk_load).
///
/// ```
/// # use farwood::{BTree, Pool, PoolOptions};
/// # let url = format!("shm://doc-bulk-{}", std::process::id());
/// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
/// # let pool = Pool::open(&url)?;
/// let squares = pool.create_index::<u64, u64>("squares", &BTree::new())?;
/// let loaded = squares.bulk_load().fill(0.9).run((0..1000).map(|number| (number, number * number)))?;
/// assert_eq!(loaded, 1000);
///
/// // Entries from a file: its errors end the load.
/// let lines = pool.create_index::<u64, u64>("lines", &BTree::new())?;
/// let entries = "1\n2\nx".lines().map(|line| Ok((line.parse::<u64>()?, 0)));
/// let loaded: Result<u64, Box<dyn std::error::Error>> = lines.bulk_load().try_run(entries);
/// assert!(loaded.is_err() && lines.count()? == 0);
/// # drop((squares, lines, pool));
/// # Pool::remove(&url)?;
/// # Ok::<(), farwood::Error>(())
/// ```
#[must_use = "a bulk load does nothing before `run`"]
pub struct BulkLoad<'i, K, V> {
    index: &'i Handle,
    fill: f64,
    progress: Box<dyn FnMut(u64) + 'i>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'i, K: Key, V: Value> BulkLoad<'i, K, V> {
    pub(crate) fn new(index: &'i Handle) -> Self {
        Self { index, fill: FILL, progress: Box::new(|_| ()), types: PhantomData }
    }

    /// Sets the fill factor of the nodes, 0.5 to 1; without this call 0.8, which leaves space for inserts. Nodes of
    /// radix trees have none.
    pub fn fill(mut self, fill: f64) -> Self {
        self.fill = fill;
        self
    }

    /// Calls `progress` with the number of entries so far, at intervals.
    pub fn progress(mut self, progress: impl FnMut(u64) + 'i) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Loads `entries`, whose keys are strictly increasing; returns their number. [1 RT per 64 nodes]
    ///
    /// # Errors
    /// [`Error::Argument`]: the fill factor is out of range. [`Error::Index`]: the index is not empty, the keys are not
    /// sorted, or the pool is full; [`Error::Unfit`]. After an error the index is still empty, and keeps the memory
    /// that the call allocated until the index is dropped.
    pub fn run<A: Encode<K>, B: Encode<V>>(self, entries: impl IntoIterator<Item = (A, B)>) -> Result<u64> {
        self.try_run(entries.into_iter().map(|entry| Ok(Ok::<_, Infallible>(entry)?)))
    }

    /// As [`run`](Self::run), with entries that may be errors: the first one ends the load.
    ///
    /// # Errors
    /// As [`run`](Self::run), and the error of an entry. The index is still empty.
    pub fn try_run<A, B, E>(self, entries: impl IntoIterator<Item = Result<(A, B), E>>) -> Result<u64, E>
    where
        A: Encode<K>,
        B: Encode<V>,
        E: From<Error>,
    {
        let index = self.index;
        self.try_run_encoded(entries.into_iter().map(|entry| {
            let (key, value) = entry?;
            Ok((
                index.encode_within::<K, _>("bulk load", ("key", index.key_width()), &key)?,
                index.encode_within::<V, _>("bulk load", ("value", index.value_width()), &value)?,
            ))
        }))
    }

    /// As [`try_run`](Self::try_run), with bytes whose lengths the index permits.
    pub(crate) fn try_run_encoded<E: From<Error>>(
        mut self,
        entries: impl IntoIterator<Item = Result<(InlineBytes, InlineBytes), E>>,
    ) -> Result<u64, E> {
        Call { operation: "bulk load", url: self.index.url() }.check_fill(self.fill)?;
        let mut refused = None;
        let mut entries = entries.into_iter();
        // A refused entry is replaced by two empty ones, which end the load before the index is visible: their keys do
        // not increase.
        let mut encoded = std::iter::from_fn(|| {
            if refused.is_none() {
                match entries.next()? {
                    Ok(entry) => return Some(entry),
                    Err(error) => refused = Some(error),
                }
            }
            Some((InlineBytes::empty(), InlineBytes::empty()))
        });
        let loaded = self.index.bulk_load(&mut encoded, self.fill, &mut self.progress);
        refused.map_or_else(|| Ok(loaded?), Err)
    }
}

impl<K, V> fmt::Debug for BulkLoad<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkLoad").field("fill", &self.fill).finish_non_exhaustive()
    }
}
