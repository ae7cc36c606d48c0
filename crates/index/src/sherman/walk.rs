//! The walker: visits a whole tree at rest and checks every invariant.
//!
//! * every node is one version, of the right index and level, and no parent names one that is marked as freed;
//! * the nodes of a level follow each other: each begins where its left neighbour ends, the first at the lowest
//!   key, the last without end;
//! * a parent's separators are its children's lower fences, and every child lies in the level below;
//! * keys lie between their leaf's fences, no key is there twice, separators and sorted leaves increase;
//! * values out of line are what their entries say, and each is one entry's;
//! * no lock is held, but for those of clients that are gone, which the next writer takes over.
//!
//! A node that its left neighbour links and no parent names is not a fault: the client that split it died, or was
//! out of memory, before it told the parent. It is counted as half-linked. A node that its left neighbour links and
//! that is marked as freed is counted as half-merged, and so is such a root: the client that merged it died
//! ([`merge`]).
//!
//! [`merge`]: super::merge

use super::Sherman;
use super::layout::Values;
use super::node::{Node, RawNode};
use super::options::Leaves;
use super::values::Stored;
use crate::error::IndexError;
use crate::key::compare;
use crate::lock::{LOCK_BYTES, LockMemory, LockWidth, comes_free, sweep, words_held};
use crate::memory::overflow;
use farwood_fabric::{
    Checked, Client, Fabric, FabricError, LockWord, NodeId, Remote, Revocation, Torn, read, read_bytes,
};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Tries at a node before it counts as torn for good: nobody writes.
const TORN_TRIES_MAX: usize = 100;
/// Problems that are reported one by one.
const PROBLEMS_MAX: usize = 1000;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: a node or a lock.
    pub at: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// What the walker saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Nodes of each level, leaves first.
    pub nodes: Vec<u64>,
    /// Entries of all leaves.
    pub entries: u64,
    /// Values that lie out of line.
    pub values_far: u64,
    /// Emptied rooms that are listed for whoever needs them.
    pub rooms_listed: u64,
    /// Entries that the leaves have room for.
    pub room: u64,
    /// Nodes that no parent names yet.
    pub half_linked: u64,
    /// Nodes whose merge nobody has ended yet.
    pub half_merged: u64,
    /// Locks of clients that are gone: the next writer takes them over.
    pub locks_of_the_gone: u64,
    /// Locks that living clients held all the while; they are among the problems, too.
    pub locks_held: u64,
    /// Violated invariants; at most 1000 are listed.
    pub problems: Vec<Problem>,
}

/// What a level calls the nodes of the level below: the lower fence of each, by the word of its pointer.
type Names = BTreeMap<u64, Vec<u8>>;

impl Walk {
    fn problem(&mut self, at: impl fmt::Display, what: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { at: at.to_string(), what: what.into() });
        }
    }
}

/// A read copy of a node, whose parts may yet be wrong.
type Copy<'l> = Node<'l, Checked<RawNode>>;

impl Sherman {
    /// Walks the tree, which nobody changes meanwhile, and reports every violated invariant. [1 RT per node, and
    /// per KiB of lock table]
    ///
    /// # Errors
    /// The fabric's. What is wrong with the tree is in the [`Walk`].
    pub async fn walk<F: Fabric>(&self, client: &Client<F>) -> Result<Walk, IndexError> {
        crate::retry::bury_the_dead(client).await?;
        let mut walk = Walk::default();
        let root = self.root_word(client).await?;
        if let Some(node) = self.walk_read(client, root, &mut walk).await? {
            let mut first = Some(root);
            let mut names = Names::from([(root.word(), vec![0; self.layout.key_bytes])]);
            walk.nodes = vec![0; usize::from(node.level()) + 1];
            for level in (0..=node.level()).rev() {
                let Some(leftmost) = first else { break };
                (first, names) = self.walk_level(client, leftmost, level, names, &mut walk).await?;
            }
        }
        walk.rooms_listed = self.rooms_listed(client).await?;
        self.walk_locks(client, &mut walk).await?;
        Ok(walk)
    }

