//! The verifier: checks every invariant of a tree that no client changes.
//!
//! The invariants: every linked node is live, has the size that its slot states, is deeper than its parent, and has the
//! prefix of all keys below it. No two slots of a node have the same partial key, and no slot is closed. The reverse
//! pointer of every node and leaf names the node that links it. Every leaf is live and in the slot of its key. Every
//! lock is free. The chunk table of the pool gives the tree the chunks that its objects are in.
//!
//! A change that a client left unfinished when it crashed or lost a memory node is not a problem: the next client that
//! needs the object repairs it. The report counts these *unfinished changes*, among them the nodes that a live client
//! left *closed*: clients treat such a node as full.

use super::RadixTree;
use super::node_handle::NodeHandle;
use super::options::NODE_LOCKS;
use super::policy::Policy;
use super::report::{RadixReport, problem_of};
use crate::error::IndexError;
use crate::lock::{LockMemory, LockOptions, becomes_free, held_words, stay_held, sweep};
use crate::memory::overflow::{self, Link};
use crate::memory::owned::ReachedChunks;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::{Inner, InnerRef, NodeSize, NodeState};
use crate::radix::key::{Step, step_at};
use crate::radix::leaf::{LeafRef, LeafState, RawLeaf};
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, NodeSlot};
use crate::retry::reap_crashed_clients;
use farwood_fabric::{Client, Fabric, FabricError, LockWord, NodeId, Remote, Revocation, read};
use std::collections::BTreeSet;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// An inner node on the current path, and the nodes above it.
struct PathNode {
    node: Arc<CachedNode>,
    parent: Option<Rc<PathNode>>,
    height: u64,
}

/// A child that has not been verified yet.
struct PendingCheck {
    parent: Rc<PathNode>,
    step: Step,
    slot: NodeSlot,
}

/// State of a verification.
#[derive(Default)]
struct Verifier {
    report: RadixReport,
    pending: Vec<PendingCheck>,
    /// Addresses of the nodes and leaves that were seen.
    seen: BTreeSet<u64>,
    /// Addresses of the overflow values that were seen.
    values: BTreeSet<u64>,
    reached: ReachedChunks,
    /// The inner nodes below the root.
    nodes: Vec<NodeHandle>,
}

impl<P: Policy> RadixTree<P> {
    /// Verifies the tree and reports every violated invariant. No client may change the tree during the call. [1 RT per
    /// node and leaf, and per 64 KiB of lock table]
    ///
    /// # Errors
    /// The fabric's errors. Problems of the tree are in the [`RadixReport`].
    pub async fn walk<F: Fabric>(&self, client: &Client<F>) -> Result<RadixReport, IndexError> {
        Op::new(self, client, "check").verify().await
    }

    /// Releases the locks of crashed clients in the lock tables of the pool; yields their number. This is optional,
    /// because the next client that needs such a lock takes it over. Locks in leaves are not released.
    /// [1 RT per 64 KiB of lock table; 1 and a revocation for each lock that is held]
    ///
    /// # Errors
    /// The fabric's errors.
    pub async fn sweep_locks<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        let freed = sweep(client, NODE_LOCKS).await?;
        Ok(freed + sweep(client, self.options.leaf_lock.options()).await?)
    }
}

