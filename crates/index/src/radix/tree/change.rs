//! Changes of one key: put, insert, update, remove.

use super::condition::Condition;
use super::copy::{InnerCopy, LeafCopy};
use super::find::{LeafAt, LeafVerdict, Location, SlotAt, SlotTarget, partial_at};
use super::new_node::LinkingNode;
use super::options::{Inserts, LeafLock, Updates};
use super::traversal::Traversal;
use super::{Change, Policy, RadixTree};
use crate::error::IndexError;
use crate::lock::{HeldLock, WriteBackLock};
use crate::memory::overflow::Link;
use crate::mutant::Mutant;
use crate::op::Op;
use crate::outcome::{InsertOutcome, RemoveOutcome};
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::coverage;
use crate::radix::inner::{SlotSearch, slot_offset};
use crate::radix::key::check_key;
use crate::radix::leaf::{LeafEntry, LeafRef, LeafState, LeafValue, WRITE_BACK};
use crate::radix::slot::{Child, NodeSlot};
use farwood_fabric::{Chain as _, Client, Fabric, Remote, Swapped, cas, write};
use std::sync::Arc;

/// Version and overflow value of a leaf that is being unlinked.
pub(super) struct UnlinkedLeaf {
    pub(super) version: u32,
    pub(super) link: Option<Link>,
}

/// Result of marking a leaf as removed.
enum Marked {
    Done(UnlinkedLeaf),
    /// The leaf is not the leaf of the key.
    Refused(LeafVerdict),
    /// The value does not meet the condition.
    Kept,
}

/// Result of the removal of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    Removed,
    Absent,
    /// The value does not meet the condition.
    Kept,
}

impl<P: Policy> RadixTree<P> {
    /// Stores `value` under `key` if the key is absent.
    /// [1 RT for a key that is present; otherwise as the system's `put`]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] if the key is too long; [`IndexError::TooLong`] if the value is;
    /// [`IndexError::LockHeld`]; the fabric's errors.
    pub async fn insert<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        value: &[u8],
    ) -> Result<InsertOutcome, IndexError> {
        let existed = Op::new(self, client, "insert").change(key, Change::Insert(value)).await?;
        Ok(if existed { InsertOutcome::Exists } else { InsertOutcome::Inserted })
    }

    /// Removes `key`.
    /// [4 RT with a warm cache; 6 in Sphinx, which reads an entry of its table and a node first; more if its node
    /// shrinks]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`] if the key is too long; [`IndexError::LockHeld`]; the fabric's errors.
    pub async fn remove<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
    ) -> Result<RemoveOutcome, IndexError> {
        let existed = Op::new(self, client, "remove").change(key, Change::Remove).await?;
        Ok(if existed { RemoveOutcome::Removed } else { RemoveOutcome::Absent })
    }
}

impl<'a, F: Fabric, P: Policy> Op<'a, F, RadixTree<P>> {
    /// Performs a change; yields whether the key was present before.
    /// [as [`apply`](Self::apply); 1 RT more for an overflow value, 1 to replace one of several parts]
    pub(crate) async fn change(self, key: &[u8], change: Change<'_>) -> Result<bool, IndexError> {
        check_key(key)?;
        let Some(value) = change.value() else {
            return self.apply(change, LeafEntry { key, value: LeafValue::Inline(&[]) }).await;
        };
        let new = self.new_value(key, value).await?;
        let changed = self.apply(change, new.entry(key)).await;
        self.linked(new, changed, |&existed| match change {
            Change::Insert(_) => !existed,
            Change::Update(_) => existed,
            Change::Put(_) | Change::Remove => true,
        })
    }

