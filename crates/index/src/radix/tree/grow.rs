//! Growth of typed nodes in place (SMART, "node type switch").
//!
//! A typed node has memory for 256 slots, of which clients read the first ones: in a node of type 4 five, in a node of
//! type 8 nine, and so on. The additional slot is the *last* one of the type:
//!
//! 1. a client puts its leaf into the last slot, by the CAS by which it would fill any free slot. From then on, the
//!    leaf is part of the tree;
//! 2. it changes the type in the header to the next one, by a CAS, and the size in the slot that points to the node.
//!
//! If a client crashes between the two, the next client that inserts there performs step 2. Clients fill slots in
//! order, and a slot after the last one only after the type has changed. So a client that reads the slots of the type
//! that the header states has read all slots that are in use.
//!
//! The size in the slot of the parent is a hint: a client that reads too few slots reads the node again, and corrects
//! the hint.

use super::RadixTree;
use super::find::{Location, ParentLink};
use super::policy::Policy;
use super::traversal::Traversal;
use crate::error::IndexError;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::coverage;
use crate::radix::inner::{HEADER, InnerRef, NodeHeader, SlotSearch, slot_offset};
use crate::radix::slot::{Child, NodeSlot};
use farwood_fabric::{Fabric, Remote, Swapped, cas};
use std::sync::Arc;

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Changes the type of a location's node after the client has filled the last slot of the type with a leaf of
    /// `key`; `node` is the last copy of the node. [1 RT]
    pub(super) async fn grow_in_place(
        self,
        location: &Location,
        node: &Arc<CachedNode>,
        key: &[u8],
    ) -> Result<(), IndexError> {
        self.hit(coverage::GREW_IN_PLACE);
        if let Some(header) = self.change_type(location, node, key).await? {
            self.index.cache.grow(node, header);
        }
        Ok(())
    }

    /// As [`grow_in_place`](Self::grow_in_place), after another client has filled the last slot of the type. [1 RT]
    pub(super) async fn complete_growth(
        self,
        location: &Location,
        node: &Arc<CachedNode>,
        key: &[u8],
    ) -> Result<(), IndexError> {
        self.hit(coverage::GROWTH_COMPLETED);
        self.change_type(location, node, key).await.map(drop)
    }

    /// Reads a location's node again, whose slots are all in use; if they still are, completes its growth. [1 RT]
    pub(super) async fn outgrow(
        self,
        location: &Location,
        traversal: &mut Traversal<'_, P::Route>,
    ) -> Result<(), IndexError> {
        let (node, grown) = (&location.node, location.node.header.size().next_or_same());
        if !traversal.is_fresh(node) {
            return self.read_again_as(node, grown, traversal).await;
        }
        self.complete_growth(location, node, traversal.key()).await?;
        traversal.retry(self.client).await?;
        self.read_again_as(node, grown, traversal).await
    }

    /// States the next type in the header of a node, and in the slot that points to the node if the client knows it;
    /// yields the header of the grown node, if the node is still the same. [1 RT]
    async fn change_type(
        self,
        location: &Location,
        node: &Arc<CachedNode>,
        key: &[u8],
    ) -> Result<Option<NodeHeader>, IndexError> {
        let Some(size) = node.header.size().next_in_place() else {
            unreachable!("only a node that grows in place has a last slot")
        };
        let grown = node.header.with_size(size);
        let header = cas(node.at.part(HEADER), node.header.word(), grown.word());
        // An insert does not wait for the hint, which may be on another memory node.
        if let Some(ParentLink { node: parent, number }) =
            location.parent.clone().or_else(|| self.cached_parent(node, key))
        {
            self.set_size_hint(&parent, number, InnerRef { at: node.at, size });
        }
        let swapped = self.client.post(header).await?;
        Ok(match swapped {
            Swapped::Won => Some(grown),
            Swapped::Lost(found) => Some(NodeHeader::from_word(found)).filter(|now| now.is_of_node(grown)),
        })
    }

    /// The cached node that points to `node`, and its slot for `key`; `None` if the key is not below the node.
    pub(super) fn cached_parent(self, node: &CachedNode, key: &[u8]) -> Option<ParentLink> {
        let depth_max = node.header.depth().checked_sub(1).filter(|_| node.covers(key, self.index.number))?;
        let parent = self.index.cache.search(key, depth_max, self.fabric().thread())?;
        let SlotSearch::Slot(number, slot) = parent.find(key) else { return None };
        let points = matches!(slot.child(), Child::Inner(child) if child.at == node.at);
        points.then_some(ParentLink { node: parent, number })
    }

    /// States the size of `child` in slot `number` of `parent`, in memory and in the cache, if the slot points to the
    /// child with another size. A failure leaves the hint as it is. [0 RT; 1 verb for which the client does not wait]
    pub(super) fn set_size_hint(self, parent: &CachedNode, number: usize, child: InnerRef) {
        let before = parent.slot(number);
        let Child::Inner(pointed) = before.child() else { return };
        if pointed.at != child.at || pointed.size == child.size {
            return;
        }
        let after = NodeSlot::inner(before.partial(), child);
        self.index.cache.learn(parent, number, after);
        self.client.post_detached(cas(parent.at.part(slot_offset(number)), before.word(), after.word()));
    }

    /// Swaps a slot with a child in a node whose lock the client holds; yields whether it did. Other clients may change
    /// the size in the slot at any time. [1 RT; 1 more for each such change]
    pub(super) async fn swap_child(
        self,
        at: Remote<u64>,
        mut from: NodeSlot,
        to: NodeSlot,
    ) -> Result<bool, IndexError> {
        loop {
            match self.client.post(cas(at, from.word(), to.word())).await? {
                Swapped::Won => return Ok(true),
                Swapped::Lost(found) if NodeSlot::from_word(found).is_same_child(from) => {
                    self.hit(coverage::SIZE_CHANGED_BEFORE_SWAP);
                    from = NodeSlot::from_word(found);
                }
                Swapped::Lost(_) => return Ok(false),
            }
        }
    }
}
