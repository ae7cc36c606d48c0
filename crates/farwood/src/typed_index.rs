//! Typed handles of ordered indexes, with blocking calls.

use crate::argument::Call;
use crate::async_index::AsyncIndex;
use crate::batch::BatchValues;
use crate::bulk_load::BulkLoad;
use crate::codec::{Encode, Key, KeyRange, Prefix, Value, View};
use crate::error::Result;
use crate::handle::Handle;
use crate::index_stats::IndexStats;
use crate::inline_bytes::InlineBytes;
use crate::kind::Kind;
use crate::patience::Interrupt;
use crate::range::Range;
use crate::scan::Scan;
use crate::session::Session;
use crate::tree::Tree;
use crate::width::Width;
use farwood_fabric::{Client, directory};
use farwood_index::ordered::{Ordered, OrderedReport};
use farwood_index::{InsertOutcome, PutOutcome, RemoveOutcome, UpdateOutcome};
use farwood_transport::any::AnyFabric;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A handle of an ordered index from `K` to `V`. Clones, and all handles opened through the same pool, share the index
/// cache and the local locks. When the last handle, scan and session is dropped, the index is closed, and other
/// processes can drop it.
///
/// Calls block the calling thread for the duration of their round trips. Any number of threads may use a handle. To run
/// many operations concurrently on one thread, use [sessions](Self::session).
///
/// Each blocking call looks up the client of its thread and converts keys and values to bytes, which takes about 12 ns
/// of a lookup of 390 ns (10,000 keys, warm cache, a shared two-core machine; `cargo bench -p farwood` measures it).
///
/// The costs of the methods are those of a Sherman index of the default variant. `docs/costs.md` has all variants;
/// `docs/costs-smart.md` and `docs/costs-sphinx.md` have those of the radix trees.
pub struct Index<K, V> {
    tree: Handle,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        Self { tree: self.tree.clone(), types: PhantomData }
    }
}

impl<K: Key, V: Value> Index<K, V> {
    pub(crate) fn of(tree: Arc<Tree>) -> Self {
        Self { tree: Handle::new(tree), types: PhantomData }
    }

    #[inline]
    pub(crate) fn handle(&self) -> &Handle {
        &self.tree
    }

    /// Returns a handle of the same index whose calls wait no longer than `limit`, and then end with the error
    /// [`TimedOut`](crate::error::ErrorKind::TimedOut): at a lock that another client holds, or at a memory node that
    /// does not answer. The effect of a change that was interrupted is unknown, even if it waited for a lock only; its
    /// locks are freed at once. A call that does not wait is not interrupted. Each batch of a range or a bulk load has
    /// the limit. Sessions and async handles that are created from the handle have the same limit.
    ///
    /// Without a limit, a call waits up to 20 s for a lock whose holder is alive, and for a memory node that does not
    /// answer.
    #[must_use]
    pub fn with_timeout(&self, limit: Duration) -> Self {
        Self { tree: self.tree.with_limit(limit), types: PhantomData }
    }

    /// Returns a handle of the same index whose blocking calls ask `interrupt` every 50 ms while they wait, and end
    /// with the error [`TimedOut`](crate::error::ErrorKind::TimedOut) when it returns true. The effect of an
    /// interrupted change is unknown, as after [`with_timeout`](Self::with_timeout). Sessions and async handles that
    /// are created from the handle are not interrupted: drop their futures.
    ///
    /// `interrupt` runs on the thread that calls.
    #[must_use]
    pub fn with_interrupt(&self, interrupt: Interrupt) -> Self {
        Self { tree: self.tree.with_interrupt(interrupt), types: PhantomData }
    }

    /// The URL of the index.
    pub fn url(&self) -> String {
        self.tree.url()
    }

    /// The types of keys and values, as recorded in the index.
    pub fn kinds(&self) -> [Kind; 2] {
        self.tree.kinds()
    }

    /// Whether the recorded name of the type of the values is `name`; `None`: the index records no name.
    pub fn has_value_type(&self, name: &str) -> Option<bool> {
        self.tree.types()[1].map(|hash| hash == directory::type_hash(name))
    }

    /// The permitted length of a key, in bytes.
    pub fn key_width(&self) -> Width {
        self.tree.key_width()
    }

    /// The permitted length of a value, in bytes.
    pub fn value_width(&self) -> Width {
        self.tree.value_width()
    }

