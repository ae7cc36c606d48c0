//! Sphinx: a radix tree on remote memory whose nodes are found through a hash table and a succinct filter (Sphinx,
//! DAC 2025), and ART on remote memory.
//!
//! [`radix::tree`](crate::radix::tree) has the tree, and the argument why its answers are correct. Sphinx adds three
//! things. Every inner node has an entry in a hash table of the memory node that its prefix hashes to ([`table`]). The
//! compute node records in a filter which prefixes have nodes ([`cache::filter`](crate::cache::filter)). A traversal
//! starts at the deepest node that filter and table lead to (`lookup.rs`).
//!
//! # Why answers are correct
//!
//! Answers do not rely on the filter or the tables. They lead to a node, and the client checks in a copy of it that the
//! node is live, is linked and has the requested prefix. Then it is the node of that prefix, whatever led to it,
//! because a prefix never has two nodes (rule 1 of the tree's argument). From there the traversal descends as from the
//! root. So an error in a filter or a table, such as an entry of a crashed client, a missing prefix or a hash that two
//! prefixes share, costs round trips and never makes an answer wrong: the client tries the next shorter prefix, and
//! finally the root.
//!
//! # Departures from the paper
//!
//! 1. A new key in a free slot takes one CAS and no lock, as in SMART. For the replacement of a child, the lock is a
//!    word in a table that names its holder. The paper uses a status in the header, which cannot be taken from a
//!    crashed client.
//! 2. The header says *live* or *dead* (the paper's *invalid*). Next to it are a hash of the full prefix with 64 bits
//!    (the paper has 42), and a reverse pointer, by which a client proves that a key is absent.
//! 3. Leaves are on the memory node of the inner node that links them, so that a leaf and the CAS that links it are one
//!    round trip; only inner nodes are distributed by their prefixes.
//! 4. A client that follows an entry to a node that no longer exists does not retry, but tries a shorter prefix and
//!    removes the entry. A descent that finds a node without an entry enters it. So no client waits for a crashed
//!    client.
//! 5. After the first false positive of the filter, the client tries several prefixes at once.
//! 6. A search reads one slot of a node with a slot for each byte instead of the whole node. [`NodeReads::Whole`] is
//!    the paper's reading.
//! 7. The clients of a process queue for the lock of a leaf. In the paper each competes: [`LeafLocks::Contended`].
//! 8. An update locks and reads its leaf with one doorbell, if the fabric keeps both in order: 4 round trips instead of
//!    the paper's 5.
//! 9. A node that grows is replaced by one that already links the new leaf. The paper's client tries again.
//! 10. A scan starts at a node to which filter and table lead. In the paper it starts at the root:
//!     [`ScanStarts::Root`].
//! 11. A change of a table whose subtable is being split is postponed (`postponed.rs`).

mod coverage;
mod create;
mod lookup;
pub mod options;
mod postponed;
mod scan_start;
pub mod table;

pub use crate::radix::tree::{Change, Direction, FoundValue, Problem, RadixEntries, RadixReport, Range};
pub use coverage::MARKS;
pub use create::{KIND, SphinxConfig, describe, table_nodes};
pub use options::{
    Eviction, Groups, LeafLocks, NodeReads, ScanStarts, SphinxFeatures, SphinxVariant, TraversalStart,
};

use crate::cache::filter::Filter;
use crate::error::IndexError;
use crate::memory::owned::ReachedChunks;
use crate::mutant::Mutant;
use crate::op::Op;
use crate::outcome::{PutOutcome, UpdateOutcome};
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::cache::depth_set::DepthSet;
use crate::radix::inner::InnerRef;
use crate::radix::key::check_key;
use crate::radix::prefix::PrefixHash;
use crate::radix::tree::traversal::Traversal;
use crate::radix::tree::{NodeChange, NodeHandle, ParentPosition, Policy, RadixTree, Route, problem_of};
use farwood_fabric::{Client, Fabric, NodeId, Parallel, PoolShape};
use postponed::PostponedChanges;
use std::sync::Arc;
use table::{BucketsRead, DuringSplit, HashTable, TableOp};

/// An open Sphinx tree of a compute node.
pub type Sphinx = RadixTree<SphinxState>;

/// State that Sphinx adds to a tree.
#[derive(Debug)]
pub struct SphinxState {
    options: SphinxFeatures,
    table: HashTable,
    filter: Filter,
    /// The depths of the nodes that were inserted into the filter.
    depths: DepthSet,
    postponed: PostponedChanges,
    mutant: Option<Mutant>,
}

/// State of Sphinx during one operation.
#[derive(Debug, Default)]
pub struct SphinxRoute {
    /// Number of nodes that were read through the table.
    nodes_read: usize,
    /// Depths for which a search of the table found no node.
    depths_missed: Vec<usize>,
    /// Buffer for the hashes of the prefixes of the key.
    hashes: Vec<PrefixHash>,
}

impl Route for SphinxRoute {
    fn clear(&mut self) {
        self.nodes_read = 0;
        self.depths_missed.clear();
    }

    fn nodes_read(&self) -> usize {
        self.nodes_read
    }
}

/// Memory that a compute node uses for filter and directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SphinxMemory {
    /// Bytes of the filter.
    pub filter_bytes: usize,
    /// Prefixes in the filter, and its capacity.
    pub prefixes: (u64, u64),
    /// Bytes of the cached directories.
    pub directory_bytes: usize,
}

