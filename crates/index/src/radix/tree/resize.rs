//! Replacement of inner nodes: by a larger node if no slot is free, by a smaller one if few slots are used, by the only
//! child, or by nothing.
//!
//! Under the node's lock, in this order:
//!
//! 1. (if clients replace the pointers to leaves without a lock, every slot with a leaf is *frozen* by a CAS as well)
//!    every slot without a child is *closed*, by a CAS each. If another client put a leaf into the slot first, that
//!    leaf is a child like the others. From now on nothing in the node changes, because a change of an occupied slot
//!    needs the lock;
//! 2. the new node is written, with the first CASes of step 1 if its children are known before;
//!
//! and under the parent's lock as well, for which the client does not wait while it holds the node's lock:
//!
//! 3. the reverse pointers of the children are set to the new node, including a pointer that the inserting client is
//!    about to set by CAS; that CAS then fails. The old header becomes *dead*;
//! 4. the slot of the parent is swapped, and the new node is confirmed as linked.
//!
//! If a client crashes after step 1 or 2, the node is full for all clients, and the next insert replaces it. After a
//! part of step 3, some children name another node, and clients repair these children one by one. After the header is
//! dead, the linked dead node is ambiguous for all clients, and a client repairs it: it replaces it, beginning with
//! step 1. The new node may already link the leaf of the inserting client, which no other client can reach before the
//! old node is dead and the slot of the parent is swapped; no other key is put into it before. The old node is valid
//! until it is dead.
//!
//! A node that grows needs the lock of its parent, and the root has many children. So the parent's lock is held for
//! steps 3 and 4 only. A client that waits for it while it holds the node's lock would deadlock if both locks are one
//! word, or if a cycle of nodes shares two words. So it tries the parent's lock for a while; then it releases the node,
//! which stays closed, waits for the parent's lock, and tries the node's lock.

use super::RadixTree;
use super::copy::{InnerCopy, words};
use super::find::{Location, ParentLink};
use super::new_node::LinkingNode;
use super::node_handle::NodeChange;
use super::options::NodeSizing;
use super::policy::Policy;
use super::replacement::{CAS_PER_POST, OldNode, Replacement};
use super::sample_key::SampleKey;
use super::traversal::Traversal;
use crate::error::IndexError;
use crate::lock::{HeldLock, PendingRelease, TryLock};
use crate::memory::slot::MemorySlot;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::coverage;
use crate::radix::heap::ObjectKind;
use crate::radix::inner::{
    HEADER, InnerRef, NodeHeader, NodeSize, NodeState, REVERSE, RawInner, slot_offset,
};
use crate::radix::key::Step;
use crate::radix::leaf::{self, LeafEntry};
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, NodeSlot};
use farwood_fabric::{Chain as _, Fabric, Parallel as _, Remote, Swapped, cas, each};

/// Attempts to take the parent's lock while the node's lock is held.
const PARENT_LOCK_TRIES: usize = 500;
/// Pause between two of these attempts, nanoseconds.
const PARENT_LOCK_PAUSE_NS: u64 = 4_000;
/// Attempts to replace a node, which may be linked elsewhere after each.
const RESIZES_MAX: usize = 8;

/// Coverage mark of a replacement that a live client left unfinished: after a completed removal, or because the node's
/// prefix is unknown. The next client that uses the node completes it. It is so rare that runs of `cargo xtask swarm`
/// need not reach it, so it is not in [`MARKS`](crate::radix::MARKS).
const LEFT_UNFINISHED: &str = "radix: a replacement interrupted";

/// A node and the client's copy of it.
#[derive(Clone, Copy)]
pub(super) struct KnownNode {
    pub(super) at: Remote<RawInner>,
    pub(super) header: NodeHeader,
}

impl KnownNode {
    fn inner_ref(self) -> InnerRef {
        InnerRef { at: self.at, size: self.header.size() }.whole()
    }
}

