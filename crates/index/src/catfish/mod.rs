//! Catfish: the R*-tree that many processes share (Xiao, Wang, Geng, Lee, Zhang, ICDCS 2019).
//!
//! A *server* owns the tree, in its own memory, and only the server changes it. A client searches the tree in one of
//! two ways: it sends the server a message, or it reads the tree with one-sided READs (*offloading*).
//!
//! | module | content |
//! |---|---|
//! | `create`, `head` | the directory entry of an index; its head, which server and clients share |
//! | `tree` | nodes, drafts of changes, the decisions of the R*-tree; pure |
//! | `records` | the tree by id of an index with records; pure |
//! | `server` | lease, commits, searches in place, connections |
//! | `wire` | messages, rings, heartbeats; pure |
//! | `client` | searches by READ, requests over rings and sockets, the switch between the two |
//! | `server_stats` | the statistics of the server, read by any client |
//! | `verify` | checks of every invariant |
//!
//! # Why a search by READs is correct while the tree changes
//!
//! The paper checks the lines of each node (FaRM), but does not discuss changes of several nodes: bounds that grow
//! along a path, splits, forced reinsertion, deletion. Here the server *never changes a stored node*:
//!
//! 1. **A node is written once.** A change copies the nodes from the leaf up to the root, changes the copies, stores
//!    them in slots that hold no node of the current tree, and then stores the root: one word. The old root always
//!    leads to the old tree, the new root to the new tree, and there is no state between them.
//! 2. **A reference names a node, not an address.** It contains the generation of the node in the slot. A reader
//!    checks that the bytes it fetched are the whole node of that generation ([`layout`]). A slot that holds another
//!    node, or a part of one, never passes the check.
//!
//! **Theorem.** If a search read the root word as r, and every fetched node passed its check, then its result is that
//! of the tree at the moment when r was read. *Proof*, by the distance from the root. When r was read, all nodes of the
//! tree under r were stored: by 1 the server stores the nodes before their root, and a READ that arrives after a store
//! sees that store. So each reference in the tree named a node that was in its slot. A fetched copy of r's node that
//! passed is that node, since no other node of that slot ever has its generation; so its entries are those of the tree
//! under r, and so are the references in them. The same holds for the nodes on each lower level. The search visits all
//! nodes whose bounds match the query, and each of them once, because in a tree each node has one parent. ∎
//!
//! So a search misses no item that is present throughout, and reports none twice. Moreover, each search sees the tree
//! of one commit, so searches and changes are linearizable. If a fetched node does not pass, its slot was used again,
//! and the search restarts at the root. This is the only cost of a change for a reader, and it is rare, because a slot
//! is not used again at once (`server/slots.rs`). A generation has 32 bits. The check could accept a wrong node only if
//! the reader paused between two READs of one search while exactly a multiple of 2^32 nodes were stored in one slot. A
//! slot is used again after ten milliseconds at the earliest, so this pause would last 497 days.
//!
//! An index of unique ids has a second tree (`records`), whose nodes are written once as well, and a reader gets both
//! roots of one commit (`head`). The same proof holds for the two trees together: they are those of that commit.
//!
//! # Departures from the paper
//!
//! 1. Changes copy paths; the paper's server changes nodes under locks that order its threads (Kornacker and Banks).
//!    Here one worker changes the tree at a time, and searches of the server lock nothing.
//! 2. ChooseSubtree is that of the R*-tree (the text describes Guttman's, and cites the R*-tree).
//! 3. The memory of the tree grows by chunks of 8 MiB; a reference contains the offset, so no table is needed.
//! 4. A node contains a hash, which detects bytes that changed at rest.
//! 5. An index of unique ids has records, in a tree by id that changes in the same commit.

mod client;
mod coordinates;
mod create;
mod head;
mod records;
mod server;
mod server_stats;
mod tree;
mod verify;
mod verify_records;
mod wire;

pub use client::adaptive;
pub use client::reader::{Issue, Reader};
pub use client::ring_rpc::{Inbox, RingConnection, RingRpc};
pub use client::rpc::{RequestTransport, SocketRpc, SpatialRpc};
pub use client::switch::Switch;
pub use coordinates::{CoordinateSystem, InvalidWindow, OutsideDegrees};
pub use create::{CatfishConfig, KIND, describe};
pub use head::CONNECTIONS_MAX;
pub use records::{IdKind, Record, RecordId, TEXT_MAX};
pub use server::notifier::IdleChecks;
pub use server::service::{Service, ServiceSettings};
pub use server::worker::Worker;
pub use server::{ServerSettings, StoreGranularity, TreeServer};
pub use server_stats::ServerStats;
pub use tree::change::{CHANGES_MAX, Change};
pub use tree::copy::{Hit, NodeCopy};
pub use tree::layout;
pub use tree::nearest::Near;
pub use tree::rectangle::{InvalidRectangle, Item, Query, Rectangle, Relation};
pub use verify::{CatfishProblem, CatfishReport};
pub use wire::NotificationMode;
pub use wire::message::{Reply, Request};
pub use wire::records::RecordLookup;

