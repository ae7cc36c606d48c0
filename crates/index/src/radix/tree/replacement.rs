//! The replacement of an inner node, not linked yet: steps 1 and 2 of its resize (module `resize`).

use super::RadixTree;
use super::copy::InnerCopy;
use super::damage::damaged_slot;
use super::find::partial_at;
use super::new_node::{NewInner, NewLeaf, ParentSlot};
use super::policy::Policy;
use super::resize::Resize;
use crate::error::IndexError;
use crate::mutant::Mutant;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::coverage;
use crate::radix::inner::{HEADER, NodeHeader, NodeSize, NodeState, REVERSE, RawInner, slot_offset, step_of};
use crate::radix::key::{Step, step_at};
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, NodeSlot};
use farwood_fabric::{Cas, Fabric, NodeId, Parallel as _, Remote, Swapped, Write, all, cas, each};
use std::ops::{Range, RangeInclusive};

/// Maximum CASes of one doorbell.
pub(super) const CAS_PER_POST: usize = 64;

/// The children of a closed node, and its prefix if the client knows it.
struct Contents<'c> {
    children: &'c [(Step, NodeSlot)],
    prefix: Option<&'c [u8]>,
}

/// The object that replaces a node.
pub(super) struct Replacement {
    /// The new slot of the parent.
    pub(super) slot: NodeSlot,
    /// The new node; `None` if only the child of the old node is left, or nothing.
    pub(super) node: Option<NewInner>,
    /// A new leaf below the new node.
    pub(super) leaf: Option<NewLeaf>,
}

impl Replacement {
    /// The WRITEs of the new objects.
    fn writes(&self) -> Vec<Write<'_>> {
        let (node, leaf) = (self.node.as_ref(), self.leaf.as_ref());
        node.map(NewInner::write).into_iter().chain(leaf.map(NewLeaf::write)).collect()
    }

    /// The CASes that confirm the new objects as linked.
    pub(super) fn confirmations(&self) -> impl Iterator<Item = Cas> {
        let (node, leaf) = (self.node.as_ref(), self.leaf.as_ref());
        node.and_then(NewInner::confirm).into_iter().chain(leaf.and_then(NewLeaf::confirm))
    }
}

/// A locked node that is to be replaced.
pub(super) struct OldNode<'p> {
    /// The node that links it.
    pub(super) parent: &'p CachedNode,
    /// The slot in the parent, as the client saw it first. The slot in the copy of the parent may change.
    pub(super) number: usize,
    pub(super) slot: NodeSlot,
    pub(super) at: Remote<RawInner>,
    pub(super) node: InnerCopy,
}

