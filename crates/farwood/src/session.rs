//! Sessions: concurrent async calls on one thread.

use crate::codec::{Encode, Key, KeyRange, Value};
use crate::conditional::{self, Conditional, Counter, Decided, Found, encoded};
use crate::erased::ScanKind;
use crate::error::Result;
use crate::observe::MeteredClient;
use crate::patience::Patience;
use crate::scan::decode;
use crate::span::Span;
use crate::tree::Tree;
use farwood_fabric::Costs;
use farwood_index::IndexError;
use farwood_index::sherman::Direction;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Async calls on an index for the current thread, with their costs.
///
/// A session and its futures stay on the thread that created them. Run the futures with
/// [`block_on`](crate::runtime::block_on), with [`run_all`](crate::runtime::run_all), in a `tokio::task::LocalSet`, or
/// in any other executor for local futures. A future that waits for a lock or pauses before a retry wakes its task
/// itself; no reactor is needed.
///
/// Do not interleave them with blocking calls of [`Index`](crate::Index) on the same thread: a suspended operation of a
/// session may hold the lock of a leaf, and a blocking call that changes the same leaf waits for that lock while it
/// keeps the other operation from running. It fails with [`Busy`](crate::error::ErrorKind::Busy) after 20 s. (A lock
/// that was granted to a suspended operation, and that it has not taken, passes to the next client after 1 to 2 ms.)
/// The same holds for a [`block_on`](crate::runtime::block_on) inside a future. Before a blocking call, complete the
/// session's operations on this thread. Blocking calls on other threads do no harm.
///
/// A future may be dropped at any time, by a timeout for example. Its operation may then have taken effect or not. Its
/// locks are freed within about half a round trip, and the session is usable at once; another client completes or
/// undoes an unfinished change.
///
/// Clones share the client. For a separate client with separate costs, create another session.
///
/// ```
/// # use farwood::runtime::block_on;
/// # use farwood::{BTree, Pool, PoolOptions};
/// # let url = format!("shm://doc-session-{}", std::process::id());
/// # Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
/// # let pool = Pool::open(&url)?;
/// let index = pool.create_index::<u64, u64>("numbers", &BTree::new())?;
/// let session = index.session();
/// block_on(async {
///     session.put(1, 10).await?;
///     session.take_costs();
///     assert_eq!(session.get(1).await?, Some(10));
///     assert_eq!(session.take_costs().round_trips, 1);
///     Ok::<(), farwood::Error>(())
/// })?;
/// # drop((session, index, pool));
/// # Pool::remove(&url)?;
/// # Ok::<(), farwood::Error>(())
/// ```
pub struct Session<K, V> {
    // Dropped before the tree: the client must end before the pool does.
    client: Rc<MeteredClient>,
    tree: Arc<Tree>,
    /// The longest duration of a call.
    limit: Option<Duration>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for Session<K, V> {
    fn clone(&self) -> Self {
        let (client, tree) = (Rc::clone(&self.client), Arc::clone(&self.tree));
        Self { client, tree, limit: self.limit, types: PhantomData }
    }
}

impl<K: Key, V: Value> Session<K, V> {
    pub(crate) fn new(tree: Arc<Tree>, limit: Option<Duration>) -> Self {
        let client = Rc::new(tree.pool().client());
        Self { client, tree, limit, types: PhantomData }
    }

    /// Runs an operation, and binds it to the process that opened the pool, because a forked child must not run it.
    async fn run<T, F: Future<Output = std::result::Result<T, IndexError>>>(
        &self,
        operation: &'static str,
        work: impl FnOnce() -> F,
    ) -> Result<T> {
        let (tree, failed) = (&*self.tree, |error| self.tree.failed(operation, error));
        if self.limit.is_some() {
            let patience = Patience::of_limit(self.limit);
            let call = Box::pin(async { work().await.map_err(failed) });
            let call = patience.run(Instant::now(), (tree, operation), &self.client, call);
            return self.call(operation, call).await;
        }
        let call = self.client.shared_call(tree.metered(), operation, None, work);
        tree.pool().forks().guard(call).await.map_err(failed)
    }

    /// Counts a call, and binds it to the process that opened the pool.
    async fn call<T>(&self, operation: &'static str, call: impl Future<Output = Result<T>>) -> Result<T> {
        let call = self.client.shared_call(self.tree.metered(), operation, None, || call);
        let call = async { Ok::<_, IndexError>(call.await) };
        let guarded = self.tree.pool().forks().guard(call).await;
        guarded.map_err(|error| self.tree.failed(operation, error))?
    }

    /// As [`Index::get`](crate::Index::get).
    pub async fn get(&self, key: impl Encode<K>) -> Result<Option<V>> {
        let tree = &*self.tree;
        let key = tree.key::<K, _>("get", &key)?;
        let found = self.run("get", || tree.ordered().get(&self.client, key.as_ref())).await?;
        found.map(|value| tree.decode("get", "value", &value)).transpose()
    }

    /// As [`Index::put`](crate::Index::put).
    pub async fn put(&self, key: impl Encode<K>, value: impl Encode<V>) -> Result<bool> {
        let tree = &*self.tree;
        let (key, value) = (tree.key::<K, _>("put", &key)?, tree.value::<V, _>("put", &value)?);
        let done = self.run("put", || tree.ordered().put(&self.client, key.as_ref(), value.as_ref())).await;
        done.map(farwood_index::PutOutcome::replaced)
    }

