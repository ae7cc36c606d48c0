//! Indexes with types, and their blocking calls.

use crate::codec::{Codec, Key, Padded, Value, Width};
use crate::error::{Error, Result, Type, Unfit};
use crate::kind::Kind;
use crate::pool::Attached;
use crate::scan::Scan;
use crate::session::Session;
use crate::stats::IndexStats;
use crate::thread_client;
use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::ordered::{Ordered, Walk};
use farwood_transport::any::AnyFabric;
use farwood_transport::runtime::block_on;
use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

/// One open index, shared by all its handles in this process.
pub(crate) struct Tree {
    ordered: Ordered,
    pool: Arc<Attached>,
}

impl Tree {
    pub(crate) fn new(ordered: Ordered, pool: Arc<Attached>) -> Self {
        Self { ordered, pool }
    }

    #[inline]
    pub(crate) fn ordered(&self) -> &Ordered {
        &self.ordered
    }

    pub(crate) fn pool(&self) -> &Arc<Attached> {
        &self.pool
    }

    pub(crate) fn url(&self) -> String {
        self.pool.index_url(&self.ordered.entry().name)
    }

    pub(crate) fn kinds(&self) -> [Kind; 2] {
        self.ordered.kinds().map(Kind::from_number)
    }

    /// The type of the keys (0) or the values (1).
    pub(crate) fn type_of(&self, at: usize) -> Type {
        let (kind, width) = (self.kinds()[at], if at == 0 { self.key_width() } else { self.value_width() });
        let bytes = match width {
            Width::Exactly(bytes) => Some(bytes),
            Width::UpTo(_) => kind.width(),
        };
        Type { kind, bytes }
    }

    /// How long keys may be.
    #[inline]
    pub(crate) fn key_width(&self) -> Width {
        self.ordered.key_length().into()
    }

    /// How long values may be.
    #[inline]
    pub(crate) fn value_width(&self) -> Width {
        self.ordered.value_length().into()
    }

    #[cold]
    pub(crate) fn failed(&self, operation: &'static str, source: IndexError) -> Error {
        self.pool.failed(operation, &self.ordered.entry().name, source)
    }

    #[cold]
    pub(crate) fn unfit(&self, operation: &'static str, what: &'static str, why: Unfit) -> Error {
        Error::Unfit { operation, url: self.url(), what, why }
    }

    /// The bytes of a key.
    #[inline]
    pub(crate) fn key<'k, K: Key>(
        &self,
        operation: &'static str,
        key: &'k K::View,
    ) -> Result<K::Encoded<'k>> {
        K::encode(key, self.key_width()).map_err(|why| self.unfit(operation, "key", why))
    }

    /// The bytes of a value.
    #[inline]
    pub(crate) fn value<'v, V: Value>(
        &self,
        operation: &'static str,
        value: &'v V::View,
    ) -> Result<V::Encoded<'v>> {
        V::encode(value, self.value_width()).map_err(|why| self.unfit(operation, "value", why))
    }

    /// What the bytes of a value stand for.
    #[inline]
    pub(crate) fn decode<T: Codec>(
        &self,
        operation: &'static str,
        what: &'static str,
        bytes: &[u8],
    ) -> Result<T> {
        T::decode(bytes).map_err(|why| self.unfit(operation, what, why))
    }
}

impl Drop for Tree {
    /// Gives back what this process has of the index's memory and does not use, and closes the index, so that others
    /// may drop it. Should that fail, the pool's other users find both when this process has left. [at most 3 RT; no
    /// operation waits for them]
    fn drop(&mut self) {
        let client = thread_client::client(&self.pool);
        let _ = block_on(self.ordered.leave(&client));
        self.pool.close(&self.ordered.entry().name, || {
            let _ = block_on(self.ordered.close(&client));
        });
    }
}