    /// Returns the value of `key`, or `None`. [1 RT if the leaf is cached; 1 more for a value stored outside its leaf,
    /// 2 more above 2 MiB]
    ///
    /// # Errors
    /// [`Error::Unfit`](crate::Error::Unfit) if the key does not fit the index; [`Error::Index`](crate::Error::Index).
    #[inline]
    pub fn get(&self, key: impl Encode<K>) -> Result<Option<V>> {
        let tree = &self.tree;
        let key = tree.key::<K, _>("get", &key)?;
        tree.get(key.as_ref())?.map(|value| tree.decode("get", "value", &value)).transpose()
    }

    /// Stores `value` under `key`; returns whether the key existed before.
    /// [2 RT if the leaf is cached, 1 if another thread of this process hands the lock of the leaf over; a split adds 3
    /// per level, and 1 if the sibling is on another memory node; 1 more for a value stored outside its leaf]
    ///
    /// # Errors
    /// [`Error::Unfit`](crate::Error::Unfit); [`Error::Index`](crate::Error::Index), including a full pool and a lock
    /// timeout. After such an error the entry is not stored. After an error of the fabric (a lost memory node, a
    /// revoked client), the entry may be stored or not.
    ///
    /// A split stores the entry first and updates the parent afterwards. If the pool is full at that moment, or the
    /// parent's lock cannot be acquired, the call still succeeds: readers reach the new leaf through its left sibling,
    /// at the cost of one more READ, until a later operation updates the parent.
    pub fn put(&self, key: impl Encode<K>, value: impl Encode<V>) -> Result<bool> {
        let tree = &self.tree;
        let (key, value) = (tree.key::<K, _>("put", &key)?, tree.value::<V, _>("put", &value)?);
        tree.put(key.as_ref(), value.as_ref()).map(PutOutcome::replaced)
    }

