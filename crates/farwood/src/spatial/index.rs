//! The handle of a spatial index.
//!
//! Every process that has the pool open searches the index by reading its nodes. One process at a time changes it: a
//! server that receives changes as messages or, if no process serves the index, a process that makes a change itself.

use super::caller::Caller;
#[cfg(feature = "tcp")]
use super::connection::Connection;
use super::lookup::{Lent, Lookups, SearchStats};
use super::lookup_kinds::{CountMatches, Nearest, Search, SearchInto};
use super::rtree::RTree;
use super::search_options::SearchOptions;
use super::server_lease::ServerLease;
use crate::argument::Call;
use crate::attached::{Attached, PermitBusy, ServerPermit};
use crate::attachment::Attachment;
use crate::error::{Error, Result};
use crate::heir::Heir;
use crate::observe::{MeteredClient, MeteredIndex};
use crate::pool::Pool;
use crate::thread_client;
use crate::url::Url;
use farwood_fabric::{Access, Client, ClientId, Fabric as _, FabricError, Revocation};
use farwood_index::IndexError;
use farwood_index::catfish::{
    Catfish, CatfishReport, CoordinateSystem, Count, Issue, Item, KIND, Near, Query, Reader, Rectangle,
    SearchSink, ServerStats, describe,
};
use farwood_transport::any::{AnyFabric, AnyServer};
use farwood_transport::runtime::block_on;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time that a client waits for a server over TCP that has just started.
const SERVER_START_MAX: Duration = Duration::from_secs(1);
/// The pause between two attempts to connect to it.
const SERVER_START_PAUSE: Duration = Duration::from_millis(20);
/// The pause between two attempts to get a connection while other clients use all of them.
const CONNECTION_PAUSE: Duration = Duration::from_millis(1);

/// A handle of a spatial index. The index stays open until this process detaches from the pool. Any number of threads
/// may use it.
///
/// ```
/// use farwood::spatial::{Item, Query, Rectangle};
/// use farwood::{Pool, PoolOptions};
///
/// # let url = format!("shm://doc-spatial-{}", std::process::id());
/// Pool::create(url.as_str(), &PoolOptions::new().memory_bytes(64 << 20))?;
/// let pool = Pool::open(url.as_str())?;
/// let cities = pool.create_spatial("cities", &Default::default())?;
/// let place = |x, y| Rectangle::point([x, y]).expect("two finite numbers");
/// cities.insert(&Item { bounds: place(2.35, 48.86), id: 75 })?;
/// cities.insert(&Item { bounds: place(13.40, 52.52), id: 10 })?;
/// let around_paris = Rectangle::new([2.0, 48.0], [3.0, 49.0]).expect("its edges are in order");
/// assert_eq!(cities.search(&Query::intersecting(around_paris))?.len(), 1);
/// assert_eq!(cities.nearest([12.0, 50.0], 1)?[0].item.id, 10);
/// # drop((cities, pool));
/// # Pool::remove(url.as_str())?;
/// # Ok::<(), farwood::Error>(())
/// ```
pub struct Spatial {
    pub(crate) index: Catfish,
    pub(crate) pool: Arc<Attached>,
    /// The server's view of the memory node, which this process has in shared memory only.
    pub(super) memory: Option<AnyServer>,
    pub(super) lookups: Lookups,
    /// The index in the counters of calls.
    pub(super) metered: MeteredIndex,
    coordinates: CoordinateSystem,
    /// The index as a forked child has opened it.
    heir: Heir<Arc<Self>>,
}

impl Pool {
    /// Creates a spatial index and opens it.
    ///
    /// # Errors
    /// [`Error::Index`]: it exists, the name or the sizes are invalid, or the pool or its directory is full.
    pub fn create_spatial(&self, name: &str, options: &RTree) -> Result<Spatial> {
        let config = options.config().map_err(|error| self.failed("create", name, error))?;
        let client = self.spatial_client("create", name)?;
        let created = block_on(Catfish::create(&client, name, config));
        self.spatial(name, "create", created)
    }