    /// Walks one level from its leftmost node; yields the leftmost node of the level below, and the names that
    /// this level has for that one.
    async fn walk_level<F: Fabric>(
        &self,
        client: &Client<F>,
        leftmost: Remote<RawNode>,
        level: u8,
        mut names: Names,
        walk: &mut Walk,
    ) -> Result<(Option<Remote<RawNode>>, Names), IndexError> {
        let mut below = Names::new();
        let mut first_below = None;
        let mut lower = vec![0; self.layout.key_bytes];
        let mut next = Some(leftmost);
        let mut seen = BTreeSet::new();
        let mut extents = BTreeSet::new();
        while let Some(at) = next {
            if !seen.insert(at.word()) {
                walk.problem(at, "the sibling pointers run in a circle");
                break;
            }
            let Some(node) = self.walk_read(client, at, walk).await? else {
                // What lies right of an unreadable node is found by the names that the level above has.
                names.remove(&at.word());
                next = name_right_of(&names, &mut lower);
                continue;
            };
            walk.nodes[usize::from(level)] += 1;
            check_header(&node, at, level, &lower, walk);
            self.walk_node_lock(client, at, walk).await?;
            let is_root = usize::from(level) + 1 == walk.nodes.len();
            walk.half_merged += u64::from(node.freed());
            match names.remove(&at.word()) {
                Some(_) if node.freed() && !is_root => {
                    walk.problem(at, "it is marked as freed, and a parent names it");
                }
                Some(name) if name != node.lower() => {
                    walk.problem(at, "the parent has another lower fence for it");
                }
                Some(_) => {}
                None => walk.half_linked += 1,
            }
            if level == 0 {
                self.walk_leaf(&node, at, walk);
                self.walk_values(client, &node, at, &mut extents, walk).await?;
            } else {
                let leftmost = walk_inner(&node, at, &mut below, walk);
                first_below = first_below.or(Some(leftmost));
            }
            next = node.sibling();
            match (node.upper(), next) {
                (Some(upper), Some(_)) => lower.copy_from_slice(upper),
                (None, None) => {}
                (Some(_), None) => walk.problem(at, "it has an upper fence and no sibling"),
                (None, Some(_)) => walk.problem(at, "it has a sibling and no upper fence"),
            }
        }
        for at in names.into_keys() {
            walk.problem(
                format_args!("{at:#x}"),
                format!("a parent names it, and level {level} does not link it"),
            );
        }
        Ok((first_below, below))
    }

