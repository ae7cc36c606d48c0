//! SMART: an adaptive radix tree on remote memory, written by its clients (SMART, OSDI'23), and ART on remote memory.
//!
//! [`radix::tree`](crate::radix::tree) has the tree, and the argument why its answers are correct. SMART adds three
//! things. A traversal starts at the deepest node above its key of which the compute node has a copy, or at the root.
//! New nodes are placed on the memory node of the node that links them. Clients of a compute node combine requests for
//! the same key ([`combine`](crate::combine)).
//!
//! # Departures from the paper
//!
//! 1. Inner nodes have the size that they need (72 to 2,088 bytes) and are replaced when they grow, unless the tree has
//!    [`NodeSizing::Typed`] nodes, as the paper's, which have memory for 256 slots and grow in place.
//! 2. Headers hold the depth and a hash of the whole prefix, so a prefix split changes only the slot of the parent.
//! 3. Each node has a slot for the key that ends at it; keys need no terminator.
//! 4. Lock words have 64 bits and name their holder with an epoch.
//! 5. Occupied slots are swapped under the lock of the node ([`radix::tree`](crate::radix::tree) gives the reason).
//! 6. The root is a node of 256 slots, and never moves.
//! 7. The cache is a hash table of prefixes, not an adaptive radix tree, and scans read the children that a cached copy
//!    names.

mod coverage;
mod create;
pub mod options;

pub use crate::radix::tree::{Change, Direction, FoundValue, Problem, RadixEntries, RadixReport, Range};
pub use coverage::MARKS;
pub use create::{KIND, SmartConfig, describe};
pub use options::{Allocation, CachePolicy, NodeSizing, SmartFeatures, SmartVariant};

use crate::combine::{Combiner, Role};
use crate::error::IndexError;
use crate::mutant::Mutant;
use crate::op::Op;
use crate::outcome::{PutOutcome, UpdateOutcome};
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::key::check_key;
use crate::radix::prefix::PrefixHash;
use crate::radix::tree::traversal::Traversal;
use crate::radix::tree::{ParentPosition, Policy, RadixTree};
use farwood_fabric::{Client, Fabric, NodeId, PoolShape};
use options::{Reads, Writes};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A compute node's attachment to a SMART tree, with its cache and local locks.
pub type Smart = RadixTree<SmartState>;

/// Requests that write a key; only equal requests are combined.
const PUT: u8 = 0;
const UPDATE: u8 = 1;

/// State that SMART adds to a tree.
#[derive(Debug)]
pub struct SmartState {
    options: SmartFeatures,
    /// Chooses the memory nodes of nodes high in the tree, round-robin.
    next_node: AtomicU64,
    /// Combines lookups of a key.
    reads: Combiner<Option<Arc<[u8]>>>,
    /// Combines changes of a key.
    writes: Combiner<bool>,
}

impl Policy for SmartState {
    const SYSTEM: &'static str = "Smart";

    type Route = ();
    type Lookup = ();

    /// The memory node of the parent; for nodes high in the tree, the memory nodes round-robin.
    fn place_node(&self, shape: &PoolShape, parent: ParentPosition, _: PrefixHash) -> NodeId {
        const SPREAD_LEVELS: u8 = 2;
        if parent.level >= SPREAD_LEVELS {
            return parent.node;
        }
        let number = self.next_node.fetch_add(1, Ordering::Relaxed);
        NodeId((number % u64::from(shape.nodes)) as u16)
    }

    /// Starts at the deepest node above the key that the operation has read, or else that is cached. [0 RT]
    #[inline]
    async fn start<F: Fabric>(
        op: Op<'_, F, Smart>,
        traversal: &mut Traversal<'_, ()>,
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        let tree = op.index;
        if let Some(node) = traversal.deepest_node_read(tree.number) {
            return Ok(Some(node));
        }
        let (key, depth_max) = (traversal.key(), traversal.start_depth_max());
        let node = tree.cache.search(key, depth_max, op.fabric().thread());
        if node.as_ref().is_some_and(|node| node.header.depth() > 0) {
            op.hit(coverage::CACHED_START);
        }
        Ok(node)
    }

    /// Records the end of a traversal that has read nodes. [0 RT]
    async fn finished<F: Fabric>(op: Op<'_, F, Smart>, traversal: &Traversal<'_, ()>, end: &CachedNode) {
        if !traversal.nodes_read().is_empty() && !traversal.is_restricted() {
            op.index.cache.record_end(traversal.key(), end.header.depth());
        }
    }

