//! Spatial indexes: rectangles that many processes share, by Catfish.
//!
//! Whoever has a pool open searches its spatial indexes by reading them. One process at a time changes an index: a
//! server, to which others send what they want changed, or, where nobody serves, whoever has something to change, for
//! as long as that takes.

use crate::error::{Error, Result};
use crate::fabric::AnyPool;
use crate::pool::{Attached, Pool};
use crate::seats;
use farwood_fabric::{Client, Fabric, NodeId, Revocation, Server};
use farwood_index::IndexError;
use farwood_index::catfish::{
    CONNECTIONS_MAX, Catfish, Config, Count, Inbox, Issue, Item, KIND, Messenger, Near, Notice, Query,
    Reader, Rectangle, ServerSettings, Service, ServiceSettings, Walk, Worker,
};
use farwood_transport::any::AnyFabric;
use farwood_transport::runtime::{block_on, run_all};
use farwood_transport::shm::{ShmMemory, ShmServer};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A spatial index, open in this process until it leaves the pool. Handles may be used by any number of threads.
///
/// ```
/// use farwood::spatial::{Item, Query, Rectangle};
/// use farwood::{Pool, PoolOptions};
///
/// # let url = format!("shm://doc-spatial-{}", std::process::id());
/// Pool::create(url.as_str(), &PoolOptions { memory_bytes: 64 << 20, ..Default::default() })?;
/// let pool = Pool::open(url.as_str())?;
/// let cities = pool.create_spatial("cities", &Default::default())?;
/// let place = |x, y| Rectangle::point([x, y]).expect("two finite numbers");
/// cities.insert(&Item { bounds: place(2.35, 48.86), id: 75 })?;
/// cities.insert(&Item { bounds: place(13.40, 52.52), id: 10 })?;
/// let around_paris = Rectangle::new([2.0, 48.0], [3.0, 49.0]).expect("it is not inverted");
/// assert_eq!(cities.search(&Query::intersecting(around_paris))?.len(), 1);
/// assert_eq!(cities.nearest([12.0, 50.0], 1)?[0].item.id, 10);
/// # drop((cities, pool));
/// # Pool::remove(url.as_str())?;
/// # Ok::<(), farwood::Error>(())
/// ```
pub struct Spatial {
    index: Catfish,
    pool: Arc<Attached>,
}

/// How an index is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeOptions {
    /// Threads that answer.
    pub threads: usize,
    /// Connections at a time, at most 512.
    pub connections: usize,
    /// How the server learns of requests.
    pub notice: Notice,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self { threads: 1, connections: 64, notice: Notice::Event }
    }
}

impl Pool {
    /// Creates a spatial index and opens it.
    ///
    /// # Errors
    /// [`Error::Index`]: it exists, the name or the sizes cannot be, the pool or its directory is full.
    pub fn create_spatial(&self, name: &str, config: &Config) -> Result<Spatial> {
        let client = seats::client(self.attached());
        let created = block_on(Catfish::create(&client, name, *config));
        self.spatial(name, "create", created)
    }

    /// Opens a spatial index.
    ///
    /// # Errors
    /// [`Error::Index`]: there is none of that name, or it is of another kind.
    pub fn open_spatial(&self, name: &str) -> Result<Spatial> {
        let client = seats::client(self.attached());
        let opened = block_on(Catfish::open(&client, name));
        self.spatial(name, "open", opened)
    }

    /// Whether the index of that name is a spatial one.
    ///
    /// # Errors
    /// [`Error::Index`]: there is none.
    pub fn is_spatial(&self, name: &str) -> Result<bool> {
        let client = seats::client(self.attached());
        let found = block_on(farwood_fabric::directory::find(&client, name));
        match found.map_err(|error| self.failed("open", name, error.into()))? {
            Some(entry) => Ok(entry.kind == KIND),
            None => Err(self.failed("open", name, IndexError::NoSuchIndex(name.to_owned()))),
        }
    }

    fn spatial(
        &self,
        name: &str,
        operation: &'static str,
        index: std::result::Result<Catfish, IndexError>,
    ) -> Result<Spatial> {
        let index = index.map_err(|error| self.failed(operation, name, error))?;
        Ok(Spatial { index, pool: Arc::clone(self.attached()) })
    }
}

impl Spatial {
    fn failed(&self, operation: &'static str, source: IndexError) -> Error {
        Error::Index { operation, url: self.url(), source }
    }

    /// The index's URL.
    pub fn url(&self) -> String {
        self.pool.index_url(&self.index.entry().name)
    }

    /// What the query is for, of the index at one moment during the call, in no order. The caller reads the tree by
    /// itself. [1 RT for each level; see [`Reader::search`]]
    ///
    /// # Errors
    /// [`Error::Index`].
    pub fn search(&self, query: &Query) -> Result<Vec<Item>> {
        let (client, mut found) = (seats::client(&self.pool), Vec::new());
        let searched = block_on(Reader::new(&self.index, &client, Issue::Many).search(query, &mut found));
        searched.map(|()| found).map_err(|error| self.failed("search", error))
    }

