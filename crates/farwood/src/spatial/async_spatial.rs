//! Async calls on a spatial index whose futures may move between threads.

use super::caller::Caller;
use super::editor::check_changes;
use super::index::Spatial;
use crate::answer::Answer;
use crate::error::{Error, Result};
use crate::observe::MeteredClient;
use crate::task_driver::{Finished, TaskDriver};
use farwood_fabric::{Costs, FabricError};
use farwood_index::IndexError;
use farwood_index::catfish::{Change, Item, Near, Query, Record, RecordId, Rectangle};
use farwood_transport::runtime::TaskThread;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Async calls on a spatial index, for programs with an executor such as tokio. Create it with
/// [`Spatial::to_async`].
///
/// The futures are `Send + 'static` and need no executor of this library: a thread of the pool, the same for all async
/// handles of the pool, executes the calls, many at a time. A call begins when the method is called, before the
/// [`Answer`] is awaited. A dropped answer is forgotten; the call ends as it would have ended. So
/// `tokio::time::timeout` and `select!` are safe.
///
/// Changes are sent to the process that serves the index (`farwood serve --spatial`). In shared memory they need no
/// such process: another thread then makes the changes of this handle and its clones one after the other, each as
/// [`Spatial::change`] does. Over TCP a change fails without a server.
///
/// Exact queries of geometries, such as [`Spatial::find`], compute for longer than they wait, and would stop the calls
/// of other tasks: execute them on a thread for blocking work.
///
/// If all connections of the server are in use, a call waits for one for up to a minute.
///
/// Handles may be cloned, and shared by threads. Dropping a handle does not wait: if it is the last one of the index,
/// the thread of the pool closes the index. [`finished`](Self::finished) waits for the calls and for that.
///
/// ```
/// # use farwood::spatial::{Item, Query, Rectangle};
/// # use farwood::runtime::block_on;
/// # use farwood::{Pool, PoolOptions};
/// # use std::sync::Arc;
/// # let url = format!("shm://doc-async-spatial-{}", std::process::id());
/// # Pool::create(url.as_str(), &PoolOptions::new().memory_bytes(64 << 20))?;
/// # let pool = Pool::open(url.as_str())?;
/// let places = Arc::new(pool.create_spatial("places", &Default::default())?).to_async()?;
/// let place = |at: f64| Rectangle::point([at, at]).expect("two finite numbers");
/// # let executor = |future: std::pin::Pin<Box<dyn Future<Output = farwood::Result<()>> + Send>>| block_on(future);
/// executor(Box::pin({
///     let places = places.clone();
///     async move {
///         places.insert(&Item { bounds: place(3.0), id: 7 }).await?;
///         assert_eq!(places.count(&Query::intersecting(place(3.0))).await?, 1);
///         Ok(())
///     }
/// }))?;
/// # drop((places, pool));
/// # Pool::remove_by_force(url.as_str())?;
/// # Ok::<(), farwood::Error>(())
/// ```
#[derive(Clone)]
pub struct AsyncSpatial {
    spatial: TaskDriver<Spatial>,
    /// The URL of the index, for errors: an answer must not keep the index open.
    url: Arc<str>,
    /// The thread that makes changes as the server of the index, once there was one.
    changer: Arc<Mutex<Option<Arc<TaskThread>>>>,
}

impl Spatial {
    /// Creates a handle whose calls return futures that any executor may poll and move between threads. It starts a
    /// thread, which all async handles of the pool share.
    ///
    /// # Errors
    /// [`Error::Thread`](crate::Error::Thread): the thread cannot be started.
    pub fn to_async(self: &Arc<Self>) -> Result<AsyncSpatial> {
        let spatial = self.here_shared();
        let spatial = TaskDriver::new(Arc::clone(spatial), &spatial.pool, "start async calls of")?;
        Ok(AsyncSpatial { spatial, url: self.url().into(), changer: Arc::default() })
    }

    /// Whether this process can make changes itself, and no process answers messages.
    async fn needs_changer(&self, client: &MeteredClient) -> Result<bool, IndexError> {
        Ok(self.memory.is_some() && !self.index.answers_messages(client).await?)
    }

    /// Sends changes to the server; `None`: in shared memory, no process answers messages.
    async fn send_changes(
        &self,
        Caller { client, connection_wait, .. }: Caller<'_>,
        operation: &'static str,
        changes: &[Change],
    ) -> Result<Option<Vec<bool>>> {
        let failed = |error| self.failed(operation, error);
        if self.needs_changer(client).await.map_err(failed)? {
            return Ok(None);
        }
        match self.connect(client, connection_wait).await {
            // The server has ended or crashed meanwhile, or is a client that makes one change.
            Err(
                IndexError::NotServed { .. }
                | IndexError::Served { .. }
                | IndexError::BeingChanged { .. }
                | IndexError::ServerLost { .. },
            ) if self.memory.is_some() => Ok(None),
            Err(error) => Err(failed(error)),
            Ok(lent) => self.change_over(lent, client, operation, changes).await.map(Some),
        }
    }
}

impl AsyncSpatial {
    /// The URL of the index.
    pub fn url(&self) -> String {
        self.url.to_string()
    }

    /// As [`Spatial::search`].
    pub fn search(&self, query: &Query) -> Answer<Vec<Item>> {
        let query = *query;
        self.ask("search", async move |spatial, caller| spatial.search_by(caller, &query).await)
    }

    /// As [`Spatial::count`].
    pub fn count(&self, query: &Query) -> Answer<u64> {
        let query = *query;
        self.ask("count", async move |spatial, caller| spatial.count_by(caller, &query).await)
    }

    /// As [`Spatial::nearest`].
    pub fn nearest(&self, point: [f64; 2], count: usize) -> Answer<Vec<Near>> {
        self.ask("nearest", async move |spatial, caller| spatial.nearest_by(caller, point, count).await)
    }

