//! Sherman: a B-link tree on far memory, written by its clients (Sherman, SIGMOD'22).
//!
//! The operations read like the paper's Figures 7 and 9. Departures from the paper:
//!
//! 1. Lock words have 64 bits and name their holder with an epoch, so that a dead holder's lock can be taken.
//! 2. Versions have 32 bits instead of 4, and there is no 8 µs rule (see [`versions`](crate::consistency::versions)).
//! 3. The local lock is passed on when the write-back has been answered, not before it is posted: the next client
//!    may be on another queue pair.
//! 4. A miss is believed only when every entry of the leaf was whole; the paper's Figure 9 checks the entry that
//!    it found, and a torn entry is not found.
//! 5. There are no sentinel keys; an entry in use is told by a bit of its version.
//! 6. Chunks of memory are taken one-sidedly.
//! 7. Where a node is larger than the fabric proves versions for, hashes take their place.
//! 8. Merges and the reuse of memory have a protocol of their own ([`reclaim`](crate::memory::slot), `merge.rs`).

mod bulk;
mod cached;
mod change;
mod descend;
mod entries;
pub mod inner;
pub mod layout;
pub mod leaf;
mod merge;
pub mod node;
mod open;
pub mod options;
mod rooms;
mod scan;
mod scan_values;
mod snapshot;
mod split;
#[cfg(test)]
mod tests;
mod values;
mod walk;

pub use crate::range::{Direction, Range};
pub use entries::Entries;
pub use leaf::Change;
pub use open::{
    KIND, ShermanConfig, ShermanConfig as Config, ShermanDescription, ShermanDescription as Description,
    describe,
};
pub use options::{Options, Variant};
pub use snapshot::SNAPSHOT_LEAVES_MAX;
pub use walk::{Problem, Walk};

use crate::cache::OrderedCache;
use crate::error::IndexError;
use crate::lock::NodeLocks;
use crate::marks;
use crate::memory::chunks::Allocator;
use crate::memory::overflow::{Far, VALUE_BYTES_MAX};
use crate::retry::Retry;
use arc_swap::ArcSwapOption;
use cached::{CachedInner, Top};
use descend::{
    RESTARTS_MAX, STEPS_RIGHT_MAX, Source, TORN_TRIES_MAX, Whereabouts, believed, torn, whereabouts,
};
use farwood_fabric::directory::Entry;
use farwood_fabric::{Checked, Client, Fabric, Remote, Torn};
use layout::{Layout, Values};
use node::RawNode;
use split::Orphan;
use std::fmt;
use std::ops::{Deref, Range as Span};
use values::Stored;

/// One tree, as a compute node sees it: what its clients share. Every operation takes the client that performs
/// it.
pub struct Sherman {
    layout: Layout,
    options: Options,
    entry: Entry,
    locks: NodeLocks,
    cache: OrderedCache<CachedInner>,
    top: ArcSwapOption<Top>,
    allocator: Allocator,
}

/// A value: in the copy of the leaf that it was found in, or in that of its extent.
pub struct Value(Place);

enum Place {
    Leaf { leaf: Checked<RawNode>, at: Span<usize> },
    Far(Far),
}

