//! The verifier: visits a whole idle tree and checks every invariant.
//!
//! * every node is not torn, has the right index and level, and no parent names a node that is marked as freed;
//! * the nodes of a level follow each other: each begins where its left neighbour ends, the first at the lowest
//!   key, the last has no upper fence;
//! * a parent's separators are its children's lower fences, and every child is in the level below;
//! * keys lie between their leaf's fences, no key occurs twice, and the keys of inner nodes and of sorted leaves
//!   increase;
//! * every overflow value agrees with the entry that links it, and one entry links it;
//! * the chunk table of the pool gives the tree the chunks that its nodes and values are in;
//! * no lock is held, except those of crashed clients, which the next writer takes over.
//!
//! A node that its left neighbour links and no parent names is legal: the client that split it crashed, or was out of
//! memory, before it updated the parent. It is counted as half-linked. A node that its left neighbour links and that is
//! marked as freed is counted as half-merged, and so is such a root: the client that merged it crashed ([`merge`]).
//!
//! [`merge`]: super::merge

use super::Sherman;
use super::layout::Values;
use super::node::{Node, RawNode};
use super::options::Leaves;
use super::read::NodeCopy;
use super::values::StoredValue;
use crate::error::IndexError;
use crate::key::compare;
use crate::lock::{LOCK_BYTES, LockMemory, LockWidth, becomes_free, held_words, stay_held, sweep};
use crate::memory::overflow;
use crate::memory::owned::ReachedChunks;
use crate::op::Op;
use farwood_fabric::{
    Client, Fabric, FabricError, LockWord, NodeId, Remote, Revocation, Torn, read, read_bytes,
};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Reads of a torn node before it counts as damaged: no client writes.
const TORN_TRIES_MAX: usize = 100;
/// Maximum number of problems that the report lists.
const PROBLEMS_MAX: usize = 1000;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The node or the lock.
    pub at: String,
    /// The violation.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// The report of the verifier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShermanReport {
    /// Nodes of each level, leaves first.
    pub nodes: Vec<u64>,
    /// Entries of all leaves.
    pub entries: u64,
    /// Overflow values.
    pub overflow_values: u64,
    /// Free slots that compute nodes share.
    pub free_slots_listed: u64,
    /// Capacity of all leaves, entries.
    pub capacity: u64,
    /// Nodes that no parent names yet.
    pub half_linked: u64,
    /// Nodes whose merge is not complete yet.
    pub half_merged: u64,
    /// Locks of crashed clients: the next writer takes them over.
    pub locks_of_crashed_clients: u64,
    /// Locks that live clients held during the whole verification; the problems list them as well.
    pub locks_held: u64,
    /// Violated invariants; the report lists at most 1000.
    pub problems: Vec<Problem>,
}

/// The nodes of the level below that the parents of a level name: the lower fence of each, by the word of its pointer.
type NamedNodes = BTreeMap<u64, Vec<u8>>;

impl ShermanReport {
    fn problem(&mut self, at: impl fmt::Display, what: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { at: at.to_string(), what: what.into() });
        }
    }
}

impl Sherman {
    /// Verifies the tree and reports every violated invariant. No client may change the tree during the call. [1 RT per
    /// node, and per 64 KiB of lock table]
    ///
    /// # Errors
    /// The errors of the fabric. Violations are in the [`ShermanReport`].
    pub async fn walk<F: Fabric>(&self, client: &Client<F>) -> Result<ShermanReport, IndexError> {
        crate::retry::reap_crashed_clients(client).await?;
        let op = Op::new(self, client, "check");
        let mut verifier =
            Verifier { op, report: ShermanReport::default(), reached: ReachedChunks::default() };
        let root = op.root_word().await?;
        if let Some(node) = verifier.read(root).await? {
            let mut first = Some(root);
            let mut named = NamedNodes::from([(root.word(), vec![0; self.layout.key_bytes])]);
            verifier.report.nodes = vec![0; usize::from(node.level()) + 1];
            for level in (0..=node.level()).rev() {
                let Some(leftmost) = first else { break };
                (first, named) = verifier.check_level(leftmost, level, named).await?;
            }
        }
        verifier.report.free_slots_listed = op.count_shared_slots().await?;
        verifier.check_lock_tables().await?;
        for (at, what) in verifier.reached.problems(client, self.entry.slot).await? {
            verifier.report.problem(at, what);
        }
        Ok(verifier.report)
    }

    /// Frees the locks of crashed clients in the pool's lock tables; returns their number. This is optional: a client
    /// that needs such a lock takes it over. 16-bit locks, and locks inside nodes, stay held. [1 RT per 64 KiB of lock
    /// table; 1 and a revocation for each held lock]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn sweep_locks<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        sweep(client, self.options.lock).await
    }
}

/// A verification in progress.
struct Verifier<'a, F> {
    op: Op<'a, F, Sherman>,
    report: ShermanReport,
    reached: ReachedChunks,
}

