//! The radix tree of far memory, as SMART and Sphinx share it: nodes and leaves that its clients read and change,
//! lock-free where no child is replaced (SMART, OSDI'23). Where a search begins, where nodes are put, and who hears of
//! new ones, a [`Guide`] says.
//!
//! # Who may change what
//!
//! - A slot **without a child** takes a leaf by one CAS, of anybody, without a lock.
//! - A slot **with a child** changes by one CAS as well, but only of who holds the lock of its node (in a table, by
//!   its address): leaf split, prefix split, replacement of a child, removal.
//! - A **reverse pointer** changes under the lock of the node that links the object, before the slot does.
//! - A **leaf** changes under its own lock, in place.
//!
//! The paper's clients swap occupied slots without locks, and never use memory again. Here rooms are used again at
//! once, and a CAS that was meant for what lay there before must fail: a slot without a child carries its node's
//! generation; a slot with a child has no bits left for one, but its node's lock keeps the child linked.
//!
//! # What an answer rests on
//!
//! 1. At any time at most one live inner node is linked for a prefix, and its header, its generation and the hash of
//!    the whole prefix never change. So a node that was read live, linked, and covers the key is the one, whatever
//!    pointer led there.
//! 2. *Found*: a leaf that is live, linked and has the key. It is written before it is linked, and marked under its
//!    lock before it is unlinked; in a used room it is not known to be linked until it is.
//! 3. *Not there*: a slot without a child in a node that this operation read live; or a leaf of another key, or an
//!    inner node of another prefix, that names (node, generation) of the slot in its reverse pointer. As a reverse
//!    pointer changes before the slot does, such a child is linked there at that moment, and nothing else below that
//!    slot.
//! 4. Partial keys keep their slots for as long as a node lives, and free slots are taken in their order: who takes
//!    slot *j* for *p* has seen all slots before it belong to others, and they still do. So none has two.
//! 5. A node is replaced under its lock and its parent's: its slots without children are closed, each by a CAS, which
//!    settles what was on its way; the new node is written; the children's reverse pointers are set to it; the old
//!    header says *dead*; the parent's slot is swapped. Every prefix of this is a legal tree, or can be gone on with
//!    from what lies there, by anybody who takes the same locks (`rebuild.rs`, `settle.rs`). A miss in a closed slot
//!    of a live node is a miss, for nothing is in the new node before the old one is dead.
//!
//! What does not fit any of this is *unclear*: the node is read again, then waited for, then settled under its lock.

mod bulk_load;
mod change;
pub(crate) mod create;
pub(crate) mod fetch;
pub(crate) mod find;
pub mod options;
mod policy;
mod repair;
mod resize;
mod scratch;
pub(crate) mod split;
mod values;
mod verify;

pub use crate::radix::MARKS;
use crate::radix::coverage as marks;
pub use crate::radix::scan::Entries;
pub use crate::range::{Direction, Range};
pub use crate::sherman::Change;
pub use create::CONSISTENCY;
pub use options::Options;
pub use policy::{Event, Guide, Sign};
pub(crate) use verify::problem_of;
pub use verify::{Census, Problem, Walk};

use crate::error::IndexError;
use crate::lock::NodeLocks;
use crate::memory::heap::Heap;
use crate::memory::overflow::Far;
use crate::radix::cache::node_cache::NodeCache;
use crate::radix::inner::RawInner;
use crate::radix::leaf::Content;
use crate::sabotage::Sabotage;
use farwood_fabric::directory::Entry;
use farwood_fabric::{Client, Fabric, Remote};
use fetch::LeafCopy;
use find::{Judged, Next, Way};
use scratch::Notebooks;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// One tree, as a compute node sees it: what its clients share. Every operation takes the client that performs it.
pub struct Tree<G> {
    pub(crate) options: Options,
    pub(crate) entry: Entry,
    /// Low bits of the index's number.
    pub(crate) number: u32,
    pub(crate) root: Remote<RawInner>,
    /// Locks of inner nodes, in a table.
    pub(crate) nodes: NodeLocks,
    /// Locks of leaves, at their rears.
    pub(crate) leaves: NodeLocks,
    pub(crate) cache: NodeCache,
    pub(crate) notebooks: Notebooks,
    pub(crate) heap: Heap,
    pub(crate) guide: G,
    pub(crate) sabotage: Option<Sabotage>,
}

/// A value, in the copy of the leaf that it was found in.
pub struct Value(Held);

enum Held {
    /// In the leaf that was read.
    Leaf(LeafCopy),
    /// In its extents.
    Far(Far),
    /// As another client has read it.
    Shared(Arc<[u8]>),
}

impl Value {
    /// A value that another client has read.
    pub(crate) fn shared(value: Arc<[u8]>) -> Self {
        Self(Held::Shared(value))
    }
}

impl Deref for Value {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Leaf(leaf) => match leaf.content() {
                Content::Here(value) => value,
                Content::Far(_) => unreachable!("what lies out of line is fetched from there"),
            },
            Held::Far(value) => value,
            Held::Shared(value) => value,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<G: Guide> Tree<G> {
    /// The tree's entry in the pool's directory.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Bytes of the node cache in use, and its budget.
    pub fn cache_bytes(&self) -> (usize, usize) {
        self.cache.bytes()
    }

    /// How many locks were dropped instead of released: 0, unless operations were cancelled.
    pub fn locks_dropped(&self) -> u64 {
        self.nodes.dropped() + self.leaves.dropped()
    }

    /// How many locks this compute node may have left held when a memory node was lost.
    pub fn locks_in_doubt(&self) -> usize {
        self.nodes.in_doubt()
    }

    /// Bytes that this compute node has taken for the tree's nodes and leaves, less those that it took out of it.
    pub fn bytes_allocated(&self) -> i64 {
        self.heap.bytes()
    }

    /// Breaks the tree, as this compute node sees it: for tests that want to notice.
    #[doc(hidden)]
    pub fn sabotage(&mut self, sabotage: Sabotage) {
        self.sabotage = Some(sabotage);
        self.nodes.sabotage(sabotage);
        self.leaves.sabotage(sabotage);
        self.guide.sabotage(sabotage);
    }

    /// The value of `key`, by this client itself. [as the system's `get` says]
    pub(crate) async fn get_alone<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
    ) -> Result<Option<Value>, IndexError> {
        let mut way = Way::new(&self.notebooks, "get", key);
        loop {
            let place = self.locate(client, &mut way).await?;
            match place.next {
                Next::Leaf { number, at, class } => {
                    let leaf = self.read_leaf(client, at, class, "get").await?;
                    match self.judge(&leaf, &place, key, &way) {
                        Judged::Mine => match leaf.link() {
                            None => return Ok(Some(Value(Held::Leaf(leaf)))),
                            Some(link) => match self.far_value(client, link).await? {
                                Some(value) => return Ok(Some(Value(Held::Far(value)))),
                                // It has another by now.
                                None => way.again(client).await?,
                            },
                        },
                        Judged::Absent => return Ok(None),
                        Judged::Unclear => self.clear_up(client, &place.node, number, &mut way).await?,
                    }
                }
                Next::Open { .. } | Next::Full { .. } | Next::Gap { .. } => {
                    if self.misses(&place, &way) {
                        return Ok(None);
                    }
                    self.clear_up(client, &place.node, place.number(), &mut way).await?;
                }
            }
        }
    }
}

impl<G: Guide> fmt::Debug for Tree<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(G::SYSTEM)
            .field("name", &self.entry.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