    /// As [`Index::insert`](crate::Index::insert).
    pub async fn insert(&self, key: impl Encode<K>, value: impl Encode<V>) -> Result<bool> {
        let tree = &*self.tree;
        let (key, value) = (tree.key::<K, _>("insert", &key)?, tree.value::<V, _>("insert", &value)?);
        let done =
            self.run("insert", || tree.ordered().insert(&self.client, key.as_ref(), value.as_ref())).await;
        done.map(farwood_index::InsertOutcome::inserted)
    }

    /// As [`Index::update`](crate::Index::update).
    pub async fn update(&self, key: impl Encode<K>, value: impl Encode<V>) -> Result<bool> {
        let tree = &*self.tree;
        let (key, value) = (tree.key::<K, _>("update", &key)?, tree.value::<V, _>("update", &value)?);
        let done =
            self.run("update", || tree.ordered().update(&self.client, key.as_ref(), value.as_ref())).await;
        done.map(farwood_index::UpdateOutcome::updated)
    }

    /// As [`Index::remove`](crate::Index::remove).
    pub async fn remove(&self, key: impl Encode<K>) -> Result<bool> {
        let tree = &*self.tree;
        let key = tree.key::<K, _>("remove", &key)?;
        let done = self.run("remove", || tree.ordered().remove(&self.client, key.as_ref())).await;
        done.map(farwood_index::RemoveOutcome::removed)
    }

    /// As [`Index::swap`](crate::Index::swap).
    pub async fn swap(&self, key: impl Encode<K>, value: impl Encode<V>) -> Result<Option<V>> {
        let value = encoded(&self.tree, "swap", &value)?;
        Ok(self.change(&key, conditional::swap(value)).await?.value)
    }

    /// As [`Index::take`](crate::Index::take).
    pub async fn take(&self, key: impl Encode<K>) -> Result<Option<V>> {
        Ok(self.change(&key, conditional::take()).await?.value)
    }

    /// As [`Index::compare_exchange`](crate::Index::compare_exchange).
    pub async fn compare_exchange(
        &self,
        key: impl Encode<K>,
        expected: Option<&V>,
        new: Option<&V>,
    ) -> Result<std::result::Result<(), Option<V>>> {
        let bytes =
            |value: Option<&V>| value.map(|value| encoded(&self.tree, "compare exchange", value)).transpose();
        let change = conditional::compare_exchange(bytes(expected)?, bytes(new)?);
        Ok(self.change(&key, change).await?.exchanged())
    }

    /// As [`Index::fetch_update`](crate::Index::fetch_update).
    pub async fn fetch_update(
        &self,
        key: impl Encode<K>,
        f: impl FnMut(Option<&V>) -> Option<V>,
    ) -> Result<Option<V>> {
        Ok(self.change(&key, conditional::fetch_update(f)).await?.value)
    }

    /// As [`Index::fetch_add`](crate::Index::fetch_add).
    pub async fn fetch_add(&self, key: impl Encode<K>, by: V) -> Result<V>
    where
        V: Counter,
    {
        Ok(self.change(&key, conditional::fetch_add(by)).await?.value.unwrap_or(V::ZERO))
    }

    /// As [`Index::remove_if`](crate::Index::remove_if).
    pub async fn remove_if(&self, key: impl Encode<K>, f: impl FnMut(&V) -> bool) -> Result<Option<V>> {
        Ok(self.change(&key, conditional::remove_if(f)).await?.if_met())
    }

    async fn change<D>(&self, key: &impl Encode<K>, mut change: Conditional<V, D>) -> Result<Found<V>>
    where
        D: FnMut(&Tree, Option<(&[u8], &V)>) -> Result<Decided>,
    {
        let (tree, operation) = (&*self.tree, change.operation);
        let key = tree.key::<K, _>(operation, key)?;
        let call = Box::pin(change.run(tree, &self.client, key.as_ref()));
        if self.limit.is_some() {
            let patience = Patience::of_limit(self.limit);
            let call = patience.run(Instant::now(), (tree, operation), &self.client, call);
            self.call(operation, call).await?;
        } else {
            self.call(operation, call).await?;
        }
        change.found
    }

    /// Returns up to `limit` entries of `range`, in `direction`; as [`Index::scan`](crate::Index::scan).
    pub async fn scan(
        &self,
        range: impl KeyRange<K>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(K, V)>> {
        self.scan_by(ScanKind::Entries, &range, direction, limit).await
    }

    /// Returns these entries as of one moment; as [`Range::snapshot`](crate::index::Range::snapshot).
    pub async fn scan_snapshot(
        &self,
        range: impl KeyRange<K>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(K, V)>> {
        self.scan_by(ScanKind::Snapshot, &range, direction, limit).await
    }

    async fn scan_by(
        &self,
        kind: ScanKind,
        range: &impl KeyRange<K>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(K, V)>> {
        let tree = &*self.tree;
        let span = Span::new::<K, _>(tree, range)?;
        let scan = || tree.scan(&self.client, kind, (&span, direction), limit);
        let entries = self.run(kind.operation(), scan).await?;
        entries.iter().map(|entry| decode(tree, entry)).collect()
    }

    /// As [`Index::count`](crate::Index::count).
    pub async fn count(&self) -> Result<u64> {
        self.run("count", || self.tree.count(&self.client)).await
    }

    /// Returns the costs of this session's operations since the last call.
    pub fn take_costs(&self) -> Costs {
        self.client.take_costs()
    }
}

impl<K, V> fmt::Debug for Session<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.tree.url()).finish()
    }
}