    /// How much matches. Costs and errors as [`search`](Self::search).
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub fn count(&self, query: &Query) -> Result<u64> {
        let (client, mut count) = (seats::client(&self.pool), Count::default());
        let searched = block_on(Reader::new(&self.index, &client, Issue::Many).search(query, &mut count));
        searched.map(|()| count.0).map_err(|error| self.failed("count", error))
    }

    /// The `count` items that are nearest to `point`, nearest first. [1 RT for each 4 nodes that may have one]
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub fn nearest(&self, point: [f64; 2], count: usize) -> Result<Vec<Near>> {
        let client = seats::client(&self.pool);
        let found = block_on(Reader::new(&self.index, &client, Issue::Many).nearest(point, count));
        found.map_err(|error| self.failed("nearest", error))
    }

    /// Adds an item: by message where somebody serves the index, else as its server for the moment. For many changes
    /// there is [`change`](Self::change).
    ///
    /// # Errors
    /// [`Error::Index`]; over TCP, where nobody can serve an index yet, always.
    pub fn insert(&self, item: &Item) -> Result<()> {
        self.change(|editor| editor.insert(item))
    }

    /// Takes out an item; `false`: there is none like it. As [`insert`](Self::insert) otherwise.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn remove(&self, item: &Item) -> Result<bool> {
        self.change(|editor| editor.remove(item))
    }

    /// Lets `work` change the index, by messages on one connection, or as its server until `work` is done.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and `work`'s.
    pub fn change<T>(&self, work: impl FnOnce(&mut Editor<'_>) -> Result<T>) -> Result<T> {
        let (client, server) = (self.pool.attachment().client(), self.server("change")?);
        let failed = |error| self.failed("change", error);
        if self.is_served_beside(&client)? {
            let inbox = Inbox { local: server.local(), at: None };
            let connected = block_on(Messenger::connect(&self.index, &client, inbox, Notice::Event));
            let mut editor = Editor { spatial: self, by: By::Message(connected.map_err(failed)?) };
            let done = work(&mut editor);
            if let By::Message(connection) = editor.by {
                block_on(connection.close()).map_err(failed)?;
            }
            return done;
        }
        let tree = block_on(self.index.serve(&client, &server, ServerSettings::default())).map_err(failed)?;
        let done = work(&mut Editor { spatial: self, by: By::Office(tree.worker(&client, &server)) });
        block_on(tree.resign(&client)).map_err(failed)?;
        done
    }

    /// Whether another process serves the index, so that only messages change it. [at most 2 RT, and what it takes to
    /// ask whether it lives]
    ///
    /// # Errors
    /// [`Error::Index`].
    pub fn is_served(&self) -> Result<bool> {
        self.is_served_beside(&seats::client(&self.pool))
    }

    fn is_served_beside(&self, client: &Client<AnyFabric>) -> Result<bool> {
        let failed = |error| self.failed("look who serves", error);
        let Some(holder) = block_on(self.index.served_by(client)).map_err(failed)? else { return Ok(false) };
        if holder == client.fabric().identity() {
            return Ok(false);
        }
        let lives = block_on(client.fabric().revoke(holder)).map_err(|error| failed(error.into()))?;
        Ok(lives == Revocation::Alive)
    }

    /// Loads items into the empty index, filling nodes to the share `fill` (0 to 1), as its server for the moment.
    ///
    /// # Errors
    /// [`Error::Index`]: it is not empty, the pool is full, or somebody serves it.
    pub fn bulk_load(&self, items: &[Item], fill: f64) -> Result<()> {
        let (client, server) = (self.pool.attachment().client(), self.server("bulk load")?);
        let failed = |error| self.failed("bulk load", error);
        let tree = block_on(self.index.serve(&client, &server, ServerSettings::default())).map_err(failed)?;
        let loaded = block_on(tree.worker(&client, &server).bulk_load(items, fill));
        block_on(tree.resign(&client)).map_err(failed)?;
        loaded.map_err(failed)
    }

    /// Whether nothing is in the index. [as `nearest`]
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.nearest([0.0, 0.0], 1)?.is_empty())
    }

    /// Walks the index, which nobody changes meanwhile, and verifies every invariant. [1 RT per node]
    ///
    /// # Errors
    /// [`Error::Index`]. What is wrong with the index is in the [`Walk`].
    pub fn check(&self) -> Result<Walk> {
        let client = seats::client(&self.pool);
        block_on(self.index.walk(&client)).map_err(|error| self.failed("check", error))
    }

    /// The server role of the index's memory node, which this process can play in shared memory only.
    fn server(&self, operation: &'static str) -> Result<ShmServer> {
        let node: NodeId = self.index.layout().node;
        match self.pool.attachment() {
            AnyPool::Shm(pool, ..) => {
                Ok(pool.server(node).expect("the index lies on a memory node of the pool"))
            }
            AnyPool::Tcp(_) => {
                let name = self.index.entry().name.clone();
                Err(self.failed(operation, IndexError::NotServed { name }))
            }
        }
    }

    /// Serves the index until `stop` is set: answers messages and makes the changes that they ask for. `ready` is
    /// called when it does.
    ///
    /// # Errors
    /// [`Error::Index`]: another serves it, or the pool is full.
    pub fn serve(&self, options: &ServeOptions, stop: &AtomicBool, ready: impl FnOnce()) -> Result<()> {
        let client = self.pool.attachment().client();
        let server = self.server("serve")?;
        let failed = |error| self.failed("serve", error);
        let tree = block_on(self.index.serve(&client, &server, ServerSettings::default())).map_err(failed)?;
        let settings = ServiceSettings { notice: options.notice, ..ServiceSettings::default() };
        let service = Service::new(&tree, settings);
        ready();
        let threads = options.threads.max(1);
        let served = std::thread::scope(|scope| {
            let serve = |thread| self.serve_some(&service, options, (thread, threads));
            let others: Vec<_> = (1..threads).map(|thread| scope.spawn(move || serve(thread))).collect();
            let watch = scope.spawn(|| {
                while !stop.load(Ordering::Acquire) && !service.has_ended() {
                    std::thread::sleep(Duration::from_millis(20));
                }
                service.end();
            });
            let mut done = serve(0);
            // One that failed ends the others.
            service.end();
            for other in others {
                let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                done = done.and(other);
            }
            watch.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done
        });
        block_on(tree.resign(&client)).map_err(failed)?;
        served.map_err(failed)
    }

    /// One thread's share of a service; thread 0 also takes immediates and sends heartbeats.
    fn serve_some(
        &self,
        service: &Service<'_>,
        options: &ServeOptions,
        (thread, threads): (usize, usize),
    ) -> std::result::Result<(), IndexError> {
        let Ok(server) = self.server("serve") else {
            unreachable!("whoever serves has found the server role")
        };
        let connections = options.connections.min(CONNECTIONS_MAX);
        let clients: Vec<_> = (thread..connections)
            .step_by(threads)
            .map(|number| (number, self.pool.attachment().client()))
            .collect();
        let own = self.pool.attachment().client();
        let mut flows: Vec<Flow<'_>> = Vec::new();
        for (number, client) in &clients {
            flows.push(Box::pin(service.connection(*number, client, &server)));
        }
        if thread == 0 {
            let mut last = (Instant::now(), 0);
            let busy = move || {
                let (now, worked) = (Instant::now(), service.worked_ns());
                let passed = now.duration_since(last.0).as_nanos().max(1) * threads as u128;
                let busy = (worked - last.1) as f64 / passed as f64;
                last = (now, worked);
                busy
            };
            flows.push(Box::pin(service.heartbeats(&own, &server, busy)));
            if options.notice == Notice::Event {
                flows.push(Box::pin(service.dispatch_until_end(&server, &own)));
            }
        }
        run_all(flows).into_iter().collect()
    }
}

