//! Async calls on ordered indexes whose futures may move between threads.

use crate::answer::Answer;
use crate::batch::BatchValues;
use crate::codec::{Encode, Key, KeyRange, Value};
use crate::conditional::{self, Conditional, Counter, Decided, Found, encoded};
use crate::erased::ScanKind;
use crate::error::{Error, Result};
use crate::patience::Patience;
use crate::scan::decode;
use crate::span::Span;
use crate::task_driver::{Finished, TaskDriver};
use crate::tree::Tree;
use farwood_fabric::{Client, FabricError};
use farwood_index::sherman::Direction;
use farwood_transport::any::AnyFabric;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Async calls on an ordered index, for programs with an executor such as tokio. Create it with
/// [`Index::to_async`](crate::Index::to_async).
///
/// The futures are `Send + 'static` and need no executor of this library: a thread of the pool, the same for all async
/// handles of the pool, executes the calls, many at a time on one connection to each memory node. A call begins when
/// the method is called, before the [`Answer`] is awaited. A dropped answer is forgotten; the call ends as it would
/// have ended, and holds no lock for longer. So `tokio::time::timeout` and `select!` are safe.
///
/// A call costs the same round trips as that of an [`Index`](crate::Index), and 10 to 20 us to wake the two threads. To
/// count round trips, or to save that time, use a [`Session`](crate::index::Session) on one thread.
///
/// Handles may be cloned, and shared by threads. When the last one of a pool is dropped, the thread ends after the
/// calls that have begun. Dropping a handle does not wait: if it is the last handle of the index, of any kind, the
/// thread closes the index. [`finished`](Self::finished) waits for the calls and for that.
///
/// ```
/// # use farwood::runtime::block_on;
/// # use farwood::{BTree, Pool, PoolOptions};
/// # let url = format!("shm://doc-async-{}", std::process::id());
/// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
/// # let pool = Pool::open(&url)?;
/// let visits = pool.create_index::<String, u64>("visits", &farwood::Radix::new())?.to_async()?;
/// # let executor = |future: std::pin::Pin<Box<dyn Future<Output = farwood::Result<()>> + Send>>| block_on(future);
/// executor(Box::pin({
///     let visits = visits.clone();
///     async move {
///         visits.fetch_add("home", 1).await?;
///         assert_eq!(visits.get("home").await?, Some(1));
///         Ok(())
///     }
/// }))?;
/// # drop((visits, pool));
/// # Pool::remove_by_force(&url)?;
/// # Ok::<(), farwood::Error>(())
/// ```
pub struct AsyncIndex<K, V> {
    tree: TaskDriver<Tree>,
    /// The URL of the index, for errors: an answer must not keep the index open.
    url: Arc<str>,
    /// The longest duration of a call.
    limit: Option<Duration>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for AsyncIndex<K, V> {
    fn clone(&self) -> Self {
        Self { tree: self.tree.clone(), url: Arc::clone(&self.url), limit: self.limit, types: PhantomData }
    }
}

/// Unwraps a result, or returns an answer that has failed.
macro_rules! ready {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Answer::failed(error),
        }
    };
}

impl<K: Key, V: Value> AsyncIndex<K, V> {
    pub(crate) fn new(tree: Arc<Tree>, limit: Option<Duration>) -> Result<Self> {
        let (url, pool) = (tree.url().into(), Arc::clone(tree.pool()));
        let tree = TaskDriver::new(tree, &pool, "start async calls of")?;
        Ok(Self { tree, url, limit, types: PhantomData })
    }

    /// The URL of the index.
    pub fn url(&self) -> String {
        self.tree.url()
    }

    /// As [`Index::get`](crate::Index::get).
    pub fn get(&self, key: impl Encode<K>) -> Answer<Option<V>> {
        let key = ready!(self.key("get", &key));
        self.ask("get", async move |tree, client| {
            let found = tree.run("get", tree.ordered().get(client, &key)).await?;
            found.map(|value| tree.decode("get", "value", &value)).transpose()
        })
    }

    /// As [`Index::get_many`](crate::Index::get_many).
    pub fn get_many<Q: Encode<K>>(&self, keys: impl IntoIterator<Item = Q>) -> Answer<Vec<Option<V>>> {
        let keys: Result<Vec<_>> = keys.into_iter().map(|key| self.key("get many", &key)).collect();
        let keys = ready!(keys);
        self.ask("get many", async move |tree, client| {
            let mut values = BatchValues::with_capacity(keys.len());
            let mut read = |value: Option<&[u8]>| values.decode(value);
            tree.run("get many", crate::batch::get_many(tree.ordered(), client, &keys, &mut read)).await?;
            values.finish(tree)
        })
    }

