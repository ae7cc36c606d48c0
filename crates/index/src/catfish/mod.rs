//! Catfish: the R*-tree that many processes share (Xiao, Wang, Geng, Lee, Zhang, ICDCS 2019).
//!
//! A *server* owns the tree, in its own memory, and is the only one that changes it. Clients search it in two ways:
//! they send the server a message, or they read the tree themselves with one-sided READs (*offloading*).
//!
//! # Why a search by READs is right while the tree changes
//!
//! The paper checks the lines of each node (FaRM) and says nothing of changes that concern several nodes: bounds that
//! grow along a path, splits, forced reinsertion, deletion. Here *no node of a tree is ever changed*:
//!
//! 1. **A node is written once.** A change copies the nodes from the leaf up to the root, changes the copies, stores
//!    them in rooms that hold no node of the current tree, and then stores the root: one word. What the old root leads
//!    to is, and stays, the old tree; what the new one leads to is the new tree; there is nothing in between.
//! 2. **A reference names a node, not a place.** It has the generation of what lies in the room. Whoever fetches a
//!    node checks that what came is that generation, whole ([`layout`]). A room that holds another node, or part of
//!    one, never passes for the node that was looked for.
//!
//! **Theorem.** A search that read the root word as r, and of which every fetched node passed its check, answers as
//! the tree did at the moment when r was read. *Proof*, by the distance from the root. When r was read, the tree
//! under r was stored (1: its nodes before their root, and a READ that arrives after a store sees it), and each
//! reference in it named a node that lay in its room. A fetched copy of r's node that passed is that node, since no
//! other node of that room ever has its generation; so its entries are those of the tree under r, and so are the
//! references in them; and so on down. The search looks at all nodes whose bounds the query asks for, and at each
//! once, for in a tree each node has one parent. ∎
//!
//! So nothing that is there throughout is missed, nothing is reported twice, and more: each search sees one tree, that
//! of one commit, and searches and changes are linearizable. A fetched node that does not pass has had its room used
//! again: the search begins again from the root. That is rare, because rooms rest (`rooms.rs`); and it is all that a
//! change ever costs a reader. Generations have 32 bits: to be misled, a reader has to stop between two READs of one
//! search for exactly a multiple of 2^32 changes of one room, which rests ten milliseconds between two of them: 497
//! days.
//!
//! # Departures from the paper
//!
//! 1. Changes copy paths; the paper's server changes nodes under locks that order its threads (Kornacker and Banks).
//!    Here one worker changes at a time, and searches of the server lock nothing.
//! 2. ChooseSubtree is the R*-tree's (the text describes Guttman's, and cites the R*-tree).
//! 3. The tree's memory grows by chunks of 8 MiB; a reference has the offset, so no table is needed.

pub mod adaptive;
mod answer;
mod bell;
mod bulk;
mod draft;
mod head;
mod heartbeat;
pub mod layout;
mod message;
mod messenger;
mod nearest;
mod office;
mod offload;
mod open;
mod rectangle;
mod ring;
mod rooms;
mod rstar;
mod scan;
mod server;
mod service;
mod snapshot;
mod switch;
mod talk;
mod walk;
mod worker;
mod writer;

pub use head::CONNECTIONS_MAX;
pub use message::Request;
pub use messenger::{Inbox, Messenger};
pub use nearest::Near;
pub use offload::{Issue, Reader};
pub use open::{CatfishConfig, CatfishConfig as Config, KIND, describe};
pub use rectangle::{Item, NoRectangle, Query, Rectangle, Relation};
pub use server::{Grain, ServerSettings, TreeServer};
pub use service::{Notice, Service, ServiceSettings};
pub use switch::Switch;
pub use talk::{Carrier, Correspondent, Reply, Talk};
pub use walk::{Problem, Walk};
pub use worker::Worker;

use crate::sabotage::Sabotage;
use farwood_fabric::Remote;
use farwood_fabric::directory::Entry;
use head::RawHead;
use layout::Layout;
use nearest::Nearest;
use office::Office;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Takes what a search finds.
pub trait Answer {
    /// One more item.
    fn item(&mut self, item: Item);
    /// The search begins again: what it has found so far does not count.
    fn forget(&mut self);
}

/// All items, in no order.
impl Answer for Vec<Item> {
    fn item(&mut self, item: Item) {
        self.push(item);
    }

    fn forget(&mut self) {
        self.clear();
    }
}

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count(pub u64);

impl Answer for Count {
    fn item(&mut self, _: Item) {
        self.0 += 1;
    }

    fn forget(&mut self) {
        self.0 = 0;
    }
}

/// An open spatial index: what the clients of a compute node share.
#[derive(Debug)]
pub struct Catfish {
    layout: Layout,
    head: Remote<RawHead>,
    entry: Entry,
    office: Arc<Office>,
    /// The root that was last seen: where the next search begins to look while it asks whether it still is the root.
    root: AtomicU64,
    sabotage: Option<Sabotage>,
}

impl Catfish {
    /// Sizes and scheme.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What the directory says of the index.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Breaks the clients' side on purpose.
    #[doc(hidden)]
    #[must_use]
    pub fn sabotage(mut self, sabotage: Sabotage) -> Self {
        self.sabotage = Some(sabotage);
        self
    }
}