    /// Performs a change that stores `entry`; yields whether the key was present before.
    async fn apply(self, change: Change<'_>, entry: LeafEntry<'_>) -> Result<bool, IndexError> {
        let mut traversal = Traversal::new(&self.index.scratch, self.name, entry.key);
        loop {
            let location = self.locate(&mut traversal).await?;
            let done = match (location.leaf(), change) {
                (None, Change::Put(_) | Change::Insert(_)) => {
                    self.add(&location, entry, &mut traversal).await?
                }
                (None, Change::Update(_) | Change::Remove) => {
                    self.is_absent(&location, &mut traversal).await?.then_some(false)
                }
                (Some(leaf), Change::Remove) => {
                    let removal = self.remove_leaf(&location, leaf, Condition::Any, &mut traversal).await?;
                    removal.map(|removal| removal == Removal::Removed)
                }
                (Some(leaf), Change::Insert(_)) => {
                    self.insert_at_leaf(&location, leaf, entry, &mut traversal).await?
                }
                (Some(leaf), Change::Put(_) | Change::Update(_)) => {
                    self.change_leaf(&location, leaf, change, entry, &mut traversal).await?
                }
            };
            if let Some(existed) = done {
                return Ok(existed);
            }
        }
    }

    /// Adds an entry at a location without a leaf. `None`: the caller tries again.
    pub(super) async fn add(
        self,
        location: &Location,
        entry: LeafEntry<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Option<bool>, IndexError> {
        let done = match location.target {
            SlotTarget::Open(at) => self.insert_leaf(location, at, entry, traversal).await?,
            SlotTarget::Outgrown => {
                Box::pin(self.outgrow(location, traversal)).await?;
                false
            }
            SlotTarget::Full { .. } => self.grow(location, entry, traversal).await?,
            SlotTarget::OtherPrefix { at, ref child, .. } => {
                self.split_prefix(location, at, child, entry, traversal).await?
            }
            SlotTarget::Leaf(_) => unreachable!("the location has no leaf"),
        };
        Ok(done.then_some(false))
    }

    /// Puts a new leaf into a slot without a child (SMART, "normal insert"). `false`: the slot has changed, or the copy
    /// of the node was out of date. [1 RT; 2 if the leaf is on another memory node; 1 more if the node grows in place;
    /// 2 more if inserts lock the node]
    async fn insert_leaf(
        self,
        location: &Location,
        at: SlotAt,
        entry: LeafEntry<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        if location.node.is_outdated() && !traversal.is_fresh(&location.node) {
            self.read_again(&location.node, traversal).await?;
            return Ok(false);
        }
        if self.index.options.inserts == Inserts::LockFree {
            return self.insert_leaf_by_cas(location, at, entry, traversal).await;
        }
        let Some((held, _)) = self.lock_slot(location, at.number, traversal).await? else { return Ok(false) };
        let inserted = self.insert_leaf_by_cas(location, at, entry, traversal).await;
        held.give_up().await?;
        inserted
    }

    /// As [`insert_leaf`](Self::insert_leaf), without a lock. If the slot has changed, the same leaf is put into
    /// another slot of the node, which is read again for that. [1 RT; 2 if the leaf is on another memory node; 2 for
    /// each slot that has changed; 1 more if the node grows in place]
    async fn insert_leaf_by_cas(
        self,
        location: &Location,
        mut at: SlotAt,
        entry: LeafEntry<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        let (mut node, client) = (Arc::clone(&location.node), self.client);
        let node_at = node.at;
        let leaf = self.new_leaf(LinkingNode::from(&*node), node_at.node(), entry).await?;
        let new = leaf.slot(partial_at(entry.key, node.header.depth()));
        let swap = |at: SlotAt| cas(node_at.part(slot_offset(at.number)), at.slot.word(), new.word());
        let mut swapped = if leaf.node() == node_at.node() {
            client.post(leaf.write().then_yield(swap(at))).await?
        } else {
            client.post(leaf.write()).await?;
            client.post(swap(at)).await?
        };
        // The word that a failed CAS found proves nothing: a slot with a child does not identify its node, so the word
        // may belong to another node in the same memory, which is not linked yet or never will be.
        while swapped != Swapped::Won {
            self.hit(coverage::SLOT_LOST);
            // A lost slot is rare, and the future is large.
            match Box::pin(self.next_open_slot(location, (&node, at.number), entry.key, traversal)).await {
                Ok(Some((again, next))) => (node, at) = (again, next),
                none_or_error => {
                    self.index.free_new_leaf(leaf);
                    return none_or_error.map(|_| false);
                }
            }
            swapped = client.post(swap(at)).await?;
        }
        if let Some(confirm) = leaf.confirm() {
            client.post_detached(confirm);
        }
        self.index.cache.learn(&node, at.number, new);
        if node.is_last_in_place(at.number) {
            self.grow_in_place(location, &node, entry.key).await?;
        }
        Ok(true)
    }

    /// Reads a node again after slot `lost` was lost; yields the node and the slot into which a leaf of `key` can be
    /// put instead, if the node is still the same. [1 RT; 2 more if a client has filled the last slot of the node's
    /// type and has not changed the type]
    async fn next_open_slot(
        self,
        location: &Location,
        (node, lost): (&Arc<CachedNode>, usize),
        key: &[u8],
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Option<(Arc<CachedNode>, SlotAt)>, IndexError> {
        traversal.retry(self.client).await?;
        let mut size = node.header.size();
        if node.is_last_in_place(lost) {
            size = size.next_or_same();
        }
        loop {
            self.read_again_as(node, size, traversal).await?;
            self.index.cache.mark_lost(node);
            let fresh = traversal.node_read(node.at).filter(|fresh| fresh.header.is_of_node(node.header));
            let Some(fresh) = fresh.cloned() else { return Ok(None) };
            let next = match fresh.find(key) {
                SlotSearch::Slot(number, slot) | SlotSearch::Free(number, slot) => SlotAt { number, slot },
                SlotSearch::Full => return Ok(None),
                SlotSearch::Outgrown => {
                    self.complete_growth(location, &fresh, key).await?;
                    size = fresh.header.size().next_or_same();
                    traversal.retry(self.client).await?;
                    continue;
                }
            };
            return Ok(next.slot.is_open().then_some((fresh, next)));
        }
    }

    /// Inserts the key at a location that has a leaf of this key or of another.
    async fn insert_at_leaf(
        self,
        location: &Location,
        at: LeafAt,
        entry: LeafEntry<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Option<bool>, IndexError> {
        let leaf = self.read_leaf(at.leaf).await?;
        match self.judge(&leaf, location, traversal) {
            LeafVerdict::Match => Ok(Some(true)),
            LeafVerdict::Absent => {
                Ok(self.split_leaf(location, at, entry, traversal).await?.then_some(false))
            }
            LeafVerdict::Ambiguous => {
                self.resolve(&location.node, at.number, traversal).await?;
                Ok(None)
            }
        }
    }

    /// Puts or updates the key at a location that has a leaf of this key or of another. [2 RT in place; more if the
    /// value moves to another leaf, because the leaf is too short, or because the value is longer than a WRITE that
    /// survives a crash of its writer]
    async fn change_leaf(
        self,
        location: &Location,
        at: LeafAt,
        change: Change<'_>,
        entry: LeafEntry<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Option<bool>, IndexError> {
        if self.index.options.swaps_leaves() {
            return self.change_by_swap(location, at, change, entry, traversal).await;
        }
        let (held, mut leaf) = self.lock_leaf(at.leaf, entry.key).await?;
        let verdict = self.judge(&leaf, location, traversal);
        let in_place = self.is_written_in_place(&leaf, &entry.value);
        if verdict == LeafVerdict::Match && in_place {
            self.write_in_place(held, at.leaf, &mut leaf, &entry.value).await?;
            return Ok(Some(true));
        }
        held.give_up().await?;
        match verdict {
            LeafVerdict::Match => {
                let moved = self.move_leaf(location, at, entry, Condition::Any, traversal).await?;
                Ok(moved.then_some(true))
            }
            LeafVerdict::Absent if matches!(change, Change::Update(_)) => Ok(Some(false)),
            LeafVerdict::Absent => {
                Ok(self.split_leaf(location, at, entry, traversal).await?.then_some(false))
            }
            LeafVerdict::Ambiguous => {
                self.resolve(&location.node, at.number, traversal).await?;
                Ok(None)
            }
        }
    }

    /// Whether a value is written to the leaf of its key. If a crash could interrupt that WRITE, the value is written
    /// to another leaf, which is then linked.
    pub(super) fn is_written_in_place(self, leaf: &LeafCopy, value: &LeafValue<'_>) -> bool {
        let bytes_max = self.fabric().capabilities().write_survives_writer_bytes_max;
        let survives = leaf.survives_writer(bytes_max);
        self.index.options.updates == Updates::InPlace && leaf.fits(value) && survives
    }

    /// Writes a value to the leaf of its key, releases the lock of the leaf, and frees the overflow value that the leaf
    /// linked. [as [`write_leaf`](Self::write_leaf); 1 RT more to free an overflow value of several parts]
    pub(super) async fn write_in_place(
        self,
        held: HeldLock<'_, F>,
        at: LeafRef,
        leaf: &mut LeafCopy,
        value: &LeafValue<'_>,
    ) -> Result<(), IndexError> {
        let replaced = leaf.link();
        leaf.set_value(value);
        self.write_leaf(held, at, leaf).await?;
        self.free_overflow(replaced).await;
        Ok(())
    }

    /// Writes a leaf back, and releases its lock. If the lock is handed over, its next holder receives the leaf. [1 RT;
    /// 2 if the lock is released separately]
    pub(super) async fn write_leaf(
        self,
        held: HeldLock<'_, F>,
        LeafRef { at, .. }: LeafRef,
        leaf: &LeafCopy,
    ) -> Result<(), IndexError> {
        let (client, to): (_, Remote<[u8]>) = (self.client, at.part(WRITE_BACK));
        if self.index.mutant == Some(Mutant::UnlockFirst) {
            held.give_up().await?;
            return Ok(client.post(write(to, leaf.without_lock())).await?);
        }
        if matches!(self.index.options.leaf_lock, LeafLock::Apart | LeafLock::Table) {
            let written = client.post(write(to, leaf.without_lock())).await;
            let carried = written.is_ok().then_some((at.word(), leaf.bytes()));
            held.give_up_with(carried).await?;
            return Ok(written?);
        }
        let (written, local) = if client.fabric().capabilities().write_upward {
            let (lock, local) = held.release_within();
            let bytes = match lock {
                WriteBackLock::Freed => leaf.with_lock(),
                WriteBackLock::Kept => leaf.without_lock(),
            };
            (client.post(write(to, bytes)).await, local)
        } else {
            let (unlock, local) = held.release();
            (client.post(write(to, leaf.without_lock()).then_maybe_quiet(unlock)).await, local)
        };
        match written {
            Ok(()) => local.complete_with(Some((at.word(), leaf.bytes()))),
            Err(_) => local.failed().await,
        }
        Ok(written?)
    }

    /// Removes the key at a location that has a leaf of this key or of another, if its value meets `condition`: marks
    /// the leaf under both locks, then empties the slot. [4 RT]
    pub(super) async fn remove_leaf(
        self,
        location: &Location,
        LeafAt { number, leaf }: LeafAt,
        condition: Condition<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Option<Removal>, IndexError> {
        if self.index.options.swaps_leaves() {
            return self.remove_by_swap(location, LeafAt { number, leaf }, condition, traversal).await;
        }
        let Some((held, copy)) = self.lock_slot(location, number, traversal).await? else { return Ok(None) };
        let marked = match self.mark_removed(location, leaf, condition, traversal).await {
            Ok(Marked::Done(marked)) => marked,
            Ok(Marked::Kept) => {
                held.give_up().await?;
                return Ok(Some(Removal::Kept));
            }
            Ok(Marked::Refused(verdict)) => {
                held.give_up().await?;
                if verdict == LeafVerdict::Absent {
                    return Ok(Some(Removal::Absent));
                }
                self.resolve(&location.node, number, traversal).await?;
                return Ok(None);
            }
            Err(error) => {
                held.give_up().await?;
                return Err(error);
            }
        };
        let (node, slot) = (&location.node, copy.slot(number));
        let vacant = NodeSlot::vacant(slot.partial(), node.header.generation());
        let empty = cas(node.at.part(slot_offset(number)), slot.word(), vacant.word());
        let (unlock, local) = held.release();
        match self.client.post(empty.then_maybe_quiet(unlock)).await {
            Ok(swapped) => {
                local.complete();
                if swapped == Swapped::Won {
                    self.index.free_leaf(leaf, marked.version);
                    self.free_overflow(marked.link).await;
                    self.index.cache.learn(node, number, vacant);
                }
            }
            Err(error) => {
                local.failed().await;
                return Err(error.into());
            }
        }
        self.shrink_if_sparse(location, &copy, traversal).await;
        Ok(Some(Removal::Removed))
    }

    /// Marks the leaf of the traversal's key as removed, under its lock, if its value meets `condition`. [2 RT; 1 more
    /// if the condition reads an overflow value]
    async fn mark_removed(
        self,
        location: &Location,
        leaf_ref: LeafRef,
        condition: Condition<'_>,
        traversal: &Traversal<'_, P::Route>,
    ) -> Result<Marked, IndexError> {
        let (held, mut leaf) = self.lock_leaf(leaf_ref, traversal.key()).await?;
        match self.judge(&leaf, location, traversal) {
            LeafVerdict::Match => {
                match self.meets(&leaf, leaf_ref, condition).await {
                    Ok(true) => {}
                    unmet => {
                        held.give_up().await?;
                        return unmet.map(|_| Marked::Kept);
                    }
                }
                leaf.set_state(LeafState::Removed);
                self.write_leaf(held, leaf_ref, &leaf).await?;
                Ok(Marked::Done(UnlinkedLeaf { version: leaf.version(), link: leaf.link() }))
            }
            verdict => {
                held.give_up().await?;
                Ok(Marked::Refused(verdict))
            }
        }
    }

    /// Acquires the lock of slot `number` of a location's node. `None`: the node or its slot `number` has changed. [1
    /// RT]
    pub(super) async fn lock_slot(
        self,
        location: &Location,
        number: usize,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Option<(HeldLock<'a, F>, InnerCopy)>, IndexError> {
        let (held, copy) = self.lock_inner(location.node.inner_ref(), number).await?;
        self.check_slot(held, copy, (location, number), traversal).await
    }

    /// Checks whether slot `number` of a location's node, which the client has locked, is as the traversal saw it.
    /// `None`: the node or the slot has changed, and the lock is released. [0 RT; 2 if it has changed]
    pub(super) async fn check_slot(
        self,
        held: HeldLock<'a, F>,
        copy: InnerCopy,
        (location, number): (&Location, usize),
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<Option<(HeldLock<'a, F>, InnerCopy)>, IndexError> {
        let (node, slot) = (&location.node, copy.slot(number));
        let unchanged = match location.target {
            SlotTarget::Leaf(LeafAt { leaf, .. }) => slot.child() == Child::Leaf(leaf),
            SlotTarget::Open(seen) => slot == seen.slot,
            SlotTarget::OtherPrefix { at: seen, .. } => slot.is_same_child(seen.slot),
            SlotTarget::Full { .. } | SlotTarget::Outgrown => false,
        };
        if unchanged && copy.header().is_of_node(node.header) && copy.reverse().is_linked() {
            return Ok(Some((held, copy)));
        }
        self.hit(coverage::CHANGED_BEFORE_LOCK);
        held.give_up().await?;
        traversal.clear();
        self.read_again(node, traversal).await?;
        Ok(None)
    }
}
