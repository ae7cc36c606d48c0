//! The radix tree that SMART and Sphinx share: inner nodes and leaves that clients read and change, without locks if no
//! child is replaced (SMART, OSDI'23). A [`Policy`] determines where a traversal starts, where new nodes are placed,
//! and what a system records about them.
//!
//! # Which client may change which object
//!
//! - Any client may put a leaf into a slot **without a child**, by one CAS and without a lock.
//! - A slot **with a child** also changes by one CAS, but only the holder of the lock of its node may change it, with
//!   two exceptions: the size of a typed child (`grow.rs`), and leaves of trees whose updates swap them (`swap.rs`).
//!   The locks of inner nodes are in a table, by address. Leaf split, prefix split, replacement of a child and removal
//!   need it.
//! - A **reverse pointer** changes under the lock of the node that links the object, before the slot changes.
//! - A **leaf** changes in place under its own lock.
//!
//! The paper's clients swap occupied slots without locks and never reuse memory. Farwood reuses memory at once, so a
//! CAS that was meant for an earlier object must fail. A slot without a child carries the generation of its node. A
//! slot with a child has no bits left for a generation, but the lock of its node keeps the child linked.
//!
//! # Why answers are correct
//!
//! 1. At any time at most one live inner node is linked for a prefix. Its header, its generation and the hash of the
//!    whole prefix never change. So if a client reads a node that is live, linked and covers the key, it is that node,
//!    whichever pointer led to it.
//! 2. *Found*: the client reads a leaf that is live, linked and has the key. A leaf is written before it is linked, and
//!    marked under its lock before it is unlinked. In reused memory its reverse pointer confirms it as linked only
//!    after its slot points to it.
//! 3. *Absent*: the client sees a slot without a child in a node that this operation read live; or a leaf of another
//!    key, or an inner node of another prefix, whose reverse pointer names the node and the generation of the slot. A
//!    reverse pointer changes before the slot does, so at that moment such a child is linked there, and nothing else is
//!    below that slot.
//! 4. Partial keys keep their slots for as long as a node lives, and free slots are allocated in order. A client that
//!    takes slot *j* for *p* has seen that all slots before it belong to other partial keys, and they still do. So no
//!    partial key has two slots.
//! 5. A node is replaced under its own lock and its parent's, in this order: the client closes the slots without
//!    children, each by a CAS, which fails or makes the CAS of a concurrent insert fail; writes the new node with
//!    these CASes or after them; sets the reverse pointers of the children to it; marks the old header as *dead*; swaps
//!    the slot of the parent. Every prefix of this sequence is a legal tree, or any client can complete it from the
//!    state in memory under the same locks (`resize.rs`, `repair.rs`). A closed slot of a live node proves absence,
//!    because no client can reach a new key below the new node before the old one is dead.
//!
//! 6. A typed node grows in place (`grow.rs`): the client that fills the last slot of the type changes the type in the
//!    header. No slot after the last one is in use before. The size in the slot that points to a typed node is a hint,
//!    which clients change without a lock; the header decides how many slots are in use.
//!
//! A state that none of these rules covers is *ambiguous*: the client reads the node again, then waits, then repairs
//! the slot under the lock of its node.

mod bulk_load;
mod change;
mod condition;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod damage;
pub(crate) mod fetch;
pub(crate) mod find;
mod get;
mod grow;
mod modify;
mod new_node;
mod node_handle;
mod one_slot;
pub mod options;
mod policy;
mod repair;
mod replacement;
mod report;
mod resize;
pub(crate) mod sample_key;
mod scratch;
mod split;
mod swap;
pub(crate) mod traversal;
mod values;
mod verify;

pub use super::MARKS;
pub use super::scan::RadixEntries;
pub use crate::range::{Direction, Range};
pub use crate::sherman::Change;
pub use create::CONSISTENCY;
pub use get::FoundValue;
pub use node_handle::{NodeChange, NodeHandle, ParentPosition, Route};
pub use options::TreeOptions;
pub use policy::Policy;
pub(crate) use report::problem_of;
pub use report::{Problem, RadixReport, TableStatistics};

use crate::lock::NodeLocks;
use crate::mutant::Mutant;
use crate::radix::cache::node_cache::NodeCache;
use crate::radix::heap::Heap;
use crate::radix::inner::{InnerFormat, RawInner};
use farwood_fabric::Remote;
use farwood_fabric::directory::Entry;
use options::NodeSizing;
use scratch::ScratchPool;
use std::fmt;

/// An open tree. All clients of the compute node share it; every operation takes the client that performs it.
pub struct RadixTree<P: Policy> {
    pub(crate) options: TreeOptions,
    pub(crate) entry: Entry,
    /// Low bits of the index number.
    pub(crate) number: u32,
    pub(crate) root: Remote<RawInner>,
    /// Locks of inner nodes, in a table.
    pub(crate) nodes: NodeLocks,
    /// Locks of leaves, in their last words or in a table.
    pub(crate) leaves: NodeLocks,
    pub(crate) cache: NodeCache,
    pub(crate) scratch: ScratchPool<P::Route>,
    pub(crate) heap: Heap,
    pub(crate) policy: P,
    pub(crate) mutant: Option<Mutant>,
}

impl<P: Policy> RadixTree<P> {
    /// The tree's entry in the directory of the pool.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The format of the inner nodes.
    pub(crate) fn inner_format(&self) -> InnerFormat {
        InnerFormat { number: self.number, is_typed: self.options.node_sizing == NodeSizing::Typed }
    }

    /// Bytes of the node cache in use, and its budget.
    pub fn cache_bytes(&self) -> (usize, usize) {
        self.cache.bytes()
    }

    /// Number of locks that were dropped instead of released. It is 0 unless operations were cancelled.
    pub fn locks_dropped(&self) -> u64 {
        self.nodes.dropped() + self.leaves.dropped()
    }

    /// Number of locks that this compute node may still hold after the loss of a memory node.
    pub fn locks_uncertain(&self) -> usize {
        self.nodes.uncertain_count()
    }

    /// Bytes of memory that this compute node has allocated for the tree, less the bytes that it has freed.
    pub fn bytes_allocated(&self) -> i64 {
        self.heap.bytes()
    }

    /// Turns the tree of this compute node into a mutant, which tests must detect.
    #[doc(hidden)]
    pub fn mutant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
        self.nodes.mutant(mutant);
        self.leaves.mutant(mutant);
        self.policy.mutant(mutant);
    }
}

impl<P: Policy> fmt::Debug for RadixTree<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(P::SYSTEM)
            .field("name", &self.entry.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