    /// As [`Spatial::get`].
    pub fn get(&self, id: &RecordId) -> Answer<Option<Record>> {
        let id = id.clone();
        self.ask("get", async move |spatial, caller| spatial.get_by(caller, &id).await)
    }

    /// As [`Spatial::search_records`].
    pub fn search_records(&self, query: &Query) -> Answer<Vec<Record>> {
        let query = *query;
        self.ask("search", async move |spatial, caller| spatial.search_records_by(caller, &query).await)
    }

    /// As [`Spatial::nearest_records`].
    pub fn nearest_records(&self, point: [f64; 2], count: usize) -> Answer<Vec<Record>> {
        self.ask("nearest", async move |spatial, caller| {
            spatial.nearest_records_by(caller, point, count).await
        })
    }

    /// As [`Spatial::insert`].
    pub fn insert(&self, item: &Item) -> Answer<()> {
        self.change("insert", vec![Change::Insert(*item)], |_| ())
    }

    /// As [`Spatial::remove`].
    pub fn remove(&self, item: &Item) -> Answer<bool> {
        self.change("remove", vec![Change::Remove(*item)], found_it)
    }

    /// Moves an item to `bounds` atomically; answers `false` if there was none at `item.bounds`. Otherwise as
    /// [`insert`](Self::insert).
    pub fn update(&self, item: &Item, bounds: Rectangle) -> Answer<bool> {
        self.change("update", vec![Change::Update(*item, bounds)], found_it)
    }

    /// As [`Spatial::put`].
    pub fn put(&self, record: Record) -> Answer<bool> {
        self.change("put", vec![Change::Put(Arc::new(record))], found_it)
    }

    /// As [`Spatial::delete`].
    pub fn delete(&self, id: &RecordId) -> Answer<bool> {
        self.change("delete", vec![Change::Delete(id.clone())], found_it)
    }

    /// As [`Spatial::move_to`].
    pub fn move_to(&self, id: &RecordId, bounds: Rectangle) -> Answer<bool> {
        self.change("move", vec![Change::Move(id.clone(), bounds)], found_it)
    }

    /// As [`SpatialSession::apply`](super::SpatialSession::apply).
    pub fn apply(&self, changes: &[Change]) -> Answer<Vec<bool>> {
        self.change("change", changes.to_vec(), <[bool]>::to_vec)
    }

    /// Completes when all calls of this handle and its clones have ended, answered or forgotten: for a graceful
    /// shutdown. If the handles are dropped before it is awaited, it also waits until the thread has closed the index.
    pub fn finished(&self) -> Finished {
        self.spatial.finished()
    }

    /// Describes an error of the transport.
    fn failed(
        &self,
        operation: &'static str,
    ) -> impl Fn(FabricError) -> Error + Clone + Send + Sync + 'static {
        let url = Arc::clone(&self.url);
        move |error| Error::Index { operation, url: url.to_string(), source: error.into() }
    }

    /// Executes `work` on the thread of the pool.
    fn ask<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl AsyncFnOnce(&Spatial, Caller<'_>) -> Result<T> + Send + 'static,
    ) -> Answer<T> {
        let begun = Instant::now();
        self.spatial.ask(self.failed(operation), move |spatial, client| async move {
            work(&spatial, Caller::handle(&client, begun)).await
        })
    }

    fn change<T: Send + 'static>(
        &self,
        operation: &'static str,
        changes: Vec<Change>,
        answer: impl FnOnce(&[bool]) -> T + Send + 'static,
    ) -> Answer<T> {
        let changer = Arc::clone(&self.changer);
        let (failed, begun) = (self.failed(operation), Instant::now());
        self.spatial.ask(failed.clone(), move |spatial, client| async move {
            check_changes(&spatial, operation, &changes)?;
            if changes.is_empty() {
                return Ok(answer(&[]));
            }
            let caller = Caller::handle(&client, begun);
            let work = async || {
                if let Some(found) = spatial.send_changes(caller, operation, &changes).await? {
                    return Ok(answer(&found));
                }
                let own = (Arc::clone(&spatial), operation, changes);
                let (found, costs) = change_as_server(&changer, own, failed).await?;
                client.note(|all| *all += costs);
                Ok(answer(&found))
            };
            client.shared_call(&spatial.metered, operation, caller.begun, work).await
        })
    }
}

/// Whether the only change has found its item.
fn found_it(found: &[bool]) -> bool {
    found == [true]
}

/// Makes changes as the server of the index, on the thread for this purpose.
fn change_as_server(
    changer: &Mutex<Option<Arc<TaskThread>>>,
    (spatial, operation, changes): (Arc<Spatial>, &'static str, Vec<Change>),
    failed: impl Fn(FabricError) -> Error + Send + Sync + 'static,
) -> Answer<(Vec<bool>, Costs)> {
    let mut running = changer.lock().unwrap_or_else(PoisonError::into_inner);
    let thread = match &*running {
        Some(thread) => Arc::clone(thread),
        None => match TaskThread::start("farwood-changes") {
            Ok(thread) => Arc::clone(running.insert(Arc::new(thread))),
            Err(source) => {
                return Answer::failed(Error::Thread { operation, pool: spatial.url(), source });
            }
        },
    };
    let (reply, reply_to) = Answer::pair(spatial.pool.forks(), move || failed(FabricError::Forked));
    thread.send(move || async move {
        let done = catch_unwind(AssertUnwindSafe(|| spatial.change_at_once(operation, &changes)));
        drop(spatial);
        reply.send(done);
    });
    reply_to
}

impl fmt::Debug for AsyncSpatial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncSpatial").field(&self.url).finish()
    }
}
