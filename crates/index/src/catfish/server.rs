//! The server's side of the tree: the only one that changes it, in its own memory.
//!
//! A change is a commit ([`mod`](super) has the argument):
//!
//! 1. it is drafted beside the tree: copies of the nodes on its way, from leaf to root ([`draft`](super::draft));
//! 2. each new node is stored in a room that holds no node of the tree, with the room's next generation;
//! 3. the root word of the head is stored: this is the moment of the change;
//! 4. the rooms of the nodes that are no part of the tree any more rest until no search needs them.
//!
//! A server that dies leaves the tree of its last commit. Whoever serves the index next, having proven it gone, walks
//! that tree and takes every other room for free.

use super::Request;
use super::head::{HEAD_BYTES, LOOKED_AFTER, PORT, RING_CHUNKS, RING_CHUNKS_MAX, ROOT, RawHead, TERM};
use super::layout::{InPlace, Layout, NodeRef, entry_of, head_of};
use super::office::Office;
use super::rooms::Rooms;
use super::worker::Worker;
use super::writer::{WriterGuard, WriterLock};
use crate::error::IndexError;
use crate::sabotage::Sabotage;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk};
use farwood_fabric::{Client, Fabric, LocalMemory, Remote, Server};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How finely a server's stores are spread over time: the laboratory lets READs in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grain {
    /// After each node.
    #[default]
    Node,
    /// After each line.
    Line,
    /// After each word.
    Word,
}

/// What a server's work costs where work is accounted for, and how long rooms rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Nanoseconds of processor time to look at a node.
    pub visit_ns: u64,
    /// Nanoseconds of processor time to store one [`Grain`].
    pub store_ns: u64,
    /// How finely stores are spread.
    pub grain: Grain,
    /// Nanoseconds that a room rests before it is used again.
    pub rest_ns: u64,
}

impl Default for ServerSettings {
    /// Nothing is accounted for.
    fn default() -> Self {
        Self { visit_ns: 0, store_ns: 0, grain: Grain::Node, rest_ns: Rooms::REST_NS }
    }
}

/// The tree as its server knows it. Workers share it.
#[derive(Debug)]
pub struct TreeServer {
    pub(super) layout: Layout,
    head: Remote<RawHead>,
    slot: u8,
    office: Arc<Office>,
    term: u64,
    pub(super) settings: ServerSettings,
    state: Mutex<State>,
    writer: WriterLock,
    sabotage: Option<Sabotage>,
    /// Every change in the order of the commits, for those who check.
    pub(super) journal: Option<Mutex<Vec<Request>>>,
}

/// What changes with every commit.
#[derive(Debug)]
pub(super) struct State {
    pub(super) root: NodeRef,
    pub(super) commit: u64,
    pub(super) entries: u64,
    pub(super) rooms: Rooms,
}

impl TreeServer {
    /// Becomes the server of the index with that head: nobody else may be. [3 RT, and for each 128 chunks 1]
    pub(super) async fn claim<F: Fabric, S: Server>(
        client: &Client<F>,
        server: &S,
        (layout, head, slot): (Layout, Remote<RawHead>, u8),
        office: &Arc<Office>,
        settings: ServerSettings,
    ) -> Result<Self, IndexError> {
        office.take(client).await?;
        let entered = Self::enter(client, server, (layout, head, slot), office, settings).await;
        if entered.is_err() {
            // Or nobody else could serve it for as long as this compute node is in the pool.
            office.leave(client).await?;
        }
        entered
    }