impl Verifier {
    /// Checks the slots of a node, and adds its children to the pending checks.
    fn check_slots<B: Deref<Target = [u8]>>(&mut self, node: &Inner<B>, path: &Rc<PathNode>) {
        let (at, header, report) = (path.node.at, node.header(), &mut self.report);
        let mut partials = BTreeSet::new();
        *report.nodes_of(header.size()) += 1;
        report.height = report.height.max(path.height);
        let mut closed = 0;
        let mut free = false;
        for (number, slot) in node.slots_read().enumerate() {
            let has_fixed_partial = header.size() == NodeSize::All && number > 0;
            if has_fixed_partial && usize::from(slot.partial()) + 1 != number {
                report.problem(at, format!("slot {number} has partial key {}", slot.partial()));
            }
            if !slot.is_occupied() && slot.generation() != header.generation() {
                report.problem(at, format!("slot {number} is of generation {}", slot.generation()));
            }
            closed += u64::from(slot.child() == Child::Closed || slot != slot.thawed());
            if slot.is_free() {
                free = true;
                continue;
            }
            let has_partial = slot.is_occupied() || slot.child() == Child::Vacant;
            if number > 0 && has_partial && free {
                report.problem(at, format!("slot {number} is in use, and one before it is free"));
            }
            if number > 0 && has_partial && !partials.insert(slot.partial()) {
                report.problem(at, format!("partial key {} has two slots", slot.partial()));
            }
        }
        report.closed += u64::from(closed > 0);
        report.unfinished_changes += u64::from(closed > 0);
        let is_outgrown = closed == 0 && header.size().next_in_place().is_some();
        let last_is_free = node.slots().next_back().is_some_and(NodeSlot::is_free);
        report.unfinished_changes += u64::from(is_outgrown && !last_is_free);
        let behind =
            node.slots_read().skip(node.slots().len()).filter(|slot| !slot.is_free() && !slot.is_closed());
        match behind.count() {
            0 => {}
            lost => report.problem(at, format!("its type is too small: {lost} slots behind have children")),
        }
        let checks = node.children().into_iter();
        self.pending.extend(checks.map(|(step, slot)| PendingCheck { parent: Rc::clone(path), step, slot }));
    }
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    async fn verify(self) -> Result<RadixReport, IndexError> {
        reap_crashed_clients(self.client).await?;
        let (mut verifier, at) = (Verifier::default(), self.index.root);
        let root = match self.read_inner_at_rest(InnerRef { at, size: NodeSize::All }).await {
            Ok(root) => root,
            Err(error) => {
                verifier.report.problem(at, problem_of(error)?);
                return Ok(verifier.report);
            }
        };
        if !root.covers(&[], self.index.number) {
            verifier.report.problem(at, "the prefix of the root is not empty");
        }
        let path = PathNode { node: CachedNode::copy(at, &root), parent: None, height: 1 };
        verifier.report.node_bytes += self.bytes_taken(NodeSize::All.bytes());
        verifier.check_slots(&root, &Rc::new(path));
        while let Some(check) = verifier.pending.pop() {
            match check.slot.child() {
                Child::Inner(child) => {
                    if !verifier.seen.insert(child.at.word()) {
                        verifier.report.problem(child.at, "two slots point to the node");
                        continue;
                    }
                    self.verify_inner(&mut verifier, check, child).await?;
                }
                Child::Leaf(leaf) => {
                    if !verifier.seen.insert(leaf.at.word()) {
                        verifier.report.problem(leaf.at, "two slots point to the leaf");
                    }
                    self.verify_leaf(&mut verifier, &check, leaf).await?;
                }
                _ => verifier.report.problem(check.parent.node.at, "a slot holds an invalid word"),
            }
        }
        let Verifier { mut report, nodes, mut reached, .. } = verifier;
        P::verify(self, &nodes, &mut reached, &mut report).await?;
        reached.add(self.index.root);
        for (at, what) in reached.problems(self.client, self.index.entry.slot).await? {
            report.problem(at, what);
        }
        self.verify_locks(&mut report).await?;
        Ok(report)
    }

    /// The bytes of memory that an object of `bytes` bytes takes.
    fn bytes_taken(self, bytes: usize) -> u64 {
        self.index.options.allocation.rounded(bytes as u64)
    }

    async fn verify_inner(
        self,
        verifier: &mut Verifier,
        PendingCheck { parent: path, step, slot }: PendingCheck,
        child: InnerRef,
    ) -> Result<(), IndexError> {
        let (at, report) = (child.at, &mut verifier.report);
        let node = match self.read_inner_at_rest(child).await {
            Ok(node) => node,
            Err(error) => {
                report.problem(at, problem_of(error)?);
                return Ok(());
            }
        };
        verifier.reached.add(at);
        let parent = &path.node;
        if step == Step::End || node.header().depth() <= parent.header.depth() {
            report.problem(at, "it is not deeper than its parent");
        }
        let right = Reverse::of_inner(parent.at, parent.header.generation(), slot.partial());
        report.unfinished_changes += u64::from(node.reverse() != right);
        report.unfinished_changes += u64::from(node.header().state() != Some(NodeState::Live));
        report.node_bytes += self.bytes_taken(node.header().size().memory_bytes());
        let height = path.height + 1;
        let next = PathNode { node: CachedNode::copy(at, &node), parent: Some(path), height };
        verifier.check_slots(&node, &Rc::new(next));
        verifier.nodes.push(self.index.handle_of(at, &node));
        Ok(())
    }

