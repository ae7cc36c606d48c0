//! The server of an index: the only compute node that changes the tree, in its own memory.
//!
//! Changes become visible by a commit ([`catfish`](super) proves that searches see it as one moment):
//!
//! 1. the server drafts them beside the tree: copies of the nodes on their paths, from leaf to root
//!    ([`draft`](super::tree::draft));
//! 2. it stores each new node in a slot that holds no node of the tree, with the slot's next generation;
//! 3. it stores the root word of the head: this is the moment of the change;
//! 4. it retires the slots of the nodes that are no longer part of the tree, and reuses them when no search needs them.
//!
//! A commit contains the changes of all workers that wait for the tree (`writer.rs`), up to [`CHANGES_MAX`], so
//! the nodes near the root are copied once for many changes. All these changes overlap in time, and take effect in the
//! order in which they arrived, at the moment of the commit: searches and changes stay linearizable.
//!
//! A server that crashes leaves the tree of its last commit. The next server, which has proven the crash, traverses
//! that tree and treats all other slots as free.

mod answer;
mod heartbeat;
pub(super) mod lease;
mod lookups;
pub(super) mod notifier;
mod records;
pub(super) mod service;
mod slots;
mod snapshot;
mod tree_draft;
pub(super) mod worker;
mod writer;

use super::head::{
    HEAD_BYTES, HEARTBEAT, INDEX, LOOKUPS, OFFLOADED, PORT, RING_CHUNKS, RING_CHUNKS_MAX, ROOT, ROOTS_BYTES,
    RawHead, SERVED_CONNECTIONS, TERM, TICKET_BITS, roots_of,
};
use super::records::IdKind;
use super::tree::change::{CHANGES_MAX, Change};
use super::tree::layout::{Layout, NodeRef, bytes_of, entry_of};
use crate::error::IndexError;
use crate::mutant::Mutant;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk};
use farwood_fabric::{Client, Fabric, Remote, Server, ServerMemory};
use lease::ServerLease;
use lookups::LookupCounts;
use records::RecordNodes;
use slots::NodeSlots;
use snapshot::Nodes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use worker::Worker;
use writer::WriterQueue;

/// The unit of the server's stores in virtual time: the simulator can execute READs between two units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreGranularity {
    /// After each node.
    #[default]
    Node,
    /// After each line.
    Line,
    /// After each word.
    Word,
}

/// Costs of the server's work in virtual time, and the delay before slots are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Processor time to visit a node, nanoseconds.
    pub visit_ns: u64,
    /// Processor time to store one [`StoreGranularity`], nanoseconds.
    pub store_ns: u64,
    /// The unit of stores.
    pub grain: StoreGranularity,
    /// Time before a retired slot is used again, nanoseconds.
    pub reuse_delay_ns: u64,
    /// Whether the server's searches verify the hashes of nodes, and so detect bytes that changed at rest.
    pub verifies_searches: bool,
}

impl Default for ServerSettings {
    /// Settings without processor time, for real fabrics.
    fn default() -> Self {
        Self {
            visit_ns: 0,
            store_ns: 0,
            grain: StoreGranularity::Node,
            reuse_delay_ns: NodeSlots::REUSE_DELAY_NS,
            verifies_searches: false,
        }
    }
}

/// The server's view of the tree, which its workers share.
#[derive(Debug)]
pub struct TreeServer {
    pub(super) layout: Layout,
    pub(super) ids: IdKind,
    head: Remote<RawHead>,
    slot: u8,
    lease: Arc<ServerLease>,
    term: u64,
    pub(super) settings: ServerSettings,
    state: Mutex<TreeState>,
    writer: WriterQueue<Vec<Change>, Result<Vec<bool>, IndexError>>,
    mutant: Option<Mutant>,
    /// The changes of every commit, for tests.
    pub(super) journal: Option<Mutex<Vec<Vec<Change>>>>,
    lookups: LookupCounts,
}

/// The state that changes with every commit.
#[derive(Debug)]
struct TreeState {
    root: NodeRef,
    /// The root of the tree by id, if the index has records.
    records: Option<NodeRef>,
    commit: u64,
    entries: u64,
    slots: NodeSlots,
}

