//! Merges: the entries of a node move to its left neighbour, and the node leaves the tree.
//!
//! The paper only says that a node is marked before its memory is reused. The protocol here: a client merges a node `R`
//! into its left neighbour `L` under the same parent `P` while it holds the locks of all three. It waits for the lock
//! of `P` alone, and acquires the others only if they are free, because any two nodes may share a lock. Then it writes,
//! each after the answer to the WRITE before:
//!
//! ```text
//!            P    L    R        state of the tree if the client crashes after this step
//! 1. P       -R   L -> R        valid: no parent names R, which the sibling pointer of L links, as after a split
//! 2. R       -R   L -> (R)      R is marked as freed, and still has all its entries
//! 3. L       -R   L+R           valid: R is not in the tree
//! ```
//!
//! *Readers* that reach a node marked as freed restart from the root, as after any stale pointer. No parent names such
//! a node. *After step 2 alone* `L` still ends where `R` begins. A client that follows the sibling pointer of such an
//! `L` to such an `R` acquires the lock of `L`, for which it waits while the merging client is alive, and that of `R`,
//! if it is free. If `L` then still links `R`, the client removes the mark ([`undo_merge`](Op::undo_merge)). Both locks
//! are necessary. The lock of `L` is released after the WRITE of step 3 even if the merge was cancelled in the middle
//! of that WRITE, because both verbs go to one memory node; the lock of `R` is released after the WRITE that removes
//! the mark. No other client changes a marked node that is linked, so it has all its entries.
//!
//! A *new* node in a reused slot, to which stale pointers may lead, is marked in the same manner until it is linked
//! ([`split`](super::split)).
//!
//! A client that *links a sibling in its parent* checks, under the parent's lock, that the sibling still exists:
//! another client may have linked and merged it since. A merge needs that lock as well.
//!
//! *The root* is replaced by its only child: it is marked as freed, then the root pointer is swapped. Both happen under
//! the root's lock, and so does every other change of the root pointer; a client that reads a marked root swaps the
//! pointer. No slot holds a root twice, so a CAS that is executed late finds another root and fails.
//!
//! A removal tries a merge if it leaves the leaf at most half full and the number of entries has fallen to a multiple
//! of a tenth of the capacity. The merged leaf is at most nine tenths full. A tree with as many insertions as removals
//! stays two thirds full.

use super::Sherman;
use super::lock_node::{LockedNode, ToLock};
use super::node::{Freed, Node, RawNode};
use super::position::{SearchTarget, Source};
use super::read::{HALF_WRITTEN, NodeCopy};
use crate::coverage;
use crate::error::IndexError;
use crate::lock::{HeldLock, TryLock};
use crate::mutant::Mutant;
use crate::op::Op;
use farwood_fabric::{Fabric, Remote, Swapped, Torn, all, read_bytes, write};
use std::ops::Deref;

/// The unit in which the load of a node is measured here: this fraction of a full node.
const PARTS: usize = 10;
/// Largest load of a node for which a client tries a merge.
const PARTS_UNDERFULL: usize = 5;
/// Largest load of two nodes together that are merged.
const PARTS_MERGED: usize = 9;

/// Two neighbours under one parent.
#[derive(Clone, Copy, Debug)]
struct Pair {
    left: Remote<RawNode>,
    right: Remote<RawNode>,
}

/// The children of a parent: their number, and the address of each.
struct Children<C: Fn(usize) -> Remote<RawNode>> {
    count: usize,
    child: C,
}

/// The outcome of [`Op::undo_merge`] under the locks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Undone {
    /// The mark is removed, or the merge is not interrupted.
    Settled,
    /// Another client holds the node's lock.
    Busy,
}

