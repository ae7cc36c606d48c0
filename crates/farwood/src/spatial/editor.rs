//! Changes of a spatial index. The process sends them as messages to the server, or is the server for the duration of
//! the change.

use super::index::Spatial;
use super::lookup::Lent;
use super::server_lease::ServerLease;
use crate::attached::ServerPermit;
use crate::error::{Result, rest_of};
use crate::observe::MeteredClient;
#[cfg(feature = "tcp")]
use crate::thread_client::ThreadPath;
use farwood_fabric::{Client, Costs, FabricError};
use farwood_index::IndexError;
use farwood_index::catfish::{
    CHANGES_MAX, Change, Item, Record, RecordId, Rectangle, SpatialRpc as _, Worker,
};
use farwood_transport::any::{AnyFabric, AnyServer};
#[cfg(feature = "tcp")]
use farwood_transport::runtime::TaskThread;
use farwood_transport::runtime::block_on;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest time that a change waits while other processes change the index.
const WAIT_MAX: Duration = Duration::from_mins(1);
/// The pause between two attempts to become the server.
const WAIT_PAUSE: Duration = Duration::from_millis(1);

impl Spatial {
    /// Adds an item: by message if a process serves the index; otherwise this process is its server for the duration of
    /// the call. Use [`change`](Self::change) for many changes.
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index): over TCP no process serves the index, or the call is inside
    /// [`change`](Self::change), whose editor must be used instead. [`Error::Argument`](crate::Error::Argument): the
    /// index has degrees, and the rectangle is outside them.
    pub fn insert(&self, item: &Item) -> Result<()> {
        self.change(|editor| editor.insert(item))
    }

    /// Removes an item; returns `false` if the index has no equal item. Otherwise as [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn remove(&self, item: &Item) -> Result<bool> {
        self.change(|editor| editor.remove(item))
    }

    /// Adds items. Costs and errors as [`Editor::insert_many`].
    ///
    /// # Errors
    /// As [`insert`](Self::insert). The index may then hold some of the items; [`Editor::changes`] has their number.
    pub fn insert_many(&self, items: &[Item]) -> Result<()> {
        self.change(|editor| editor.insert_many(items))
    }

    /// Removes items; returns for each whether the index had an equal item. Costs and errors as
    /// [`Editor::remove_many`].
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    pub fn remove_many(&self, items: &[Item]) -> Result<Vec<bool>> {
        self.change(|editor| editor.remove_many(items))
    }

    /// Calls `work` with an editor, which sends changes on one connection, or applies them as the index's server until
    /// `work` returns. If another process is the server for the duration of a change, this call waits for it, up to a
    /// minute. If `work` panics, the changes that it has made stay, and the index can be changed at once.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and the errors of `work`.
    pub fn change<T>(&self, work: impl FnOnce(&mut Editor<'_>) -> Result<T>) -> Result<T> {
        let this = self.here();
        this.check_writer("change")?;
        let begun = Some(Instant::now());
        let client = this.change_client();
        let client =
            client.inspect_err(|error| this.pool.calls().refuse(&this.metered, "change", error.kind()))?;
        let server = this.server("change").ok();
        let path = match this.begin_change(&client, server.as_ref()) {
            Ok(path) => path,
            Err(error) => return client.call_since(begun, (&this.metered, "change"), || Err(error)),
        };
        this.edit(path, (&client, begun), work)
    }

    /// Calls `work` with an editor that uses `path`. The first change comprises the time since `begun`.
    fn edit<'c, T>(
        &'c self,
        path: ChangePath<'c>,
        (client, begun): (&'c MeteredClient, Option<Instant>),
        work: impl FnOnce(&mut Editor<'_>) -> Result<T>,
    ) -> Result<T> {
        match path {
            ChangePath::Messages(lent) => {
                let path = EditorPath::Messages(lent);
                let mut editor = Editor { spatial: self, client, begun, path, changes: 0 };
                let done = work(&mut editor);
                if let EditorPath::Messages(lent) = editor.path {
                    block_on(self.give_back(lent, client));
                }
                done
            }
            ChangePath::AsServer { lease, server, permit: _permit } => {
                let path = EditorPath::AsServer(lease.worker(client, server));
                let done = work(&mut Editor { spatial: self, client, begun, path, changes: 0 });
                lease.release().map_err(|error| self.failed("change", error))?;
                done
            }
        }
    }

    /// Makes changes in one commit, as [`change`](Self::change) does; returns their costs, too. The caller counts the
    /// call.
    pub(super) fn change_at_once(
        &self,
        operation: &'static str,
        changes: &[Change],
    ) -> Result<(Vec<bool>, Costs)> {
        self.check_writer(operation)?;
        let client = self.pool.client();
        let server = self.server(operation).ok();
        let path = self.begin_change(&client, server.as_ref())?;
        let found = self.edit(path, (&client, None), |editor| {
            let fit = match &mut editor.path {
                EditorPath::Messages(lent) => lent.connection().changes_that_fit(changes),
                EditorPath::AsServer(_) => CHANGES_MAX,
            };
            if fit < changes.len() {
                return Err(self.too_many(operation, changes, fit));
            }
            editor.change_in_batches(operation, changes, BatchPolicy::Whole)
        })?;
        Ok((found, client.take_costs()))
    }

    /// The client of a change: in shared memory one of its own, which needs no connection to a memory node; over a
    /// network that of this thread. If this thread has none, the client sends nothing: the thread of the pool finds the
    /// server.
    fn change_client(&self) -> Result<Rc<MeteredClient>> {
        #[cfg(feature = "tcp")]
        if self.memory.is_none() {
            return match self.thread_path("change")? {
                ThreadPath::Own(client) => Ok(client),
                ThreadPath::Shared(thread) => {
                    let client = Rc::new(self.pool.client());
                    self.open_socket_by(&thread, &client)?;
                    Ok(client)
                }
            };
        }
        Ok(Rc::new(self.pool.client()))
    }

    /// Opens this thread's socket to the server, unless it has one. The thread of the pool reads the port. [2 RT there]
    #[cfg(feature = "tcp")]
    fn open_socket_by(&self, thread: &TaskThread, client: &Client<AnyFabric>) -> Result<()> {
        let failed = |error| self.failed("change", error);
        if block_on(self.open_connection(client)).map_err(failed)?.is_some() {
            return Ok(());
        }
        let token = self.server_token().map_err(failed)?;
        let port = thread.run(async || {
            let client = self.thread_client("change")?;
            let port = self.when_served(&client, Duration::ZERO, async || self.index.port(&client).await);
            port.await.map_err(failed)
        })?;
        block_on(self.connect_socket(client, (port, token))).map(drop).map_err(failed)
    }

    /// Connects to the index's server or, in shared memory, becomes the server if there is none.
    fn begin_change<'c>(
        &'c self,
        client: &'c Client<AnyFabric>,
        server: Option<&'c AnyServer>,
    ) -> Result<ChangePath<'c>> {
        let until = Instant::now() + WAIT_MAX;
        loop {
            let permit = self.server_permit("change", client)?;
            let begun = match server {
                Some(server) if !self.has_live_server(client)? => {
                    let lease = ServerLease::begin(&self.index, client, server);
                    lease.map(|lease| ChangePath::AsServer { lease: Box::new(lease), server, permit })
                }
                // The present server may serve for longer than one change.
                _ => {
                    drop(permit);
                    block_on(self.connect(client, Duration::ZERO)).map(ChangePath::Messages)
                }
            };
            match begun {
                Err(
                    IndexError::NotServed { .. }
                    | IndexError::Served { .. }
                    | IndexError::BeingChanged { .. },
                ) if server.is_some() && Instant::now() < until => {
                    std::thread::sleep(WAIT_PAUSE);
                }
                begun => return begun.map_err(|error| self.failed("change", error)),
            }
        }
    }
}