impl Deref for Value {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Leaf { leaf, at } => &leaf[at.clone()],
            Place::Far(far) => far,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Sherman {
    /// The layout of the tree's nodes.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The variant's options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The tree's entry in the pool's directory.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Bytes of the index cache in use, and its budget.
    pub fn cache_bytes(&self) -> (usize, usize) {
        (self.cache.bytes(), self.cache.bytes_max())
    }

    /// How many locks were dropped instead of released: 0, unless operations were cancelled.
    pub fn locks_dropped(&self) -> u64 {
        self.locks.dropped()
    }

    /// How many locks this compute node may have left held when a memory node was lost: the next that changes the tree
    /// gives them back.
    pub fn locks_in_doubt(&self) -> usize {
        self.locks.in_doubt()
    }

    /// Nodes that this compute node has allocated for the tree, less those that it took out of it, its own or others'.
    /// Over all compute nodes: those that are linked, and those that operations were cut off with.
    pub fn nodes_allocated(&self) -> i64 {
        self.allocator.allocated()
    }

    /// Breaks the tree, as this compute node sees it: for tests that want to notice.
    #[doc(hidden)]
    pub fn sabotage(&mut self, sabotage: crate::sabotage::Sabotage) {
        self.layout.sabotage = Some(sabotage);
        self.locks.sabotage(sabotage);
    }

    fn check_key(&self, key: &[u8]) -> Result<(), IndexError> {
        let (expected, found) = (self.layout.key_bytes, key.len());
        if found == expected { Ok(()) } else { Err(IndexError::WrongLength { what: "key", expected, found }) }
    }

    fn check_value(&self, value: &[u8]) -> Result<(), IndexError> {
        let (expected, found) = (self.layout.value_bytes, value.len());
        match self.layout.values {
            Values::Fixed if found != expected => {
                Err(IndexError::WrongLength { what: "value", expected, found })
            }
            Values::AnyLength if found > VALUE_BYTES_MAX => {
                Err(IndexError::TooLong { most: VALUE_BYTES_MAX, found })
            }
            Values::Fixed | Values::AnyLength => Ok(()),
        }
    }

    /// The value of `key`, if it has one (Sherman Figure 9).
    /// [1 RT when the cache knows the leaf; 1 more for each torn copy and each step to the right, and for a value out
    /// of line, 2 for one above 2 MiB]
    ///
    /// # Errors
    /// [`IndexError::WrongLength`]; [`IndexError::Damaged`] where the leaf stays torn; the fabric's errors.
    #[inline]
    pub async fn get<F: Fabric>(&self, client: &Client<F>, key: &[u8]) -> Result<Option<Value>, IndexError> {
        self.check_key(key)?;
        let (mut retry, mut moved) = (Retry::new("get", TORN_TRIES_MAX), Retry::new("get", TORN_TRIES_MAX));
        let (mut at, source) = self.leaf_for(client, key).await?;
        let mut way = Way::new("get", source);
        loop {
            let leaf = self.read_node(client, at, "get").await?;
            match believed(whereabouts(&leaf, 0, key), &leaf, source) {
                Whereabouts::Here => match leaf.find(key) {
                    Ok(None) => return Ok(None),
                    Ok(Some(slot)) => {
                        if let Some(value) = self.value_at(client, at, leaf, slot).await? {
                            return Ok(Some(value));
                        }
                        moved.again(client).await?;
                    }
                    Err(Torn) => {
                        client.fabric().mark(marks::TORN_ENTRY);
                        torn(client, &mut retry, at).await?;
                    }
                },
                elsewhere => at = self.next_leaf(client, (at, &leaf), elsewhere, key, &mut way).await?,
            }
        }
    }

    /// The value of entry `slot` of the leaf at `at`; `None` where it has another by now. [0 RT; as
    /// [`far_value`](Self::far_value)]
    #[inline]
    async fn value_at<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
        leaf: descend::Copy<'_>,
        slot: usize,
    ) -> Result<Option<Value>, IndexError> {
        let bytes = self.layout.entry_value(slot);
        match self.layout.stored(&leaf.bytes[bytes.clone()]) {
            Stored::Here(value) => {
                let bytes = match self.layout.values {
                    Values::Fixed => bytes,
                    Values::AnyLength => self.layout.inline_value(slot, value.len()),
                };
                Ok(Some(Value(Place::Leaf { leaf: leaf.bytes, at: bytes })))
            }
            Stored::Far(link) => Ok(self.far_value(client, link).await?.map(|far| Value(Place::Far(far)))),
            Stored::Nowhere => Err(descend::damaged("get", at, descend::NO_LINK.to_owned())),
        }
    }

    /// Where to look for the leaf of `key` after `leaf`, which was not it: to the right (Lehman and Yao), or from
    /// the root again. A sibling of a leaf that the parent has just led to is in no parent: whoever split it off
    /// died, or was stopped, or is on its way there, and it is entered now.
    async fn next_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        (at, leaf): (Remote<RawNode>, &descend::Copy<'_>),
        whereabouts: Whereabouts,
        key: &[u8],
        way: &mut Way,
    ) -> Result<Remote<RawNode>, IndexError> {
        if let Whereabouts::Right(sibling) = whereabouts
            && way.may_step_right_from(at)
        {
            client.fabric().mark(marks::STEPPED_RIGHT);
            if let Some(lower) = leaf.upper().filter(|_| way.source == Source::Parent) {
                client.fabric().mark(marks::ORPHAN_ADOPTED);
                let orphan = Orphan { lower: lower.to_vec(), at: sibling };
                // Only a shorter way is at stake: the search goes on whatever becomes of it.
                Box::pin(self.try_adopt(client, orphan, 1)).await;
            }
            self.misled(client, key);
            return Ok(sibling);
        }
        client.fabric().mark(marks::RESTARTED);
        self.forget(client, key);
        if let Some(left) = way.left.take().filter(|_| leaf.freed()) {
            self.revive(client, left, at).await?;
        }
        way.restart(client).await?;
        let (at, source) = self.leaf_for(client, key).await?;
        way.source = source;
        Ok(at)
    }
}

/// An operation's detours on its way to a node.
struct Way {
    /// Steps to the right since the last start from the root.
    steps: u32,
    /// Steps to the right before the next one.
    steps_max: u32,
    /// Where the last step to the right came from.
    left: Option<Remote<RawNode>>,
    /// Who said where the way to the leaf begins.
    source: Source,
    restarts: Retry,
}

impl Way {
    fn new(operation: &'static str, source: Source) -> Self {
        Self {
            steps: 0,
            steps_max: STEPS_RIGHT_MAX,
            left: None,
            source,
            restarts: Retry::new(operation, RESTARTS_MAX),
        }
    }

    /// Whether to go on to the right of the node at `at`.
    fn may_step_right_from(&mut self, at: Remote<RawNode>) -> bool {
        self.steps += 1;
        self.left = Some(at);
        self.steps <= self.steps_max
    }

    /// From the root again, with more patience for steps to the right.
    async fn restart<F: Fabric>(&mut self, client: &Client<F>) -> Result<(), IndexError> {
        (self.steps, self.left) = (0, None);
        self.steps_max = self.steps_max.saturating_mul(2);
        self.restarts.again(client).await
    }
}

impl fmt::Debug for Sherman {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sherman")
            .field("name", &self.entry.name)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}
