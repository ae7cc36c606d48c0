//! Leaf split, prefix split, and moves of a value to another leaf.

use super::RadixTree;
use super::change::UnlinkedLeaf;
use super::condition::Condition;
use super::copy::LeafCopy;
use super::damage::damaged;
use super::find::{LeafAt, Location, ParentLink, SlotAt, partial_at};
use super::new_node::{LinkingNode, NewInner, NewLeaf, ParentSlot};
use super::node_handle::NodeChange;
use super::policy::Policy;
use super::resize::{KnownNode, Resize};
use super::sample_key::SampleKey;
use super::traversal::Traversal;
use crate::error::IndexError;
use crate::lock::HeldLock;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::coverage;
use crate::radix::inner::{self, slot_offset};
use crate::radix::key::{Step, common_prefix, step_at};
use crate::radix::leaf::{self, LeafEntry, LeafRef, LeafState};
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, NodeSlot};
use farwood_fabric::{Cas, Chain as _, Fabric, Parallel as _, Remote, Swapped, cas};
use std::sync::Arc;

/// A new inner node that takes the place of a child, with that child and a new leaf below it.
struct SplitNode {
    node: NewInner,
    leaf: NewLeaf,
    /// Change of the reverse pointer of the child.
    child: ReverseChange,
}

/// Change of the reverse pointer at `at`.
struct ReverseChange {
    at: Remote<u64>,
    from: Reverse,
    to: Reverse,
}

/// Result of moving a value to a new leaf.
enum Moved {
    /// The old leaf, and the slot that points to the new one.
    Done(UnlinkedLeaf, NodeSlot),
    /// The leaf is not the leaf of the key, or the slot has changed.
    Refused,
    /// The old value does not meet the condition.
    Kept,
}

impl ReverseChange {
    fn swap(&self) -> Cas {
        cas(self.at, self.from.word(), self.to.word())
    }
}

/// A child that moves below a new node: the step to it, and the slot that points to it.
#[derive(Clone, Copy)]
struct MovedChild {
    step: Step,
    slot: NodeSlot,
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Splits a leaf: a new inner node takes its place, with that leaf and a new one below it (SMART, "leaf split").
    /// `false`: the location has changed. [3 RT on one memory node]
    pub(super) async fn split_leaf(
        self,
        location: &Location,
        LeafAt { number, leaf }: LeafAt,
        entry: LeafEntry<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        let node = location.node.inner_ref();
        let (held, copy, leaf_copy) = self.lock_inner_and_leaf(node, number, leaf).await?;
        let Some((held, copy)) = self.check_slot(held, copy, (location, number), traversal).await? else {
            return Ok(false);
        };
        let split = self.build_leaf_split(location, (leaf, leaf_copy), entry).await;
        let at = SlotAt { number, slot: copy.slot(number) };
        self.install(held, location, at, split, coverage::LEAF_SPLIT, traversal).await
    }