/// The parameters of a replacement.
#[derive(Clone, Copy)]
pub(super) struct Resize<'k> {
    /// Key of the operation. If it is below the node, it shows the bytes of the prefix.
    pub(super) key: &'k [u8],
    /// The entry of this key, for which the new node has space. The new node links its leaf, unless the old node has a
    /// child in the slot of the key. `None`: the node does not grow.
    pub(super) new: Option<LeafEntry<'k>>,
}

impl Resize<'_> {
    /// Free slots that the new node has beyond the children of the old one.
    pub(super) fn spare(self) -> usize {
        usize::from(self.new.is_some())
    }
}

/// A completed replacement of a node.
struct Resized<L> {
    change: NodeChange,
    /// What the system read about the node before the change.
    lookup: L,
    /// [`Fate::Inserted`] or [`Fate::Gone`].
    fate: Fate,
}

/// Result of an attempt to replace a node.
enum ResizeOutcome<L> {
    /// The node was replaced.
    Done(Resized<L>),
    /// The node no longer exists; or it is dead, and no longer linked at this slot.
    Gone,
    /// The node is linked elsewhere, or an object below it was ambiguous.
    Ambiguous,
    /// Every attempt found the second of the two locks held.
    Busy,
}

/// The locks that a client holds when it replaces a node.
enum Locks<'l, 'a, F: Fabric> {
    /// That of the node.
    Node(&'l mut Option<HeldLock<'a, F>>),
    /// Those of the node and of its parent, which the caller releases.
    Both,
}

impl<'a, F: Fabric> Locks<'_, 'a, F> {
    /// Takes the lock that is to be released with the swap of the slot.
    fn take(&mut self) -> Option<HeldLock<'a, F>> {
        match self {
            Locks::Node(held) => held.take(),
            Locks::Both => None,
        }
    }
}

/// The result of an attempt to lock the parent of a node.
enum LockedParent<'a, F: Fabric> {
    /// The client holds the parent's lock: `lock`, or one that it held before. `is_linked`: the parent links the node.
    Held { lock: Option<HeldLock<'a, F>>, is_linked: bool },
    /// Every attempt found the lock held.
    Busy,
}

/// Whether a node still exists after attempts to replace it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Gone,
    /// The node was replaced by one with the new leaf.
    Inserted,
    /// The node still exists, and may be closed.
    Remains,
}

impl<'a, F: Fabric, P: Policy> Op<'a, F, RadixTree<P>> {
    /// Replaces a location's node, which is not the root, by one that also links a leaf for `entry`. `false`: the
    /// caller tries again. [5 RT; more if the parent is not known, or if other clients interfere]
    pub(super) async fn grow(
        self,
        location: &Location,
        entry: LeafEntry<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        if !traversal.is_fresh(&location.node) {
            self.read_again(&location.node, traversal).await?;
            return Ok(false);
        }
        assert!(
            location.node.header.depth() > 0,
            "the root has a slot for every partial key, and is never closed"
        );
        let resize = Resize { key: entry.key, new: Some(entry) };
        if self.resize_wherever_linked(location, resize, traversal).await? == Fate::Inserted {
            return Ok(true);
        }
        traversal.retry(self.client).await?;
        Ok(false)
    }

    /// Replaces a location's node by a smaller one, by its only child or by nothing, if a removal left few children.
    /// The removal is complete whatever the result.
    pub(super) async fn shrink_if_sparse(
        self,
        location: &Location,
        before: &InnerCopy,
        traversal: &mut Traversal<'_, P::Route>,
    ) {
        let size = before.header().size();
        let left = before.slots().filter(|slot| slot.is_occupied()).count() - 1;
        let sparse = match (self.index.options.node_sizing, size) {
            (NodeSizing::Preallocated, _) | (_, NodeSize::Four) => 1,
            (_, NodeSize::Sixteen) => 3,
            (_, NodeSize::FortyEight) => 12,
            (_, NodeSize::All) => 36,
            (_, typed) => typed.slots() / 4,
        };
        if left > sparse || location.node.header.depth() == 0 {
            return;
        }
        let resize = Resize { key: traversal.key(), new: None };
        let fate = self.resize_wherever_linked(location, resize, traversal).await;
        if fate.unwrap_or(Fate::Remains) == Fate::Remains {
            self.hit(LEFT_UNFINISHED);
        }
    }

