//! Merges: what a node has left goes to its left neighbour, and the node is taken out of the tree.
//!
//! The paper only says that a node is marked before its memory is used again. This is how it is done here. A node `R`
//! and its left neighbour `L` under the same parent `P` are merged by a client that has the locks of all three: it
//! waits for the lock of `P` alone, and takes the others only if they are free, for any two nodes may share a lock.
//! Then it writes, each after the answer to the one before:
//!
//! ```text
//!            P    L    R        what the tree is if the client dies behind this
//! 1. P       -R   L -> R        valid: no parent names R, which is found through L, as after a split
//! 2. R       -R   L -> (R)      R is marked as freed, and still has all it had
//! 3. L       -R   L+R           valid: R is out of the tree
//! ```
//!
//! *Readers* that come to a node marked as freed start over from the root, as they do with any stale pointer; no
//! parent names such a node. *After step 2 alone* `L` still ends where `R` begins. Whoever comes from such an `L` to
//! such an `R` takes the lock of `L`, for which it waits while the merging client lives, and that of `R`, if it is
//! free; if `L` then still leads to `R`, it takes the mark away again ([`revive`](Sherman::revive)). Both locks are
//! needed: that of `L` comes free behind the WRITE of step 3 even where the merge was dropped in the middle of it, for
//! they go to one memory node; that of `R` comes free behind the WRITE that takes the mark away. Nobody else changes a
//! marked node that is linked, so it has all it had.
//!
//! A *new* node in a used room, to which old pointers may lead, is marked in the same way until it is linked
//! ([`split`](super::split)).
//!
//! *Who enters a split-off node in its parent* looks, under the parent's lock, whether that node is still there: it
//! may have been entered by another and merged meanwhile. A merge needs that lock, too.
//!
//! *The root* gives way to its only child: it is marked as freed, then the root pointer swings. Both are done under
//! the root's lock, and so is every other change of the root pointer; who finds a marked root swings the pointer. No
//! room is a root's twice, so a CAS that lands late finds another root.
//!
//! A merge is tried when a removal leaves a leaf at most half full, at every tenth of its entries: it then has at most
//! nine tenths in one leaf. A tree with as many insertions as removals settles at two thirds full.

use super::Sherman;
use super::change::Locked;
use super::descend::{Copy, HALF_WRITTEN, Source, damaged};
use super::node::{Freed, Node, RawNode};
use crate::error::IndexError;
use crate::lock::{Attempt, Held};
use crate::marks;
use crate::op::Op;
use crate::sabotage::Sabotage;
use farwood_fabric::{Client, Fabric, Remote, Swapped, Torn, all, cas, read_bytes, write};
use std::ops::Deref;

/// The parts of a full node in which its entries are counted here.
const PARTS: usize = 10;
/// Parts in use, at most, of a node that looks for a neighbour to merge with.
const PARTS_UNDERFULL: usize = 5;
/// Parts in use, at most, of two nodes together that are merged.
const PARTS_MERGED: usize = 9;

/// Two neighbours under one parent.
#[derive(Clone, Copy, Debug)]
struct Pair {
    left: Remote<RawNode>,
    right: Remote<RawNode>,
}

impl<B: Deref<Target = [u8]>> Node<'_, B> {
    /// How much of the node is in use: entries, or children.
    fn load(&self) -> Result<usize, Torn> {
        if self.level() == 0 { self.used() } else { Ok(self.count() + 1) }
    }

    /// How much may be in use.
    fn load_max(&self) -> usize {
        if self.level() == 0 { self.capacity() } else { self.capacity() + 1 }
    }

    /// Whether the node, which has just lost something, should look for a neighbour to merge with.
    pub(super) fn looks_for_neighbour(&self) -> bool {
        let part = (self.load_max() / PARTS).max(1);
        self.load()
            .is_ok_and(|load| load * PARTS <= self.load_max() * PARTS_UNDERFULL && load.is_multiple_of(part))
    }

    /// What the node and its right sibling `right`, at `at`, would have together; `None` where they cannot be merged.
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

impl Sherman {
    /// Merges the leaf that covers `key`, and has just lost an entry, with a neighbour, and so on upwards, where there
    /// is reason to. Only room is at stake: what fails is left as it is.
    /// [1 RT to look at the neighbours; to merge, 9 more and 1 to 3 for the unlocks]
    pub(super) async fn relieve<F: Fabric>(&self, client: &Client<F>, key: &[u8]) {
        let mut level = 0;
        loop {
            match self.merge_at(client, key, level).await {
                Ok(true) => level += 1,
                Ok(false) => return,
                Err(_) => return client.fabric().mark(marks::MERGE_CUT),
            }
        }
    }

