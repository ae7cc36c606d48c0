//! Sessions: concurrent async calls on one thread.

use crate::codec::{Encode, Key, KeyRange, Value};
use crate::conditional::{self, Conditional, Counter, Decided, Found, encoded};
use crate::error::Result;
use crate::scan::decode;
use crate::span::Span;
use crate::tree::Tree;
use farwood_fabric::{Client, Costs};
use farwood_index::ordered::Entries;
use farwood_index::sherman::Direction;
use farwood_transport::any::AnyFabric;
use farwood_transport::fork::OneProcess;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// Async calls on an index for the current thread, with their costs.
///
/// A session and its futures stay on the thread that created them. Run the futures with [`block_on`](crate::block_on),
/// with [`run_all`](crate::run_all), in a `tokio::task::LocalSet`, or in any other executor for local futures. A future
/// that waits for a lock or pauses before a retry wakes its task itself; no reactor is needed.
///
/// Do not interleave them with blocking calls of [`Index`](crate::Index) on the same thread: a suspended operation of a
/// session may hold the lock of a leaf or be the next to receive it, and a blocking call that changes the same leaf
/// waits for that lock while it keeps the other operation from running. It may wait forever. The same holds for a
/// [`block_on`](crate::block_on) inside a future. Before a blocking call, complete the session's operations on this
/// thread. Blocking calls on other threads do no harm.
///
/// A future may be dropped at any time, by a timeout for example. Its operation may then have taken effect or not. Its
/// locks are freed within about half a round trip, and the session is usable at once; another client completes or
/// undoes an unfinished change.
///
/// Clones share the client. For a separate client with separate costs, create another session.
///
/// ```
/// # use farwood::{IndexOptions, Pool, PoolOptions, block_on};
/// # let url = format!("shm://doc-session-{}", std::process::id());
/// # Pool::create(&url, &PoolOptions { memory_bytes: 64 << 20, ..Default::default() })?;
/// # let pool = Pool::open(&url)?;
/// let index = pool.create_index::<u64, u64>("numbers", &IndexOptions::default())?;
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
    client: Rc<Client<AnyFabric>>,
    tree: Arc<Tree>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for Session<K, V> {
    fn clone(&self) -> Self {
        Self { client: Rc::clone(&self.client), tree: Arc::clone(&self.tree), types: PhantomData }
    }
}

impl<K: Key, V: Value> Session<K, V> {
    pub(crate) fn new(tree: Arc<Tree>) -> Self {
        let client = Rc::new(tree.pool().attachment().client());
        Self { client, tree, types: PhantomData }
    }

    /// Binds an operation to the process that opened the pool, because a forked child must not run it.
    fn run<F>(&self, operation: F) -> OneProcess<F> {
        self.tree.pool().forks().guard(operation)
    }

    /// As [`Index::get`](crate::Index::get).
    pub async fn get(&self, key: impl Encode<K>) -> Result<Option<V>> {
        let tree = &*self.tree;
        let key = tree.key::<K, _>("get", &key)?;
        match self.run(tree.ordered().get(&self.client, key.as_ref())).await {
            Ok(Some(value)) => tree.decode("get", "value", &value).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(tree.failed("get", error)),
        }
    }

    /// As [`Index::put`](crate::Index::put).
    pub async fn put(&self, key: impl Encode<K>, value: impl Encode<V>) -> Result<bool> {
        let tree = &*self.tree;
        let (key, value) = (tree.key::<K, _>("put", &key)?, tree.value::<V, _>("put", &value)?);
        let done = self.run(tree.ordered().put(&self.client, key.as_ref(), value.as_ref())).await;
        done.map(farwood_index::PutOutcome::replaced).map_err(|error| tree.failed("put", error))
    }

    /// As [`Index::insert`](crate::Index::insert).
    pub async fn insert(&self, key: impl Encode<K>, value: impl Encode<V>) -> Result<bool> {
        let tree = &*self.tree;
        let (key, value) = (tree.key::<K, _>("insert", &key)?, tree.value::<V, _>("insert", &value)?);
        let done = self.run(tree.ordered().insert(&self.client, key.as_ref(), value.as_ref())).await;
        done.map(farwood_index::InsertOutcome::inserted).map_err(|error| tree.failed("insert", error))
    }

    /// As [`Index::update`](crate::Index::update).
    pub async fn update(&self, key: impl Encode<K>, value: impl Encode<V>) -> Result<bool> {
        let tree = &*self.tree;
        let (key, value) = (tree.key::<K, _>("update", &key)?, tree.value::<V, _>("update", &value)?);
        let done = self.run(tree.ordered().update(&self.client, key.as_ref(), value.as_ref())).await;
        done.map(farwood_index::UpdateOutcome::updated).map_err(|error| tree.failed("update", error))
    }

    /// As [`Index::remove`](crate::Index::remove).
    pub async fn remove(&self, key: impl Encode<K>) -> Result<bool> {
        let tree = &*self.tree;
        let key = tree.key::<K, _>("remove", &key)?;
        let done = self.run(tree.ordered().remove(&self.client, key.as_ref())).await;
        done.map(farwood_index::RemoveOutcome::removed).map_err(|error| tree.failed("remove", error))
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
        let key = self.tree.key::<K, _>(change.operation, key)?;
        change.run(&self.tree, &self.client, key.as_ref()).await?;
        change.found
    }

    /// Returns up to `limit` entries of `range`, in `direction`; as [`Index::scan`](crate::Index::scan).
    pub async fn scan(
        &self,
        range: impl KeyRange<K>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(K, V)>> {
        let tree = &*self.tree;
        let span = Span::new::<K, _>(tree, &range)?;
        if span.is_void() {
            return Ok(Vec::new());
        }
        let mut entries = Entries::new();
        let scan = tree.ordered().scan(&self.client, span.range(), direction, limit, &mut entries);
        self.run(scan).await.map_err(|error| tree.failed("scan", error))?;
        entries.iter().map(|entry| decode(tree, entry)).collect()
    }

    /// Returns these entries as of one moment; as [`Range::snapshot`](crate::Range::snapshot).
    pub async fn scan_snapshot(
        &self,
        range: impl KeyRange<K>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(K, V)>> {
        let tree = &*self.tree;
        let span = Span::new::<K, _>(tree, &range)?;
        if span.is_void() {
            return Ok(Vec::new());
        }
        let mut entries = Entries::new();
        let scan = tree.ordered().scan_snapshot(&self.client, span.range(), direction, limit, &mut entries);
        self.run(scan).await.map_err(|error| tree.failed("snapshot", error))?;
        entries.iter().map(|entry| decode(tree, entry)).collect()
    }

    /// As [`Index::count`](crate::Index::count).
    pub async fn count(&self) -> Result<u64> {
        let done = self.run(self.tree.ordered().count(&self.client)).await;
        done.map_err(|error| self.tree.failed("count", error))
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