    /// Replaces a location's node, even if other clients link it elsewhere in the meantime.
    async fn resize_wherever_linked(
        self,
        location: &Location,
        resize: Resize<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Fate, IndexError> {
        let old = KnownNode { at: location.node.at, header: location.node.header };
        let mut parent = location.parent.clone();
        for _ in 0..RESIZES_MAX {
            if parent.is_none() {
                traversal.start_above(old.header.depth());
                let again = self.locate(traversal).await?;
                if again.node.at != old.at {
                    if traversal.is_fresh(&again.node) {
                        return Ok(Fate::Gone);
                    }
                    // The copy of a node above may be older than `old`.
                    self.read_again(&again.node, traversal).await?;
                    continue;
                }
                parent = again.parent;
            }
            // If a slot on the path was ambiguous, the traversal may have started again below the parent.
            let Some(link) = parent.take() else { continue };
            // A replacement is rare, and its future is large.
            match Box::pin(self.resize(&link, old, resize)).await? {
                Fate::Remains => {}
                gone_or_inserted => return Ok(gone_or_inserted),
            }
            traversal.retry(self.client).await?;
        }
        Ok(Fate::Remains)
    }

    /// Replaces the node `old`, to which `link` points. If the parent's lock is busy for long, waits for it.
    pub(super) async fn resize(
        self,
        link: &ParentLink,
        old: KnownNode,
        resize: Resize<'_>,
    ) -> Result<Fate, IndexError> {
        let ParentLink { node: parent, number } = link;
        let (held, node) = self.lock_inner(old.inner_ref(), 0).await?;
        let locked = OldNode { parent, number: *number, slot: parent.slot(*number), at: old.at, node };
        let mut own = Some(held);
        let outcome = self.resize_locked(&locked, old.header, Locks::Node(&mut own), resize).await;
        if let Some(held) = own {
            held.give_up().await?;
        }
        let outcome = match outcome? {
            ResizeOutcome::Busy => {
                self.hit(coverage::PARENT_LOCK_BUSY);
                self.resize_parent_first(link, old, resize).await?
            }
            outcome => outcome,
        };
        match outcome {
            ResizeOutcome::Done(Resized { change, lookup, fate }) => {
                P::nodes_changed(self, change, lookup).await;
                Ok(fate)
            }
            ResizeOutcome::Gone => {
                self.index.cache.remove(parent);
                Ok(Fate::Gone)
            }
            ResizeOutcome::Ambiguous | ResizeOutcome::Busy => {
                self.index.cache.remove(parent);
                Ok(Fate::Remains)
            }
        }
    }

    /// As [`resize`](Self::resize), but takes the parent's lock first, because it was busy for long.
    async fn resize_parent_first(
        self,
        ParentLink { node: parent, number }: &ParentLink,
        old: KnownNode,
        resize: Resize<'_>,
    ) -> Result<ResizeOutcome<P::Lookup>, IndexError> {
        let locks = self.on(&self.index.nodes);
        let parent_lock = locks.acquire(self.guard(parent.at, *number)).await?;
        let own = match locks.try_acquire(self.guard(old.at, 0), std::slice::from_ref(&parent_lock)).await {
            Ok(TryLock::Taken(own)) => Some(own),
            Ok(TryLock::Mine) => None,
            busy_or_error => {
                parent_lock.give_up().await?;
                return busy_or_error.map(|_| ResizeOutcome::Busy);
            }
        };
        let outcome = match self.read_inner(old.inner_ref()).await {
            Ok(node) => {
                let locked =
                    OldNode { parent, number: *number, slot: parent.slot(*number), at: old.at, node };
                self.resize_locked(&locked, old.header, Locks::Both, resize).await
            }
            Err(error) => Err(error),
        };
        let released = match own {
            Some(own) => own.give_up().await,
            None => Ok(()),
        };
        parent_lock.give_up().await?;
        released?;
        outcome
    }

    /// The part of [`resize`](Self::resize) under the node's lock. It releases the lock of [`Locks::Node`] if it swaps
    /// the slot of the parent.
    async fn resize_locked(
        self,
        old: &OldNode<'_>,
        header: NodeHeader,
        mut locks: Locks<'_, 'a, F>,
        resize: Resize<'_>,
    ) -> Result<ResizeOutcome<P::Lookup>, IndexError> {
        let OldNode { at, node, .. } = old;
        if !node.header().with_state(NodeState::Live).is_of_node(header.with_state(NodeState::Live)) {
            self.hit(coverage::CHANGED_BEFORE_LOCK);
            return Ok(ResizeOutcome::Gone);
        }
        if !matches!(old.slot.child(), Child::Inner(child) if child.at == *at) {
            return Ok(ResizeOutcome::Ambiguous);
        }
        let is_dead = node.header().state() == Some(NodeState::Dead);
        if is_dead {
            // A dead node has usually been replaced already, and its memory may have been reused.
            let linked = self.is_linked(old).await?;
            if !linked || words(self.client, [at.part(HEADER)].into_iter()).await?[0] != node.header().word()
            {
                return Ok(ResizeOutcome::Gone);
            }
            self.hit(coverage::RESIZE_RESUMED);
        }
        // The prefix is determined before anything changes, because it may be ambiguous. A node with one child or none
        // is replaced without its prefix.
        let has_children = node.slots_read().filter(|slot| slot.is_occupied()).count() > 1;
        let prefix = match self.prefix_of(*at, node, resize.key).await? {
            SampleKey::Key(prefix) => Some(prefix),
            SampleKey::Ambiguous { .. } if has_children && !is_dead => return Ok(ResizeOutcome::Ambiguous),
            SampleKey::None | SampleKey::Ambiguous { .. } => None,
        };
        let (children, replacement) = self.close_and_replace(old, prefix.as_deref(), resize).await?;
        let Some(replacement) = replacement else {
            self.hit(LEFT_UNFINISHED);
            return Ok(ResizeOutcome::Ambiguous);
        };
        let parent = match self.try_lock_parent(old, &locks).await {
            Ok(parent) => parent,
            Err(error) => {
                self.discard(replacement);
                return Err(error);
            }
        };
        let (parent_lock, is_linked) = match parent {
            LockedParent::Busy => {
                self.discard(replacement);
                return Ok(ResizeOutcome::Busy);
            }
            LockedParent::Held { lock, is_linked } => (lock, is_linked),
        };
        if is_linked {
            let held = [parent_lock, locks.take()];
            let resized = self.swap_in(old, &children, &replacement, held).await?;
            return Ok(resized.map_or(ResizeOutcome::Ambiguous, ResizeOutcome::Done));
        }
        self.discard(replacement);
        if let Some(lock) = parent_lock {
            lock.give_up().await?;
        }
        Ok(ResizeOutcome::Ambiguous)
    }

    /// Tries for a while to take the parent's lock while the client holds the node's lock, and reads whether the node
    /// is still linked. [1 RT; 2 if one lock guards both nodes, or without
    /// [`AtomicThenRead`](farwood_fabric::Capability::AtomicThenRead)]
    async fn try_lock_parent(
        self,
        old: &OldNode<'_>,
        locks: &Locks<'_, 'a, F>,
    ) -> Result<LockedParent<'a, F>, IndexError> {
        let held = match locks {
            Locks::Both => {
                return Ok(LockedParent::Held { lock: None, is_linked: self.is_linked(old).await? });
            }
            Locks::Node(held) => held.as_slice(),
        };
        let (guard, words) = (self.guard(old.parent.at, old.number), old.link_words());
        let words = self.fabric().capabilities().atomic_then_read.then_some(words);
        for _ in 0..PARENT_LOCK_TRIES {
            let attempt = self.on(&self.index.nodes).try_acquire_and_read(guard, held, words).await?;
            let (lock, words) = match attempt {
                (TryLock::Taken(lock), words) => (Some(lock), words),
                (TryLock::Mine, _) => (None, None),
                (TryLock::Busy, _) => {
                    self.fabric().sleep(PARENT_LOCK_PAUSE_NS).await;
                    continue;
                }
            };
            let is_linked = match words {
                Some(words) => Ok(old.links(words)),
                None => self.is_linked(old).await,
            };
            return match (is_linked, lock) {
                (Ok(is_linked), lock) => Ok(LockedParent::Held { lock, is_linked }),
                (Err(error), Some(lock)) => {
                    lock.give_up().await?;
                    Err(error)
                }
                (Err(error), None) => Err(error),
            };
        }
        Ok(LockedParent::Busy)
    }