    /// Calls `read` with the value of `key` in the buffer into which it was read, without a copy; returns its result,
    /// or `None` if the key is absent. Costs and errors as [`get`](Self::get).
    ///
    /// ```
    /// # use farwood::{Pool, PoolOptions, Radix};
    /// # let url = format!("shm://doc-get-with-{}", std::process::id());
    /// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    /// # let pool = Pool::open(&url)?;
    /// let pages = pool.create_index::<String, String>("pages", &Radix::new())?;
    /// pages.put("home", "<h1>Home</h1>")?;
    /// assert_eq!(pages.get_with("home", |page| page.len())?, Some(13));
    /// # drop((pages, pool));
    /// # Pool::remove(&url)?;
    /// # Ok::<(), farwood::Error>(())
    /// ```
    pub fn get_with<R>(&self, key: impl Encode<K>, read: impl FnOnce(V::View<'_>) -> R) -> Result<Option<R>>
    where
        V: View,
    {
        let tree = &self.tree;
        let Some(value) = tree.get(tree.key::<K, _>("get", &key)?.as_ref())? else { return Ok(None) };
        let view = V::view(&value).map_err(|why| tree.unfit("get", "value", why))?;
        Ok(Some(read(view)))
    }

    /// As [`get_with`](Self::get_with), if the lookup need not wait: in shared memory, through a handle without a time
    /// limit or an interrupt, with the client that an earlier call of this thread has opened, while no other client
    /// changes the entry. `Poll::Pending`: call `get_with`. An interpreter calls it with its global lock held, and
    /// releases the lock before it calls `get_with`.
    ///
    /// ```
    /// # use farwood::{Pool, PoolOptions, Radix};
    /// # use std::task::Poll;
    /// # let url = format!("shm://doc-try-get-with-{}", std::process::id());
    /// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    /// # let pool = Pool::open(&url)?;
    /// let ages = pool.create_index::<String, u64>("ages", &Radix::new())?;
    /// ages.put("Ada", 36)?;
    /// assert_eq!(ages.try_get_with("Ada", |age| age)?, Poll::Ready(Some(36)));
    /// # drop((ages, pool));
    /// # Pool::remove(&url)?;
    /// # Ok::<(), farwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn try_get_with<R>(
        &self,
        key: impl Encode<K>,
        read: impl FnOnce(V::View<'_>) -> R,
    ) -> Result<Poll<Option<R>>>
    where
        V: View,
    {
        let tree = &self.tree;
        let Poll::Ready(found) = tree.try_get(tree.key::<K, _>("get", &key)?.as_ref()) else {
            return Ok(Poll::Pending);
        };
        let Some(value) = found? else { return Ok(Poll::Ready(None)) };
        let view = V::view(&value).map_err(|why| tree.unfit("get", "value", why))?;
        Ok(Poll::Ready(Some(read(view))))
    }

    /// Returns the values of many keys, in their order. Over a network the lookups of up to 64 keys run at the same
    /// time, and their verbs share doorbells; in shared memory they run one after the other, which is faster there.
    /// [1 RT for 64 keys whose leaves are cached]
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many<Q: Encode<K>>(&self, keys: impl IntoIterator<Item = Q>) -> Result<Vec<Option<V>>> {
        let keys = self.keys("get many", keys)?;
        let mut values = BatchValues::with_capacity(keys.len());
        self.tree.get_many(&keys, &mut |value| values.decode(value))?;
        values.finish(&self.tree)
    }

    /// As [`get_many`](Self::get_many), but calls `read` with each value in the buffer into which it was read, in the
    /// order of the keys; `None`: the key is absent. For programs that have a place for the values, such as an array.
    ///
    /// ```
    /// # use farwood::{Pool, PoolOptions, BTree};
    /// # let url = format!("shm://doc-get-many-with-{}", std::process::id());
    /// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    /// # let pool = Pool::open(&url)?;
    /// let stock = pool.create_index::<u64, u64>("stock", &BTree::new())?;
    /// stock.put_many([(1, 10), (2, 20)])?;
    /// let mut sum = 0;
    /// stock.get_many_with([1, 2, 3], |pieces| sum += pieces.unwrap_or(0))?;
    /// assert_eq!(sum, 30);
    /// # drop((stock, pool));
    /// # Pool::remove(&url)?;
    /// # Ok::<(), farwood::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get). `read` may have been called with the values before the error.
    pub fn get_many_with<Q: Encode<K>>(
        &self,
        keys: impl IntoIterator<Item = Q>,
        mut read: impl FnMut(Option<V::View<'_>>) + Send,
    ) -> Result<()>
    where
        V: View,
    {
        let keys = self.keys("get many", keys)?;
        let mut unfit = None;
        self.tree.get_many(&keys, &mut |value| match value.map(V::view).transpose() {
            Ok(view) if unfit.is_none() => read(view),
            Ok(_) => {}
            Err(why) => unfit = unfit.take().or(Some(why)),
        })?;
        unfit.map_or(Ok(()), |why| Err(self.tree.unfit("get many", "value", why)))
    }

    /// Stores many entries; returns for each whether its key existed before. Over a network up to 64 keys are stored at
    /// the same time, and the entries of one key in their order. Each entry is one atomic change; the batch is not.
    /// [2 RT for 64 keys whose leaves are cached and differ]
    ///
    /// # Errors
    /// As [`put`](Self::put). The entries before the error may be stored.
    pub fn put_many<Q: Encode<K>, W: Encode<V>>(
        &self,
        entries: impl IntoIterator<Item = (Q, W)>,
    ) -> Result<Vec<bool>> {
        let entries = entries.into_iter().map(|(key, value)| {
            let key = self.tree.key::<K, _>("put many", &key)?;
            let value = self.tree.value::<V, _>("put many", &value)?;
            Ok((InlineBytes::copy(key.as_ref()), InlineBytes::copy(value.as_ref())))
        });
        self.tree.put_many(&entries.collect::<Result<Vec<_>>>()?)
    }

    /// Removes many keys; returns for each whether it existed. As [`put_many`](Self::put_many).
    ///
    /// # Errors
    /// As [`remove`](Self::remove). The keys before the error may be removed.
    pub fn remove_many<Q: Encode<K>>(&self, keys: impl IntoIterator<Item = Q>) -> Result<Vec<bool>> {
        self.tree.remove_many(&self.keys("remove many", keys)?)
    }

    fn keys<Q: Encode<K>>(
        &self,
        operation: &'static str,
        keys: impl IntoIterator<Item = Q>,
    ) -> Result<Vec<InlineBytes>> {
        let encoded = |key: Q| Ok(InlineBytes::copy(self.tree.key::<K, _>(operation, &key)?.as_ref()));
        keys.into_iter().map(encoded).collect()
    }

    /// Stores `value` under `key` if the key does not exist; returns whether it was stored. Costs and errors as
    /// [`put`](Self::put).
    pub fn insert(&self, key: impl Encode<K>, value: impl Encode<V>) -> Result<bool> {
        let tree = &self.tree;
        let (key, value) = (tree.key::<K, _>("insert", &key)?, tree.value::<V, _>("insert", &value)?);
        tree.insert(key.as_ref(), value.as_ref()).map(InsertOutcome::inserted)
    }

    /// Replaces the value of `key` if the key exists; returns whether it does. Costs and errors as
    /// [`put`](Self::put), without splits.
    pub fn update(&self, key: impl Encode<K>, value: impl Encode<V>) -> Result<bool> {
        let tree = &self.tree;
        let (key, value) = (tree.key::<K, _>("update", &key)?, tree.value::<V, _>("update", &value)?);
        tree.update(key.as_ref(), value.as_ref()).map(UpdateOutcome::updated)
    }

    /// Removes `key`; returns whether it existed. Costs and errors as [`put`](Self::put), without splits.
    pub fn remove(&self, key: impl Encode<K>) -> Result<bool> {
        let tree = &self.tree;
        let key = tree.key::<K, _>("remove", &key)?;
        tree.remove(key.as_ref()).map(RemoveOutcome::removed)
    }

    /// The entries whose keys are in `range`, with a limit, in another order, or as a snapshot: see [`Range`].
    pub fn range(&self, range: impl KeyRange<K>) -> Range<K, V> {
        Range::new(self.tree.clone(), &range)
    }

    /// The entries whose keys begin with `prefix`, as [`scan_prefix`](Self::scan_prefix) selects them.
    pub fn prefix(&self, prefix: impl Prefix<K>) -> Range<K, V> {
        Range::of_prefix(self.tree.clone(), &prefix)
    }

    /// Iterates over the entries whose keys are in `range`, in increasing order, or from the end by `rev()`. The
    /// iterator fetches many leaves at a time. [1 RT for up to 32 leaves whose parent is cached; in a radix tree 1 for
    /// the node at which the scan starts (the root unless a deeper node is cached), and 1 for each 64 nodes or leaves]
    ///
    /// A scan is not atomic, but it returns every key that exists during the whole scan. [`iter`](Self::iter) iterates
    /// over all entries; [`range`](Self::range) limits their number.
    ///
    /// ```
    /// # use farwood::{BTree, Pool, PoolOptions};
    /// # let url = format!("shm://doc-scan-{}", std::process::id());
    /// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    /// # let pool = Pool::open(&url)?;
    /// let options = BTree::new().key_bytes(16);
    /// let words = pool.create_index::<String, u64>("words", &options)?;
    /// for (word, number) in [("ant", 1), ("bee", 2), ("cat", 3)] {
    ///     words.put(word, number)?;
    /// }
    /// let found: Vec<_> = words.scan("b"..).collect::<Result<_, _>>()?;
    /// assert_eq!(found, [("bee".to_owned(), 2), ("cat".to_owned(), 3)]);
    /// assert_eq!((words.iter().count(), words.scan(..).count()), (3, 3));
    /// let last = words.iter().next_back().transpose()?;
    /// assert_eq!(last, Some(("cat".to_owned(), 3)));
    /// // The next page begins after the last key:
    /// use std::ops::Bound::{Excluded, Unbounded};
    /// let next: Vec<_> = words.scan((Excluded("bee"), Unbounded)).collect::<Result<_, _>>()?;
    /// assert_eq!(next, [("cat".to_owned(), 3)]);
    /// # drop((words, pool));
    /// # Pool::remove(&url)?;
    /// # Ok::<(), farwood::Error>(())
    /// ```
    ///
    /// If a bound of the range does not fit the index, the first item of the iterator is the error.
    pub fn scan(&self, range: impl KeyRange<K>) -> Scan<K, V> {
        self.range(range).into_iter()
    }

    /// Iterates over the entries whose keys begin with `prefix`: a text, a byte string, or a tuple of the first
    /// components of keys that are tuples. [`StartsWith`](crate::types::StartsWith) marks a text that is the start of
    /// the last component.
    ///
    /// ```
    /// # use farwood::{Pool, PoolOptions, Radix};
    /// # let url = format!("shm://doc-prefix-{}", std::process::id());
    /// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    /// # let pool = Pool::open(&url)?;
    /// let packages = pool.create_index::<String, u64>("packages", &Radix::new())?;
    /// for (name, number) in [("left", 1), ("left-pad", 2), ("leftpad", 3), ("right", 4)] {
    ///     packages.put(name, number)?;
    /// }
    /// let found: Vec<_> = packages.scan_prefix("left-").collect::<Result<_, _>>()?;
    /// assert_eq!(found, [("left-pad".to_owned(), 2)]);
    ///
    /// use farwood::types::StartsWith;
    /// let owned = pool.create_index::<(u32, String), u64>("owned", &Radix::new())?;
    /// for (owner, name, number) in [(7, "left", 1), (7, "left-pad", 2), (7, "right", 3), (8, "left-pad", 4)] {
    ///     owned.put((owner, name), number)?;
    /// }
    /// assert_eq!(owned.scan_prefix((7,)).count(), 3);
    /// assert_eq!(owned.scan_prefix((7, "left")).count(), 1);
    /// assert_eq!(owned.scan_prefix((7, StartsWith("left"))).count(), 2);
    /// # drop((packages, owned, pool));
    /// # Pool::remove(&url)?;
    /// # Ok::<(), farwood::Error>(())
    /// ```
    pub fn scan_prefix(&self, prefix: impl Prefix<K>) -> Scan<K, V> {
        self.prefix(prefix).into_iter()
    }

    /// Iterates over all entries, as [`scan`](Self::scan) does.
    pub fn iter(&self) -> Scan<K, V> {
        Range::all(self.tree.clone()).into_iter()
    }

    /// Counts the entries; like a scan, this is not atomic. [1 RT per 32 leaves]
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index).
    pub fn count(&self) -> Result<u64> {
        self.tree.count()
    }

    /// Loads many sorted entries into the empty index, see [`BulkLoad`].
    pub fn bulk_load(&self) -> BulkLoad<'_, K, V> {
        BulkLoad::new(&self.tree)
    }

    /// Reads every entry and its value, and verifies their checksums, while other processes may change the index;
    /// returns the number of entries. [as a [`scan`](Self::scan) of all entries]
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index): an entry, a value or a node is damaged; the errors of the transport.
    /// [`Error::Argument`](crate::Error::Argument): the index has versions instead of checksums.
    pub fn scrub(&self) -> Result<u64> {
        if let Ordered::Sherman(tree) = self.tree.ordered() {
            Call { operation: "scrub", url: self.url() }.check_scheme(tree.layout().consistency)?;
        }
        let mut entries = 0;
        for entry in self {
            entry?;
            entries += 1;
        }
        Ok(entries)
    }

