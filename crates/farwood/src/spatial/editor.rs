//! Changes of a spatial index. The process sends them as messages to the server, or is the server for the duration of
//! the change.

use super::index::Spatial;
use super::lookup::Lent;
use crate::attached::ServerPermit;
use crate::error::Result;
use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::catfish::{Item, Rectangle, ServerSettings, SpatialRpc as _, TreeServer, Worker};
use farwood_transport::any::{AnyFabric, AnyServer};
use farwood_transport::runtime::block_on;
use std::fmt;
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
    /// [`change`](Self::change), whose editor must be used instead.
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

    /// Calls `work` with an editor, which sends changes on one connection, or applies them as the index's server until
    /// `work` returns. If another process is the server for the duration of a change, this call waits for it.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and the errors of `work`.
    pub fn change<T>(&self, work: impl FnOnce(&mut Editor<'_>) -> Result<T>) -> Result<T> {
        self.check_process("change")?;
        let client = self.pool.attachment().client();
        let failed = |error| self.failed("change", error);
        let server = self.server("change").ok();
        match self.begin_change(&client, server.as_ref())? {
            ChangePath::Messages(lent) => {
                let mut editor = Editor { spatial: self, path: EditorPath::Messages(lent) };
                let done = work(&mut editor);
                if let EditorPath::Messages(lent) = editor.path {
                    self.give_back(lent, &client);
                }
                done
            }
            ChangePath::AsServer { tree, server, permit: _permit } => {
                let path = EditorPath::AsServer(tree.worker(&client, server));
                let done = work(&mut Editor { spatial: self, path });
                block_on(tree.release_lease(&client)).map_err(failed)?;
                done
            }
        }
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
                    let tree = block_on(self.index.serve(client, server, ServerSettings::default()));
                    tree.map(|tree| ChangePath::AsServer { tree: Box::new(tree), server, permit })
                }
                // The present server may serve for longer than one change.
                _ => {
                    drop(permit);
                    self.connect(client).map(ChangePath::Messages)
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
    AsServer { tree: Box<TreeServer>, server: &'c AnyServer, permit: ServerPermit<'c> },
}

/// Applies changes to a spatial index within [`Spatial::change`].
pub struct Editor<'e> {
    spatial: &'e Spatial,
    path: EditorPath<'e>,
}

enum EditorPath<'e> {
    Messages(Lent<'e>),
    AsServer(Worker<'e, AnyFabric, AnyServer>),
}

impl Editor<'_> {
    fn done<T>(&self, operation: &'static str, done: std::result::Result<T, IndexError>) -> Result<T> {
        done.map_err(|error| self.spatial.failed(operation, error))
    }

    /// Adds an item. The index may hold several equal items.
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index). If the server was lost, the item may or may not have been added.
    pub fn insert(&mut self, item: &Item) -> Result<()> {
        self.spatial.check_process("insert")?;
        let done = match &mut self.path {
            EditorPath::Messages(lent) => block_on(lent.connection.insert(item)),
            EditorPath::AsServer(worker) => block_on(worker.insert(item)),
        };
        self.done("insert", done)
    }

    /// Removes one item that equals `item`; returns `false` if there is none.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn remove(&mut self, item: &Item) -> Result<bool> {
        self.spatial.check_process("remove")?;
        let done = match &mut self.path {
            EditorPath::Messages(lent) => block_on(lent.connection.remove(item)),
            EditorPath::AsServer(worker) => block_on(worker.remove(item)),
        };
        self.done("remove", done)
    }

    /// Moves an item to `bounds` atomically; returns `false` if there was none at `item.bounds`.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn update(&mut self, item: &Item, bounds: Rectangle) -> Result<bool> {
        self.spatial.check_process("update")?;
        let done = match &mut self.path {
            EditorPath::Messages(lent) => block_on(lent.connection.update(item, bounds)),
            EditorPath::AsServer(worker) => block_on(worker.update(item, bounds)),
        };
        self.done("update", done)
    }
}

impl fmt::Debug for Editor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Editor").field(&self.spatial.url()).finish()
    }
}