/// One flow of a server's work.
type Flow<'f> = Pin<Box<dyn Future<Output = std::result::Result<(), IndexError>> + 'f>>;

/// Who may change a spatial index just now.
pub struct Editor<'e> {
    spatial: &'e Spatial,
    by: By<'e>,
}

enum By<'e> {
    Message(Messenger<'e, AnyFabric, ShmMemory>),
    Office(Worker<'e, AnyFabric, ShmServer>),
}

impl Editor<'_> {
    fn done<T>(&self, operation: &'static str, done: std::result::Result<T, IndexError>) -> Result<T> {
        done.map_err(|error| self.spatial.failed(operation, error))
    }

    /// Adds an item. Items may be equal.
    ///
    /// # Errors
    /// [`Error::Index`]; where the server was lost, nobody knows whether it was done.
    pub fn insert(&mut self, item: &Item) -> Result<()> {
        let done = match &mut self.by {
            By::Message(connection) => block_on(connection.insert(item)),
            By::Office(worker) => block_on(worker.insert(item)),
        };
        self.done("insert", done)
    }

    /// Takes out an item; `false`: there is none like it. Of several that are equal one goes.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn remove(&mut self, item: &Item) -> Result<bool> {
        let done = match &mut self.by {
            By::Message(connection) => block_on(connection.remove(item)),
            By::Office(worker) => block_on(worker.remove(item)),
        };
        self.done("remove", done)
    }

    /// Puts an item at another place, in one moment; `false`: it was not at `item.bounds`.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn update(&mut self, item: &Item, bounds: Rectangle) -> Result<bool> {
        let done = match &mut self.by {
            By::Message(connection) => block_on(connection.update(item, bounds)),
            By::Office(worker) => block_on(worker.update(item, bounds)),
        };
        self.done("update", done)
    }
}

impl fmt::Debug for Spatial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spatial").field(&self.url()).finish()
    }
}

impl fmt::Debug for Editor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Editor").field(&self.spatial.url()).finish()
    }
}

/// A client and a reader's parts, for those who measure.
#[doc(hidden)]
pub fn parts(spatial: &Spatial) -> (&Catfish, Client<AnyFabric>) {
    (&spatial.index, spatial.pool.attachment().client())
}