impl<'a, F: Fabric> Verifier<'a, F> {
    /// Checks one level from its leftmost node; returns the leftmost node of the level below, and the nodes of that
    /// level that this one names.
    async fn check_level(
        &mut self,
        leftmost: Remote<RawNode>,
        level: u8,
        mut named: NamedNodes,
    ) -> Result<(Option<Remote<RawNode>>, NamedNodes), IndexError> {
        let mut below = NamedNodes::new();
        let mut first_below = None;
        let mut lower = vec![0; self.op.index.layout.key_bytes];
        let mut next = Some(leftmost);
        let mut seen = BTreeSet::new();
        let mut linked_values = BTreeSet::new();
        while let Some(at) = next {
            if !seen.insert(at.word()) {
                self.report.problem(at, "the sibling pointers form a cycle");
                break;
            }
            let Some(node) = self.read(at).await? else {
                // After an unreadable node, continue with the next node that a parent names.
                named.remove(&at.word());
                next = first_at_or_above(&named, &mut lower);
                continue;
            };
            self.report.nodes[usize::from(level)] += 1;
            self.check_header(&node, at, level, &lower);
            self.check_node_lock(at).await?;
            self.check_parent(&node, at, level, named.remove(&at.word()).as_deref());
            if level == 0 {
                self.check_leaf(&node, at);
                self.check_values(&node, at, &mut linked_values).await?;
            } else {
                let leftmost = self.check_inner(&node, at, &mut below);
                first_below = first_below.or(Some(leftmost));
            }
            next = node.sibling();
            match (node.upper(), next) {
                (Some(upper), Some(_)) => lower.copy_from_slice(upper),
                (None, None) => {}
                (Some(_), None) => self.report.problem(at, "it has an upper fence and no sibling"),
                (None, Some(_)) => self.report.problem(at, "it has a sibling and no upper fence"),
            }
        }
        for at in named.into_keys() {
            let what = format!("a parent names it, and level {level} does not link it");
            self.report.problem(format_args!("{at:#x}"), what);
        }
        Ok((first_below, below))
    }