    /// Begins the next term, with the tree that there is.
    async fn enter<F: Fabric, S: Server>(
        client: &Client<F>,
        server: &S,
        (layout, head, slot): (Layout, Remote<RawHead>, u8),
        office: &Arc<Office>,
        settings: ServerSettings,
    ) -> Result<Self, IndexError> {
        let word = server.local().load(head.address().offset() + ROOT)?;
        let Some(root) = NodeRef::from_word(word) else {
            return Err(damaged(head, format!("the root is {word:#x}")));
        };
        let state = State { root, commit: 0, entries: 0, rooms: Rooms::default() };
        let (state, writer) = (Mutex::new(state), WriterLock::default());
        let term = server.local().load(head.address().offset() + TERM)? + 1;
        server.local().store(head.address().offset() + PORT, 0)?;
        server.local().store(head.address().offset() + LOOKED_AFTER, 0)?;
        server.local().store(head.address().offset() + TERM, term)?;
        let office = Arc::clone(office);
        let (sabotage, journal) = (None, None);
        let tree = Self { layout, head, slot, office, term, settings, state, writer, sabotage, journal };
        tree.recover(client, server).await?;
        Ok(tree)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker of this server, with a client and the memory of its own.
    pub fn worker<'t, F: Fabric, S: Server>(
        &'t self,
        client: &'t Client<F>,
        server: &'t S,
    ) -> Worker<'t, F, S> {
        Worker { tree: self, client, server }
    }

    /// Where the head is in the server's memory.
    pub(super) fn head_offset(&self) -> u64 {
        self.head.address().offset()
    }

    /// Which of the index's servers this is.
    pub(super) fn term(&self) -> u64 {
        self.term
    }

    /// The directory entry.
    pub(super) fn slot(&self) -> u8 {
        self.slot
    }

    /// Acquires the right to change the tree, which one worker of this server has at a time.
    pub(super) async fn write_lock(&self) -> WriterGuard<'_> {
        self.writer.acquire().await
    }

    /// Entries of the tree.
    pub fn entries(&self) -> u64 {
        self.state().entries
    }

    /// Commits since this server came.
    pub fn commits(&self) -> u64 {
        self.state().commit
    }

    /// Breaks the server on purpose.
    #[doc(hidden)]
    #[must_use]
    pub fn sabotage(mut self, sabotage: Sabotage) -> Self {
        self.sabotage = Some(sabotage);
        self
    }

    /// Lets the server keep every change, in the order of the commits.
    #[doc(hidden)]
    #[must_use]
    pub fn with_journal(mut self) -> Self {
        self.journal = Some(Mutex::default());
        self
    }

    /// Takes the changes that were kept.
    #[doc(hidden)]
    pub fn take_journal(&self) -> Vec<Request> {
        let journal =
            self.journal.as_ref().map(|journal| journal.lock().unwrap_or_else(PoisonError::into_inner));
        journal.map(|mut journal| std::mem::take(&mut *journal)).unwrap_or_default()
    }

    pub(super) fn is_broken(&self, sabotage: Sabotage) -> bool {
        self.sabotage == Some(sabotage)
    }

    /// Tells clients at which port of this machine requests are answered over an ordinary socket. [0 RT]
    ///
    /// # Errors
    /// The fabric's.
    pub fn announce<S: Server>(&self, server: &S, port: u16) -> Result<(), IndexError> {
        Ok(server.local().store(self.head_offset() + PORT, port.into())?)
    }

    /// Tells clients that only the first `count` connections are looked after. [0 RT]
    ///
    /// # Errors
    /// The fabric's.
    pub fn look_after<S: Server>(&self, server: &S, count: usize) -> Result<(), IndexError> {
        Ok(server.local().store(self.head_offset() + LOOKED_AFTER, count as u64)?)
    }

    /// Leaves the office, so that another may serve the index. [1 RT]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn resign<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        self.office.leave(client).await
    }

    /// Finds the rooms that hold no node of the tree, after whatever became of the last server.
    async fn recover<F: Fabric, S: Server>(&self, client: &Client<F>, server: &S) -> Result<(), IndexError> {
        let mut live = Vec::new();
        let root = self.state().root;
        let entries = self.live_rooms(server, root, &mut live)?;
        self.state().entries = entries;
        live.sort_unstable();
        let chunks = chunks::in_use(client, self.layout.node).await?;
        let rings = (0..RING_CHUNKS_MAX as u64)
            .map(|at| server.local().load(self.head_offset() + RING_CHUNKS + 8 * at));
        let rings: Vec<_> = rings.collect::<Result<_, _>>()?;
        for chunk in chunks.into_iter().filter(|chunk| chunk.entry == self.slot) {
            if !rings.contains(&chunk.chunk.start().address().offset()) {
                self.add_chunk(chunk.chunk, &live);
            }
        }
        Ok(())
    }

    /// The rooms of the tree below `node`, and how many entries its leaves have.
    fn live_rooms<S: Server>(
        &self,
        server: &S,
        node: NodeRef,
        live: &mut Vec<u64>,
    ) -> Result<u64, IndexError> {
        let place = InPlace { local: server.local(), offset: node.offset() };
        let head = head_of(&place);
        let version = server.local().load(node.offset())?;
        if version != node.version() || head.index != self.layout.index {
            let what = format!("version {version:#x} of index {}, not {node:?}", head.index);
            return Err(damaged(self.layout.at(node), what));
        }
        live.push(node.offset());
        if head.level == 0 {
            return Ok(head.entries as u64);
        }
        let mut entries = 0;
        for entry in 0..head.entries {
            let word = entry_of(&place, entry).word;
            let Some(child) = NodeRef::from_word(word) else {
                return Err(damaged(self.layout.at(node), format!("child {entry} is {word:#x}")));
            };
            entries += self.live_rooms(server, child, live)?;
        }
        Ok(entries)
    }

    /// Adds the rooms of a chunk that are not among `live`, which is sorted.
    pub(super) fn add_chunk(&self, chunk: Chunk, live: &[u64]) {
        let start = chunk.start().address().offset();
        let head = self.head.address().offset();
        let first = if start == head { start + HEAD_BYTES } else { start };
        let bytes = self.layout.node_bytes() as u64;
        let rooms = (0..(start + CHUNK_BYTES - first) / bytes).map(|room| first + room * bytes);
        // The last room that is added is the first that is taken.
        self.state().rooms.add(rooms.rev().filter(|room| live.binary_search(room).is_err()));
    }
}

fn damaged<T: ?Sized>(at: Remote<T>, what: String) -> IndexError {
    IndexError::Damaged { operation: "serve", at: at.to_string(), what }
}