impl<B: Deref<Target = [u8]>> Node<'_, B> {
    /// The number of entries of a leaf, or of children of an inner node.
    fn load(&self) -> Result<usize, Torn> {
        if self.level() == 0 { self.used() } else { Ok(self.count() + 1) }
    }

    /// The number of entries of a full leaf, or of children of a full inner node.
    fn load_max(&self) -> usize {
        if self.level() == 0 { self.capacity() } else { self.capacity() + 1 }
    }

    /// Whether a client that has just removed an entry from the node should try to merge the node with a neighbour.
    pub(super) fn looks_for_neighbour(&self) -> bool {
        let part = (self.load_max() / PARTS).max(1);
        self.load()
            .is_ok_and(|load| load * PARTS <= self.load_max() * PARTS_UNDERFULL && load.is_multiple_of(part))
    }

    /// The load of the node together with its right sibling `right`, at `at`; `None` where the two cannot be merged.
    fn load_with<R: Deref<Target = [u8]>>(&self, right: &Node<'_, R>, at: Remote<RawNode>) -> Option<usize> {
        let siblings = !self.freed()
            && !right.freed()
            && self.level() == right.level()
            && self.sibling() == Some(at)
            && self.upper() == Some(right.lower());
        let load = self.load().ok()? + right.load().ok()?;
        (siblings && load * PARTS <= self.load_max() * PARTS_MERGED).then_some(load)
    }
}

impl<'a, F: Fabric> Op<'a, F, Sherman> {
    /// Tries to merge the leaf that covers `key`, from which an entry was just removed, with a neighbour, and then
    /// their parents in the same way. A failed merge only costs memory, so errors are ignored. [1 RT to read the
    /// neighbours; to merge, 9 more and 1 to 3 for the unlocks]
    pub(super) async fn try_merge(self, key: &[u8]) {
        let op = self.named("merge");
        let mut level = 0;
        loop {
            match op.merge_at(SearchTarget { level, key }).await {
                Ok(true) => level += 1,
                Ok(false) => return,
                Err(_) => return op.hit(coverage::MERGE_INTERRUPTED),
            }
        }
    }

    /// Merges the node that covers `target`; returns whether its parent should now be merged as well.
    async fn merge_at(self, target: SearchTarget<'_>) -> Result<bool, IndexError> {
        let SearchTarget { level, key } = target;
        let above = SearchTarget { level: level + 1, key };
        let Some(parent) = self.inner_for(above).await? else { return Ok(false) };
        if level == 0 && self.pair_by_cache(key).await?.is_none() {
            return Ok(false);
        }
        let parent = ToLock { at: parent, source: Source::Cache, beside: None };
        let locked = self.lock_covering(parent, above).await?;
        let Some(LockedNode { held, at, node, .. }) = locked else { return Ok(false) };
        let mut locks = vec![held];
        let merged = self.merge_under(&mut locks, at, node, key).await;
        let mut released = Ok(());
        for held in locks {
            released = released.and(held.give_up().await);
        }
        released?;
        let merged = merged?;
        self.share_free_slots().await?;
        Ok(merged)
    }

    /// Returns two neighbours, one of them the leaf that covers `key`, if its cached parent names a pair that can be
    /// merged.
    async fn pair_by_cache(self, key: &[u8]) -> Result<Option<Pair>, IndexError> {
        let Some(parent) = self.parent_for(key).await? else { return Ok(None) };
        let children = Children { count: parent.children(), child: |child| parent.child(child) };
        self.pair(children, parent.child_covering(key)).await
    }

