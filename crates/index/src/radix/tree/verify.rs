//! The walker: every invariant of a tree that nobody changes.
//!
//! Every linked node is live, of the size that its slot says, deeper than its parent, and of the prefix that all keys
//! below it have; no two slots of a node have one partial key, and none is closed; every reverse pointer names the node
//! that links the object; every leaf is live and belongs where it is; every lock is free.
//!
//! What a client that died, or lost a memory node, leaves half-way is *unsettled*, not wrong: whoever needs it
//! settles it. Who lives may leave a node *closed*, which is counted among that: it is full for everybody.

use super::create::NODE_LOCKS;
use super::{Guide, Sign, Tree};
use crate::error::IndexError;
use crate::lock::{comes_free, sweep, words_held};
use crate::memory::overflow::{self, Link};
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::{Inner, RawInner, Size, State as NodeState};
use crate::radix::key::{Step, step_at};
use crate::radix::leaf::{Class, RawLeaf, State};
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, Slot};
use crate::retry::bury_the_dead;
use farwood_fabric::{Client, Fabric, FabricError, LockWord, NodeId, Remote, Revocation, read};
use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

pub use crate::sherman::Problem;

/// Problems that are reported one by one.
const PROBLEMS_MAX: usize = 1000;

/// What there is of hash tables that lead to nodes, where a tree has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Subtables.
    pub subtables: u64,
    /// Entries, of which some may lead nowhere.
    pub entries: u64,
    /// Entries that there could be.
    pub entries_max: u64,
    /// Bytes of subtables and directories, with those that were doubled.
    pub bytes: u64,
}

/// What the walker saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Inner nodes of 4, 16, 48 and 256 slots.
    pub nodes: [u64; 4],
    /// Keys.
    pub entries: u64,
    /// Bytes of the inner nodes.
    pub node_bytes: u64,
    /// Bytes of the leaves' rooms.
    pub leaf_bytes: u64,
    /// Values that lie out of line.
    pub values_far: u64,
    /// Bytes of their rooms.
    pub value_bytes: u64,
    /// Most inner nodes on the way to a key.
    pub height: u64,
    /// What was left half-way, and will be settled by who needs it.
    pub unsettled: u64,
    /// Nodes among that which are closed: whoever wants room in one replaces it.
    pub closed: u64,
    /// Hash tables.
    pub census: Census,
    /// Locks of clients that are gone: the next writer takes them over.
    pub locks_of_the_gone: u64,
    /// Locks that living clients held all the while; they are among the problems, too.
    pub locks_held: u64,
    /// Violated invariants; at most 1000 are listed.
    pub problems: Vec<Problem>,
}

impl Walk {
    pub(crate) fn problem(&mut self, at: impl fmt::Display, what: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { at: at.to_string(), what: what.into() });
        }
    }
}

/// An inner node on the way, and those above it.
struct Above {
    node: Arc<CachedNode>,
    parent: Option<Rc<Above>>,
    height: u64,
}

/// A child that is to be looked at.
type Task = (Rc<Above>, Step, Slot);

/// What is wrong with what was read, where that is what the error says.
pub(crate) fn problem_of(error: IndexError) -> Result<String, IndexError> {
    match error {
        IndexError::Damaged { what, .. } => Ok(what),
        IndexError::Fabric(FabricError::OutOfRange { .. } | FabricError::Misaligned { .. }) => {
            Ok("what leads there leads out of the pool's memory".to_owned())
        }
        error => Err(error),
    }
}

