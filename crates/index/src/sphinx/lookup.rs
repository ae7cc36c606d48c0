//! Finds the deepest node of a key through filter and hash table (Sphinx §IV, "Search"), and records the nodes that a
//! traversal visited.

use super::postponed::PostponedChange;
use super::table::layout::{TableEntry, TablePosition};
use super::table::{BucketsRead, DuringSplit, Entered, TableOp};
use super::{Sphinx, SphinxRoute, SphinxState, TraversalStart, coverage};
use crate::error::IndexError;
use crate::mutant::Mutant;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::{NodeState, RawInner};
use crate::radix::prefix::PrefixHash;
use crate::radix::tree::copy::InnerCopy;
use crate::radix::tree::traversal::Traversal;
use crate::radix::tree::{NodeChange, NodeHandle};
use farwood_fabric::{Fabric, Remote};
use std::sync::Arc;

/// Maximum prefixes whose entries one doorbell reads, after a false positive of the filter.
const PREFIXES_PER_POST: usize = 8;
/// Maximum prefixes whose entries one doorbell reads, if all prefixes are tried.
const ALL_PREFIXES_PER_POST: usize = 32;

/// A prefix of the key that may have a node: its length, its hash, and the position of its entry.
pub(super) struct Candidate {
    pub(super) depth: usize,
    hash: PrefixHash,
    pub(super) position: TablePosition,
}

/// The node that an entry led to.
enum EntryNode {
    /// The node of the prefix.
    Match(Remote<RawInner>, InnerCopy),
    /// A node of another prefix, or one that is not linked.
    Other,
    /// The node no longer exists: the entry is stale.
    Gone,
}