    /// Reads a node; returns `None`, and reports a problem, if it is not a node of this tree.
    async fn read(&mut self, at: Remote<RawNode>) -> Result<Option<NodeCopy<'a>>, IndexError> {
        let (client, layout) = (self.op.client, &self.op.index.layout);
        for _ in 0..TORN_TRIES_MAX {
            let copy = match client.post(read_bytes(at, layout.node_bytes)).await {
                Err(FabricError::OutOfRange { .. } | FabricError::Misaligned { .. }) => {
                    self.report.problem(at, "no node can have this address");
                    return Ok(None);
                }
                answer => answer?,
            };
            match copy.check(layout).map(|copy| Node::decode(layout, copy)) {
                Ok(Ok(node)) => {
                    self.reached.add(at);
                    return Ok(Some(node));
                }
                Ok(Err(what)) => {
                    self.report.problem(at, what);
                    return Ok(None);
                }
                Err(Torn) => client.fabric().sleep(0).await,
            }
        }
        self.report.problem(at, "the node is half-written: its writer died in the middle of a WRITE");
        Ok(None)
    }

    fn check_header(&mut self, node: &NodeCopy<'_>, at: Remote<RawNode>, level: u8, lower: &[u8]) {
        if node.level() != level {
            let what = format!("it is of level {}, and linked at level {level}", node.level());
            self.report.problem(at, what);
        }
        if node.lower() != lower {
            self.report.problem(at, "it does not begin where its left neighbour ends");
        }
        if node.upper().is_some_and(|upper| upper <= node.lower()) {
            self.report.problem(at, "its fences are out of order");
        }
    }

    /// Compares a node with the lower fence that its parent has for it; `None`: no parent names the node.
    fn check_parent(&mut self, node: &NodeCopy<'_>, at: Remote<RawNode>, level: u8, fence: Option<&[u8]>) {
        let is_root = usize::from(level) + 1 == self.report.nodes.len();
        self.report.half_merged += u64::from(node.freed());
        match fence {
            Some(_) if node.freed() && !is_root => {
                self.report.problem(at, "it is marked as freed, and a parent names it");
            }
            Some(fence) if fence != node.lower() => {
                self.report.problem(at, "the parent has another lower fence for it");
            }
            Some(_) => {}
            None => self.report.half_linked += 1,
        }
    }

    /// Checks an inner node and records its children; returns the leftmost child.
    fn check_inner(
        &mut self,
        node: &NodeCopy<'_>,
        at: Remote<RawNode>,
        below: &mut NamedNodes,
    ) -> Remote<RawNode> {
        for child in 0..=node.count() {
            let lower = if child == 0 { node.lower() } else { node.separator(child - 1) };
            if child > 0 && (compare(lower, node.lower()) != Ordering::Greater || node.is_left_of(lower)) {
                self.report.problem(at, "a separator lies outside of the fences");
            }
            if child > 1 && compare(node.separator(child - 2), lower) != Ordering::Less {
                self.report.problem(at, "separators are out of order");
            }
            let child = node.child(child);
            if below.insert(child.word(), lower.to_vec()).is_some() {
                self.report.problem(at, format!("the node at {child} has two parents"));
            }
        }
        node.child(0)
    }

    fn check_leaf(&mut self, leaf: &NodeCopy<'_>, at: Remote<RawNode>) {
        let layout = &self.op.index.layout;
        self.report.capacity += layout.leaf_capacity as u64;
        let mut keys = Vec::new();
        for slot in 0..layout.leaf_capacity {
            match leaf.in_use(slot) {
                Ok(true) => keys.push(leaf.key(slot)),
                Ok(false) => {}
                Err(Torn) => self.report.problem(at, format!("entry {slot} is half-written")),
            }
        }
        self.report.entries += keys.len() as u64;
        if keys.iter().any(|key| leaf.is_right_of(key) || leaf.is_left_of(key)) {
            self.report.problem(at, "a key lies outside of the fences");
        }
        if layout.leaves == Leaves::TwoLevel {
            keys.sort_unstable();
        }
        if keys.windows(2).any(|pair| compare(pair[0], pair[1]) != Ordering::Less) {
            self.report.problem(at, "keys are out of order, or occur twice");
        }
    }

    /// Checks that every overflow value agrees with its entry, and that no two entries link the same. [1 RT per value]
    async fn check_values(
        &mut self,
        leaf: &NodeCopy<'_>,
        at: Remote<RawNode>,
        linked: &mut BTreeSet<u64>,
    ) -> Result<(), IndexError> {
        let layout = &self.op.index.layout;
        if layout.values == Values::Fixed {
            return Ok(());
        }
        for slot in (0..layout.leaf_capacity).filter(|&slot| leaf.in_use(slot) == Ok(true)) {
            let link = match layout.stored(leaf.value(slot)) {
                StoredValue::Inline(_) => continue,
                StoredValue::Overflow(link) => link,
                StoredValue::Invalid => {
                    self.report.problem(at, format!("entry {slot} links no value"));
                    continue;
                }
            };
            self.report.overflow_values += 1;
            if !linked.insert(link.at.word()) {
                self.report.problem(at, format!("entry {slot} has the value of another"));
            }
            match overflow::follow(self.op.client, layout.index, link).await {
                Ok(Some(_)) => self.reached.add(link.at),
                Ok(None) => {
                    let what = format!("the value of entry {slot}, at {}, is not there", link.at);
                    self.report.problem(at, what);
                }
                Err(FabricError::OutOfRange { .. }) => {
                    self.report.problem(at, format!("entry {slot} links what lies outside of the pool"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Checks that every lock of every table is free, or becomes free soon, because other clients may use other indexes
    /// whose locks are in the same table.
    async fn check_lock_tables(&mut self) -> Result<(), IndexError> {
        let (client, lock) = (self.op.client, self.op.index.options.lock);
        if lock.memory == LockMemory::Node {
            return Ok(());
        }
        client.fabric().find_added_nodes().await?;
        for node in 0..client.fabric().shape().nodes {
            let held = held_words(client, lock, NodeId(node)).await?;
            for held in stay_held(client, held).await? {
                let name = format!("lock word {} of node {node}", held.number);
                self.report_held(held.word, name).await?;
            }
        }
        Ok(())
    }

    /// Checks that the lock inside the node at `at` is free, or becomes free soon. [1 RT]
    async fn check_node_lock(&mut self, at: Remote<RawNode>) -> Result<(), IndexError> {
        let (client, tree) = (self.op.client, self.op.index);
        if tree.options.lock.memory != LockMemory::Node {
            return Ok(());
        }
        let word: Remote<u64> = at.part((tree.layout.slot_bytes - LOCK_BYTES) as u64);
        if becomes_free(client, word).await? {
            return Ok(());
        }
        let found = client.post(read(word)).await?.whole_word();
        self.report_held(found, format!("the lock of the node at {at}")).await
    }

    /// Reports a lock that did not become free.
    async fn report_held(&mut self, word: u64, lock: String) -> Result<(), IndexError> {
        let named = self.op.index.options.lock.width == LockWidth::Word;
        let holder = LockWord::from_word(word).holder().filter(|_| named);
        if let Some(holder) = holder
            && self.op.fabric().revoke(holder).await? == Revocation::Gone
        {
            self.report.locks_of_crashed_clients += 1;
            return Ok(());
        }
        if holder.is_none() && named {
            self.report.problem(lock, format!("it holds {word:#x}, which is not a client"));
            return Ok(());
        }
        let name =
            holder.map_or_else(|| format!("{word:#x}"), |holder| format!("client {holder}, which is alive"));
        self.report.locks_held += 1;
        self.report.problem(lock, format!("held by {name}"));
        Ok(())
    }
}

/// Returns the first of the `named` nodes at or above `lower`, and sets `lower` to its lower fence.
fn first_at_or_above(named: &NamedNodes, lower: &mut Vec<u8>) -> Option<Remote<RawNode>> {
    let right = named.iter().filter(|(_, fence)| **fence >= *lower);
    let (&word, fence) = right.min_by(|one, other| one.1.cmp(other.1))?;
    lower.clone_from(fence);
    Remote::from_word(word)
}