impl TreeServer {
    /// Acquires the lease of the index with that head, and begins the next term. [3 RT, and 1 for each 128 chunks]
    ///
    /// # Errors
    /// [`IndexError::Served`], [`IndexError::Damaged`]; the errors of the fabric.
    pub(super) async fn claim<F: Fabric, S: Server>(
        client: &Client<F>,
        server: &S,
        ((layout, ids), head, slot): ((Layout, IdKind), Remote<RawHead>, u8),
        lease: &Arc<ServerLease>,
        settings: ServerSettings,
    ) -> Result<Self, IndexError> {
        let number = server.local().load(head.address().offset() + INDEX)?;
        if number != layout.index {
            return Err(damaged(head, format!("it is the head of index {number}, not of {}", layout.index)));
        }
        lease.acquire(client).await?;
        let started = Self::start(client, server, ((layout, ids), head, slot), lease, settings).await;
        if started.is_err() {
            // Without this, no other compute node could serve the index while this one is in the pool.
            lease.release(client).await?;
        }
        started
    }

    /// Begins the next term, with the tree as it is.
    async fn start<F: Fabric, S: Server>(
        client: &Client<F>,
        server: &S,
        ((layout, ids), head, slot): ((Layout, IdKind), Remote<RawHead>, u8),
        lease: &Arc<ServerLease>,
        settings: ServerSettings,
    ) -> Result<Self, IndexError> {
        let word = server.local().load(head.address().offset() + ROOT)?;
        let Some(root) = NodeRef::from_word(word) else {
            return Err(damaged(head, format!("the root is {word:#x}")));
        };
        let records = if ids.is_unique() { Some(records_root(server, head)?) } else { None };
        let state = TreeState { root, records, commit: 0, entries: 0, slots: NodeSlots::default() };
        let (state, writer) = (Mutex::new(state), WriterQueue::new(CHANGES_MAX));
        let last = server.local().load(head.address().offset() + TERM)?;
        let Some(term) = last.checked_add(1).filter(|term| term >> TICKET_BITS == 0) else {
            return Err(damaged(head, format!("its term is {last:#x}")));
        };
        server.local().store(head.address().offset() + PORT, 0)?;
        for hint in [SERVED_CONNECTIONS, HEARTBEAT, LOOKUPS, OFFLOADED] {
            server.local().store(head.address().offset() + hint, 0)?;
        }
        server.local().store(head.address().offset() + TERM, term)?;
        let lease = Arc::clone(lease);
        let (mutant, journal, lookups) = (None, None, LookupCounts::default());
        let tree =
            Self { layout, ids, head, slot, lease, term, settings, state, writer, mutant, journal, lookups };
        tree.recover(client, server).await?;
        Ok(tree)
    }

    fn state(&self) -> MutexGuard<'_, TreeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The roots of both trees.
    fn roots(&self) -> (NodeRef, Option<NodeRef>) {
        let state = self.state();
        (state.root, state.records)
    }

