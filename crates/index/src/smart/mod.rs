//! SMART: an adaptive radix tree on far memory, written by its clients (SMART, OSDI'23), and ART on far memory.
//!
//! The tree, and the argument why its answers are right, is in [`radix::tree`](crate::radix::tree). What is SMART's
//! own: a search begins where the way of its key ended before, or at the root, and goes through cached copies of inner
//! nodes; new nodes lie beside the node that links them; and clients of a compute node that want the same do it
//! together ([`combine`](crate::combine)).
//!
//! # Departures from the paper
//!
//! 1. Inner nodes are allocated as large as they need (72 to 2,088 bytes) and replaced when they grow; the artifact
//!    reserves 256 slots each ([`Rooms::Preallocated`]).
//! 2. Headers hold the depth and a hash of the whole prefix, so a prefix split changes the parent's slot and nothing
//!    else.
//! 3. Each node has a slot for the key that ends at it; no key needs a terminator.
//! 4. Lock words have 64 bits and name their holder with an epoch.
//! 5. Occupied slots are swapped under the node's lock (above).
//! 6. The root is a node of 256 slots, and stays where it is.
//! 7. Beside the cache lies a table of where ways ended before, and scans read the children that a cached copy names.

mod coverage;
mod create;
pub mod options;
pub(crate) mod shortcuts;
use coverage as marks;

pub use crate::radix::tree::{Change, Direction, Entries, Problem, Range, Value, Walk};
pub use coverage::MARKS;
pub use create::{KIND, SmartConfig, SmartConfig as Config, describe};
pub use options::{Options, Rooms, Variant};

use crate::combine::{Combiner, Role};
use crate::error::IndexError;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::RawInner;
use crate::radix::key::check_key;
use crate::radix::prefix::PrefixHash;
use crate::radix::tree::find::Way;
use crate::radix::tree::{Guide, Tree};
use crate::sabotage::Sabotage;
use farwood_fabric::{Client, Fabric, NodeId, PoolShape, Remote};
use options::{Reads, Writes};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A SMART tree, as a compute node sees it.
pub type Smart = Tree<Together>;

/// Nodes that a shortcut leaves out, at least: for fewer its place would not be worth a look.
const SHORTCUT_MIN: usize = 4;

/// What writers want of a key.
const PUT: u8 = 0;
const UPDATE: u8 = 1;

/// What is SMART's own of a tree.
#[derive(Debug)]
pub struct Together {
    options: Options,
    /// The memory node whose turn it is to get a node high in the tree.
    turn: AtomicU64,
    /// Where clients meet that want to read one key, and those that want to write one.
    reads: Combiner<Option<Arc<[u8]>>>,
    writes: Combiner<bool>,
}

impl Guide for Together {
    const SYSTEM: &'static str = "Smart";

    /// The parent's, but high in the tree they take turns.
    fn home(&self, shape: &PoolShape, (parent, level): (NodeId, u8), _: PrefixHash) -> NodeId {
        const SPREAD_LEVELS: u8 = 2;
        if level >= SPREAD_LEVELS {
            return parent;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        NodeId((turn % u64::from(shape.nodes)) as u16)
    }

    /// Where the way of the key ended before. [0 RT]
    #[inline]
    async fn begin<F: Fabric>(
        tree: &Tree<Self>,
        client: &Client<F>,
        way: &mut Way<'_>,
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        let node = tree.shortcut(client, way);
        if node.is_some() {
            client.fabric().mark(marks::SHORTCUT);
        }
        Ok(node)
    }

    async fn arrived<F: Fabric>(
        tree: &Tree<Self>,
        _: &Client<F>,
        way: &Way<'_>,
        (node, passed): (Remote<RawInner>, usize),
    ) {
        if passed >= SHORTCUT_MIN {
            tree.keep_shortcut(way.key, node);
        }
    }

    fn sabotage(&mut self, sabotage: Sabotage) {
        if sabotage == Sabotage::SharesLate {
            self.reads.join_late();
            self.writes.join_late();
        }
    }
}

impl Smart {
    /// The variant's options.
    pub fn options(&self) -> &Options {
        &self.guide.options
    }

    /// How often a client's READ was another's, too, and a client's WRITE.
    pub fn shared(&self) -> (u64, u64) {
        (self.guide.reads.shared(), self.guide.writes.shared())
    }

    /// The value of `key`, if it has one. [1 RT when the cache knows the way, there or not; 3 where a node of another
    /// prefix is in its slot; 1 more for a value out of line, 2 above 2 MiB]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] where the key is too long; [`IndexError::Damaged`]; the fabric's errors.
    pub async fn get<F: Fabric>(&self, client: &Client<F>, key: &[u8]) -> Result<Option<Value>, IndexError> {
        check_key(key)?;
        if self.guide.options.reads == Reads::Each {
            return self.get_alone(client, key).await;
        }
        match self.guide.reads.enter(key, 0).await {
            Role::Done { result, .. } => {
                client.fabric().mark(marks::READ_SHARED);
                Ok(result.map(Value::shared))
            }
            Role::Alone => self.get_alone(client, key).await,
            Role::Lead(lead) => {
                let found = self.get_alone(client, key).await?;
                lead.share(|| found.as_ref().map(|value| Arc::from(&**value)));
                Ok(found)
            }
        }
    }

    /// Stores `value` under `key`; yields whether the key was there.
    /// [2 RT for a key that is there; 1 for a new key in a slot of its own; 4 where a leaf is split; all with a warm
    /// cache and one memory node; more when others are in the way or a node grows]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] where key or value are too long; [`IndexError::LockHeld`]; the fabric's errors.
    pub async fn put<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, IndexError> {
        match self.combine(key, PUT).await {
            Role::Done { result, position } => {
                client.fabric().mark(marks::WRITE_SHARED);
                Ok(result || position > 0)
            }
            Role::Alone => self.change(client, key, Change::Put(value), "put").await,
            Role::Lead(lead) => {
                let existed = self.change(client, key, Change::Put(value), "put").await?;
                let position = lead.position();
                lead.share(|| existed);
                Ok(existed || position > 0)
            }
        }
    }

    /// Stores `value` if `key` is present; yields whether it was. [as [`put`](Self::put)]
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn update<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, IndexError> {
        match self.combine(key, UPDATE).await {
            Role::Done { result, .. } => {
                client.fabric().mark(marks::WRITE_SHARED);
                Ok(result)
            }
            Role::Alone => self.change(client, key, Change::Update(value), "update").await,
            Role::Lead(lead) => {
                let existed = self.change(client, key, Change::Update(value), "update").await?;
                lead.share(|| existed);
                Ok(existed)
            }
        }
    }

    /// A writer's turn at a key: those that want the same of it at the same time are written for by the last of them.
    async fn combine(&self, key: &[u8], tag: u8) -> Role<'_, bool> {
        match self.guide.options.writes {
            Writes::Each => Role::Alone,
            Writes::Combined => self.guide.writes.enter(key, tag).await,
        }
    }
}