    /// Checks the options of a spatial index that [`create_spatial`](Self::create_spatial) would create at `url`,
    /// without a pool. [0 RT]
    ///
    /// # Errors
    /// [`Error::Index`]: the sizes are invalid.
    pub fn check_spatial(url: &Url, options: &RTree) -> Result<()> {
        let checked = options.config().map(drop);
        checked.map_err(|source| Error::Index { operation: "create", url: url.to_string(), source })
    }

    /// Opens a spatial index.
    ///
    /// # Errors
    /// [`Error::Index`]: it does not exist, or is not a spatial index.
    pub fn open_spatial(&self, name: &str) -> Result<Spatial> {
        let client = self.spatial_client("open", name)?;
        let opened = block_on(Catfish::open(&client, name));
        self.spatial(name, "open", opened)
    }

    /// Whether the index of that name is a spatial index.
    ///
    /// # Errors
    /// [`Error::Index`]: it does not exist.
    pub fn is_spatial(&self, name: &str) -> Result<bool> {
        let client = self.spatial_client("open", name)?;
        let found = block_on(farwood_fabric::directory::find(&client, name));
        match found.map_err(|error| self.failed("open", name, error.into()))? {
            Some(entry) => Ok(entry.kind == KIND),
            None => Err(self.failed("open", name, IndexError::NoSuchIndex(name.to_owned()))),
        }
    }

    fn spatial_client(&self, operation: &'static str, name: &str) -> Result<Rc<MeteredClient>> {
        thread_client::client(self.attached()).map_err(|error| self.failed(operation, name, error.into()))
    }

    fn spatial(
        &self,
        name: &str,
        operation: &'static str,
        index: std::result::Result<Catfish, IndexError>,
    ) -> Result<Spatial> {
        let failed = |error| self.failed(operation, name, error);
        let index = index.map_err(failed)?;
        let coordinates = describe(index.entry()).map_err(failed)?.coordinates;
        let index =
            if self.attached().attachment().is_shared_memory() { index.without_hash_checks() } else { index };
        let memory = match self.attached().attachment() {
            Attachment::Shm(pool) => pool.server(index.layout().node).map(AnyServer::from),
            #[cfg(feature = "tcp")]
            _ => None,
        };
        let lookups = Lookups::new(SearchOptions::default());
        let metered = self.attached().calls().index(name);
        Ok(Spatial {
            index,
            pool: Arc::clone(self.attached()),
            memory,
            lookups,
            metered,
            coordinates,
            heir: Heir::default(),
        })
    }
}

impl Spatial {
    pub(crate) fn failed(&self, operation: &'static str, source: IndexError) -> Error {
        self.pool.failed(operation, &self.index.entry().name, source)
    }

    /// This handle or, in a forked child, one of the same index opened again if that is possible.
    pub(super) fn here(&self) -> &Self {
        let heir = self.heir.get_or_open(self.pool.forks(), || self.open_again());
        // The child may have forked again.
        heir.map_or(self, |heir| heir.here())
    }

    /// As [`here`](Self::here).
    pub(super) fn here_shared(self: &Arc<Self>) -> &Arc<Self> {
        let heir = self.heir.get_or_open(self.pool.forks(), || self.open_again());
        heir.map_or(self, Self::here_shared)
    }

    /// Opens the index in a forked child. `None`: it is gone, or has become another index.
    fn open_again(&self) -> Option<Arc<Self>> {
        let pool = Pool::attached_by(Arc::clone(self.pool.here()));
        let opened = pool.open_spatial(&self.index.entry().name).ok()?;
        let is_same = opened.coordinates == self.coordinates && opened.ids() == self.ids();
        is_same.then(|| opened.with_search(self.search_options()).ok().map(Arc::new))?
    }

    /// Refuses a forked child of the process that opened the pool, and a process that may only read. [0 RT]
    pub(super) fn check_writer(&self, operation: &'static str) -> Result<()> {
        let checked = self.pool.forks().check().and_then(|()| match self.pool.attachment().access() {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(FabricError::ReadOnly),
        });
        checked.map_err(|error| self.failed(operation, error.into()))
    }