    /// Merges the node of `level` that covers `key`; yields whether its parent should now be merged as well.
    async fn merge_at<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        level: u8,
    ) -> Result<bool, IndexError> {
        let Some(parent) = self.parent_at(client, key, level + 1).await? else { return Ok(false) };
        if level == 0 && self.pair_by_cache(client, key).await?.is_none() {
            return Ok(false);
        }
        let way = (parent, Source::Cache);
        let locked = self.lock_covering(client, way, (level + 1, key), None, "merge").await?;
        let Some(Locked { held, at, node, .. }) = locked else { return Ok(false) };
        let mut locks = vec![held];
        let merged = self.merge_under(client, &mut locks, (at, node), key).await;
        let mut freed = Ok(());
        for held in locks {
            freed = freed.and(held.give_up().await);
        }
        freed?;
        let merged = merged?;
        self.share_rooms(client).await?;
        Ok(merged)
    }

    /// The neighbours of the leaf that covers `key`, if its cached parent knows of some that can be merged.
    async fn pair_by_cache<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
    ) -> Result<Option<Pair>, IndexError> {
        let Some(parent) = self.parent_for(client, key).await? else { return Ok(None) };
        self.pair(client, parent.children(), parent.child_covering(key), |child| parent.child(child)).await
    }

    /// The best pair of neighbours, one of them child `at` of `children`, that can be merged as far as unlocked copies
    /// tell. [1 RT]
    async fn pair<F: Fabric>(
        &self,
        client: &Client<F>,
        children: usize,
        at: usize,
        child: impl Fn(usize) -> Remote<RawNode>,
    ) -> Result<Option<Pair>, IndexError> {
        let near = at.saturating_sub(1)..children.min(at + 2);
        let reads = near.clone().map(|number| read_bytes(child(number), self.layout.node_bytes));
        let copies = client.post(all(reads)).await?;
        let mut before: Option<(Remote<RawNode>, Copy<'_>)> = None;
        let mut best = None;
        for (number, copy) in near.zip(copies) {
            let at = child(number);
            let Some(copy) = copy.check(&self.layout).ok() else { return Ok(None) };
            let node = self.decode(at, copy, "merge")?;
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
    async fn merge_under<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        locks: &mut Vec<Held<'a, F>>,
        (at, mut parent): (Remote<RawNode>, Copy<'_>),
        key: &[u8],
    ) -> Result<bool, IndexError> {
        let covering = parent.child_covering(key);
        let pair = self.pair(client, parent.count() + 1, covering, |child| parent.child(child)).await?;
        let Some(pair) = pair else { return Ok(false) };
        for child in [pair.left, pair.right] {
            match Op::new(&self.locks, client, "merge").try_acquire(child, locks).await? {
                Attempt::Taken(held) => locks.push(held),
                Attempt::Mine => {}
                Attempt::Busy => {
                    client.fabric().mark(marks::MERGE_BUSY);
                    return Ok(false);
                }
            }
        }
        let (mut left, mut right) = self.read_both(client, pair.left, pair.right, "merge").await?;
        if left.level() + 1 != parent.level() || left.load_with(&right, pair.right).is_none() {
            client.fabric().mark(marks::MERGE_LATE);
            return Ok(false);
        }
        let Some(child) = (1..=parent.count()).find(|&child| parent.child(child) == pair.right) else {
            unreachable!("the pair are children of this copy of the parent");
        };
        client.fabric().mark(marks::MERGE_BEGUN);
        parent.remove_child(child);
        self.rewrite(client, at, &mut parent).await?;
        self.remember(at, &parent);
        if self.layout.sabotage != Some(Sabotage::MergeUnmarked) {
            right.set_freed(Freed::Yes);
        }
        self.rewrite(client, pair.right, &mut right).await?;
        absorb(pair.left, &mut left, &right)?;
        self.rewrite(client, pair.left, &mut left).await?;
        self.merged(client, pair, &left, &right);
        if parent.count() > 0 {
            return Ok(parent.looks_for_neighbour());
        }
        Ok(!self.shrink(client, at, &mut parent).await?)
    }

    /// Writes a node whole, whose lock is held. [1 RT]
    async fn rewrite<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
        node: &mut Copy<'_>,
    ) -> Result<(), IndexError> {
        node.seal();
        Ok(client.post(write(at, node.bytes())).await?)
    }

    /// The right node of the pair is out of the tree.
    fn merged<F: Fabric>(&self, client: &Client<F>, pair: Pair, left: &Copy<'_>, right: &Copy<'_>) {
        client.fabric().mark(if left.level() == 0 { marks::MERGED } else { marks::MERGED_INNER });
        if left.level() == 1 {
            let stale = self.cached_parent(right.lower()).filter(|cached| cached.at == pair.right);
            if let Some(stale) = stale {
                self.cache.remove(&stale);
            }
        }
        if left.level() > 0 {
            self.remember(pair.left, left);
        }
        self.allocator.take_back(self.emptied(pair.right, right.version()));
    }

    /// Takes out the node at `at`, which has one child left and whose lock is held, if it is the root; yields whether
    /// it was. [1 RT; 3 if it is the root]
    async fn shrink<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
        root: &mut Copy<'_>,
    ) -> Result<bool, IndexError> {
        if root.upper().is_some() || self.root_word(client).await? != at {
            return Ok(false);
        }
        client.fabric().mark(marks::ROOT_SHRINKS);
        root.set_freed(Freed::Yes);
        self.rewrite(client, at, root).await?;
        self.swing(client, at, root).await?;
        client.fabric().mark(marks::ROOT_SHRUNK);
        Ok(true)
    }

    /// Swings the root pointer from a root that is marked as freed, and whose lock is held, to its only child. [1 RT]
    async fn swing<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
        root: &Copy<'_>,
    ) -> Result<(), IndexError> {
        self.top.store(None);
        if client.post(cas(self.entry.root(), at.word(), root.child(0).word())).await? == Swapped::Won {
            self.allocator.take_back(self.emptied(at, root.version()));
        }
        Ok(())
    }

    /// Ends the shrinking of a tree whose root, at `at`, was found to be marked as freed. [3 RT, 1 more if its client
    /// has died]
    pub(super) async fn replace_root<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
    ) -> Result<(), IndexError> {
        let held = self.locks.acquire(client, at, "descend").await?;
        let replaced = self.replace_locked_root(client, at).await;
        held.give_up().await?;
        replaced
    }

    async fn replace_locked_root<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<RawNode>,
    ) -> Result<(), IndexError> {
        if self.root_word(client).await? != at {
            return Ok(());
        }
        // It is the root, and stays it as long as its lock is held.
        let root = self.read_locked(client, at, "descend").await?;
        if root.freed() && root.level() > 0 {
            client.fabric().mark(marks::ROOT_SWUNG);
            self.swing(client, at, &root).await?;
        }
        Ok(())
    }

    /// Takes the mark away from the node at `right`, should nobody be about to do so, or to merge it: the node at
    /// `left` leads to it. Where its lock is taken, this waits for it, and leaves the rest to the next who comes. [5
    /// RT; 1 more to take it away]
    pub(super) async fn revive<F: Fabric>(
        &self,
        client: &Client<F>,
        left: Remote<RawNode>,
        right: Remote<RawNode>,
    ) -> Result<(), IndexError> {
        let mut locks = vec![self.locks.acquire(client, left, "merge").await?];
        let revived = self.revive_under(client, &mut locks, left, right).await;
        let mut freed = Ok(());
        for held in locks.into_iter().rev() {
            freed = freed.and(held.give_up().await);
        }
        freed?;
        if revived? == Revived::Busy {
            // Its holder may be dead, and nobody else waits for the lock of a marked node.
            self.locks.acquire(client, right, "merge").await?.give_up().await?;
        }
        Ok(())
    }

    async fn revive_under<'a, F: Fabric>(
        &'a self,
        client: &'a Client<F>,
        locks: &mut Vec<Held<'a, F>>,
        left: Remote<RawNode>,
        at: Remote<RawNode>,
    ) -> Result<Revived, IndexError> {
        match Op::new(&self.locks, client, "merge").try_acquire(at, locks).await? {
            Attempt::Taken(held) => locks.push(held),
            Attempt::Mine => {}
            Attempt::Busy => return Ok(Revived::Busy),
        }
        // A node that is linked stays where it is as long as its left neighbour's lock is held.
        let (left, mut right) = self.read_both(client, left, at, "merge").await?;
        let half_merged = right.freed()
            && !left.freed()
            && left.level() == right.level()
            && left.sibling() == Some(at)
            && left.upper() == Some(right.lower());
        if half_merged {
            client.fabric().mark(marks::MERGE_REVIVED);
            right.set_freed(Freed::No);
            self.rewrite(client, at, &mut right).await?;
        }
        Ok(Revived::Settled)
    }
}

/// What came of an attempt to take a merge back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Revived {
    /// The mark is gone, or was not to be taken away.
    Settled,
    /// The node's lock is taken.
    Busy,
}

/// Lets the node at `at` take over all that its right sibling has.
fn absorb(at: Remote<RawNode>, left: &mut Copy<'_>, right: &Copy<'_>) -> Result<(), IndexError> {
    if left.level() > 0 {
        left.absorb_inner(right);
        return Ok(());
    }
    left.absorb_leaf(right).map_err(|Torn| damaged("merge", at, HALF_WRITTEN.to_owned()))
}
