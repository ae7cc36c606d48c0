//! Spatial indexes: rectangles that many processes share, by Catfish.
//!
//! Whoever has a pool open searches its spatial indexes by reading them. One process at a time changes an index: a
//! server, to which others send what they want changed, or, where nobody serves, whoever has something to change, for
//! as long as that takes.

use crate::error::{Error, Result};
use crate::fabric::AnyPool;
use crate::pool::{Attached, Office, Pool};
use crate::seats;
use crate::server_connection::{Connection, Reach};
use farwood_fabric::{Client, ClientId, Fabric as _, Revocation};
use farwood_index::IndexError;
use farwood_index::catfish::{
    Catfish, Config, Count, Issue, Item, KIND, Near, Query, Reader, Rectangle, ServerSettings, Talk as _,
    TreeServer, Walk, Worker,
};
use farwood_transport::any::{AnyFabric, AnyMemory, AnyServer};
use farwood_transport::runtime::block_on;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a change waits for its turn where others change the index, each as its server for a moment, and between two
/// looks whether it has come.
const TURN_MAX: Duration = Duration::from_mins(1);
const TURN_LOOK: Duration = Duration::from_millis(1);
/// How long it waits for a server over TCP to find its index, and between two looks whether it has.
const FOUND_MAX: Duration = Duration::from_secs(1);
const FOUND_LOOK: Duration = Duration::from_millis(20);

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
    pub(crate) index: Catfish,
    pub(crate) pool: Arc<Attached>,
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
    pub(crate) fn failed(&self, operation: &'static str, source: IndexError) -> Error {
        self.pool.failed(operation, &self.index.entry().name, source)
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

    /// How many items there are. Costs and errors as [`search`](Self::search): all leaves are read.
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub fn count_all(&self) -> Result<u64> {
        let everything = Rectangle::new([f64::MIN; 2], [f64::MAX; 2]).expect("its edges are finite");
        self.count(&Query::intersecting(everything))
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
    /// [`Error::Index`]; over TCP, where nobody serves it; within [`change`](Self::change), which has an editor for it.
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

    /// Lets `work` change the index, by messages on one connection, or as its server until `work` is done. Where
    /// another is its server for a moment, this waits for its turn.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and `work`'s.
    pub fn change<T>(&self, work: impl FnOnce(&mut Editor<'_>) -> Result<T>) -> Result<T> {
        let client = self.pool.attachment().client();
        let failed = |error| self.failed("change", error);
        let server = self.server("change").ok();
        match self.turn(&client, server.as_ref())? {
            Turn::Messages(connection) => {
                let mut editor = Editor { spatial: self, by: By::Message(connection) };
                let done = work(&mut editor);
                if let By::Message(connection) = editor.by {
                    // What was asked for is done, or not, whether or not the connection can be left to others.
                    let _ = block_on(connection.close());
                }
                done
            }
            Turn::Office { tree, server, place: _place } => {
                let by = By::Office(tree.worker(&client, server));
                let done = work(&mut Editor { spatial: self, by });
                block_on(tree.resign(&client)).map_err(failed)?;
                done
            }
        }
    }

    /// Whatever way there is to change the index: a connection to its server, or, in shared memory, the office.
    fn turn<'c>(&'c self, client: &'c Client<AnyFabric>, server: Option<&'c AnyServer>) -> Result<Turn<'c>> {
        let until = Instant::now() + TURN_MAX;
        loop {
            let place = self.office("change", client)?;
            let taken = match server {
                // Whoever is in office now may serve for longer than a moment.
                Some(server) if !self.is_served_by_any(client)? => {
                    let tree = block_on(self.index.serve(client, server, ServerSettings::default()));
                    tree.map(|tree| Turn::Office { tree: Box::new(tree), server, place })
                }
                server => {
                    drop(place);
                    self.connect(client, server).map(Turn::Messages)
                }
            };
            match taken {
                Err(IndexError::NotServed { .. } | IndexError::Served { .. })
                    if server.is_some() && Instant::now() < until =>
                {
                    std::thread::sleep(TURN_LOOK);
                }
                taken => return taken.map_err(|error| self.failed("change", error)),
            }
        }
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
        let holder = self.holder(client)?;
        Ok(holder.is_some_and(|holder| holder != client.fabric().identity())
            && self.is_served_by_any(client)?)
    }

    /// The place of the one thread of this process that may become a server just now.
    fn office(&self, operation: &'static str, client: &Client<AnyFabric>) -> Result<Office<'_>> {
        let by = client.fabric().identity();
        self.pool.office().ok_or_else(|| self.failed(operation, IndexError::Served { by }))
    }

    fn holder(&self, client: &Client<AnyFabric>) -> Result<Option<ClientId>> {
        block_on(self.index.served_by(client)).map_err(|error| self.failed("look who serves", error))
    }

    fn is_served_by_any(&self, client: &Client<AnyFabric>) -> Result<bool> {
        let failed = |error| self.failed("look who serves", error);
        let Some(holder) = self.holder(client)? else { return Ok(false) };
        if holder == client.fabric().identity() {
            return Ok(true);
        }
        let lives = block_on(client.fabric().revoke(holder)).map_err(|error| failed(error.into()))?;
        Ok(lives == Revocation::Alive)
    }

    /// Loads items into the empty index, filling nodes to the share `fill` (0 to 1), as its server for the moment; over
    /// TCP, by sending them to its server.
    ///
    /// # Errors
    /// [`Error::Index`]: it is not empty, the pool is full, in shared memory somebody serves it, over TCP nobody does.
    pub fn bulk_load(&self, items: &[Item], fill: f64) -> Result<()> {
        let client = self.pool.attachment().client();
        let failed = |error| self.failed("bulk load", error);
        let Ok(server) = self.server("bulk load") else {
            // Over TCP whoever serves it loads what it is sent.
            let connected = self.connect(&client, None).map_err(failed)?;
            let Connection::Socket(mut server) = connected else {
                unreachable!("there is no other over TCP")
            };
            return block_on(server.load(items, fill)).map_err(failed);
        };
        let _office = self.office("bulk load", &client)?;
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
    pub(crate) fn server(&self, operation: &'static str) -> Result<AnyServer> {
        match self.pool.attachment() {
            AnyPool::Shm(pool, ..) => {
                let server = pool.server(self.index.layout().node);
                Ok(server.expect("the index lies on a memory node of the pool").into())
            }
            AnyPool::Tcp(_) | AnyPool::Rdma(_) => {
                let name = self.index.entry().name.clone();
                Err(self.failed(operation, IndexError::NotServed { name }))
            }
        }
    }

    /// Whether it can be [loaded](Self::bulk_load) at once: it is empty, and nobody else would have to do it but a
    /// server that can be sent everything. [as `nearest`, and `is_served`]
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub fn takes_bulk(&self) -> Result<bool> {
        let by_socket = self.server("bulk load").is_err();
        Ok((by_socket || !self.is_served()?) && self.is_empty()?)
    }

    /// A connection to the server of the index: rings in shared memory, a socket over TCP, where a server that has just
    /// begun may not have found the index yet.
    fn connect<'c>(
        &'c self,
        client: &'c Client<AnyFabric>,
        server: Option<&'c AnyServer>,
    ) -> std::result::Result<Connection<'c, AnyFabric, AnyMemory>, IndexError> {
        let reach = match (server, self.pool.attachment()) {
            (Some(server), _) => Reach::Memory(server),
            (None, AnyPool::Tcp(pool)) => Reach::Machine(pool),
            _ => return Err(IndexError::NotServed { name: self.index.entry().name.clone() }),
        };
        let until = Instant::now() + FOUND_MAX;
        loop {
            match block_on(Connection::open(&self.index, client, reach)) {
                Err(IndexError::NotServed { .. }) if server.is_none() && Instant::now() < until => {
                    std::thread::sleep(FOUND_LOOK);
                }
                opened => return opened,
            }
        }
    }
}

/// A way to change the index.
enum Turn<'c> {
    Messages(Connection<'c, AnyFabric, AnyMemory>),
    /// This process is its server for the moment, which only one of its threads may be.
    Office {
        tree: Box<TreeServer>,
        server: &'c AnyServer,
        place: Office<'c>,
    },
}

/// Who may change a spatial index just now.
pub struct Editor<'e> {
    spatial: &'e Spatial,
    by: By<'e>,
}

enum By<'e> {
    Message(Connection<'e, AnyFabric, AnyMemory>),
    Office(Worker<'e, AnyFabric, AnyServer>),
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