impl<G: Guide> Tree<G> {
    /// Walks the tree, which nobody changes meanwhile, and reports every violated invariant. [1 RT per node and leaf,
    /// and per KiB of lock table]
    ///
    /// # Errors
    /// The fabric's. What is wrong with the tree is in the [`Walk`].
    pub async fn walk<F: Fabric>(&self, client: &Client<F>) -> Result<Walk, IndexError> {
        bury_the_dead(client).await?;
        let mut walk = Walk::default();
        let (mut seen, mut extents) = (BTreeSet::new(), BTreeSet::new());
        let mut tasks: Vec<Task> = Vec::new();
        let root = match self.read_inner(client, self.root, Size::All, "check").await {
            Ok(root) => root,
            Err(error) => {
                walk.problem(self.root, problem_of(error)?);
                return Ok(walk);
            }
        };
        if !root.covers(&[], self.number) {
            walk.problem(self.root, "the root is not of the empty prefix");
        }
        let mut signs = Vec::new();
        let above = Above { node: CachedNode::copy(self.root, &root), parent: None, height: 1 };
        self.walk_slots(&root, &Rc::new(above), &mut tasks, &mut walk);
        while let Some((above, step, slot)) = tasks.pop() {
            match slot.child() {
                Child::Inner(at, size) => {
                    if !seen.insert(at.word()) {
                        walk.problem(at, "two slots point to the node");
                        continue;
                    }
                    let task = (above, step, slot);
                    signs.extend(self.walk_inner(client, task, (at, size), &mut tasks, &mut walk).await?);
                }
                Child::Leaf(at, class) => {
                    if !seen.insert(at.word()) {
                        walk.problem(at, "two slots point to the leaf");
                    }
                    self.walk_leaf(client, (&above, step), (at, class), &mut extents, &mut walk).await?;
                }
                _ => walk.problem(above.node.at, "a slot holds nothing known"),
            }
        }
        G::check(self, client, &signs, &mut walk).await?;
        self.walk_locks(client, &mut walk).await?;
        Ok(walk)
    }

    /// Checks a node's slots, and notes its children.
    fn walk_slots<B: std::ops::Deref<Target = [u8]>>(
        &self,
        node: &Inner<B>,
        above: &Rc<Above>,
        tasks: &mut Vec<Task>,
        walk: &mut Walk,
    ) {
        let _ = self;
        let at = above.node.at;
        let (header, mut partials) = (node.header(), BTreeSet::new());
        walk.nodes[header.size() as usize] += 1;
        walk.node_bytes += header.size().bytes() as u64;
        walk.height = walk.height.max(above.height);
        let mut closed = 0;
        let mut free = false;
        for (number, slot) in node.slots().enumerate() {
            let of_byte = header.size() == Size::All && number > 0;
            if of_byte && usize::from(slot.partial()) + 1 != number {
                walk.problem(at, format!("slot {number} has partial key {}", slot.partial()));
            }
            if !slot.is_occupied() && slot.generation() != header.generation() {
                walk.problem(at, format!("slot {number} is of generation {}", slot.generation()));
            }
            closed += u64::from(slot.child() == Child::Closed);
            if slot.is_free() {
                free = true;
                continue;
            }
            let known = slot.is_occupied() || slot.child() == Child::Vacant;
            if number > 0 && known && free {
                walk.problem(at, format!("slot {number} is taken, and one before it is free"));
            }
            if number > 0 && known && !partials.insert(slot.partial()) {
                walk.problem(at, format!("partial key {} has two slots", slot.partial()));
            }
        }
        walk.closed += u64::from(closed > 0);
        walk.unsettled += u64::from(closed > 0);
        tasks.extend(node.children().into_iter().map(|(step, slot)| (Rc::clone(above), step, slot)));
    }

    async fn walk_inner<F: Fabric>(
        &self,
        client: &Client<F>,
        (above, step, slot): Task,
        (at, size): (Remote<RawInner>, Size),
        tasks: &mut Vec<Task>,
        walk: &mut Walk,
    ) -> Result<Option<Sign>, IndexError> {
        let node = match self.read_inner(client, at, size, "check").await {
            Ok(node) => node,
            Err(error) => {
                walk.problem(at, problem_of(error)?);
                return Ok(None);
            }
        };
        let parent = &above.node;
        if step == Step::End || node.header().depth() <= parent.header.depth() {
            walk.problem(at, "it is not deeper than its parent");
        }
        let right = Reverse::of_inner(parent.at, parent.header.generation(), slot.partial());
        walk.unsettled += u64::from(node.reverse() != right);
        walk.unsettled += u64::from(node.header().state() != Some(NodeState::Live));
        let height = above.height + 1;
        let next = Above { node: CachedNode::copy(at, &node), parent: Some(above), height };
        self.walk_slots(&node, &Rc::new(next), tasks, walk);
        Ok(Some(self.sign(at, &node)))
    }