    /// Returns the pair of neighbours with the least load, one of them child `number`, that can be merged according to
    /// unlocked copies. [1 RT]
    async fn pair(
        self,
        children: Children<impl Fn(usize) -> Remote<RawNode>>,
        number: usize,
    ) -> Result<Option<Pair>, IndexError> {
        let Children { count, child } = children;
        let layout = &self.index.layout;
        let near = number.saturating_sub(1)..count.min(number + 2);
        let reads = near.clone().map(|number| read_bytes(child(number), layout.node_bytes));
        let copies = self.client.post(all(reads)).await?;
        let mut before: Option<(Remote<RawNode>, NodeCopy<'_>)> = None;
        let mut best = None;
        for (number, copy) in near.zip(copies) {
            let at = child(number);
            let Some(copy) = copy.check(layout).ok() else { return Ok(None) };
            let node = self.decode(at, copy)?;
            if let Some((left, left_node)) = &before
                && let Some(load) = left_node.load_with(&node, at)
                && best.is_none_or(|(_, least)| load < least)
            {
                best = Some((Pair { left: *left, right: at }, load));
            }
            before = Some((at, node));
        }
        Ok(best.map(|(pair, _)| pair))
    }

    /// Merges two children of the parent at `at`, whose lock is the first of `locks`.
    async fn merge_under(
        self,
        locks: &mut Vec<HeldLock<'a, F>>,
        at: Remote<RawNode>,
        mut parent: NodeCopy<'_>,
        key: &[u8],
    ) -> Result<bool, IndexError> {
        let children = Children { count: parent.count() + 1, child: |child| parent.child(child) };
        let Some(pair) = self.pair(children, parent.child_covering(key)).await? else { return Ok(false) };
        for child in [pair.left, pair.right] {
            match self.on(&self.index.locks).try_acquire(child, locks).await? {
                TryLock::Taken(held) => locks.push(held),
                TryLock::Mine => {}
                TryLock::Busy => {
                    self.hit(coverage::MERGE_BUSY);
                    return Ok(false);
                }
            }
        }
        let (mut left, mut right) = self.read_both(pair.left, pair.right).await?;
        if left.level() + 1 != parent.level() || left.load_with(&right, pair.right).is_none() {
            self.hit(coverage::MERGE_LATE);
            return Ok(false);
        }
        let Some(child) = (1..=parent.count()).find(|&child| parent.child(child) == pair.right) else {
            unreachable!("the pair are children of this copy of the parent");
        };
        self.hit(coverage::MERGE_BEGUN);
        parent.remove_child(child);
        self.rewrite(at, &mut parent).await?;
        self.cache_written(at, &parent);
        if self.index.layout.mutant != Some(Mutant::MergeUnmarked) {
            right.set_freed(Freed::Yes);
        }
        self.rewrite(pair.right, &mut right).await?;
        self.absorb(pair.left, &mut left, &right)?;
        self.rewrite(pair.left, &mut left).await?;
        self.finish_merge(pair, &left, &right);
        if parent.count() > 0 {
            return Ok(parent.looks_for_neighbour());
        }
        Ok(!self.shrink(at, &mut parent).await?)
    }

    /// Moves all entries of the right sibling `right` to the copy of the node at `at`.
    fn absorb(
        self,
        at: Remote<RawNode>,
        left: &mut NodeCopy<'_>,
        right: &NodeCopy<'_>,
    ) -> Result<(), IndexError> {
        if left.level() > 0 {
            left.absorb_inner(right);
            return Ok(());
        }
        left.absorb_leaf(right).map_err(|Torn| self.damaged(at, HALF_WRITTEN.to_owned()))
    }

    /// Writes a whole node, whose lock is held. [1 RT]
    async fn rewrite(self, at: Remote<RawNode>, node: &mut NodeCopy<'_>) -> Result<(), IndexError> {
        node.seal();
        Ok(self.client.post(write(at, node.bytes())).await?)
    }

    /// Frees the right node of the pair, which is no longer in the tree, and updates the cache.
    fn finish_merge(self, pair: Pair, left: &NodeCopy<'_>, right: &NodeCopy<'_>) {
        let tree = self.index;
        self.hit(if left.level() == 0 { coverage::MERGED } else { coverage::MERGED_INNER });
        if left.level() == 1 {
            let stale = tree.cached_parent(right.lower()).filter(|cached| cached.at == pair.right);
            if let Some(stale) = stale {
                self.remove_cached(&stale);
            }
        }
        if left.level() > 0 {
            self.cache_written(pair.left, left);
        }
        tree.allocator.take_back(tree.freed_slot(pair.right, right.version()));
    }

    /// Removes the node at `at`, which has one child left and whose lock is held, if it is the root; returns whether
    /// it was. [1 RT; 3 if it is the root]
    async fn shrink(self, at: Remote<RawNode>, root: &mut NodeCopy<'_>) -> Result<bool, IndexError> {
        if root.upper().is_some() || self.root_word().await? != at {
            return Ok(false);
        }
        self.hit(coverage::ROOT_SHRINKS);
        root.set_freed(Freed::Yes);
        self.rewrite(at, root).await?;
        self.swap_root(at, root).await?;
        self.hit(coverage::ROOT_SHRUNK);
        Ok(true)
    }

    /// Swaps the root pointer from a root that is marked as freed, and whose lock is held, to its only child. [1 RT]
    async fn swap_root(self, at: Remote<RawNode>, root: &NodeCopy<'_>) -> Result<(), IndexError> {
        let tree = self.index;
        tree.top.store(None);
        if self.client.post(tree.swap_root(at, root.child(0))?).await? == Swapped::Won {
            tree.allocator.take_back(tree.freed_slot(at, root.version()));
        }
        Ok(())
    }

    /// Completes the removal of the root at `at`, which was read with the mark of a freed node. [3 RT, 1 more if the
    /// client that marked it has crashed]
    pub(super) async fn replace_freed_root(self, at: Remote<RawNode>) -> Result<(), IndexError> {
        let held = self.on(&self.index.locks).acquire(at).await?;
        let replaced = self.replace_locked_root(at).await;
        held.give_up().await?;
        replaced
    }

    async fn replace_locked_root(self, at: Remote<RawNode>) -> Result<(), IndexError> {
        if self.root_word().await? != at {
            return Ok(());
        }
        // The node is the root, and remains the root while its lock is held.
        let root = self.read_locked(at).await?;
        if root.freed() && root.level() > 0 {
            self.hit(coverage::ROOT_SWAPPED_LATE);
            self.swap_root(at, &root).await?;
        }
        Ok(())
    }

    /// Removes the mark from the node at `right`, which the node at `left` links, unless a live client is about to
    /// remove it or to complete the merge. If another client holds the lock of `right`, this client only waits for the
    /// lock, and the next client that reaches the node removes the mark. [5 RT; 1 more to remove it] A client that may
    /// only read leaves the mark to the others, and tries again. [0 RT]
    pub(super) async fn undo_merge(
        self,
        left: Remote<RawNode>,
        right: Remote<RawNode>,
    ) -> Result<(), IndexError> {
        if !self.client.may_write() {
            return Ok(());
        }
        let op = self.named("merge");
        let node_locks = op.on(&op.index.locks);
        let mut locks = vec![node_locks.acquire(left).await?];
        let undone = op.undo_merge_under(&mut locks, left, right).await;
        let mut released = Ok(());
        for held in locks.into_iter().rev() {
            released = released.and(held.give_up().await);
        }
        released?;
        if undone? == Undone::Busy {
            // The holder of the lock may have crashed, and no other client waits for the lock of a marked node.
            node_locks.acquire(right).await?.give_up().await?;
        }
        Ok(())
    }

    async fn undo_merge_under(
        self,
        locks: &mut Vec<HeldLock<'a, F>>,
        left: Remote<RawNode>,
        at: Remote<RawNode>,
    ) -> Result<Undone, IndexError> {
        match self.on(&self.index.locks).try_acquire(at, locks).await? {
            TryLock::Taken(held) => locks.push(held),
            TryLock::Mine => {}
            TryLock::Busy => return Ok(Undone::Busy),
        }
        // A linked node stays in its slot while the lock of its left neighbour is held.
        let (left, mut right) = self.read_both(left, at).await?;
        let half_merged = right.freed()
            && !left.freed()
            && left.level() == right.level()
            && left.sibling() == Some(at)
            && left.upper() == Some(right.lower());
        if half_merged {
            self.hit(coverage::MERGE_UNDONE);
            right.set_freed(Freed::No);
            self.rewrite(at, &mut right).await?;
        }
        Ok(Undone::Settled)
    }
}