use crate::mutant::Mutant;
use farwood_fabric::Remote;
use farwood_fabric::directory::Entry;
use head::RawHead;
use layout::Layout;
use server::lease::ServerLease;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Receives the items that a search finds.
pub trait SearchSink {
    /// Receives an item.
    fn item(&mut self, item: Item);
    /// Discards all items received so far, because the search restarts.
    fn restart(&mut self);
}

/// Collects all items, in no order.
impl SearchSink for Vec<Item> {
    fn item(&mut self, item: Item) {
        self.push(item);
    }

    fn restart(&mut self) {
        self.clear();
    }
}

/// Counts the items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count(pub u64);

impl SearchSink for Count {
    fn item(&mut self, _: Item) {
        self.0 += 1;
    }

    fn restart(&mut self) {
        self.0 = 0;
    }
}

/// An open spatial index, which the clients of a compute node share.
#[derive(Debug)]
pub struct Catfish {
    layout: Layout,
    ids: IdKind,
    head: Remote<RawHead>,
    entry: Entry,
    lease: Arc<ServerLease>,
    /// The root of the last search: the next search fetches it together with the root word.
    root: AtomicU64,
    /// Whether searches by READs verify the hashes of nodes.
    verifies_hashes: bool,
    mutant: Option<Mutant>,
}

impl Catfish {
    /// Lets searches by READs skip the check of the hashes of nodes: they take a fifth less processor time, and do not
    /// detect bytes that changed at rest. In shared memory the check takes the largest part of a search's time; over a
    /// network the READ does. Lookups of records always verify the nodes of the tree by id.
    #[must_use]
    pub fn without_hash_checks(mut self) -> Self {
        self.verifies_hashes = false;
        self
    }

    /// Sizes of nodes, and the scheme of their checks.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The kind of its ids.
    pub fn ids(&self) -> IdKind {
        self.ids
    }

    /// Checks that the index can make a change: records need an index of unique ids of the same kind, and items one of
    /// repeated ids. [0 RT]
    ///
    /// # Errors
    /// [`IndexError::BadId`](crate::IndexError::BadId); [`IndexError::TooLong`](crate::IndexError::TooLong) for a
    /// payload.
    pub fn check_change(&self, change: &Change) -> Result<(), crate::IndexError> {
        server::worker::check_change(change, self.ids, &self.layout)
    }

    /// Checks that the index can hold an id. [0 RT]
    ///
    /// # Errors
    /// [`IndexError::BadId`](crate::IndexError::BadId).
    pub fn check_id(&self, id: &RecordId) -> Result<(), crate::IndexError> {
        id.check(self.ids)
    }

    /// Checks that the index has records. [0 RT]
    ///
    /// # Errors
    /// [`IndexError::BadId`](crate::IndexError::BadId).
    pub fn check_records(&self) -> Result<(), crate::IndexError> {
        self.ids.check_records()
    }

    /// Maximum bytes of a payload.
    pub fn payload_max(&self) -> usize {
        records::payload_max(&self.layout)
    }

    /// The directory entry of the index.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Turns on a fault of the clients, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn mutant(mut self, mutant: Mutant) -> Self {
        self.mutant = Some(mutant);
        self
    }
}

/// Runs the decoders of records on the bytes of a node with that layout, whatever its hash, and on its words as a
/// message. The fuzz target of the decoders calls it.
#[doc(hidden)]
pub fn decode_records_of(node: &[u8], layout: &Layout) {
    let head = layout::head_of(&node);
    let count = head.entries.min(layout.entries_max());
    let _ = records::page::records_of(node, layout, count);
    let _ = records::page::children_of(tree::filter::entries(&node, count));
    for bytes in [0, 1, u32::MAX] {
        if let Ok(mut walk) = records::blob::BlobWalk::new(layout, head.index, bytes) {
            let _ = walk.add([node].into_iter()).and_then(|()| walk.payload());
        }
    }
    let words: Vec<_> = node.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let _ = (Request::decode(&words), RecordLookup::decode(&words), wire::changes::decode_changes(&words));
    let _ = (wire::message::decode_load(&words), wire::records::decode_records(&words, 1));
}