    /// A worker of this server, which uses `client` alone.
    pub fn worker<'t, F: Fabric, S: Server>(
        &'t self,
        client: &'t Client<F>,
        server: &'t S,
    ) -> Worker<'t, F, S> {
        Worker { tree: self, client, server }
    }

    /// The error for a damaged head.
    fn damaged(&self, what: String) -> IndexError {
        damaged(self.head, what)
    }

    /// Offset of the head in the server's memory.
    pub(super) fn head_offset(&self) -> u64 {
        self.head.address().offset()
    }

    /// The term: the number of servers that the index has had, this one included.
    pub(super) fn term(&self) -> u64 {
        self.term
    }

    /// Number of the directory entry.
    pub(super) fn slot(&self) -> u8 {
        self.slot
    }

    /// Entries of the tree.
    pub fn entries(&self) -> u64 {
        self.state().entries
    }

    /// Commits of this server.
    pub fn commits(&self) -> u64 {
        self.state().commit
    }

    /// Turns on a fault, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn mutant(mut self, mutant: Mutant) -> Self {
        self.mutant = Some(mutant);
        self
    }

    /// Records the changes of every commit.
    #[doc(hidden)]
    #[must_use]
    pub fn with_journal(mut self) -> Self {
        self.journal = Some(Mutex::default());
        self
    }

    /// Takes the recorded changes: for each commit those that found their items, in their order.
    #[doc(hidden)]
    pub fn take_journal(&self) -> Vec<Vec<Change>> {
        let journal =
            self.journal.as_ref().map(|journal| journal.lock().unwrap_or_else(PoisonError::into_inner));
        journal.map(|mut journal| std::mem::take(&mut *journal)).unwrap_or_default()
    }

    pub(super) fn is_broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Publishes the port of this machine at which requests are answered over an ordinary socket. [0 RT]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub fn announce<S: Server>(&self, server: &S, port: u16) -> Result<(), IndexError> {
        Ok(server.local().store(self.head_offset() + PORT, port.into())?)
    }

    /// Publishes that only the first `count` connections are served. [0 RT]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub fn publish_connections<S: Server>(&self, server: &S, count: usize) -> Result<(), IndexError> {
        Ok(server.local().store(self.head_offset() + SERVED_CONNECTIONS, count as u64)?)
    }

    /// Releases the lease, so that another compute node may serve the index. [1 RT]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn release_lease<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        self.lease.release(client).await
    }

    /// Finds the slots that hold no node of the tree. The last server may have crashed at any moment.
    async fn recover<F: Fabric, S: Server>(&self, client: &Client<F>, server: &S) -> Result<(), IndexError> {
        let mut live = Vec::new();
        let root = self.state().root;
        let nodes = Nodes::new(server.local(), &self.layout);
        let entries = live_slots(&nodes, (root, None), &mut live)?;
        self.state().entries = entries;
        let records = self.state().records;
        if let Some(root) = records {
            let nodes = RecordNodes::new(server.local(), &self.layout);
            let found = nodes.live_slots((root.word(), None), &mut live)?;
            if found != entries {
                return Err(self.damaged(format!("it has {entries} rectangles and {found} records")));
            }
        }
        live.sort_unstable();
        if let Some((twice, _)) = live.iter().zip(live.iter().skip(1)).find(|(one, other)| one == other) {
            return Err(self.damaged(format!("the node at offset {twice:#x} has two parents")));
        }
        let mut chunks = chunks::of_entry(client, self.layout.node, self.slot).await?;
        for chunk in 0..RING_CHUNKS_MAX as u64 {
            let start = server.local().load(self.head_offset() + RING_CHUNKS + 8 * chunk)?;
            let of_rings = chunks.iter().position(|chunk| chunk.start().address().offset() == start);
            match of_rings {
                Some(position) => drop(chunks.swap_remove(position)),
                None if start == 0 => {}
                None => return Err(self.damaged(format!("its chunk {chunk} of rings is at {start:#x}"))),
            }
        }
        chunks.sort_unstable_by_key(|chunk| chunk.number);
        let in_chunks: usize = chunks.into_iter().map(|chunk| self.add_chunk(chunk, &live)).sum();
        if in_chunks != live.len() {
            let what = format!("{} of its nodes are in no chunk of the index", live.len() - in_chunks);
            return Err(self.damaged(what));
        }
        Ok(())
    }

    /// Adds the slots of a chunk that are not among `live`, which is sorted; yields the number of those in `live`.
    pub(super) fn add_chunk(&self, chunk: Chunk, live: &[u64]) -> usize {
        let start = chunk.start().address().offset();
        let head = self.head.address().offset();
        let first = if start == head { start + HEAD_BYTES } else { start };
        let bytes = self.layout.node_bytes() as u64;
        let slots = (0..(start + CHUNK_BYTES - first) / bytes).map(|slot| first + slot * bytes);
        // The slots are taken in reverse order.
        let (of_nodes, unused): (Vec<_>, Vec<_>) =
            slots.rev().partition(|slot| live.binary_search(slot).is_ok());
        self.state().slots.add(unused);
        of_nodes.len()
    }
}

/// Collects the slots of the tree below `node`; yields how many entries its leaves have. Levels descend, so a damaged
/// tree with a cycle is detected.
fn live_slots<L: ServerMemory>(
    nodes: &Nodes<'_, L>,
    (node, below): (NodeRef, Option<u8>),
    live: &mut Vec<u64>,
) -> Result<u64, IndexError> {
    let (copy, head) = nodes.verified(node, below)?;
    live.push(node.offset());
    if head.level == 0 {
        return Ok(head.entries as u64);
    }
    let mut entries = 0;
    for position in 0..head.entries {
        let child = nodes.child(node, position, entry_of(&copy.as_slice(), position).word)?;
        entries += live_slots(nodes, (child, Some(head.level)), live)?;
    }
    Ok(entries)
}

/// The root of the tree by id.
fn records_root<S: Server>(server: &S, head: Remote<RawHead>) -> Result<NodeRef, IndexError> {
    let words =
        (0..ROOTS_BYTES as u64).step_by(8).map(|at| server.local().load(head.address().offset() + at));
    let words: Vec<_> = words.collect::<Result<_, _>>()?;
    let roots = roots_of(&bytes_of(words, ROOTS_BYTES / 8));
    let root = roots.and_then(|(_, records)| NodeRef::from_word(records));
    root.ok_or_else(|| damaged(head, "it does not name the tree by id of its root".to_owned()))
}

fn damaged<T: ?Sized>(at: Remote<T>, what: String) -> IndexError {
    IndexError::Damaged { operation: "serve", at: at.to_string(), what }
}