    async fn walk_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        (above, step): (&Rc<Above>, Step),
        (at, class): (Remote<RawLeaf>, Class),
        extents: &mut BTreeSet<u64>,
        walk: &mut Walk,
    ) -> Result<(), IndexError> {
        let leaf = match self.read_leaf(client, at, class, "check").await {
            Ok(leaf) => leaf,
            Err(error) => {
                walk.problem(at, problem_of(error)?);
                return Ok(());
            }
        };
        let parent = &above.node;
        let right = Reverse::of_leaf(parent.at, parent.header.generation());
        walk.unsettled += u64::from(leaf.reverse() != right);
        // A removal that was cut off took its key out; a move did not.
        let live = leaf.state() != State::Removed;
        walk.unsettled += u64::from(leaf.state() != State::Live);
        walk.entries += u64::from(live);
        walk.leaf_bytes += class.bytes() as u64;
        if step_at(leaf.key(), parent.header.depth()) != step {
            walk.problem(at, "its key goes on otherwise than its slot says");
        }
        if let Some(link) = leaf.link() {
            self.walk_value(client, (at, link), extents, walk).await?;
        }
        let mut next = Some(above);
        while let Some(above) = next {
            if !above.node.covers(leaf.key(), self.number) {
                walk.problem(above.node.at, format!("the leaf at {at} below it is of another prefix"));
            }
            next = above.parent.as_ref();
        }
        let lock: Remote<u64> = at.part(class.bytes() as u64 - 8);
        if leaf.bytes()[class.bytes() - 8..] != [0; 8] && !comes_free(client, lock).await? {
            self.walk_held(client, lock, format!("the lock of the leaf at {at}"), walk).await?;
        }
        Ok(())
    }

    /// A value out of line must be what its leaf says, and no two leaves may link the same. [1 RT]
    async fn walk_value<F: Fabric>(
        &self,
        client: &Client<F>,
        (at, link): (Remote<RawLeaf>, Link),
        extents: &mut BTreeSet<u64>,
        walk: &mut Walk,
    ) -> Result<(), IndexError> {
        walk.values_far += 1;
        if !extents.insert(link.at.word()) {
            walk.problem(at, "it has the value of another leaf");
        }
        match overflow::follow(client, self.entry.number, link).await {
            Ok(Some(_)) => {
                let rooms = overflow::rooms_of(client, self.entry.number, link).await?;
                walk.value_bytes += rooms.iter().map(|room| u64::from(room.kind.bytes)).sum::<u64>();
            }
            Ok(None) => walk.problem(at, format!("its value, at {}, is not there", link.at)),
            Err(FabricError::OutOfRange { .. }) => walk.problem(at, "it links what lies outside of the pool"),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Every lock of the tables must be free, or come free soon: they serve all indexes of the pool.
    async fn walk_locks<F: Fabric>(&self, client: &Client<F>, walk: &mut Walk) -> Result<(), IndexError> {
        for node in 0..client.fabric().shape().nodes {
            for held in words_held(client, NODE_LOCKS, NodeId(node)).await? {
                if !comes_free(client, held.at).await? {
                    let name = format!("lock word {} of node {node}", held.number);
                    self.walk_held(client, held.at, name, walk).await?;
                }
            }
        }
        Ok(())
    }

    /// Frees the locks in the pool's tables that clients left who are gone; yields how many there were. Nobody has to:
    /// whoever needs such a lock takes it over. Those that lie in leaves stay. [1 RT per KiB of lock table; 1 and a
    /// revocation for each lock that is held]
    ///
    /// # Errors
    /// The fabric's.
    pub async fn sweep_locks<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        sweep(client, NODE_LOCKS).await
    }

    /// Notes a lock that did not come free.
    async fn walk_held<F: Fabric>(
        &self,
        client: &Client<F>,
        lock: Remote<u64>,
        name: String,
        walk: &mut Walk,
    ) -> Result<(), IndexError> {
        let Ok(word) = client.post(read(lock)).await?.check(&()) else { unreachable!("words are whole") };
        let Some(holder) = LockWord::from_word(word.word()).holder() else {
            walk.problem(name, format!("it holds {:#x}, which is nobody", word.word()));
            return Ok(());
        };
        if client.fabric().revoke(holder).await? == Revocation::Gone {
            walk.locks_of_the_gone += 1;
        } else {
            walk.locks_held += 1;
            walk.problem(name, format!("held by client {holder}, which is alive"));
        }
        Ok(())
    }
}