    /// Walks the index and verifies every invariant. No process may change the index during the walk. [1 RT per node,
    /// and per 64 KiB of lock table]
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index). The [`OrderedReport`] lists violated invariants.
    pub fn check(&self) -> Result<OrderedReport> {
        self.tree.check()
    }

    /// Returns the types and options of the index, and the use of its cache in this process. [0 RT]
    pub fn stats(&self) -> IndexStats {
        IndexStats::of(self.tree.tree())
    }

    /// Creates a handle whose calls return futures that any executor may poll and move between threads. It starts a
    /// thread, which all async handles of the pool share.
    ///
    /// # Errors
    /// [`Error::Thread`](crate::Error::Thread): the thread cannot be started.
    pub fn to_async(&self) -> Result<AsyncIndex<K, V>> {
        AsyncIndex::new(Arc::clone(self.tree.tree()), self.tree.limit())
    }

    /// Creates a session: async calls for the current thread, with a separate client. Do not interleave them with
    /// blocking calls on the same thread, see [`Session`].
    pub fn session(&self) -> Session<K, V> {
        Session::new(Arc::clone(self.tree.tree()), self.tree.limit())
    }

    /// Returns the untyped index and a new client for the current thread, for benchmarks.
    #[doc(hidden)]
    pub fn parts(&self) -> (&Ordered, Client<AnyFabric>) {
        (self.tree.ordered(), self.tree.pool().attachment().client())
    }
}

impl<K: Key, V: Value> IntoIterator for &Index<K, V> {
    type Item = Result<(K, V)>;
    type IntoIter = Scan<K, V>;

    fn into_iter(self) -> Scan<K, V> {
        self.iter()
    }
}

impl<K, V> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index").field(&self.tree.url()).finish()
    }
}