    /// Frees the memory of new objects to which no slot points. The old node stays closed.
    fn discard(self, replacement: Replacement) {
        self.hit(coverage::LEFT_CLOSED);
        self.take_back(replacement);
    }

    /// Whether a node is still linked where the client saw it. [1 RT]
    async fn is_linked(self, old: &OldNode<'_>) -> Result<bool, IndexError> {
        let words = words(self.client, old.link_words().into_iter()).await?;
        Ok(old.links([words[0], words[1], words[2]]))
    }

    /// Steps 3 and 4, under the parent's lock as well, and the release of the locks; yields the change if the slot of
    /// the parent was swapped. [2 RT]
    ///
    /// On another memory node, the lock of the old node may be released before the swap is executed. A client that then
    /// acquires this lock finds the node dead, and needs the parent's lock to replace it. The release of that lock
    /// follows the swap in its chain.
    async fn swap_in(
        self,
        old: &OldNode<'_>,
        children: &[(Step, NodeSlot)],
        replacement: &Replacement,
        [parent, own]: [Option<HeldLock<'a, F>>; 2],
    ) -> Result<Option<Resized<P::Lookup>>, IndexError> {
        let lookup = match self.redirect_children(old, children, replacement).await {
            Ok(lookup) => lookup,
            Err(error) => {
                for held in [parent, own].into_iter().flatten() {
                    // The first error is reported. A lock whose release fails is freed later.
                    let _ = held.give_up().await;
                }
                return Err(error);
            }
        };
        let at = old.parent.at.part(slot_offset(old.number));
        if old.node.header().size().is_typed() {
            let swapped = self.swap_child(at, old.slot, replacement.slot).await;
            let mut released = Ok(());
            for held in [parent, own].into_iter().flatten() {
                released = released.and(held.give_up().await);
            }
            let resized = swapped?.then(|| self.record_replacement(old, replacement, lookup));
            return released.map(|()| resized);
        }
        let (unlock_parent, parent) = parent.map(HeldLock::release).unzip();
        let (unlock_own, own) = own.map(HeldLock::release).unzip();
        let swap =
            cas(at, old.slot.word(), replacement.slot.word()).then_maybe_quiet(unlock_parent.flatten());
        let swapped = match unlock_own.flatten() {
            Some(unlock_own) if old.at.node() != old.parent.at.node() => {
                self.client.post(swap.and(unlock_own)).await.map(|(swapped, _)| swapped)
            }
            unlock_own => self.client.post(swap.then_maybe_quiet(unlock_own)).await,
        };
        let released = [parent, own].into_iter().flatten();
        let swapped = match swapped {
            Ok(swapped) => {
                released.for_each(PendingRelease::complete);
                swapped
            }
            Err(error) => {
                for pending in released {
                    pending.failed().await;
                }
                return Err(error.into());
            }
        };
        Ok((swapped == Swapped::Won).then(|| self.record_replacement(old, replacement, lookup)))
    }

    /// Confirms the new objects of a replacement as linked, updates the cache, and frees the memory of the old node. [0
    /// RT; 1 verb for each, for which the client does not wait]
    fn record_replacement(
        self,
        old: &OldNode<'_>,
        replacement: &Replacement,
        lookup: P::Lookup,
    ) -> Resized<P::Lookup> {
        replacement.confirmations().for_each(|confirm| {
            self.client.post_detached(confirm);
        });
        let OldNode { parent, number, at, node, .. } = old;
        let tree = self.index;
        tree.cache.remove(&CachedNode::copy(*at, node));
        tree.cache.learn(parent, *number, replacement.slot);
        let header = node.header();
        let kind = ObjectKind::Inner.slot_kind(header.size().memory_bytes());
        tree.heap.retire(MemorySlot { at: *at, version: Some(header.generation()), is_zero: false, kind });
        let old = tree.handle_of(*at, node);
        let change = match &replacement.node {
            None => NodeChange::Removed(old),
            Some(new) => {
                let new_at = new.inner_ref().at;
                tree.cache.put(new_at, &new.image());
                NodeChange::Replaced { old, new: tree.handle_of(new_at, &new.image()) }
            }
        };
        self.hit(match &replacement.node {
            None => coverage::NODE_REMOVED,
            Some(new) if new.inner_ref().size < header.size() => coverage::NODE_SHRANK,
            Some(_) => coverage::NODE_GREW,
        });
        let fate = if replacement.leaf.is_some() { Fate::Inserted } else { Fate::Gone };
        Resized { change, lookup, fate }
    }

    /// The prefix of a node. [0 RT if `key` is below it; otherwise as [`sample_key`](Self::sample_key)]
    async fn prefix_of(
        self,
        at: Remote<RawInner>,
        node: &InnerCopy,
        key: &[u8],
    ) -> Result<SampleKey, IndexError> {
        let mut found = if node.covers(key, self.index.number) {
            SampleKey::Key(key.to_vec())
        } else {
            self.sample_key(&CachedNode::copy(at, node)).await?
        };
        if let SampleKey::Key(key) = &mut found {
            key.truncate(node.header().depth());
        }
        Ok(found)
    }

    /// Sets the reverse pointers of the children to the node that will link them, and the header of their old node to
    /// dead. Yields what the system has read about the node. [1 RT for each 64 children; more if another client is
    /// setting one of them]
    async fn redirect_children(
        self,
        old: &OldNode<'_>,
        children: &[(Step, NodeSlot)],
        replacement: &Replacement,
    ) -> Result<P::Lookup, IndexError> {
        let OldNode { at, node, .. } = old;
        let (header, generation) = (node.header(), node.header().generation());
        let parent = old.parent_slot();
        let next = match &replacement.node {
            Some(node) => node.as_linking_node(),
            None => LinkingNode { at: parent.at, generation: parent.header.generation() },
        };
        let (live, dead) = (header.with_state(NodeState::Live), header.with_state(NodeState::Dead));
        let mut swaps = vec![(at.part::<u64>(HEADER), live.word(), dead.word())];
        for (_, slot) in children {
            let partial = if replacement.node.is_some() { slot.partial() } else { parent.partial };
            let (reverse, from, to) = match slot.child() {
                Child::Leaf(leaf) => (
                    leaf.at.part::<u64>(leaf::REVERSE),
                    Reverse::of_leaf(*at, generation),
                    Reverse::of_leaf(next.at, next.generation),
                ),
                Child::Inner(node) => (
                    node.at.part::<u64>(REVERSE),
                    Reverse::of_inner(*at, generation, slot.partial()),
                    Reverse::of_inner(next.at, next.generation, partial),
                ),
                _ => unreachable!("a child is a leaf or a node"),
            };
            swaps.push((reverse, from.word(), to.word()));
        }
        let (prefix, mut lookup) = (self.index.handle_of(*at, node).prefix, None);
        while !swaps.is_empty() {
            let batch = swaps.split_off(swaps.len().saturating_sub(CAS_PER_POST));
            let verbs = each(batch.iter().map(|&(at, from, to)| cas(at, from, to)));
            let swapped = match lookup {
                None => {
                    let (swapped, found) = P::post_before_change(self, prefix, verbs).await?;
                    lookup = Some(found);
                    swapped
                }
                Some(_) => self.client.post(verbs).await?,
            };
            for ((at, _, to), swapped) in batch.into_iter().zip(swapped) {
                if let Swapped::Lost(found) = swapped
                    && found != to
                {
                    swaps.push((at, found, to));
                }
            }
        }
        Ok(lookup.unwrap_or_default())
    }
}