    /// As [`Index::put`](crate::Index::put).
    pub fn put(&self, key: impl Encode<K>, value: impl Encode<V>) -> Answer<bool> {
        let (key, value) = ready!(self.entry("put", &key, &value));
        self.ask("put", async move |tree, client| {
            let done = tree.run("put", tree.ordered().put(client, &key, &value)).await;
            done.map(farwood_index::PutOutcome::replaced)
        })
    }

    /// As [`Index::put_many`](crate::Index::put_many).
    pub fn put_many<Q: Encode<K>, W: Encode<V>>(
        &self,
        entries: impl IntoIterator<Item = (Q, W)>,
    ) -> Answer<Vec<bool>> {
        let entries = entries.into_iter().map(|(key, value)| self.entry("put many", &key, &value));
        let entries = ready!(entries.collect::<Result<Vec<_>>>());
        self.ask("put many", async move |tree, client| {
            tree.run("put many", crate::batch::put_many(tree.ordered(), client, &entries)).await
        })
    }

    /// As [`Index::insert`](crate::Index::insert).
    pub fn insert(&self, key: impl Encode<K>, value: impl Encode<V>) -> Answer<bool> {
        let (key, value) = ready!(self.entry("insert", &key, &value));
        self.ask("insert", async move |tree, client| {
            let done = tree.run("insert", tree.ordered().insert(client, &key, &value)).await;
            done.map(farwood_index::InsertOutcome::inserted)
        })
    }

    /// As [`Index::update`](crate::Index::update).
    pub fn update(&self, key: impl Encode<K>, value: impl Encode<V>) -> Answer<bool> {
        let (key, value) = ready!(self.entry("update", &key, &value));
        self.ask("update", async move |tree, client| {
            let done = tree.run("update", tree.ordered().update(client, &key, &value)).await;
            done.map(farwood_index::UpdateOutcome::updated)
        })
    }

    /// As [`Index::remove`](crate::Index::remove).
    pub fn remove(&self, key: impl Encode<K>) -> Answer<bool> {
        let key = ready!(self.key("remove", &key));
        self.ask("remove", async move |tree, client| {
            let done = tree.run("remove", tree.ordered().remove(client, &key)).await;
            done.map(farwood_index::RemoveOutcome::removed)
        })
    }

    /// As [`Index::remove_many`](crate::Index::remove_many).
    pub fn remove_many<Q: Encode<K>>(&self, keys: impl IntoIterator<Item = Q>) -> Answer<Vec<bool>> {
        let keys: Result<Vec<_>> = keys.into_iter().map(|key| self.key("remove many", &key)).collect();
        let keys = ready!(keys);
        self.ask("remove many", async move |tree, client| {
            tree.run("remove many", crate::batch::remove_many(tree.ordered(), client, &keys)).await
        })
    }

    /// Returns up to `limit` entries of `range`, in `direction`; as [`Index::range`](crate::Index::range).
    ///
    /// ```
    /// use farwood::index::Direction;
    /// use farwood::runtime::block_on;
    /// use farwood::{AsyncIndex, Result};
    ///
    /// async fn first_page(squares: &AsyncIndex<u64, u64>) -> Result<Vec<(u64, u64)>> {
    ///     squares.scan(10.., Direction::Forward, 20).await
    /// }
    /// # use farwood::{BTree, Pool};
    /// # let pool = Pool::anonymous(16 << 20)?;
    /// # let squares = pool.create_index::<u64, u64>("squares", &BTree::new())?.to_async()?;
    /// assert_eq!(block_on(first_page(&squares))?, []);
    /// # Ok::<(), farwood::Error>(())
    /// ```
    pub fn scan(&self, range: impl KeyRange<K>, direction: Direction, limit: usize) -> Answer<Vec<(K, V)>>
    where
        K: Send,
    {
        self.scan_by(ScanKind::Entries, &range, direction, limit)
    }

    /// Returns these entries as of one moment; as [`Range::snapshot`](crate::index::Range::snapshot).
    pub fn snapshot(&self, range: impl KeyRange<K>, direction: Direction, limit: usize) -> Answer<Vec<(K, V)>>
    where
        K: Send,
    {
        self.scan_by(ScanKind::Snapshot, &range, direction, limit)
    }

    fn scan_by(
        &self,
        kind: ScanKind,
        range: &impl KeyRange<K>,
        direction: Direction,
        limit: usize,
    ) -> Answer<Vec<(K, V)>>
    where
        K: Send,
    {
        let span = ready!(Span::new::<K, _>(&self.tree, range));
        self.ask(kind.operation(), async move |tree, client| {
            let scan = tree.scan(client, kind, (&span, direction), limit);
            let entries = tree.run(kind.operation(), scan).await?;
            entries.iter().map(|entry| decode(tree, entry)).collect()
        })
    }