    /// Links a split node if it was built, and releases the lock of the location's node.
    async fn install(
        self,
        held: HeldLock<'_, F>,
        location: &Location,
        at: SlotAt,
        split: Result<Option<SplitNode>, IndexError>,
        mark: &'static str,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        match split {
            Ok(Some(split)) => {
                self.hit(mark);
                self.link_split(held, location, at, split).await
            }
            Ok(None) => {
                held.give_up().await?;
                self.resolve(&location.node, at.number, traversal).await?;
                Ok(false)
            }
            Err(error) => {
                held.give_up().await?;
                Err(error)
            }
        }
    }

    /// Builds the node that takes the place of a leaf whose parent is locked. `known`: the leaf, if it was read under
    /// the lock. `None`: the leaf has changed. [0 RT; 1 if the leaf was not read]
    async fn build_leaf_split(
        self,
        location: &Location,
        (leaf_ref, known): (LeafRef, Option<LeafCopy>),
        entry: LeafEntry<'_>,
    ) -> Result<Option<SplitNode>, IndexError> {
        let (key, parent) = (entry.key, &location.node);
        let leaf = match known {
            Some(leaf) => leaf,
            None => self.read_leaf(leaf_ref).await?,
        };
        let depth = common_prefix(leaf.key(), key);
        let is_live = leaf.state() == LeafState::Live || self.index.options.swaps_leaves();
        if !is_live || !leaf.reverse().is_linked() || leaf.key() == key {
            return Ok(None);
        }
        if depth <= parent.header.depth() {
            let what = "its key does not belong where it is linked".to_owned();
            return Err(damaged(self.name, leaf_ref.at, what));
        }
        let slot = NodeSlot::leaf(partial_at(leaf.key(), depth), leaf_ref);
        let old = MovedChild { step: step_at(leaf.key(), depth), slot };
        let (node, new) = self.new_node_of_two(parent, depth, old, entry).await?;
        let LinkingNode { at, generation } = node.as_linking_node();
        let child = ReverseChange {
            at: leaf_ref.at.part(leaf::REVERSE),
            from: leaf.reverse(),
            to: Reverse::of_leaf(at, generation),
        };
        Ok(Some(SplitNode { node, leaf: new, child }))
    }

    /// Splits a prefix: a new inner node takes the place of `child`, whose prefix differs from `key` before its end
    /// (SMART, "header split"). `false`: the location has changed. [3 RT, and the path down to a leaf]
    pub(super) async fn split_prefix(
        self,
        location: &Location,
        at: SlotAt,
        child: &Arc<CachedNode>,
        entry: LeafEntry<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        let below = match self.sample_key(child).await? {
            SampleKey::Key(key) => key,
            SampleKey::None => {
                // The child is removed, if it is still empty under its lock.
                let parent = ParentLink { node: Arc::clone(&location.node), number: at.number };
                let old = KnownNode { at: child.at, header: child.header };
                Box::pin(self.resize(&parent, old, Resize { key: entry.key, new: None })).await?;
                traversal.retry(self.client).await?;
                return Ok(false);
            }
            SampleKey::Ambiguous { node, number } => {
                self.retry_or_repair(&node, number, traversal).await?;
                return Ok(false);
            }
        };
        let Some((held, _)) = self.lock_slot(location, at.number, traversal).await? else { return Ok(false) };
        let split = self.build_prefix_split(location, child, &below, entry).await;
        self.install(held, location, at, split, coverage::PREFIX_SPLIT, traversal).await
    }

    /// Builds the node that takes the place of `child`, whose parent is locked; `below` is a key below the child.
    /// `None`: the child has changed. [1 RT]
    async fn build_prefix_split(
        self,
        location: &Location,
        child: &CachedNode,
        below: &[u8],
        entry: LeafEntry<'_>,
    ) -> Result<Option<SplitNode>, IndexError> {
        let (key, parent) = (entry.key, &location.node);
        let now = self.read_inner(child.inner_ref()).await?;
        let depth = common_prefix(&below[..child.header.depth()], key);
        let is_between = depth > parent.header.depth() && depth < child.header.depth();
        if !now.header().is_of_node(child.header) || !now.reverse().is_linked() || !is_between {
            return Ok(None);
        }
        let partial = below[depth];
        let old = MovedChild { step: Step::Byte(partial), slot: NodeSlot::inner(partial, child.inner_ref()) };
        let (node, new) = self.new_node_of_two(parent, depth, old, entry).await?;
        let LinkingNode { at, generation } = node.as_linking_node();
        let child = ReverseChange {
            at: child.at.part(inner::REVERSE),
            from: now.reverse(),
            to: Reverse::of_inner(at, generation, partial),
        };
        Ok(Some(SplitNode { node, leaf: new, child }))
    }

    /// Creates a node below `parent` whose prefix is the first `depth` bytes of the entry's key, with an existing child
    /// and a new leaf for the entry.
    async fn new_node_of_two(
        self,
        parent: &CachedNode,
        depth: usize,
        old: MovedChild,
        entry: LeafEntry<'_>,
    ) -> Result<(NewInner, NewLeaf), IndexError> {
        let key = entry.key;
        let prefix = &key[..depth];
        let memory_node = self.place_node(parent, prefix);
        let partial = partial_at(key, parent.header.depth());
        let parent = ParentSlot { at: parent.at, header: parent.header, partial };
        let mut node = self.new_inner(parent, memory_node, self.index.sizes_for(2), prefix).await?;
        let leaf = match self.new_leaf(node.as_linking_node(), memory_node, entry).await {
            Ok(leaf) => leaf,
            Err(error) => {
                self.index.heap.take_back(node.into_memory());
                return Err(error);
            }
        };
        let children = [(old.step, old.slot), (step_at(key, depth), leaf.slot(partial_at(key, depth)))];
        node.set_children(prefix, self.index.number, &children);
        Ok((node, leaf))
    }

    /// Writes a split node and swaps the slot of the locked parent to it; then releases the lock.
    /// [1 RT; 2 if the objects are on several memory nodes]
    async fn link_split(
        self,
        held: HeldLock<'_, F>,
        location: &Location,
        SlotAt { number, slot }: SlotAt,
        SplitNode { node, leaf, child }: SplitNode,
    ) -> Result<bool, IndexError> {
        let (parent, node_ref) = (&location.node, node.inner_ref());
        let new = NodeSlot::inner(slot.partial(), node_ref);
        let slot_at = parent.at.part(slot_offset(number));
        let on_one_node = [node_ref.at.node(), leaf.node(), child.at.node()] == [parent.at.node(); 3];
        let has_size_hint = matches!(slot.child(), Child::Inner(child) if child.size.is_typed());
        let (objects, handle) = ((&node, &leaf, &child), self.index.handle_of(node_ref.at, &node.image()));
        let (swapped, lookup) = if has_size_hint {
            let swapped = self.link_above_typed(held, (slot_at, slot, new), objects).await?;
            (swapped, P::Lookup::default())
        } else if on_one_node {
            self.link_on_one_node(held, cas(slot_at, slot.word(), new.word()), objects).await?
        } else {
            self.link_on_several(held, cas(slot_at, slot.word(), new.word()), objects).await?
        };
        if swapped == Swapped::Won {
            self.index.cache.learn(parent, number, new);
            self.index.cache.put(node_ref.at, &node.image());
            // A new node is rare, and the future is large.
            Box::pin(P::nodes_changed(self, NodeChange::Created(handle), lookup)).await;
        } else if self.index.options.swaps_leaves() {
            self.index.heap.retire(node.into_memory());
            self.index.heap.retire(leaf.into_memory());
        }
        Ok(swapped == Swapped::Won)
    }

    /// Writes and links the objects of a split that are all on the memory node of the parent. [1 RT]
    async fn link_on_one_node(
        self,
        held: HeldLock<'_, F>,
        swap: Cas,
        (node, leaf, child): (&NewInner, &NewLeaf, &ReverseChange),
    ) -> Result<(Swapped, P::Lookup), IndexError> {
        let (unlock, local) = held.release();
        let objects = node.write().then(leaf.write()).then(child.swap());
        // Another client may swap the leaf in the slot without a lock. Then the node is not linked, and must not be
        // confirmed as linked.
        let [first, second] = [node.confirm(), leaf.confirm()];
        let (chained, later) = if self.index.options.swaps_leaves() {
            ([None, None], [first, second])
        } else {
            ([first, second], [None, None])
        };
        let linked = objects.then_yield(swap).then_maybe_quiet(chained[0]);
        let linked = linked.then_maybe_quiet(chained[1]).then_maybe_quiet(unlock);
        match P::post_before_change(self, node.image().prefix(self.index.number), linked).await {
            Ok((swapped, lookup)) => {
                local.complete();
                self.confirm_if_won(swapped, later);
                Ok((swapped, lookup))
            }
            Err(error) => {
                local.failed().await;
                Err(error)
            }
        }
    }

    /// Writes the objects of a split, then links them. [2 RT]
    async fn link_on_several(
        self,
        held: HeldLock<'_, F>,
        swap: Cas,
        (node, leaf, child): (&NewInner, &NewLeaf, &ReverseChange),
    ) -> Result<(Swapped, P::Lookup), IndexError> {
        let objects = node.write().and(leaf.write()).and(child.swap());
        let lookup = match P::post_before_change(self, node.image().prefix(self.index.number), objects).await
        {
            Ok((_, lookup)) => lookup,
            Err(error) => {
                held.give_up().await?;
                return Err(error);
            }
        };
        let (unlock, local) = held.release();
        match self.client.post(swap.then_maybe_quiet(unlock)).await {
            Ok(swapped) => {
                local.complete();
                self.confirm_if_won(swapped, [node.confirm(), leaf.confirm()]);
                Ok((swapped, lookup))
            }
            Err(error) => {
                local.failed().await;
                Err(error.into())
            }
        }
    }

    /// As [`link_split`](Self::link_split), if the slot points to a typed node, so that other clients may change the
    /// size in it. [3 RT]
    async fn link_above_typed(
        self,
        held: HeldLock<'_, F>,
        (at, slot, new): (Remote<u64>, NodeSlot, NodeSlot),
        (node, leaf, child): (&NewInner, &NewLeaf, &ReverseChange),
    ) -> Result<Swapped, IndexError> {
        let objects = self.client.post(node.write().and(leaf.write()).and(child.swap())).await;
        let linked = match objects {
            Ok(_) => self.swap_child(at, slot, new).await,
            Err(error) => Err(error.into()),
        };
        held.give_up().await?;
        let swapped = if linked? { Swapped::Won } else { Swapped::Lost(slot.word()) };
        self.confirm_if_won(swapped, [node.confirm(), leaf.confirm()]);
        Ok(swapped)
    }

    /// Confirms the objects of a split as linked if the slot was swapped, without waiting for the answer.
    fn confirm_if_won(self, swapped: Swapped, confirmations: [Option<Cas>; 2]) {
        if swapped == Swapped::Won {
            confirmations.into_iter().flatten().for_each(|confirm| {
                self.client.post_detached(confirm);
            });
        }
    }

    /// Moves the value of a key to a new leaf, if the old value meets `condition`: marks the old leaf, then swaps the
    /// slot. `false`: the location has changed, or the condition is not met. [6 RT; 1 more if the new leaf reuses
    /// memory]
    pub(super) async fn move_leaf(
        self,
        location: &Location,
        LeafAt { number, leaf }: LeafAt,
        entry: LeafEntry<'_>,
        condition: Condition<'_>,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<bool, IndexError> {
        let Some((held, copy)) = self.lock_slot(location, number, traversal).await? else { return Ok(false) };
        let at = SlotAt { number, slot: copy.slot(number) };
        let moved = self.swap_leaf(location, at, (leaf, condition), entry).await;
        held.give_up().await?;
        match moved? {
            Moved::Done(old, new) => {
                self.hit(coverage::LEAF_MOVED);
                self.index.free_leaf(leaf, old.version);
                self.free_overflow(old.link).await;
                self.index.cache.learn(&location.node, number, new);
                return Ok(true);
            }
            Moved::Refused => self.resolve(&location.node, number, traversal).await?,
            Moved::Kept => traversal.retry_after_change(self.client).await?,
        }
        Ok(false)
    }

    /// The part of [`move_leaf`](Self::move_leaf) under the node's lock.
    async fn swap_leaf(
        self,
        location: &Location,
        SlotAt { number, slot }: SlotAt,
        (leaf_ref, condition): (LeafRef, Condition<'_>),
        entry: LeafEntry<'_>,
    ) -> Result<Moved, IndexError> {
        let (node, client) = (&location.node, self.client);
        let new = self.new_leaf(LinkingNode::from(&**node), node.at.node(), entry).await?;
        let (held, mut old) = self.lock_leaf(leaf_ref, entry.key).await?;
        let is_linked = old.state() == LeafState::Live && old.reverse().is_linked();
        let unmoved = if is_linked && old.key() == entry.key {
            match self.meets(&old, leaf_ref, condition).await {
                Ok(true) => None,
                unmet => Some(unmet.map(|_| Moved::Kept)),
            }
        } else {
            Some(Ok(Moved::Refused))
        };
        if let Some(unmoved) = unmoved {
            held.give_up().await?;
            self.index.free_new_leaf(new);
            return unmoved;
        }
        if let Err(error) = client.post(new.write()).await {
            held.give_up().await?;
            return Err(error.into());
        }
        old.set_state(LeafState::Moved);
        self.write_leaf(held, leaf_ref, &old).await?;
        let next = new.slot(slot.partial());
        let swap = cas(node.at.part(slot_offset(number)), slot.word(), next.word());
        let won = client.post(swap).await? == Swapped::Won;
        self.confirm_all([new.confirm()]).await?;
        let old = UnlinkedLeaf { version: old.version(), link: old.link() };
        Ok(if won { Moved::Done(old, next) } else { Moved::Refused })
    }
}