impl<F: Fabric> Op<'_, F, Sphinx> {
    /// Finds the deepest node above the traversal's key through the table. [2 RT; 1 more for each batch of prefixes
    /// without a node; 0 if the filter contains none of the prefixes]
    pub(super) async fn deepest_node(
        self,
        traversal: &mut Traversal<'_, SphinxRoute>,
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        if let Some(node) = traversal.deepest_node_read(self.index.number) {
            return Ok(Some(node));
        }
        let mut hashes = std::mem::take(&mut traversal.route_mut().hashes);
        hashes.clear();
        hashes.extend(PrefixHash::all(&traversal.key()[..self.start_depth(traversal.start_depth_max())]));
        let found = self.deepest_node_of(traversal, &hashes).await;
        traversal.route_mut().hashes = hashes;
        found
    }

    /// Finds the deepest node whose prefix has one of `hashes`, which are ordered by length.
    /// [as [`deepest_node`](Self::deepest_node)]
    async fn deepest_node_of(
        self,
        traversal: &mut Traversal<'_, SphinxRoute>,
        hashes: &[PrefixHash],
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        let mut candidates = (1..hashes.len()).rev().filter_map(|depth| self.candidate(depth, hashes[depth]));
        let mut count = ALL_PREFIXES_PER_POST;
        if self.index.policy.options.begins == TraversalStart::Filter {
            let Some(first) = candidates.next() else { return Ok(None) };
            let buckets = self.table().read_buckets(first.position).await?;
            if let Some(node) = self.follow_entries(&first, &buckets, traversal).await? {
                return Ok(Some(node));
            }
            count = PREFIXES_PER_POST;
        }
        loop {
            let batch: Vec<_> = candidates.by_ref().take(count).collect();
            if batch.is_empty() {
                return Ok(None);
            }
            let positions: Vec<_> = batch.iter().map(|candidate| candidate.position).collect();
            let buckets = self.table().read_buckets_of(&positions).await?;
            for (candidate, buckets) in batch.iter().zip(&buckets) {
                if let Some(node) = self.follow_entries(candidate, buckets, traversal).await? {
                    return Ok(Some(node));
                }
            }
        }
    }

    /// The greatest depth of at most `depth_max` at which the client may find a node: with the filter, one at which it
    /// has found nodes before.
    #[inline]
    pub(super) fn start_depth(self, depth_max: usize) -> usize {
        let state = &self.index.policy;
        match state.options.begins {
            TraversalStart::Filter => state.depths.down_from(depth_max).next().unwrap_or(0),
            TraversalStart::Table | TraversalStart::Root => depth_max,
        }
    }

    /// A prefix, by its length and hash, if it may have a node. A prefix in the filter of a length at which the client
    /// never found a node is a false positive.
    #[inline]
    pub(super) fn candidate(self, depth: usize, hash: PrefixHash) -> Option<Candidate> {
        let state = &self.index.policy;
        let may_exist = state.options.begins != TraversalStart::Filter
            || state.depths.contains(depth) && state.filter.contains(hash.mixed());
        may_exist.then(|| Candidate { depth, hash, position: state.table.position(hash) })
    }

    /// Reads the nodes of the entries with the prefix's fingerprint until one is the node of the prefix. [1 RT for
    /// each; 2 for one of 256 slots that is not]
    async fn follow_entries(
        self,
        &Candidate { depth, hash, position }: &Candidate,
        buckets: &BucketsRead,
        traversal: &mut Traversal<'_, SphinxRoute>,
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        for (at, entry) in buckets.pairs.candidates(position.fingerprint()) {
            if let Some(node) = self.read_slot_of_entry(entry, depth, traversal).await? {
                traversal.route_mut().nodes_read += 1;
                return Ok(Some(node));
            }
            match self.read_node_of(entry, &traversal.key()[..depth]).await? {
                EntryNode::Match(at, node) => {
                    traversal.route_mut().nodes_read += 1;
                    return Ok(Some(traversal.record(at, &node)));
                }
                EntryNode::Other => self.hit(coverage::FINGERPRINT_COLLISION),
                EntryNode::Gone => {
                    self.hit(coverage::ENTRY_STALE);
                    // While a split is in progress, the splitting client moves entries and removes stale ones.
                    if buckets.is_settled() && self.client.may_write() {
                        self.table().clear_entry(at, entry).await?;
                    }
                }
            }
        }
        if self.index.policy.options.begins == TraversalStart::Filter {
            self.hit(coverage::FILTER_FALSE_POSITIVE);
            self.client.note(|costs| costs.misled += 1);
            self.index.policy.filter.disappoint(hash.mixed());
        }
        traversal.route_mut().depths_missed.push(depth);
        Ok(None)
    }

    /// Reads one slot of the node that an entry leads to, if it is the node of the key's prefix of `depth` bytes.
    /// [as [`read_slot_of_key`](Self::read_slot_of_key)]
    async fn read_slot_of_entry(
        self,
        entry: TableEntry,
        depth: usize,
        traversal: &mut Traversal<'_, SphinxRoute>,
    ) -> Result<Option<Arc<CachedNode>>, IndexError> {
        match entry.node() {
            Some(node) if self.index.policy.mutant != Some(Mutant::EntryUnchecked) => {
                self.read_slot_of_key(node, depth, traversal).await
            }
            _ => Ok(None),
        }
    }

    /// Reads the node that an entry leads to. [1 RT]
    async fn read_node_of(self, entry: TableEntry, prefix: &[u8]) -> Result<EntryNode, IndexError> {
        let Some(node) = entry.node() else { return Ok(EntryNode::Gone) };
        let copy = self.read_inner(node).await?;
        if self.index.policy.mutant == Some(Mutant::EntryUnchecked) {
            return Ok(EntryNode::Match(node.at, copy));
        }
        if !self.is_entry_of(entry, &copy) {
            return Ok(EntryNode::Gone);
        }
        let is_same_prefix = copy.header().depth() == prefix.len() && copy.covers(prefix, self.index.number);
        let found = is_same_prefix && copy.reverse().is_linked();
        Ok(if found { EntryNode::Match(node.at, copy) } else { EntryNode::Other })
    }

    /// Whether `entry` is the entry of `node`, and the node is live.
    fn is_entry_of(self, entry: TableEntry, node: &InnerCopy) -> bool {
        let prefix = node.prefix(self.index.number);
        let same_fingerprint = self.index.policy.table.position(prefix).fingerprint() == entry.fingerprint();
        node.header().state() == Some(NodeState::Live) && same_fingerprint && entry.is_of(node.header())
    }

    /// Records in the filter the nodes that a traversal visited below its start. Enters nodes whose entries the table
    /// should have had, and makes a change that was postponed before. [0 RT; as [`TableOp::enter`] for each missing
    /// entry, and the same for each change that was postponed]
    pub(super) async fn record_nodes_met(self, traversal: &Traversal<'_, SphinxRoute>) {
        let Some(route) = traversal.route() else { return };
        for node in traversal.nodes_read().iter().skip(route.nodes_read) {
            let depth = node.header.depth();
            if depth == 0 {
                continue;
            }
            let prefix = node.prefix(self.index.number);
            self.insert_in_filter(prefix, depth);
            if route.depths_missed.contains(&depth) && self.client.may_write() {
                let generation = node.header.generation();
                let handle = NodeHandle { prefix, depth, node: node.inner_ref(), generation };
                // A missing entry is rare, and the future of the change is large.
                Box::pin(self.restore_entry(handle)).await;
            }
        }
    }

    /// Enters a node whose entry the table should have had, and makes a change that was postponed before.
    async fn restore_entry(self, node: NodeHandle) {
        self.hit(coverage::ENTRY_RESTORED);
        self.change_or_postpone(PostponedChange::new(NodeChange::Created(node)), None).await;
        self.make_due_change().await;
    }

    /// Inserts the prefix of a node of that depth.
    fn insert_in_filter(self, prefix: PrefixHash, depth: usize) {
        let SphinxState { filter, depths, .. } = &self.index.policy;
        filter.insert(prefix.mixed());
        if !depths.contains(depth) {
            depths.add(depth);
        }
    }

    /// Records a change of the set of inner nodes in the table and in the filter. `lookup`: the buckets of the node, as
    /// they were read shortly before. If another client splits the subtable, the change is postponed. Then makes a
    /// change that was postponed before. [as [`TableOp::enter`], for one change or two]
    pub(super) async fn record_change(self, change: NodeChange, lookup: Option<BucketsRead>) {
        if self.index.policy.mutant == Some(Mutant::EntryForgotten) {
            return;
        }
        if let NodeChange::Created(node) = change {
            self.insert_in_filter(node.prefix, node.depth);
        }
        self.change_or_postpone(PostponedChange::new(change), lookup).await;
        self.make_due_change().await;
    }

    /// Makes a change that was postponed, if one is due.
    async fn make_due_change(self) {
        if let Some(due) = self.index.policy.postponed.pop_due(self.fabric().now()) {
            self.hit(coverage::POSTPONED_CHANGE_MADE);
            self.change_or_postpone(due, None).await;
        }
    }

    /// Makes a change of the table; puts it into the queue if another client splits the subtable, or if it is new and
    /// an earlier change of the prefix is in the queue.
    async fn change_or_postpone(self, change: PostponedChange, lookup: Option<BucketsRead>) {
        let during_split = if change.waits() { DuringSplit::Wait } else { DuringSplit::Leave };
        let follows_another = change.is_new() && self.index.policy.postponed.has(change.change.prefix());
        if !follows_another
            && self.make_change(change.change, lookup, during_split).await != Some(Entered::Later)
        {
            return;
        }
        self.hit(coverage::CHANGE_POSTPONED);
        if let Err(change) = self.index.policy.postponed.push(change, self.fabric().now()) {
            self.make_change(change.change, None, DuringSplit::Wait).await;
        }
    }

    /// Makes a change of the table. `None`: it failed.
    pub(super) async fn make_change(
        self,
        change: NodeChange,
        lookup: Option<BucketsRead>,
        during_split: DuringSplit,
    ) -> Option<Entered> {
        let table = TableOp { during_split, ..self.table() };
        let made = match change {
            NodeChange::Created(node) => table.enter(&node, lookup).await,
            NodeChange::Replaced { old, new } => table.replace(&old, &new, lookup).await,
            NodeChange::Removed(node) => table.remove(&node, lookup).await,
        };
        self.note_failure(&made);
        made.ok()
    }

    /// Marks that a change was not recorded. The change of the tree is complete, so the operation does not fail: the
    /// next client that misses the entry enters it.
    fn note_failure(self, recorded: &Result<Entered, IndexError>) {
        if !matches!(recorded, Ok(Entered::Here | Entered::Later)) {
            self.hit(coverage::NOT_ENTERED);
        }
    }
}