/// The path of a change to the index.
enum ChangePath<'c> {
    Messages(Lent<'c>),
    AsServer { lease: Box<ServerLease<'c>>, server: &'c AnyServer, permit: ServerPermit<'c> },
}

/// Applies changes to a spatial index within [`Spatial::change`].
pub struct Editor<'e> {
    spatial: &'e Spatial,
    client: &'e MeteredClient,
    /// The start of the first change, which comprises the time until changes can be made; `None`: it has been made.
    begun: Option<Instant>,
    path: EditorPath<'e>,
    /// Changes that are committed.
    changes: u64,
}

enum EditorPath<'e> {
    Messages(Lent<'e>),
    AsServer(Worker<'e, AnyFabric, AnyServer>),
}

/// The treatment of a batch of changes that does not fit into the pool at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchPolicy {
    /// It fails.
    Whole,
    /// Its first half is tried.
    Divisible,
}

impl Editor<'_> {
    /// Adds an item. The index may hold several equal items. [1 RT, and the server's work]
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index). If the server was lost, the item may or may not have been added.
    pub fn insert(&mut self, item: &Item) -> Result<()> {
        self.change_one("insert", Change::Insert(*item)).map(drop)
    }

    /// Removes one item that equals `item`; returns `false` if there is none. Costs as [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn remove(&mut self, item: &Item) -> Result<bool> {
        self.change_one("remove", Change::Remove(*item))
    }

    /// Moves an item to `bounds` atomically; returns `false` if there was none at `item.bounds`. Costs as
    /// [`insert`](Self::insert).
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn update(&mut self, item: &Item, bounds: Rectangle) -> Result<bool> {
        self.change_one("update", Change::Update(*item, bounds))
    }

    /// Adds items in their order. The call divides them into batches of [`CHANGES_MAX`] items, or fewer if the rings of
    /// the index are smaller than by default. A batch is one message and one commit, so it takes a small part of the
    /// time of as many calls of [`insert`](Self::insert); a search sees all items of a batch or none. If the pool has
    /// too little memory for a batch at once, the call makes smaller batches. [1 RT for each batch, and the server's
    /// work]
    ///
    /// # Errors
    /// As [`insert`](Self::insert). The batches before the failed one stay: [`changes`](Self::changes) counts them.
    pub fn insert_many(&mut self, items: &[Item]) -> Result<()> {
        let changes: Vec<_> = items.iter().copied().map(Change::Insert).collect();
        self.change_many("insert", &changes, BatchPolicy::Divisible).map(drop)
    }

    /// Removes for each of `items` one item that equals it; returns for each whether there was one. Otherwise as
    /// [`insert_many`](Self::insert_many).
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    pub fn remove_many(&mut self, items: &[Item]) -> Result<Vec<bool>> {
        let changes: Vec<_> = items.iter().copied().map(Change::Remove).collect();
        self.change_many("remove", &changes, BatchPolicy::Divisible)
    }

    /// Makes changes of any kind in their order; returns for each whether it found its item. The call divides them into
    /// batches as [`insert_many`](Self::insert_many) does; with rings of the default size a batch has 818 changes or
    /// more. A search sees all changes of a batch or none, and all of them are made or none: a batch for which the pool
    /// has too little memory fails. Costs as [`insert_many`](Self::insert_many).
    ///
    /// # Errors
    /// As [`insert_many`](Self::insert_many).
    pub fn apply(&mut self, changes: &[Change]) -> Result<Vec<bool>> {
        self.change_many("change", changes, BatchPolicy::Whole)
    }

    /// Stores a record in the place of the one with its id; returns whether there was one. [1 RT, and the server's
    /// work]
    ///
    /// # Errors
    /// As [`insert`](Self::insert); the index has no records, or ids of another kind, or the payload is too long.
    pub fn put(&mut self, record: Record) -> Result<bool> {
        self.change_one("put", Change::Put(Arc::new(record)))
    }

    /// Stores records in their order; returns for each whether it replaced another one. Batches as in
    /// [`insert_many`](Self::insert_many).
    ///
    /// # Errors
    /// As [`put`](Self::put) and [`insert_many`](Self::insert_many).
    pub fn put_many(&mut self, records: impl IntoIterator<Item = Record>) -> Result<Vec<bool>> {
        let changes: Vec<_> = records.into_iter().map(|record| Change::Put(Arc::new(record))).collect();
        self.change_many("put", &changes, BatchPolicy::Divisible)
    }

    /// Removes the record of an id; returns whether there was one. Costs and errors as [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&mut self, id: &RecordId) -> Result<bool> {
        self.change_one("delete", Change::Delete(id.clone()))
    }

    /// Gives the record of an id other bounds, and keeps its payload; returns whether there was one. Costs and errors
    /// as [`put`](Self::put).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn move_to(&mut self, id: &RecordId, bounds: Rectangle) -> Result<bool> {
        self.change_one("move", Change::Move(id.clone(), bounds))
    }

    /// The number of changes that this editor has made: after an error, how many of the changes are in the index, in
    /// their order. Changes that found no item count. If the server was lost, it may have made the next batch as well.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    fn change_one(&mut self, operation: &'static str, change: Change) -> Result<bool> {
        check_changes(self.spatial, operation, std::slice::from_ref(&change))?;
        let (begun, path) = (self.begun.take(), &mut self.path);
        let done =
            self.client.call_since(begun, (&self.spatial.metered, operation), || match (path, change) {
                (EditorPath::Messages(lent), Change::Insert(item)) => {
                    block_on(lent.connection().insert(&item)).map(|()| true)
                }
                (EditorPath::Messages(lent), Change::Remove(item)) => {
                    block_on(lent.connection().remove(&item))
                }
                (EditorPath::Messages(lent), Change::Update(item, bounds)) => {
                    block_on(lent.connection().update(&item, bounds))
                }
                (EditorPath::Messages(lent), of_record) => {
                    block_on(lent.connection().apply(&[of_record])).map(|found| found == [true])
                }
                (EditorPath::AsServer(worker), change) => {
                    block_on(worker.apply(&[change])).map(|found| found == [true])
                }
            });
        let found = done.map_err(|error| self.spatial.failed(operation, error))?;
        self.changes += 1;
        Ok(found)
    }

    fn change_many(
        &mut self,
        operation: &'static str,
        changes: &[Change],
        policy: BatchPolicy,
    ) -> Result<Vec<bool>> {
        check_changes(self.spatial, operation, changes)?;
        let (client, begun, metered) = (self.client, self.begun.take(), &self.spatial.metered);
        client.call_since(begun, (metered, operation), || self.change_in_batches(operation, changes, policy))
    }

    fn change_in_batches(
        &mut self,
        operation: &'static str,
        changes: &[Change],
        policy: BatchPolicy,
    ) -> Result<Vec<bool>> {
        let (mut rest, mut found, mut most) = (changes, Vec::with_capacity(changes.len()), CHANGES_MAX);
        while !rest.is_empty() {
            let count = match &mut self.path {
                EditorPath::Messages(lent) => lent.connection().changes_that_fit(rest).min(most),
                EditorPath::AsServer(_) => rest.len().min(most),
            };
            let (batch, after) = rest.split_at(count);
            let done = match &mut self.path {
                EditorPath::Messages(lent) => block_on(lent.connection().apply(batch)),
                EditorPath::AsServer(worker) => block_on(worker.apply(batch)),
            };
            match done {
                Ok(of_batch) => found.extend(of_batch),
                Err(IndexError::Fabric(FabricError::PoolFull { .. }))
                    if policy == BatchPolicy::Divisible && count > 1 =>
                {
                    most = count / 2;
                    continue;
                }
                Err(error) => {
                    let operation = if found.is_empty() { operation } else { rest_of(operation) };
                    return Err(self.spatial.failed(operation, error));
                }
            }
            self.changes += count as u64;
            (rest, most) = (after, (2 * most).min(CHANGES_MAX));
        }
        Ok(found)
    }
}

/// Refuses changes that the index cannot make, before any is sent.
pub(super) fn check_changes(spatial: &Spatial, operation: &'static str, changes: &[Change]) -> Result<()> {
    spatial.check_writer(operation)?;
    let checked = changes.iter().try_for_each(|change| spatial.index.check_change(change));
    let checked = checked.map_err(|error| spatial.failed(operation, error));
    spatial.counting_refusal(operation, checked)?;
    changes.iter().try_for_each(|change| match change {
        Change::Insert(item) => spatial.check_bounds(operation, "rectangle", &item.bounds),
        Change::Put(record) => spatial.check_bounds(operation, "rectangle", &record.bounds),
        Change::Update(_, bounds) | Change::Move(_, bounds) => {
            spatial.check_bounds(operation, "rectangle", bounds)
        }
        Change::Remove(_) | Change::Delete(_) => Ok(()),
    })
}

impl fmt::Debug for Editor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Editor").field(&self.spatial.url()).finish()
    }
}
