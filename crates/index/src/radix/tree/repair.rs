//! Repair of slots that another client left in an intermediate state: under the lock of the node, a client completes or
//! undoes the change.
//!
//! A client that changes an occupied slot, or its object (except the value of a leaf), holds the lock of the node. So a
//! client that holds the lock and finds a slot in an intermediate state knows that its writer crashed, lost a memory
//! node or was cancelled; or that the object is about to be confirmed as linked, which any client may do.

use super::RadixTree;
use super::copy::InnerCopy;
use super::damage::damaged;
use super::find::ParentLink;
use super::policy::Policy;
use super::resize::{KnownNode, Resize};
use super::sample_key::SampleKey;
use crate::error::IndexError;
use crate::op::Op;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::coverage;
use crate::radix::inner::{InnerRef, NodeState, REVERSE, RawInner, slot_offset, step_of};
use crate::radix::key::{Step, step_at};
use crate::radix::leaf::{self, LeafRef, LeafState};
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, NodeSlot};
use farwood_fabric::{Fabric, Remote, Swapped, cas};
use std::sync::Arc;

/// A slot of a locked node.
#[derive(Clone, Copy)]
struct LockedSlot<'c> {
    node: Remote<RawInner>,
    copy: &'c InnerCopy,
    number: usize,
    slot: NodeSlot,
}

impl LockedSlot<'_> {
    fn generation(&self) -> u32 {
        self.copy.header().generation()
    }

    /// Whether `key` belongs below the slot.
    fn covers(&self, key: &[u8], index_number: u32) -> bool {
        self.copy.covers(key, index_number) && step_at(key, self.copy.header().depth()) == self.step()
    }

    fn step(&self) -> Step {
        step_of(self.number, self.slot)
    }

    /// The error for an object that belongs elsewhere. Setting its reverse pointer to this node would unlink it there.
    fn leads_elsewhere(&self, operation: &'static str) -> IndexError {
        damaged(
            operation,
            self.node,
            format!("slot {} points to an object that belongs elsewhere", self.number),
        )
    }
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Repairs slot `number` of `node`. If `key` is below the slot, the prefix of the child is taken from it. [4 to 6
    /// RT; 1 more for each node or leaf down to the next key, if the child is a node that is several bytes deeper; 11
    /// more if a dead node is replaced]
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if the slot points to an object that belongs elsewhere.
    pub(crate) async fn repair(
        self,
        node: &Arc<CachedNode>,
        number: usize,
        key: &[u8],
    ) -> Result<(), IndexError> {
        let (held, copy) = self.lock_inner(node.inner_ref(), number).await?;
        let is_live = node.header.state() == Some(NodeState::Live);
        if !is_live || !copy.header().is_of_node(node.header) || !copy.reverse().is_linked() {
            self.index.cache.remove(node);
            return held.give_up().await;
        }
        self.hit(coverage::REPAIRED);
        let locked = LockedSlot { node: node.at, copy: &copy, number, slot: copy.slot(number) };
        let dead = match locked.slot.child() {
            Child::Leaf(leaf) => self.repair_leaf(locked, leaf).await.map(|()| None),
            Child::Inner(child) => self.repair_inner(locked, child).await,
            _ => Ok(None),
        };
        held.give_up().await?;
        if let Some(dead) = dead? {
            let link = ParentLink { node: Arc::clone(node), number };
            Box::pin(self.resize(&link, dead, Resize { key, new: None })).await?;
        }
        Ok(())
    }

    /// Repairs a leaf in a slot of a locked node: sets its reverse pointer, completes a removal, undoes a move.
    async fn repair_leaf(self, locked: LockedSlot<'_>, leaf_ref: LeafRef) -> Result<(), IndexError> {
        let leaf = self.read_leaf(leaf_ref).await?;
        if !locked.covers(leaf.key(), self.index.number) {
            return Err(locked.leads_elsewhere(self.name));
        }
        let right = Reverse::of_leaf(locked.node, locked.generation());
        self.repair_reverse(leaf_ref.at.part(leaf::REVERSE), leaf.reverse(), right).await?;
        match leaf.state() {
            LeafState::Live => {}
            // A client is about to swap the slot, or has crashed; readers do not need the state of a linked leaf.
            _ if self.index.options.swaps_leaves() => {}
            LeafState::Removed => {
                let vacant = NodeSlot::vacant(locked.slot.partial(), locked.generation());
                let slot_at = locked.node.part(slot_offset(locked.number));
                let emptied = self.client.post(cas(slot_at, locked.slot.word(), vacant.word())).await?;
                if emptied == Swapped::Won {
                    self.hit(coverage::REMOVAL_COMPLETED);
                    self.index.free_leaf(leaf_ref, leaf.version());
                    self.free_overflow(leaf.link()).await;
                }
            }
            LeafState::Moved => {
                let (held, mut leaf) = self.lock_leaf(leaf_ref, leaf.key()).await?;
                if leaf.state() != LeafState::Moved {
                    return held.give_up().await;
                }
                self.hit(coverage::MOVE_UNDONE);
                leaf.set_state(LeafState::Live);
                self.write_leaf(held, leaf_ref, &leaf).await?;
            }
        }
        Ok(())
    }

    /// Repairs the reverse pointer of an inner node in a slot of a locked node. Yields the node if it is dead and must
    /// be replaced.
    async fn repair_inner(
        self,
        locked: LockedSlot<'_>,
        child: InnerRef,
    ) -> Result<Option<KnownNode>, IndexError> {
        let node = self.read_inner(child).await?;
        let right = Reverse::of_inner(locked.node, locked.generation(), locked.slot.partial());
        if node.reverse() != right && !self.belongs(locked, child.at, &node).await? {
            return Err(locked.leads_elsewhere(self.name));
        }
        self.repair_reverse(child.at.part(REVERSE), node.reverse(), right).await?;
        let header = node.header();
        Ok((header.state() == Some(NodeState::Dead)).then_some(KnownNode { at: child.at, header }))
    }

    /// Whether all keys below a node belong below a slot, as far as the client can determine: by the hash of the node
    /// if the node is one byte deeper than its parent, otherwise by one of the keys. [0 RT if the node is one byte
    /// deeper; otherwise as [`sample_key`](Self::sample_key)]
    async fn belongs(
        self,
        locked: LockedSlot<'_>,
        at: Remote<RawInner>,
        node: &InnerCopy,
    ) -> Result<bool, IndexError> {
        let Step::Byte(byte) = locked.step() else { return Ok(false) };
        let (number, parent_depth) = (self.index.number, locked.copy.header().depth());
        match node.header().depth() {
            depth if depth <= parent_depth => Ok(false),
            depth if depth == parent_depth + 1 => {
                Ok(node.prefix(number) == locked.copy.prefix(number).then(byte))
            }
            _ => match self.sample_key(&CachedNode::copy(at, node)).await? {
                SampleKey::Key(key) => Ok(locked.covers(&key, number)),
                SampleKey::None | SampleKey::Ambiguous { .. } => Ok(true),
            },
        }
    }

    /// Sets a reverse pointer that is wrong. [0 RT; 1 if it is wrong]
    async fn repair_reverse(self, at: Remote<u64>, found: Reverse, right: Reverse) -> Result<(), IndexError> {
        if found != right {
            self.hit(coverage::REVERSE_REPAIRED);
            let _ = self.client.post(cas(at, found.word(), right.word())).await?;
        }
        Ok(())
    }
}
