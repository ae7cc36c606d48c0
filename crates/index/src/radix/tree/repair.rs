//! What somebody left half-way, ended or taken back under the lock of the node that it is in.
//!
//! Whoever changes an occupied slot, or what it points to but for a leaf's value, has the node's lock. So with it in
//! hand, a slot that is not as it should be was left by somebody who died, lost a memory node, or was cancelled; or
//! what it points to is about to be known as linked, which may as well be done here.

use super::fetch::InnerCopy;
use super::find::{Way, damaged};
use super::split::KeyBelow;
use super::{Guide, Tree, marks};
use crate::error::IndexError;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::inner::{Header, REVERSE, RawInner, Size, State as NodeState, slot_offset, step_of};
use crate::radix::key::{Step, step_at};
use crate::radix::leaf::{self, Class, RawLeaf, State};
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, Slot};
use farwood_fabric::{Client, Fabric, Remote, Swapped, cas};
use std::sync::Arc;

/// A slot of a locked node: where it is, what it holds, and the node.
#[derive(Clone, Copy)]
struct Locked<'c> {
    node: Remote<RawInner>,
    copy: &'c InnerCopy,
    number: usize,
    slot: Slot,
}

impl Locked<'_> {
    fn generation(&self) -> u32 {
        self.copy.header().generation()
    }

    /// Whether a key may be behind the slot.
    fn covers(&self, key: &[u8], index: u32) -> bool {
        self.copy.covers(key, index) && step_at(key, self.copy.header().depth()) == self.step()
    }

    fn step(&self) -> Step {
        step_of(self.number, self.slot)
    }

    /// What is behind the slot belongs elsewhere: to make it name this node would take it away from there.
    fn leads_astray(&self, operation: &'static str) -> IndexError {
        damaged(operation, self.node, format!("slot {} leads to what belongs elsewhere", self.number))
    }
}

impl<G: Guide> Tree<G> {
    /// Settles slot `number` of `node`. [4 to 6 RT; 1 more for each node or leaf down to the next key, where the child
    /// is a node whose keys have several bytes more in common; 11 more where a dead node is replaced]
    ///
    /// # Errors
    /// [`IndexError::Damaged`] where the slot leads to what belongs elsewhere.
    pub(crate) async fn settle<F: Fabric>(
        &self,
        client: &Client<F>,
        node: &Arc<CachedNode>,
        number: usize,
        (operation, key): (&'static str, &[u8]),
    ) -> Result<(), IndexError> {
        let (held, copy) = self.lock_inner(client, node.at, node.header.size(), operation).await?;
        let lives = node.header.state() == Some(NodeState::Live);
        if !lives || copy.header() != node.header || !copy.reverse().is_linked() {
            self.cache.remove(node.at);
            return held.give_up().await;
        }
        client.fabric().mark(marks::SETTLED);
        let locked = Locked { node: node.at, copy: &copy, number, slot: copy.slot(number) };
        let settled = match locked.slot.child() {
            Child::Leaf(at, class) => {
                self.settle_leaf(client, locked, (at, class), operation).await.map(|()| None)
            }
            Child::Inner(at, size) => self.settle_inner(client, locked, (at, size), operation).await,
            _ => Ok(None),
        };
        held.give_up().await?;
        if let Some(dead) = settled? {
            self.rebuild(client, (node, number), dead, (0, &Way::new(&self.notebooks, operation, key)))
                .await?;
        }
        Ok(())
    }

    /// Settles a leaf in a slot of a locked node: its reverse pointer; a removal, which is ended; a move, which is
    /// taken back.
    async fn settle_leaf<F: Fabric>(
        &self,
        client: &Client<F>,
        locked: Locked<'_>,
        (at, class): (Remote<RawLeaf>, Class),
        operation: &'static str,
    ) -> Result<(), IndexError> {
        let leaf = self.read_leaf(client, at, class, operation).await?;
        if !locked.covers(leaf.key(), self.number) {
            return Err(locked.leads_astray(operation));
        }
        let right = Reverse::of_leaf(locked.node, locked.generation());
        self.set_reverse(client, at.part(leaf::REVERSE), leaf.reverse(), right).await?;
        match leaf.state() {
            State::Live => {}
            State::Removed => {
                let vacant = Slot::vacant(locked.slot.partial(), locked.generation());
                let slot_at = locked.node.part(slot_offset(locked.number));
                let emptied = client.post(cas(slot_at, locked.slot.word(), vacant.word())).await?;
                if emptied == Swapped::Won {
                    client.fabric().mark(marks::REMOVAL_ENDED);
                    self.free_leaf((at, class), leaf.version());
                    self.unlink(client, leaf.link()).await;
                }
            }
            State::Moved => {
                let (held, mut leaf) = self.lock_leaf(client, at, class, operation).await?;
                if leaf.state() != State::Moved {
                    return held.give_up().await;
                }
                client.fabric().mark(marks::MOVE_REVERTED);
                leaf.set_state(State::Live);
                self.write_leaf(client, held, at, &leaf).await?;
            }
        }
        Ok(())
    }

    /// Settles an inner node in a slot of a locked node: its reverse pointer. Yields it if it is dead, and so is to be
    /// replaced.
    async fn settle_inner<F: Fabric>(
        &self,
        client: &Client<F>,
        locked: Locked<'_>,
        (at, size): (Remote<RawInner>, Size),
        operation: &'static str,
    ) -> Result<Option<(Remote<RawInner>, Header)>, IndexError> {
        let node = self.read_inner(client, at, size, operation).await?;
        let right = Reverse::of_inner(locked.node, locked.generation(), locked.slot.partial());
        if node.reverse() != right && !self.belongs(client, locked, (at, &node), operation).await? {
            return Err(locked.leads_astray(operation));
        }
        self.set_reverse(client, at.part(REVERSE), node.reverse(), right).await?;
        let header = node.header();
        Ok((header.state() == Some(NodeState::Dead)).then_some((at, header)))
    }

    /// Whether all keys below a node are those of a slot, as far as can be told: by the node's hash, where it says
    /// nothing but the slot's byte more than its parent's; else by one of these keys. [0 or 1 RT, and more; as
    /// [`key_below`](Self::key_below)]
    async fn belongs<F: Fabric>(
        &self,
        client: &Client<F>,
        locked: Locked<'_>,
        (at, node): (Remote<RawInner>, &InnerCopy),
        operation: &'static str,
    ) -> Result<bool, IndexError> {
        let Step::Byte(byte) = locked.step() else { return Ok(false) };
        let above = locked.copy.header().depth();
        match node.header().depth() {
            depth if depth <= above => Ok(false),
            depth if depth == above + 1 => {
                Ok(node.prefix(self.number) == locked.copy.prefix(self.number).then(byte))
            }
            _ => match self.key_below(client, &CachedNode::copy(at, node), operation).await? {
                KeyBelow::Key(key) => Ok(locked.covers(&key, self.number)),
                KeyBelow::None | KeyBelow::Unclear(..) => Ok(true),
            },
        }
    }

    /// Sets a reverse pointer that is not as it should be. [0 RT; 1 where it is not]
    async fn set_reverse<F: Fabric>(
        &self,
        client: &Client<F>,
        at: Remote<u64>,
        found: Reverse,
        right: Reverse,
    ) -> Result<(), IndexError> {
        if found != right {
            client.fabric().mark(marks::REVERSE_SET);
            let _ = client.post(cas(at, found.word(), right.word())).await?;
        }
        Ok(())
    }
}