    /// As [`Index::count`](crate::Index::count).
    ///
    /// ```
    /// use farwood::runtime::block_on;
    /// use farwood::{BTree, Pool};
    ///
    /// let pool = Pool::anonymous(16 << 20)?;
    /// let squares = pool.create_index::<u64, u64>("squares", &BTree::new())?.to_async()?;
    /// assert_eq!(block_on(squares.count())?, 0);
    /// # Ok::<(), farwood::Error>(())
    /// ```
    pub fn count(&self) -> Answer<u64> {
        self.ask("count", async move |tree, client| tree.run("count", tree.count(client)).await)
    }

    /// As [`Index::swap`](crate::Index::swap).
    pub fn swap(&self, key: impl Encode<K>, value: impl Encode<V>) -> Answer<Option<V>> {
        let value = ready!(encoded(&self.tree, "swap", &value));
        self.change(&key, conditional::swap(value), |found| found.value)
    }

    /// As [`Index::take`](crate::Index::take).
    pub fn take(&self, key: impl Encode<K>) -> Answer<Option<V>> {
        self.change(&key, conditional::take(), |found| found.value)
    }

    /// As [`Index::compare_exchange`](crate::Index::compare_exchange).
    pub fn compare_exchange(
        &self,
        key: impl Encode<K>,
        expected: Option<&V>,
        new: Option<&V>,
    ) -> Answer<std::result::Result<(), Option<V>>> {
        let bytes =
            |value: Option<&V>| value.map(|value| encoded(&self.tree, "compare exchange", value)).transpose();
        let change = conditional::compare_exchange(ready!(bytes(expected)), ready!(bytes(new)));
        self.change(&key, change, Found::exchanged)
    }

    /// As [`Index::fetch_update`](crate::Index::fetch_update). `f` runs on the thread of the pool.
    pub fn fetch_update(
        &self,
        key: impl Encode<K>,
        f: impl FnMut(Option<&V>) -> Option<V> + Send + 'static,
    ) -> Answer<Option<V>> {
        self.change(&key, conditional::fetch_update(f), |found| found.value)
    }

    /// As [`Index::fetch_add`](crate::Index::fetch_add).
    pub fn fetch_add(&self, key: impl Encode<K>, by: V) -> Answer<V>
    where
        V: Counter,
    {
        self.change(&key, conditional::fetch_add(by), |found| found.value.unwrap_or(V::ZERO))
    }

    /// As [`Index::remove_if`](crate::Index::remove_if). `f` runs on the thread of the pool.
    pub fn remove_if(
        &self,
        key: impl Encode<K>,
        f: impl FnMut(&V) -> bool + Send + 'static,
    ) -> Answer<Option<V>> {
        self.change(&key, conditional::remove_if(f), Found::if_met)
    }

    /// Completes when all calls of this handle and its clones have ended, answered or forgotten: for a graceful
    /// shutdown. If the handles are dropped before it is awaited, it also waits until the thread has closed the index.
    pub fn finished(&self) -> Finished {
        self.tree.finished()
    }

    fn key(&self, operation: &'static str, key: &impl Encode<K>) -> Result<Vec<u8>> {
        Ok(self.tree.key::<K, _>(operation, key)?.as_ref().to_vec())
    }

    fn entry(
        &self,
        operation: &'static str,
        key: &impl Encode<K>,
        value: &impl Encode<V>,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        Ok((self.key(operation, key)?, encoded(&self.tree, operation, value)?))
    }

    /// Executes `work` on the thread of the pool.
    fn ask<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl AsyncFnOnce(&Tree, &Client<AnyFabric>) -> Result<T> + Send + 'static,
    ) -> Answer<T> {
        let url = Arc::clone(&self.url);
        let failed =
            move |error: FabricError| Error::Index { operation, url: url.to_string(), source: error.into() };
        let (begun, limit) = (Instant::now(), self.limit);
        self.tree.ask(failed, move |tree, client| async move {
            let call = || async {
                let call = work(&tree, &client);
                if limit.is_none() {
                    return call.await;
                }
                let patience = Patience::of_limit(limit);
                patience.run(begun, (&tree, operation), &client, Box::pin(call)).await
            };
            client.shared_call(tree.metered(), operation, Some(begun), call).await
        })
    }

    fn change<D, T: Send + 'static>(
        &self,
        key: &impl Encode<K>,
        mut change: Conditional<V, D>,
        answer: impl FnOnce(Found<V>) -> T + Send + 'static,
    ) -> Answer<T>
    where
        D: FnMut(&Tree, Option<(&[u8], &V)>) -> Result<Decided> + Send + 'static,
    {
        let operation = change.operation;
        let key = ready!(self.key(operation, key));
        self.ask(operation, async move |tree, client| {
            change.run(tree, client, &key).await?;
            change.found.map(answer)
        })
    }
}

impl<K, V> fmt::Debug for AsyncIndex<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncIndex").field(&self.tree.url()).finish()
    }
}