    fn mutant(&mut self, mutant: Mutant) {
        if mutant == Mutant::SharesLate {
            self.reads.join_late();
            self.writes.join_late();
        }
    }
}

impl Smart {
    /// The features of the tree.
    pub fn options(&self) -> &SmartFeatures {
        &self.policy.options
    }

    /// Number of READs and of WRITEs that a client shared with another one.
    pub fn shared(&self) -> (u64, u64) {
        (self.policy.reads.shared(), self.policy.writes.shared())
    }

    /// Looks up `key`. [1 RT if the path is cached, whether or not the key exists; 3 if a node of another prefix is in
    /// the slot of the key; 1 more for an overflow value, 2 above 2 MiB]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] if the key is too long; [`IndexError::Damaged`]; the fabric's errors.
    pub async fn get<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
    ) -> Result<Option<FoundValue>, IndexError> {
        check_key(key)?;
        let op = Op::new(self, client, "get");
        if self.policy.options.reads == Reads::Each {
            return op.get(key).await;
        }
        match self.policy.reads.enter(key, 0, patience(client)).await {
            Role::Done { result, .. } => {
                op.hit(coverage::READ_SHARED);
                Ok(result.map(FoundValue::shared))
            }
            Role::Alone => op.get(key).await,
            Role::Lead(lead) => {
                let found = op.get(key).await?;
                let _ = lead.share(|| found.as_ref().map(|value| Arc::from(&**value)));
                Ok(found)
            }
        }
    }

    /// Stores `value` under `key`; yields whether the key existed. [2 RT for an existing key; 1 for a new key whose
    /// slot is empty; 5 for a leaf split; with a warm cache and one memory node; more if other clients interfere or a
    /// node grows]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] if the key is too long; [`IndexError::TooLong`] if the value is;
    /// [`IndexError::LockHeld`]; the fabric's errors.
    pub async fn put<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<PutOutcome, IndexError> {
        let op = Op::new(self, client, "put");
        let existed = match self.combine(client, key, PUT).await {
            Role::Done { result, position } => {
                op.hit(coverage::WRITE_SHARED);
                result || position > 0
            }
            Role::Alone => op.change(key, Change::Put(value)).await?,
            Role::Lead(lead) => {
                let existed = op.change(key, Change::Put(value)).await?;
                // The leader is the last client of its batch: the others count as writers before it.
                lead.share(|| existed) > 0 || existed
            }
        };
        Ok(if existed { PutOutcome::Replaced } else { PutOutcome::Inserted })
    }

    /// Stores `value` under `key` if the key is present. [as [`put`](Self::put)]
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub async fn update<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<UpdateOutcome, IndexError> {
        let op = Op::new(self, client, "update");
        let existed = match self.combine(client, key, UPDATE).await {
            Role::Done { result, .. } => {
                op.hit(coverage::WRITE_SHARED);
                result
            }
            Role::Alone => op.change(key, Change::Update(value)).await?,
            Role::Lead(lead) => {
                let existed = op.change(key, Change::Update(value)).await?;
                let _ = lead.share(|| existed);
                existed
            }
        };
        Ok(if existed { UpdateOutcome::Updated } else { UpdateOutcome::Absent })
    }

    /// The role of a client that changes `key`. The last of the clients that request the same change executes it for
    /// all of them.
    async fn combine<F: Fabric>(&self, client: &Client<F>, key: &[u8], request: u8) -> Role<'_, bool> {
        match self.policy.options.writes {
            Writes::Each => Role::Alone,
            Writes::Combined => self.policy.writes.enter(key, request, patience(client)).await,
        }
    }
}

/// The pauses of a client that waits for another one to execute its request. It gives up after ten, because that client
/// may be an operation that nobody polls.
fn patience<F: Fabric>(client: &Client<F>) -> impl AsyncFnMut() -> Option<()> {
    const PAUSE_NS: u64 = 1_000_000;
    const PAUSES_MAX: u32 = 10;
    let mut pauses = 0;
    async move || {
        client.fabric().alarm(PAUSE_NS).await;
        pauses += 1;
        (pauses < PAUSES_MAX).then_some(())
    }
}