    /// This thread's client.
    pub(super) fn thread_client(&self, operation: &'static str) -> Result<Rc<MeteredClient>> {
        thread_client::client(&self.pool).map_err(|error| self.failed(operation, error.into()))
    }

    /// The URL of the index.
    pub fn url(&self) -> String {
        self.pool.index_url(&self.index.entry().name)
    }

    /// The meaning of the coordinates, as the creator of the index stated it.
    pub fn coordinates(&self) -> CoordinateSystem {
        self.coordinates
    }

    /// Refuses a rectangle that the coordinate system of the index does not have.
    pub(super) fn check_bounds(
        &self,
        operation: &'static str,
        what: &'static str,
        bounds: &Rectangle,
    ) -> Result<()> {
        if self.coordinates.check(bounds).is_ok() {
            return Ok(());
        }
        let refused = Call { operation, url: self.url() }.check_bounds(what, bounds, self.coordinates);
        self.counting_refusal(operation, refused)
    }

    /// Counts the call if it is refused because of an argument.
    pub(super) fn counting_refusal(&self, operation: &'static str, checked: Result<()>) -> Result<()> {
        checked.inspect_err(|error| self.pool.calls().refuse(&self.metered, operation, error.kind()))
    }

    /// Refuses a point that is not finite, or that the coordinate system of the index does not have.
    pub(super) fn check_nearest(&self, point: [f64; 2]) -> Result<()> {
        let checked = Call { operation: "nearest", url: self.url() }.check_point(point);
        self.counting_refusal("nearest", checked)?;
        match Rectangle::point(point) {
            Ok(bounds) => self.check_bounds("nearest", "point", &bounds),
            Err(_) => Ok(()),
        }
    }

    /// The same handle with other options of searches.
    ///
    /// # Errors
    /// [`Error::Argument`]: an option is out of range.
    pub fn with_search(mut self, options: SearchOptions) -> Result<Self> {
        options.check(&Call { operation: "open", url: self.url() })?;
        self.close_idle_connections();
        self.lookups = Lookups::new(options);
        // A forked child opens the index with these options.
        self.heir = Heir::default();
        Ok(self)
    }

    /// The options of searches.
    pub fn search_options(&self) -> SearchOptions {
        self.lookups.options()
    }

    /// The number of lookups of this handle by each path, and what it knows about the server.
    pub fn search_stats(&self) -> SearchStats {
        self.here().lookups.stats()
    }

    /// The statistics of the process that serves the index; `None`: no process does. [at most 3 RT]
    ///
    /// # Errors
    /// [`Error::Index`].
    pub fn server_stats(&self) -> Result<Option<ServerStats>> {
        let this = self.here();
        let client = this.thread_client("examine the server")?;
        block_on(this.index.server_stats(&client)).map_err(|error| self.failed("examine the server", error))
    }

    /// Returns the items that match the query, as of one moment during the call, in no particular order. The
    /// [`SearchMode`](super::SearchMode) determines the path: a message to the server [1 RT, and the server's work], or
    /// READs [1 RT for each level; see [`Reader::search`]].
    ///
    /// # Errors
    /// [`Error::Index`]; by [`SearchMode::Message`](super::SearchMode::Message), also if no process serves the index.
    /// [`Error::Argument`]: the index has degrees, and the window is outside them.
    pub fn search(&self, query: &Query) -> Result<Vec<Item>> {
        self.check_bounds("search", "window", &query.window)?;
        self.look_up_blocking(&Search(query))
    }

