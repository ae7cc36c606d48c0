//! Sessions of a spatial index: concurrent async calls on one thread.

use super::caller::Caller;
use super::editor::check_changes;
use super::index::Spatial;
use super::lookup::Lent;
use crate::argument::Call;
use crate::error::{Error, Result};
use crate::observe::MeteredClient;
use farwood_fabric::{Costs, FabricError};
use farwood_index::IndexError;
use farwood_index::catfish::{
    Change, Item, Near, Query, Record, RecordId, Rectangle, SearchSink, SpatialRpc as _,
};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Async calls on a spatial index for the current thread, with their costs.
///
/// A session and its futures stay on the thread that created them. Run the futures with
/// [`block_on`](crate::runtime::block_on), with [`run_all`](crate::runtime::run_all), or in any other executor for
/// local futures. Over a network, all requests of a thread and an `Arc<Spatial>` that are on the way use the same
/// socket, which a blocking call opens. In shared memory, each needs a connection of its own while it is on the way
/// (`farwood serve --connections`); by [`SearchMode::Auto`](super::SearchMode), a lookup uses READs if no connection is
/// left.
///
/// Changes are sent to the process that serves the index. Without one they fail: use [`Spatial::change`], with which
/// this process serves the index itself for the duration of a change.
///
/// A future may be dropped at any time. A change may then take effect or not, or after later changes of the session.
///
/// Clones share the client. For separate costs, create another session.
///
/// ```
/// # use farwood::spatial::{Item, Query, Rectangle};
/// # use farwood::runtime::run_all;
/// # use farwood::{Pool, PoolOptions};
/// # use std::sync::Arc;
/// # let url = format!("shm://doc-spatial-session-{}", std::process::id());
/// # Pool::create(url.as_str(), &PoolOptions::new().memory_bytes(64 << 20))?;
/// # let pool = Pool::open(url.as_str())?;
/// let places = Arc::new(pool.create_spatial("places", &Default::default())?);
/// let place = |at: f64| Rectangle::point([at, at]).expect("two finite numbers");
/// let items: Vec<_> = (0..100).map(|id| Item { bounds: place(id as f64), id }).collect();
/// places.insert_many(&items)?;
///
/// let session = places.session();
/// let queries: Vec<_> = (0..10).map(|at| Query::intersecting(place(f64::from(at)))).collect();
/// let counts = queries.iter().map(|query| Box::pin(session.count(query)) as _);
/// let counts: farwood::Result<Vec<u64>> = run_all(counts.collect()).into_iter().collect();
/// assert_eq!(counts?, [1; 10]);
/// # drop((session, places, pool));
/// # Pool::remove(url.as_str())?;
/// # Ok::<(), farwood::Error>(())
/// ```
pub struct SpatialSession {
    // Dropped before the index: the client must end before the pool does.
    client: Rc<MeteredClient>,
    spatial: Arc<Spatial>,
}

impl Clone for SpatialSession {
    fn clone(&self) -> Self {
        Self { client: Rc::clone(&self.client), spatial: Arc::clone(&self.spatial) }
    }
}

impl Spatial {
    /// A session of this thread.
    pub fn session(self: &Arc<Self>) -> SpatialSession {
        let spatial = self.here_shared();
        SpatialSession { client: Rc::new(spatial.pool.client()), spatial: Arc::clone(spatial) }
    }
}

impl Spatial {
    /// Sends changes to the server in one message.
    async fn change_by(
        &self,
        caller: Caller<'_>,
        operation: &'static str,
        changes: &[Change],
    ) -> Result<Vec<bool>> {
        check_changes(self, operation, changes)?;
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let Caller { client, begun, connection_wait } = caller;
        let work = async || {
            let connected = self.connect(client, connection_wait).await;
            let lent = connected.map_err(|error| self.failed(operation, error))?;
            self.change_over(lent, client, operation, changes).await
        };
        client.shared_call(&self.metered, operation, begun, work).await
    }

    /// Sends changes in one message over a connection.
    pub(super) async fn change_over(
        &self,
        mut lent: Lent<'_>,
        client: &MeteredClient,
        operation: &'static str,
        changes: &[Change],
    ) -> Result<Vec<bool>> {
        let fit = lent.connection().changes_that_fit(changes);
        if fit < changes.len() {
            return Err(self.too_many(operation, changes, fit));
        }
        let done = lent.connection().apply(changes).await;
        let done = match done {
            // The server has answered.
            Err(error @ IndexError::Fabric(FabricError::PoolFull { .. })) => Err(error),
            done => self.end(lent, client, done).await,
        };
        done.map_err(|error| self.failed(operation, error))
    }

    /// Refuses changes of which one message has space for `fit`.
    pub(super) fn too_many(&self, operation: &'static str, changes: &[Change], fit: usize) -> Error {
        let remedy = format!("one message has space for {fit} of them; divide them");
        let call = Call { operation, url: self.url() };
        call.refused("number of changes", changes.len().to_string(), remedy)
    }
}

/// Why an operation has no result.
enum Ended {
    Failed(Error),
    /// This process is a forked child.
    Forked(FabricError),
}

impl From<FabricError> for Ended {
    fn from(error: FabricError) -> Self {
        Self::Forked(error)
    }
}