impl Policy for SphinxState {
    const SYSTEM: &'static str = "Sphinx";

    type Route = SphinxRoute;

    /// The buckets of the node's prefix; `None` if they were not read, or if a split of their subtable is in progress.
    type Lookup = Option<BucketsRead>;

    /// The memory node that the prefix hashes to.
    fn place_node(&self, shape: &PoolShape, _: ParentPosition, prefix: PrefixHash) -> NodeId {
        NodeId(prefix.jump_bucket(shape.nodes))
    }

    async fn start<F: Fabric>(
        op: Op<'_, F, Sphinx>,
        traversal: &mut Traversal<'_, SphinxRoute>,
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        match op.index.policy.options.begins {
            TraversalStart::Root => Ok(None),
            TraversalStart::Table | TraversalStart::Filter => op.deepest_node(traversal).await,
        }
    }

    async fn scan_start<F: Fabric>(
        op: Op<'_, F, Sphinx>,
        key: &[u8],
        count: usize,
    ) -> Result<Option<(InnerRef, usize)>, IndexError> {
        let options = op.index.policy.options;
        if options.scan_starts == ScanStarts::Root || !options.has_tables() {
            return Ok(None);
        }
        op.find_scan_start(key, count).await
    }

    async fn finished<F: Fabric>(
        op: Op<'_, F, Sphinx>,
        traversal: &Traversal<'_, SphinxRoute>,
        _: &CachedNode,
    ) {
        if op.index.policy.options.has_tables() {
            op.record_nodes_met(traversal).await;
        }
    }

    async fn post_before_change<F: Fabric, V: Parallel>(
        op: Op<'_, F, Sphinx>,
        prefix: PrefixHash,
        verbs: V,
    ) -> Result<(V::Output, Option<BucketsRead>), IndexError> {
        if op.index.policy.options.has_tables() {
            op.table().post_and_read_buckets(prefix, verbs).await
        } else {
            Ok((op.client.post(verbs).await?, None))
        }
    }

    const RECORDS_NODES: bool = true;

    async fn nodes_changed<F: Fabric>(
        op: Op<'_, F, Sphinx>,
        change: NodeChange,
        lookup: Option<BucketsRead>,
    ) {
        if op.index.policy.options.has_tables() {
            op.record_change(change, lookup).await;
        }
    }

    /// Makes the changes of the tables that waited for the end of a split, until one fails: a client that waits for
    /// the lock of a stopped one waits once.
    async fn complete_changes<F: Fabric>(op: Op<'_, F, Sphinx>) {
        while let Some(postponed) = op.index.policy.postponed.pop() {
            if op.make_change(postponed.change, None, DuringSplit::Wait).await.is_none() {
                return;
            }
        }
    }

    async fn verify<F: Fabric>(
        op: Op<'_, F, Sphinx>,
        nodes: &[NodeHandle],
        reached: &mut ReachedChunks,
        report: &mut RadixReport,
    ) -> Result<(), IndexError> {
        if op.index.policy.options.has_tables() {
            match op.table().verify(nodes, reached, report).await {
                Ok(census) => report.census = census,
                Err(error) => {
                    report.problem(op.index.root, format!("its hash tables: {}", problem_of(error)?));
                }
            }
        }
        Ok(())
    }

    fn mutant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
        self.table.mutant(mutant);
    }
}

impl<'a, F: Fabric> Op<'a, F, Sphinx> {
    /// The operation's access to the hash tables.
    fn table(self) -> TableOp<'a, F> {
        let (table, locks, heap) = (&self.index.policy.table, &self.index.nodes, &self.index.heap);
        TableOp { table, locks, heap, client: self.client, during_split: DuringSplit::Leave }
    }
}

impl Sphinx {
    /// The features of the tree.
    pub fn options(&self) -> &SphinxFeatures {
        &self.policy.options
    }

    /// Memory that this compute node uses for filter and directories.
    pub fn memory_use(&self) -> SphinxMemory {
        let SphinxState { filter, table, .. } = &self.policy;
        let (filter_bytes, prefixes) = (filter.bytes(), filter.load());
        SphinxMemory { filter_bytes, prefixes, directory_bytes: table.directory_bytes() }
    }

    /// Looks up `key`. [3 RT if the filter contains the deepest node of the key, whether or not the key exists: entry,
    /// node, leaf; 2 for a missing key whose slot is empty]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] if the key is too long; [`IndexError::Damaged`]; the fabric's errors.
    pub async fn get<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
    ) -> Result<Option<FoundValue>, IndexError> {
        check_key(key)?;
        Op::new(self, client, "get").get(key).await
    }

    /// Stores `value` under `key`; yields whether the key existed. [4 RT for an existing key: entry, node, lock with
    /// leaf, write-back with unlock; 3 for a new key whose slot is empty; 8 if a leaf is split and the new node is
    /// entered, 6 for [`insert`](Self::insert); 9 if a node grows]
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
        let existed = Op::new(self, client, "put").change(key, Change::Put(value)).await?;
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
        let existed = Op::new(self, client, "update").change(key, Change::Update(value)).await?;
        Ok(if existed { UpdateOutcome::Updated } else { UpdateOutcome::Absent })
    }
}