impl OldNode<'_> {
    /// The words of the parent that show whether the node is linked where the client saw it: header, reverse pointer,
    /// slot.
    pub(super) fn link_words(&self) -> [Remote<u64>; 3] {
        [HEADER, REVERSE, slot_offset(self.number)].map(|offset| self.parent.at.part::<u64>(offset))
    }

    /// Whether these are the words of a parent that links the node.
    pub(super) fn links(&self, [header, reverse, slot]: [u64; 3]) -> bool {
        self.parent.header.state() == Some(NodeState::Live)
            && NodeHeader::from_word(header).is_of_node(self.parent.header)
            && Reverse::from_word(reverse).is_linked()
            && NodeSlot::from_word(slot).is_same_child(self.slot)
    }

    pub(super) fn parent_slot(&self) -> ParentSlot {
        ParentSlot { at: self.parent.at, header: self.parent.header, partial: self.slot.partial() }
    }
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Steps 1 and 2; yields the children and the replacement, unless the prefix of the node is unknown. [1 RT for each
    /// 64 slots; 1 more if another client has changed the node since it was read]
    ///
    /// If no other client changes the node before its slots are closed, its children are known before, and its
    /// replacement is written with the CASes that close them. A node for whose replacement there is no memory is not
    /// closed: keys can still be put into its open slots.
    pub(super) async fn close_and_replace(
        self,
        old: &OldNode<'_>,
        prefix: Option<&[u8]>,
        resize: Resize<'_>,
    ) -> Result<(Vec<(Step, NodeSlot)>, Option<Replacement>), IndexError> {
        let expected = children_of(old.node.slots_read());
        let early = self.build_replacement(old, Contents { children: &expected, prefix }, resize).await?;
        let writes = early.as_ref().map(Replacement::writes).unwrap_or_default();
        let closed = self.close_slots(old.at, &old.node, writes).await;
        if closed.as_ref().is_ok_and(|children| *children == expected) {
            return Ok((expected, early));
        }
        // A WRITE that failed may still be executed, so its memory is not reused.
        if let Some(early) = early
            && closed.as_ref().err().is_none_or(|error| !error.may_be_written())
        {
            self.take_back(early);
        }
        let children = closed?;
        self.hit(coverage::CHANGED_WHILE_CLOSED);
        let contents = Contents { children: &children, prefix };
        let replacement = self.write_replacement(old, contents, resize).await?;
        Ok((children, replacement))
    }

    /// Closes all slots of a node that have no child, and freezes those with a leaf if clients replace the pointers to
    /// leaves without a lock; yields its children. Posts `writes` as well. [1 RT for each 64 slots]
    async fn close_slots(
        self,
        at: Remote<RawInner>,
        node: &InnerCopy,
        mut writes: Vec<Write<'_>>,
    ) -> Result<Vec<(Step, NodeSlot)>, IndexError> {
        let mut slots: Vec<NodeSlot> = node.slots_read().collect();
        let mut size = node.header().size();
        let (mut first, mut last) = (0, size.slots());
        loop {
            self.close_slots_of(at, &mut slots, first..last + 1, &mut writes).await?;
            // The type of a node changes after its last slot was filled, so slots behind the type stay free for good
            // only if a client has closed the last slot while it was free.
            match size.next_in_place() {
                Some(next) if !slots[last].is_closed_free() => {
                    (size, first, last) = (next, last + 1, next.slots());
                }
                _ => break,
            }
        }
        if !writes.is_empty() {
            self.client.post(all(writes)).await?.for_each(drop);
        }
        slots.truncate(last + 1);
        if let Some(number) = slots.iter().position(|slot| slot.child() == Child::Damaged) {
            return Err(damaged_slot("rebuild", at, number));
        }
        Ok(children_of(slots))
    }

    /// Closes or freezes the slots `numbers` of a node, as [`close_slots`](Self::close_slots), and updates `slots`. The
    /// first doorbell also has `writes`. [1 RT for each 64 slots]
    async fn close_slots_of(
        self,
        at: Remote<RawInner>,
        slots: &mut [NodeSlot],
        numbers: Range<usize>,
        writes: &mut Vec<Write<'_>>,
    ) -> Result<(), IndexError> {
        let swaps_leaves =
            self.index.options.swaps_leaves() && self.index.mutant != Some(Mutant::SwapUnfrozen);
        let target = |slot: NodeSlot| match slot {
            open if open.is_open() => Some(open.closed()),
            leaf if swaps_leaves && leaf.is_swappable() => Some(leaf.frozen()),
            _ => None,
        };
        let mut open: Vec<usize> = numbers.filter(|&number| target(slots[number]).is_some()).collect();
        while !open.is_empty() {
            let batch = open.split_off(open.len().saturating_sub(CAS_PER_POST));
            let closing = batch.iter().map(|&number| {
                let slot = slots[number];
                cas(at.part(slot_offset(number)), slot.word(), target(slot).unwrap_or(slot).word())
            });
            let doorbell = each(closing).and(each(std::mem::take(writes)));
            let (swapped, _) = self.client.post(doorbell).await?;
            for (number, swapped) in batch.into_iter().zip(swapped) {
                slots[number] = match swapped {
                    Swapped::Won => target(slots[number]).unwrap_or(slots[number]),
                    Swapped::Lost(found) => NodeSlot::from_word(found),
                };
                if target(slots[number]).is_some() {
                    open.push(number);
                }
            }
        }
        Ok(())
    }

    /// The sizes of the replacement of a node of size `old`, which has `partials` children with partial keys. A node
    /// that shrinks becomes no larger, even if the pool is full.
    fn sizes_after(self, old: NodeSize, partials: usize, spare: usize) -> RangeInclusive<NodeSize> {
        let sizes = self.index.sizes_for(partials + spare);
        if spare == 0 { *sizes.start()..=old.max(*sizes.start()) } else { sizes }
    }

    /// Builds and writes the replacement of a node. [1 RT; otherwise as [`build_replacement`](Self::build_replacement)]
    async fn write_replacement(
        self,
        old: &OldNode<'_>,
        contents: Contents<'_>,
        resize: Resize<'_>,
    ) -> Result<Option<Replacement>, IndexError> {
        let replacement = self.build_replacement(old, contents, resize).await?;
        if let Some(replacement) = &replacement {
            self.client.post(all(replacement.writes())).await?.for_each(drop);
        }
        Ok(replacement)
    }

    /// Builds the replacement of a node, which is not linked yet. `None`: the prefix of the node is unknown. [0 RT; as
    /// [`inner_memory`](Self::inner_memory)]
    async fn build_replacement(
        self,
        old: &OldNode<'_>,
        Contents { children, prefix }: Contents<'_>,
        resize: Resize<'_>,
    ) -> Result<Option<Replacement>, IndexError> {
        let parent = old.parent_slot();
        match children {
            [] => {
                let slot = NodeSlot::vacant(parent.partial, parent.header.generation());
                return Ok(Some(Replacement { slot, node: None, leaf: None }));
            }
            [(_, child)] => {
                return Ok(Some(Replacement { slot: child.under(parent.partial), node: None, leaf: None }));
            }
            _ => {}
        }
        // Children were inserted after the prefix was determined. The next client that uses the node completes it.
        let Some(prefix) = prefix else { return Ok(None) };
        let partials = children.iter().filter(|(step, _)| *step != Step::End).count();
        let sizes = self.sizes_after(old.node.header().size(), partials, resize.spare());
        let mut node = self.new_inner(parent, old.at.node(), sizes, prefix).await?;
        let leaf = match self.leaf_beside(children, &node, old.at.node(), resize).await {
            Ok(leaf) => leaf,
            Err(error) => {
                self.index.heap.take_back(node.into_memory());
                return Err(error);
            }
        };
        let slot = NodeSlot::inner(parent.partial, node.inner_ref());
        match &leaf {
            None => node.set_children(prefix, self.index.number, children),
            Some((step, leaf)) => {
                let mut all = children.to_vec();
                let at = all.partition_point(|(before, _)| before < step);
                all.insert(at, (*step, leaf.slot(partial_at(resize.key, prefix.len()))));
                node.set_children(prefix, self.index.number, &all);
            }
        }
        Ok(Some(Replacement { slot, node: Some(node), leaf: leaf.map(|(_, leaf)| leaf) }))
    }

    /// Creates the leaf of a replacement's new entry, unless a child is in its slot.
    /// [as [`new_leaf`](Self::new_leaf)]
    async fn leaf_beside(
        self,
        children: &[(Step, NodeSlot)],
        node: &NewInner,
        near: NodeId,
        Resize { key, new }: Resize<'_>,
    ) -> Result<Option<(Step, NewLeaf)>, IndexError> {
        let step = step_at(key, node.image().header().depth());
        match new {
            Some(entry) if children.iter().all(|(taken, _)| *taken != step) => {
                let leaf = self.new_leaf(node.as_linking_node(), near, entry).await?;
                Ok(Some((step, leaf)))
            }
            _ => Ok(None),
        }
    }

    /// Frees the memory of new objects to which no slot points.
    pub(super) fn take_back(self, Replacement { node, leaf, .. }: Replacement) {
        if let Some(new) = node {
            self.index.heap.take_back(new.into_memory());
        }
        if let Some(leaf) = leaf {
            self.index.free_new_leaf(leaf);
        }
    }
}

/// The children in slots of a node, in the order of their steps.
fn children_of(slots: impl IntoIterator<Item = NodeSlot>) -> Vec<(Step, NodeSlot)> {
    let occupied = (0..).zip(slots).filter(|(_, slot)| slot.is_occupied());
    let mut children: Vec<_> =
        occupied.map(|(number, slot)| (step_of(number, slot), slot.thawed())).collect();
    children.sort_unstable_by_key(|(step, _)| *step);
    children
}