    /// Passes the items that match the query to `sink` while it finds them. With READs, it passes the items of one leaf
    /// at a time; with messages in shared memory, those of one part of the response. Over a socket it holds the whole
    /// response first, and so does each thread beyond the third that uses a pool over a network. The result is the
    /// items that the sink has received since the last call of [`restart`](SearchSink::restart), as of one moment
    /// during the search. The search calls `restart` at the start of each attempt, the first one too: another attempt
    /// begins if changes overtake the search, if the search executes both paths to compare them, or if it uses the
    /// other path after a failure. Costs as [`search`](Self::search).
    ///
    /// # Errors
    /// As [`search`](Self::search); the sink may have received a part of the items: discard them.
    pub fn search_into(&self, query: &Query, sink: &mut impl SearchSink) -> Result<()> {
        self.check_bounds("search", "window", &query.window)?;
        self.look_up_into(query, sink)
    }

    pub(super) async fn search_into_by(
        &self,
        caller: Caller<'_>,
        query: &Query,
        sink: &mut impl SearchSink,
    ) -> Result<()> {
        self.check_bounds("search", "window", &query.window)?;
        self.look_up(caller, &SearchInto::new(query, sink)).await
    }

    pub(super) async fn search_by(&self, caller: Caller<'_>, query: &Query) -> Result<Vec<Item>> {
        self.check_bounds("search", "window", &query.window)?;
        self.look_up(caller, &Search(query)).await
    }

    /// Counts the items that match the query. Costs and errors as [`search`](Self::search).
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub fn count(&self, query: &Query) -> Result<u64> {
        self.check_bounds("count", "window", &query.window)?;
        self.count_in(query)
    }

    /// The same for a window that may reach beyond the degrees of the index.
    pub(super) fn count_in(&self, query: &Query) -> Result<u64> {
        self.look_up_blocking(&CountMatches(query))
    }

    pub(super) async fn count_by(&self, caller: Caller<'_>, query: &Query) -> Result<u64> {
        self.check_bounds("count", "window", &query.window)?;
        self.look_up(caller, &CountMatches(query)).await
    }

    /// The number of the index in the directory.
    #[cfg(feature = "backup")]
    pub(crate) fn number(&self) -> u64 {
        self.index.entry().number
    }

    /// All items, as of one moment during the call. Costs and errors as [`search`](Self::search).
    #[cfg(feature = "backup")]
    pub(crate) fn all_items(&self) -> Result<Vec<Item>> {
        self.look_up_blocking(&Search(&everything()))
    }

    /// All records, as of one moment during the call. Costs and errors as
    /// [`search_records`](Self::search_records).
    #[cfg(feature = "backup")]
    pub(crate) fn all_records(&self) -> Result<Vec<farwood_index::catfish::Record>> {
        self.records_in(&everything())
    }

    /// Counts all items. Costs and errors as [`search`](Self::search): the call reads all leaves.
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub fn count_all(&self) -> Result<u64> {
        self.count_in(&everything())
    }

    /// Returns the `count` items nearest to `point`, nearest first; none for a count of 0. [by message 1 RT, and the
    /// server's work; by READs 1 RT for each 4 nodes that may hold one]
    ///
    /// # Errors
    /// As [`search`](Self::search); [`Error::Argument`]: the point is not finite, or outside the degrees of the index.
    pub fn nearest(&self, point: [f64; 2], count: usize) -> Result<Vec<Near>> {
        self.check_nearest(point)?;
        self.look_up_blocking(&Nearest { point, count })
    }

    pub(super) async fn nearest_by(
        &self,
        caller: Caller<'_>,
        point: [f64; 2],
        count: usize,
    ) -> Result<Vec<Near>> {
        self.check_nearest(point)?;
        self.look_up(caller, &Nearest { point, count }).await
    }

    /// Whether another process serves the index, so that changes must be sent as messages. [at most 2 RT, and the cost
    /// of checking whether that process is alive]
    ///
    /// # Errors
    /// [`Error::Index`].
    pub fn is_served(&self) -> Result<bool> {
        let this = self.here();
        this.is_served_beside(&*this.thread_client("examine the server")?)
    }

    fn is_served_beside(&self, client: &Client<AnyFabric>) -> Result<bool> {
        let holder = self.holder(client)?;
        Ok(holder.is_some_and(|holder| holder != client.fabric().identity())
            && self.has_live_server(client)?)
    }