/// An ordered index from `K` to `V` in a pool, open in this process. Clones, and all handles that were opened
/// through the same pool, share its cache and its local locks. When the last one is gone, with its scans and
/// sessions, the index is closed, and other processes may drop it.
///
/// Calls block the calling thread, for about the time that their round trips take, and may come from any
/// number of threads. For many operations at once on one thread there are [sessions](Self::session).
///
/// A blocking call finds its thread's client by itself. That, and making the bytes a `u64` again, adds 6 to 8 ns to a
/// lookup of 240 ns through a client at hand (10,000 keys, warm cache, a shared two-core machine;
/// `cargo bench -p farwood` measures it).
///
/// The round trips that methods tell are those of a Sherman index, of the variant that it has unless told
/// (`docs/costs.md` has all variants); those of radix trees are in `docs/costs-smart.md` and `docs/costs-sphinx.md`.
pub struct Index<K, V> {
    tree: Arc<Tree>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        Self { tree: Arc::clone(&self.tree), types: PhantomData }
    }
}

impl<K: Key, V: Value> Index<K, V> {
    pub(crate) fn of(tree: Arc<Tree>) -> Self {
        Self { tree, types: PhantomData }
    }

    /// The index's URL.
    pub fn url(&self) -> String {
        self.tree.url()
    }

    /// What keys and values are, as recorded in the index.
    pub fn kinds(&self) -> [Kind; 2] {
        self.tree.kinds()
    }

    /// How many bytes a key has.
    pub fn key_width(&self) -> Width {
        self.tree.key_width()
    }

    /// How many bytes a value has.
    pub fn value_width(&self) -> Width {
        self.tree.value_width()
    }

    /// The value of `key`, if it has one. [1 RT when the cache knows the leaf; 1 more for a value
    /// out of line, 2 above 2 MiB]
    ///
    /// # Errors
    /// [`Error::Unfit`] where the key cannot be in this index; [`Error::Index`].
    #[inline]
    pub fn get(&self, key: &K::View) -> Result<Option<V>> {
        let tree = &*self.tree;
        let key = tree.key::<K>("get", key)?;
        let client = thread_client::client(&tree.pool);
        match block_on(tree.ordered.get(&client, key.as_ref())) {
            Ok(Some(value)) => tree.decode("get", "value", &value).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(tree.failed("get", error)),
        }
    }

    /// Stores `value` under `key`; yields whether the key was there before.
    /// [2 RT when the cache knows the leaf, 1 when a thread of this process hands the leaf's lock over; a split
    /// adds 3 per level, and 1 where the sibling lies on another memory node; 1 more for a value out of line]
    ///
    /// # Errors
    /// [`Error::Unfit`]; [`Error::Index`], a full pool and a lock that is not to be had among these. The entry was then
    /// not stored; only where the fabric itself failed (a lost memory node, a revoked client) is that unknown.
    ///
    /// A split stores the entry first and tells the parent afterwards. Where the pool is full by then, or the parent's
    /// lock is not to be had, this has succeeded all the same: the new leaf is found through its left neighbour, at the
    /// cost of a step to the right, until a later operation tells the parent.
    pub fn put(&self, key: &K::View, value: &V::View) -> Result<bool> {
        let tree = &*self.tree;
        let (key, value) = (tree.key::<K>("put", key)?, tree.value::<V>("put", value)?);
        let client = thread_client::client(&tree.pool);
        block_on(tree.ordered.put(&client, key.as_ref(), value.as_ref()))
            .map_err(|error| tree.failed("put", error))
    }

    /// Stores `value` under `key` unless the key is there; yields whether it was stored. Costs and errors as
    /// [`put`](Self::put).
    pub fn insert(&self, key: &K::View, value: &V::View) -> Result<bool> {
        let tree = &*self.tree;
        let (key, value) = (tree.key::<K>("insert", key)?, tree.value::<V>("insert", value)?);
        let client = thread_client::client(&tree.pool);
        block_on(tree.ordered.insert(&client, key.as_ref(), value.as_ref()))
            .map_err(|error| tree.failed("insert", error))
    }