impl SpatialSession {
    fn caller(&self) -> Caller<'_> {
        Caller::session(&self.client)
    }

    /// Binds an operation to the process that opened the pool, because a forked child must not run it.
    async fn run<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        let operation = async { operation.await.map_err(Ended::Failed) };
        let done = self.spatial.pool.forks().guard(operation).await;
        done.map_err(|ended| match ended {
            Ended::Failed(error) => error,
            Ended::Forked(error) => self.spatial.failed("use a session", error.into()),
        })
    }

    /// As [`Spatial::search`].
    ///
    /// # Errors
    /// As [`Spatial::search`].
    pub async fn search(&self, query: &Query) -> Result<Vec<Item>> {
        self.run(self.spatial.search_by(self.caller(), query)).await
    }

    /// As [`Spatial::search_into`].
    ///
    /// # Errors
    /// As [`Spatial::search_into`].
    pub async fn search_into(&self, query: &Query, sink: &mut impl SearchSink) -> Result<()> {
        self.run(self.spatial.search_into_by(self.caller(), query, sink)).await
    }

    /// As [`Spatial::count`].
    ///
    /// # Errors
    /// As [`Spatial::count`].
    pub async fn count(&self, query: &Query) -> Result<u64> {
        self.run(self.spatial.count_by(self.caller(), query)).await
    }

    /// As [`Spatial::nearest`].
    ///
    /// # Errors
    /// As [`Spatial::nearest`].
    pub async fn nearest(&self, point: [f64; 2], count: usize) -> Result<Vec<Near>> {
        self.run(self.spatial.nearest_by(self.caller(), point, count)).await
    }

    /// As [`Spatial::get`].
    ///
    /// # Errors
    /// As [`Spatial::get`].
    pub async fn get(&self, id: &RecordId) -> Result<Option<Record>> {
        self.run(self.spatial.get_by(self.caller(), id)).await
    }

    /// As [`Spatial::search_records`].
    ///
    /// # Errors
    /// As [`Spatial::search_records`].
    pub async fn search_records(&self, query: &Query) -> Result<Vec<Record>> {
        self.run(self.spatial.search_records_by(self.caller(), query)).await
    }

    /// As [`Spatial::nearest_records`].
    ///
    /// # Errors
    /// As [`Spatial::nearest_records`].
    pub async fn nearest_records(&self, point: [f64; 2], count: usize) -> Result<Vec<Record>> {
        self.run(self.spatial.nearest_records_by(self.caller(), point, count)).await
    }

    /// Adds an item. [1 RT, and the server's work]
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index): no process serves the index, or the pool is full; if the server was lost,
    /// the item may or may not have been added. [`Error::Argument`](crate::Error::Argument): the index has degrees, and
    /// the rectangle is outside them.
    pub async fn insert(&self, item: &Item) -> Result<()> {
        self.change_one("insert", Change::Insert(*item)).await.map(drop)
    }

    /// Removes one item that equals `item`; returns `false` if there is none. Costs and errors as
    /// [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn remove(&self, item: &Item) -> Result<bool> {
        self.change_one("remove", Change::Remove(*item)).await
    }

    /// Moves an item to `bounds` atomically; returns `false` if there was none at `item.bounds`. Costs and errors as
    /// [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub async fn update(&self, item: &Item, bounds: Rectangle) -> Result<bool> {
        self.change_one("update", Change::Update(*item, bounds)).await
    }

    /// Stores a record in the place of the one with its id; returns whether there was one. Costs as
    /// [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the index has no records, or ids of another kind, or the payload is too long.
    pub async fn put(&self, record: Record) -> Result<bool> {
        self.change_one("put", Change::Put(Arc::new(record))).await
    }

    /// Removes the record of an id; returns whether there was one. Costs and errors as [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn delete(&self, id: &RecordId) -> Result<bool> {
        self.change_one("delete", Change::Delete(id.clone())).await
    }

    /// Gives the record of an id other bounds, and keeps its payload; returns whether there was one. Costs and errors
    /// as [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn move_to(&self, id: &RecordId, bounds: Rectangle) -> Result<bool> {
        self.change_one("move", Change::Move(id.clone(), bounds)).await
    }

    /// Makes changes of any kind in their order, in one message and one commit: a search sees all of them or none.
    /// Returns for each whether it found its item. [1 RT, and the server's work]
    ///
    /// # Errors
    /// As [`insert`](Self::insert) and [`put`](Self::put); the changes do not fit into one message.
    pub async fn apply(&self, changes: &[Change]) -> Result<Vec<bool>> {
        self.change("change", changes).await
    }

    async fn change_one(&self, operation: &'static str, change: Change) -> Result<bool> {
        Ok(self.change(operation, &[change]).await? == [true])
    }

    async fn change(&self, operation: &'static str, changes: &[Change]) -> Result<Vec<bool>> {
        self.run(self.spatial.change_by(self.caller(), operation, changes)).await
    }

    /// Returns the costs of this session's operations since the last call.
    pub fn take_costs(&self) -> Costs {
        self.client.take_costs()
    }
}

impl fmt::Debug for SpatialSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SpatialSession").field(&self.spatial.url()).finish()
    }
}