    /// Waits for the permit of this process to become a server.
    pub(super) fn server_permit(
        &self,
        operation: &'static str,
        client: &Client<AnyFabric>,
    ) -> Result<ServerPermit<'_>> {
        let by = client.fabric().identity();
        self.pool.server_permit().map_err(|busy| {
            let name = self.index.entry().name.clone();
            self.failed(
                operation,
                match busy {
                    PermitBusy::OwnThread => IndexError::Served { by },
                    PermitBusy::OtherThread => IndexError::BeingChanged { name, by },
                },
            )
        })
    }

    fn holder(&self, client: &Client<AnyFabric>) -> Result<Option<ClientId>> {
        block_on(self.index.served_by(client)).map_err(|error| self.failed("examine the server", error))
    }

    /// Whether a live process serves the index, this one included.
    pub(super) fn has_live_server(&self, client: &Client<AnyFabric>) -> Result<bool> {
        let failed = |error| self.failed("examine the server", error);
        let Some(holder) = self.holder(client)? else { return Ok(false) };
        if holder == client.fabric().identity() {
            return Ok(true);
        }
        let lives = block_on(client.fabric().revoke(holder)).map_err(|error| failed(error.into()))?;
        Ok(lives == Revocation::Alive)
    }

    /// Loads items into the empty index with the fill factor `fill` (0.5 to 1): in shared memory this process is the
    /// server for the duration of the call; over TCP the call sends the items to the server.
    ///
    /// # Errors
    /// [`Error::Index`]: it is not empty, or the pool is full; in shared memory, another process serves it; over TCP,
    /// no process serves it. [`Error::Argument`]: the fill factor is out of range, or a rectangle is outside the
    /// degrees of the index.
    pub fn bulk_load(&self, items: &[Item], fill: f64) -> Result<()> {
        Call { operation: "bulk load", url: self.url() }.check_fill(fill)?;
        items.iter().try_for_each(|item| self.check_bounds("bulk load", "rectangle", &item.bounds))?;
        let this = self.here();
        this.check_writer("bulk load")?;
        let client = this.pool.client();
        client.call(&this.metered, "bulk load", || this.bulk_load_by(&client, items, fill))
    }

    fn bulk_load_by(&self, client: &Client<AnyFabric>, items: &[Item], fill: f64) -> Result<()> {
        let failed = |error| self.failed("bulk load", error);
        #[cfg(feature = "tcp")]
        let Ok(server) = self.server("bulk load") else {
            let mut lent = block_on(self.connect(client, Duration::ZERO)).map_err(failed)?;
            let Connection::Socket(server) = lent.connection() else {
                unreachable!("a server on another machine is reached over a socket")
            };
            let loaded = block_on(server.load(items, fill));
            return block_on(self.end(lent, client, loaded)).map_err(failed);
        };
        #[cfg(not(feature = "tcp"))]
        let server = self.server("bulk load")?;
        let _permit = self.server_permit("bulk load", client)?;
        let lease = ServerLease::begin(&self.index, client, &server).map_err(failed)?;
        let loaded = block_on(lease.worker(client, &server).bulk_load(items, fill));
        lease.release().map_err(|error| self.failed("bulk load", error))?;
        loaded.map_err(failed)
    }

    /// Whether the index holds no items. [as `nearest`]
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.nearest([0.0, 0.0], 1)?.is_empty())
    }

    /// Reads every rectangle and verifies the hash of every node, while other processes may change the index; returns
    /// the number of rectangles. In an index of unique ids it reads all records, which are in memory at once. The call
    /// is one search of everything, which restarts when a server reuses a node's memory; if a server changes the index
    /// continuously, the call may fail as exhausted. [as [`search`](Self::search)]
    ///
    /// # Errors
    /// [`Error::Index`]: a node is damaged; the errors of the transport.
    pub fn scrub(&self) -> Result<u64> {
        let this = self.here();
        let client = this.thread_client("scrub")?;
        let mut count = Count::default();
        let mut reader = Reader::new(&this.index, &client, Issue::Many).verifying_hashes();
        let scrubbed = client.call(&this.metered, "scrub", || {
            if self.ids().is_unique() {
                return block_on(reader.search_records(&everything())).map(|found| found.len() as u64);
            }
            block_on(reader.search(&everything(), &mut count)).map(|()| count.0)
        });
        scrubbed.map_err(|error| self.failed("scrub", error))
    }

    /// Walks the index and verifies every invariant. No process may change the index during the walk. [1 RT per node]
    ///
    /// # Errors
    /// [`Error::Index`]. The [`CatfishReport`] lists violated invariants.
    pub fn check(&self) -> Result<CatfishReport> {
        let this = self.here();
        let client = this.thread_client("check")?;
        let checked = client.call(&this.metered, "check", || block_on(this.index.walk(&client)));
        checked.map_err(|error| self.failed("check", error))
    }

    /// The server of the index's memory node, which this process can be only in shared memory.
    pub(crate) fn server(&self, operation: &'static str) -> Result<AnyServer> {
        // Every pool of a build without `tcp` is in shared memory.
        let _ = operation;
        match self.pool.attachment() {
            Attachment::Shm(pool) => {
                let server = pool.server(self.index.layout().node);
                let server = server.ok_or_else(|| self.failed(operation, FabricError::ReadOnly.into()))?;
                Ok(server.into())
            }
            #[cfg(feature = "tcp")]
            _ => {
                let name = self.index.entry().name.clone();
                Err(self.failed(operation, IndexError::NotServed { name }))
            }
        }
    }

    /// Whether [`bulk_load`](Self::bulk_load) is possible: the index is empty, and no process serves it, except over
    /// TCP, where the server receives the items. [as `nearest`, and `is_served`]
    ///
    /// # Errors
    /// As [`search`](Self::search); this process may only read.
    pub fn takes_bulk(&self) -> Result<bool> {
        self.check_writer("bulk load")?;
        let by_socket = self.server("bulk load").is_err();
        Ok((by_socket || !self.is_served()?) && self.is_empty()?)
    }

    /// A connection to the server of the index, for changes: through rings in shared memory, through a socket over TCP.
    /// A server over TCP that has just started may still be searching for the index.
    pub(super) async fn connect<'c>(
        &'c self,
        client: &'c Client<AnyFabric>,
        connection_wait: Duration,
    ) -> std::result::Result<Lent<'c>, IndexError> {
        self.when_served(client, connection_wait, async || self.connection_for_changes(client).await).await
    }

    /// Calls `open` again until a server over TCP that has just started has found the index, and up to
    /// `connection_wait` while other clients use all connections.
    pub(super) async fn when_served<T>(
        &self,
        client: &Client<AnyFabric>,
        connection_wait: Duration,
        open: impl AsyncFn() -> std::result::Result<T, IndexError>,
    ) -> std::result::Result<T, IndexError> {
        let begun = Instant::now();
        loop {
            let opened = open().await;
            let (wait_max, pause) = match opened {
                Err(IndexError::NotServed { .. }) if self.memory.is_none() => {
                    (SERVER_START_MAX, SERVER_START_PAUSE)
                }
                Err(IndexError::Crowded { .. }) => (connection_wait, CONNECTION_PAUSE),
                opened => return opened,
            };
            if begun.elapsed() >= wait_max {
                return opened;
            }
            client.fabric().sleep(pause.as_nanos() as u64).await;
        }
    }
}

impl Drop for Spatial {
    fn drop(&mut self) {
        self.close_idle_connections();
    }
}

impl fmt::Debug for Spatial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spatial").field(&self.url()).finish()
    }
}

/// The index and a client, for benchmarks.
#[doc(hidden)]
pub fn parts(spatial: &Spatial) -> (&Catfish, Client<AnyFabric>) {
    (&spatial.index, spatial.pool.attachment().client())
}

/// The query that every item matches.
pub(super) fn everything() -> Query {
    let plane = Rectangle::new([f64::MIN; 2], [f64::MAX; 2]);
    Query::intersecting(plane.expect("its edges are finite"))
}