    /// Replaces the value of `key` if the key is there; yields whether it was. Costs and errors as
    /// [`put`](Self::put), without splits.
    pub fn update(&self, key: &K::View, value: &V::View) -> Result<bool> {
        let tree = &*self.tree;
        let (key, value) = (tree.key::<K>("update", key)?, tree.value::<V>("update", value)?);
        let client = thread_client::client(&tree.pool);
        block_on(tree.ordered.update(&client, key.as_ref(), value.as_ref()))
            .map_err(|error| tree.failed("update", error))
    }

    /// Removes `key`; yields whether it was there. Costs and errors as [`put`](Self::put), without splits.
    pub fn remove(&self, key: &K::View) -> Result<bool> {
        let tree = &*self.tree;
        let key = tree.key::<K>("remove", key)?;
        let client = thread_client::client(&tree.pool);
        block_on(tree.ordered.remove(&client, key.as_ref())).map_err(|error| tree.failed("remove", error))
    }

    /// The entries whose keys lie in `range`, by increasing key, or by decreasing key after
    /// [`reverse`](Scan::reverse). Leaves are fetched many at a time while the iterator moves on.
    /// [1 RT for up to 32 leaves whose parent is cached; of a radix tree 1 for the node at which the scan begins, the
    /// root unless cached copies lead further down, and 1 for each 64 nodes or leaves]
    ///
    /// A scan is not atomic, but it never misses a key that is there throughout. For all entries, see
    /// [`iter`](Self::iter).
    ///
    /// ```
    /// # use farwood::{IndexOptions, Pool, PoolOptions};
    /// # let url = format!("shm://doc-scan-{}", std::process::id());
    /// # Pool::create(&url, &PoolOptions { memory_bytes: 64 << 20, ..Default::default() })?;
    /// # let pool = Pool::open(&url)?;
    /// let options = IndexOptions { key_bytes: Some(16), ..Default::default() };
    /// let words = pool.create_index::<String, u64>("words", &options)?;
    /// for (word, number) in [("ant", 1), ("bee", 2), ("cat", 3)] {
    ///     words.put(word, &number)?;
    /// }
    /// let found: Vec<_> = words.scan("b"..).limit(10).collect::<Result<_, _>>()?;
    /// assert_eq!(found, [("bee".to_owned(), 2), ("cat".to_owned(), 3)]);
    /// let last = words.iter().reverse().next().transpose()?;
    /// assert_eq!(last, Some(("cat".to_owned(), 3)));
    /// # drop((words, pool));
    /// # Pool::remove(&url)?;
    /// # Ok::<(), farwood::Error>(())
    /// ```
    ///
    /// Where an end of the range does not fit the index, the iterator's first item is the error.
    pub fn scan<Q: Borrow<K::View>>(&self, range: impl RangeBounds<Q>) -> Scan<K, V> {
        Scan::new(Arc::clone(&self.tree), &range)
    }

    /// The entries whose keys begin with `prefix`, bytes as the index has them: of a text, its beginning.
    ///
    /// ```
    /// # use farwood::{Pool, PoolOptions, SmartOptions};
    /// # let url = format!("shm://doc-prefix-{}", std::process::id());
    /// # Pool::create(&url, &PoolOptions { memory_bytes: 64 << 20, ..Default::default() })?;
    /// # let pool = Pool::open(&url)?;
    /// let packages = pool.create_index::<String, u64>("packages", &SmartOptions::default())?;
    /// for (name, number) in [("left", 1), ("left-pad", 2), ("leftpad", 3), ("right", 4)] {
    ///     packages.put(name, &number)?;
    /// }
    /// let found: Vec<_> = packages.scan_prefix("left-").collect::<Result<_, _>>()?;
    /// assert_eq!(found, [("left-pad".to_owned(), 2)]);
    /// # drop((packages, pool));
    /// # Pool::remove(&url)?;
    /// # Ok::<(), farwood::Error>(())
    /// ```
    pub fn scan_prefix(&self, prefix: impl AsRef<[u8]>) -> Scan<K, V> {
        Scan::of_prefix(Arc::clone(&self.tree), prefix.as_ref())
    }