    /// Reads a node; `None` where it is no node of this tree, which is noted.
    async fn walk_read<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
        walk: &mut Walk,
    ) -> Result<Option<Copy<'_>>, IndexError> {
        for _ in 0..TORN_TRIES_MAX {
            let copy = match client.post(read_bytes(at, self.layout.node_bytes)).await {
                Err(FabricError::OutOfRange { .. } | FabricError::Misaligned { .. }) => {
                    walk.problem(at, "no node can be there");
                    return Ok(None);
                }
                answer => answer?,
            };
            match copy.check(&self.layout).map(|copy| Node::decode(&self.layout, copy)) {
                Ok(Ok(node)) => return Ok(Some(node)),
                Ok(Err(what)) => {
                    walk.problem(at, what);
                    return Ok(None);
                }
                Err(Torn) => client.fabric().sleep(0).await,
            }
        }
        walk.problem(at, "the node is half-written: its writer died in the middle of a WRITE");
        Ok(None)
    }

    fn walk_leaf(&self, leaf: &Copy<'_>, at: Remote<RawNode>, walk: &mut Walk) {
        walk.room += self.layout.leaf_capacity as u64;
        let mut keys = Vec::new();
        for slot in 0..self.layout.leaf_capacity {
            match leaf.in_use(slot) {
                Ok(true) => keys.push(leaf.key(slot)),
                Ok(false) => {}
                Err(Torn) => walk.problem(at, format!("entry {slot} is half-written")),
            }
        }
        walk.entries += keys.len() as u64;
        if keys.iter().any(|key| leaf.is_right_of(key) || leaf.is_left_of(key)) {
            walk.problem(at, "a key lies outside of the fences");
        }
        if self.layout.leaves == Leaves::TwoLevel {
            keys.sort_unstable();
        }
        if keys.windows(2).any(|pair| compare(pair[0], pair[1]) != Ordering::Less) {
            walk.problem(at, "keys are out of order, or there twice");
        }
    }

    /// Every value out of line must be what its entry says, and no two entries may link the same. [1 RT per value]
    async fn walk_values<F: Fabric>(
        &self,
        client: &Client<F>,
        leaf: &Copy<'_>,
        at: Remote<RawNode>,
        extents: &mut BTreeSet<u64>,
        walk: &mut Walk,
    ) -> Result<(), IndexError> {
        if self.layout.values == Values::Fixed {
            return Ok(());
        }
        for slot in (0..self.layout.leaf_capacity).filter(|&slot| leaf.in_use(slot) == Ok(true)) {
            let link = match self.layout.stored(leaf.value(slot)) {
                Stored::Here(_) => continue,
                Stored::Far(link) => link,
                Stored::Nowhere => {
                    walk.problem(at, format!("entry {slot} links no value"));
                    continue;
                }
            };
            walk.values_far += 1;
            if !extents.insert(link.at.word()) {
                walk.problem(at, format!("entry {slot} has the value of another"));
            }
            match overflow::follow(client, self.layout.index, link).await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    walk.problem(at, format!("the value of entry {slot}, at {}, is not there", link.at));
                }
                Err(FabricError::OutOfRange { .. }) => {
                    walk.problem(at, format!("entry {slot} links what lies outside of the pool"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Every lock of every table must be free, or come free soon: the table serves all indexes of the pool, and
    /// others may be busy.
    async fn walk_locks<F: Fabric>(&self, client: &Client<F>, walk: &mut Walk) -> Result<(), IndexError> {
        if self.options.lock.memory == LockMemory::Node {
            return Ok(());
        }
        for node in 0..client.fabric().shape().nodes {
            for held in words_held(client, self.options.lock, NodeId(node)).await? {
                if !comes_free(client, held.at).await? {
                    let name = format!("lock word {} of node {node}", held.number);
                    self.walk_held(client, held.word, name, walk).await?;
                }
            }
        }
        Ok(())
    }

    /// Frees the locks in the pool's tables that clients left who are gone; yields how many there were. Nobody has to:
    /// whoever needs such a lock takes it over. Locks of 16 bits, and those that lie in nodes, stay. [1 RT per KiB of
    /// lock table; 1 and a revocation for each lock that is held]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn sweep_locks<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        sweep(client, self.options.lock).await
    }

    /// The lock of the node at `at`, where it lies in the node, must be free, or come free soon. [1 RT]
    async fn walk_node_lock<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
        walk: &mut Walk,
    ) -> Result<(), IndexError> {
        if self.options.lock.memory != LockMemory::Node {
            return Ok(());
        }
        let word: Remote<u64> = at.part((self.layout.room_bytes - LOCK_BYTES) as u64);
        if comes_free(client, word).await? {
            return Ok(());
        }
        let Ok(found) = client.post(read(word)).await?.check(&()) else { unreachable!("words are whole") };
        self.walk_held(client, found.word(), format!("the lock of the node at {at}"), walk).await
    }

    /// Notes a lock that did not come free.
    async fn walk_held<F: Fabric>(
        &self,
        client: &Client<F>,
        word: u64,
        lock: String,
        walk: &mut Walk,
    ) -> Result<(), IndexError> {
        let named = self.options.lock.width == LockWidth::Word;
        let holder = LockWord::from_word(word).holder().filter(|_| named);
        if let Some(holder) = holder
            && client.fabric().revoke(holder).await? == Revocation::Gone
        {
            walk.locks_of_the_gone += 1;
            return Ok(());
        }
        let name =
            holder.map_or_else(|| format!("{word:#x}"), |holder| format!("client {holder}, which is alive"));
        walk.locks_held += 1;
        walk.problem(lock, format!("held by {name}"));
        Ok(())
    }
}

/// The first of `names` at or right of `lower`, which becomes its lower fence.
fn name_right_of(names: &Names, lower: &mut Vec<u8>) -> Option<Remote<RawNode>> {
    let right = names.iter().filter(|(_, name)| **name >= *lower);
    let (&word, name) = right.min_by(|one, other| one.1.cmp(other.1))?;
    lower.clone_from(name);
    Remote::from_word(word)
}

fn check_header(node: &Copy<'_>, at: Remote<RawNode>, level: u8, lower: &[u8], walk: &mut Walk) {
    if node.level() != level {
        walk.problem(at, format!("it is of level {}, and linked at level {level}", node.level()));
    }
    if node.lower() != lower {
        walk.problem(at, "it does not begin where its left neighbour ends");
    }
    if node.upper().is_some_and(|upper| upper <= node.lower()) {
        walk.problem(at, "its fences are out of order");
    }
}

/// Checks an inner node and adds its children's names; yields the leftmost child.
fn walk_inner(node: &Copy<'_>, at: Remote<RawNode>, below: &mut Names, walk: &mut Walk) -> Remote<RawNode> {
    for child in 0..=node.count() {
        let lower = if child == 0 { node.lower() } else { node.separator(child - 1) };
        if child > 0 && (compare(lower, node.lower()) != Ordering::Greater || node.is_left_of(lower)) {
            walk.problem(at, "a separator lies outside of the fences");
        }
        if child > 1 && compare(node.separator(child - 2), lower) != Ordering::Less {
            walk.problem(at, "separators are out of order");
        }
        let child = node.child(child);
        if below.insert(child.word(), lower.to_vec()).is_some() {
            walk.problem(at, format!("the node at {child} has two parents"));
        }
    }
    node.child(0)
}