    async fn verify_leaf(
        self,
        verifier: &mut Verifier,
        PendingCheck { parent: path, step, .. }: &PendingCheck,
        LeafRef { at, class }: LeafRef,
    ) -> Result<(), IndexError> {
        let leaf = match self.read_leaf_at_rest(LeafRef { at, class }).await {
            Ok(leaf) => leaf,
            Err(error) => {
                verifier.report.problem(at, problem_of(error)?);
                return Ok(());
            }
        };
        verifier.reached.add(at);
        let (parent, report) = (&path.node, &mut verifier.report);
        let right = Reverse::of_leaf(parent.at, parent.header.generation());
        report.unfinished_changes += u64::from(leaf.reverse() != right);
        // An interrupted removal has removed its key; an interrupted move has not. Where clients swap leaves without a
        // lock, the state of a linked leaf has no meaning.
        let is_unfinished = leaf.state() != LeafState::Live && !self.index.options.swaps_leaves();
        report.unfinished_changes += u64::from(is_unfinished);
        report.entries += u64::from(leaf.state() != LeafState::Removed);
        report.leaf_bytes += self.bytes_taken(class.bytes());
        if step_at(leaf.key(), parent.header.depth()) != *step {
            report.problem(at, "its key does not match its slot");
        }
        if let Some(link) = leaf.link() {
            self.verify_value(verifier, at, link).await?;
        }
        let report = &mut verifier.report;
        let mut next = Some(path);
        while let Some(path) = next {
            if !path.node.covers(leaf.key(), self.index.number) {
                report.problem(path.node.at, format!("the leaf at {at} below it has another prefix"));
            }
            next = path.parent.as_ref();
        }
        let lock: Remote<u64> = at.part(class.bytes() as u64 - 8);
        if leaf.bytes()[class.bytes() - 8..] != [0; 8] && !becomes_free(self.client, lock).await? {
            self.report_lock(lock, format!("the lock of the leaf at {at}"), report).await?;
        }
        Ok(())
    }

    /// Checks that an overflow value is the one that its leaf links, and that no other leaf links it. [1 RT]
    async fn verify_value(
        self,
        verifier: &mut Verifier,
        leaf: Remote<RawLeaf>,
        link: Link,
    ) -> Result<(), IndexError> {
        let (client, index, report) = (self.client, self.index.entry.number, &mut verifier.report);
        report.overflow_values += 1;
        if !verifier.values.insert(link.at.word()) {
            report.problem(leaf, "another leaf has the same overflow value");
        }
        match overflow::follow(client, index, link).await {
            Ok(Some(_)) => {
                let parts = overflow::slots_of(client, index, link).await?;
                for part in &parts {
                    verifier.reached.add(part.at);
                }
                report.value_bytes += parts.iter().map(|part| u64::from(part.kind.bytes)).sum::<u64>();
            }
            Ok(None) => report.problem(leaf, format!("its overflow value at {} is missing", link.at)),
            Err(FabricError::OutOfRange { .. }) => {
                report.problem(leaf, "its link is outside of the pool");
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Checks that every lock of the lock tables is free, or is released soon: the tables serve all indexes of the
    /// pool.
    async fn verify_locks(self, report: &mut RadixReport) -> Result<(), IndexError> {
        self.verify_lock_tables(NODE_LOCKS, "lock word", report).await?;
        let leaves = self.index.options.leaf_lock.options();
        if leaves.memory == LockMemory::Node {
            return Ok(());
        }
        self.verify_lock_tables(leaves, "device lock word", report).await
    }

    /// As [`verify_locks`](Self::verify_locks); checks the tables of one kind of locks.
    async fn verify_lock_tables(
        self,
        options: LockOptions,
        name: &str,
        report: &mut RadixReport,
    ) -> Result<(), IndexError> {
        self.fabric().find_added_nodes().await?;
        for node in 0..self.fabric().shape().nodes {
            let held = held_words(self.client, options, NodeId(node)).await?;
            for held in stay_held(self.client, held).await? {
                let name = format!("{name} {} of node {node}", held.number);
                self.report_lock(held.at, name, report).await?;
            }
        }
        Ok(())
    }

    /// Reports a lock that was not released.
    async fn report_lock(
        self,
        lock: Remote<u64>,
        name: String,
        report: &mut RadixReport,
    ) -> Result<(), IndexError> {
        let read = self.client.post(read(lock)).await?;
        let word = read.whole_word();
        let Some(holder) = LockWord::from_word(word).holder() else {
            report.problem(name, format!("it holds {word:#x}, which is not a client"));
            return Ok(());
        };
        if self.fabric().revoke(holder).await? == Revocation::Gone {
            report.locks_of_crashed_clients += 1;
        } else {
            report.locks_held += 1;
            report.problem(name, format!("held by client {holder}, which is alive"));
        }
        Ok(())
    }
}