    /// All entries, as by [`scan`](Self::scan).
    pub fn iter(&self) -> Scan<K, V> {
        Scan::all(Arc::clone(&self.tree))
    }

    /// How many entries there are; not atomic, as a scan is not. [1 RT per 32 leaves]
    ///
    /// # Errors
    /// [`Error::Index`].
    pub fn count(&self) -> Result<u64> {
        let client = thread_client::client(&self.tree.pool);
        block_on(self.tree.ordered.count(&client)).map_err(|error| self.tree.failed("count", error))
    }

    /// Loads `entries`, whose keys are strictly increasing, into the empty index, filling nodes to the share `fill`
    /// (0 to 1; 0.8 leaves room for inserts). `progress` is called with the number of entries so far, now and
    /// then. Yields how many there are. [1 RT per 64 nodes]
    ///
    /// # Errors
    /// [`Error::Index`]: the index is not empty, the keys are not sorted, the pool is full; [`Error::Unfit`]. The
    /// index is then empty as before, but keeps the memory that it took until it is dropped.
    pub fn bulk_load<A, B>(
        &self,
        entries: impl IntoIterator<Item = (A, B)>,
        fill: f64,
        progress: impl FnMut(u64),
    ) -> Result<u64>
    where
        A: Borrow<K::View>,
        B: Borrow<V::View>,
    {
        let tree = &*self.tree;
        let mut unfit = None;
        // What does not fit becomes an entry of no bytes, which ends the load before anything of it is seen.
        let encoded = entries.into_iter().map(|(key, value)| {
            let encoded = || -> Result<_> {
                let key = tree.key::<K>("bulk load", key.borrow())?;
                let value = tree.value::<V>("bulk load", value.borrow())?;
                Ok((keep(key.as_ref()), keep(value.as_ref())))
            };
            encoded().unwrap_or_else(|error| {
                unfit = Some(error);
                (keep(&[]), keep(&[]))
            })
        });
        let client = thread_client::client(&tree.pool);
        let loaded = block_on(tree.ordered.bulk_load(&client, encoded, fill, progress));
        match unfit {
            Some(error) => Err(error),
            None => loaded.map_err(|error| tree.failed("bulk load", error)),
        }
    }

    /// Walks the index, which nobody changes meanwhile, and verifies every invariant. [1 RT per node, and per KiB
    /// of lock table]
    ///
    /// # Errors
    /// [`Error::Index`]. What is wrong with the index is in the [`Walk`].
    pub fn check(&self) -> Result<Walk> {
        let client = thread_client::client(&self.tree.pool);
        block_on(self.tree.ordered.walk(&client)).map_err(|error| self.tree.failed("check", error))
    }

    /// Sizes, options and cache of the index, as this process sees it. [0 RT]
    pub fn stats(&self) -> IndexStats {
        IndexStats::of(&self.tree)
    }

    /// A session: async calls for the current thread, with a client of its own. Not to be mixed with this handle's
    /// blocking calls on one thread, see [`Session`].
    pub fn session(&self) -> Session<K, V> {
        Session::new(Arc::clone(&self.tree))
    }

    /// The tree itself and a client of the current thread, for those who measure.
    #[doc(hidden)]
    pub fn parts(&self) -> (&Ordered, Client<AnyFabric>) {
        (&self.tree.ordered, self.tree.pool.attachment().client())
    }
}

impl<K: Key, V: Value> IntoIterator for &Index<K, V> {
    type Item = Result<(K, V)>;
    type IntoIter = Scan<K, V>;

    fn into_iter(self) -> Scan<K, V> {
        self.iter()
    }
}

fn keep(bytes: &[u8]) -> Padded {
    Padded::new(bytes, bytes.len())
}

impl<K, V> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index").field(&self.tree.url()).finish()
    }
}
