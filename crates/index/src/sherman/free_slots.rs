//! Free slots that compute nodes share: lists in the pool, each stored in a free slot.
//!
//! ```text
//! a list is an inner node that is marked as freed, so that a stale pointer to it is harmless
//! sibling          the next list; the directory entry points to the first
//! leftmost child   the list itself
//! child            a slot; the separator contains its version (4 bytes), size (3 bytes), kind (1 byte), and zeros
//! ```
//!
//! A client prepends a list to the others by CAS. A client takes all lists at once, by a CAS that stores 0, and then
//! owns them. A list never changes while a pointer leads to it. Therefore the CAS is correct even if the pointer had
//! another value in the meantime (ABA).

use super::Sherman;
use super::node::{Fences, Freed, Node, RawNode};
use crate::coverage;
use crate::error::IndexError;
use crate::memory::free_list::Give;
use crate::memory::overflow::UNIT_BYTES;
use crate::memory::overflow_store;
use crate::memory::slot::{MemorySlot, SlotKind};
use crate::op::Op;
use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::{Cas, Fabric, Memory, PoolShape, Remote, Swapped, cas, read, u32_at, write};
use std::ops::Deref;

/// Maximum number of lists that a client takes over at once.
const LISTS_MAX: u32 = 1 << 20;
/// Attempts to prepend a list to the others.
const TRIES_MAX: u32 = 1000;

impl Sherman {
    /// The slot of a node that was removed from the tree.
    pub(super) fn freed_slot(&self, at: Remote<RawNode>, version: u32) -> MemorySlot<RawNode> {
        MemorySlot { at, version: Some(version), is_zero: false, kind: self.layout.node_slots() }
    }

    /// The compare-and-swap of the pointer to the first list.
    fn swap_lists(
        &self,
        from: Option<Remote<RawNode>>,
        to: Option<Remote<RawNode>>,
    ) -> Result<Cas, IndexError> {
        let first = self.entry.free_list();
        Ok(cas(first.at(), first.seal_pointer(from)?, first.seal_pointer(to)?))
    }

    /// Builds the node that lists `slots` and is stored in `place`.
    fn list(
        &self,
        place: &MemorySlot<RawNode>,
        slots: &[MemorySlot<()>],
        next: Option<Remote<RawNode>>,
    ) -> Node<'_, Vec<u8>> {
        let lowest = vec![0; self.layout.key_bytes];
        let mut list = Node::empty(&self.layout, 1, Fences { lower: &lowest, upper: None }, next);
        list.set_leftmost(place.at);
        for slot in slots {
            let mut separator = lowest.clone();
            let version = slot.version.expect("only slots that held an object are shared");
            separator[..4].copy_from_slice(&version.to_le_bytes());
            separator[4..7].copy_from_slice(&slot.kind.bytes.to_le_bytes()[..3]);
            separator[7] = slot.kind.of;
            list.push_child(&separator, slot.at.part(0));
        }
        list.set_freed(Freed::Yes);
        list
    }
}

impl<F: Fabric> Op<'_, F, Sherman> {
    /// Allocates a slot of that kind. [0 RT; before it takes a chunk, 1 to look for shared slots, and as in
    /// [`Allocator::allocate`](crate::memory::allocator::Allocator::allocate)]
    pub(super) async fn allocate(self, kind: SlotKind) -> Result<MemorySlot<()>, IndexError> {
        let allocator = &self.index.allocator;
        if !allocator.is_dry(kind) || !self.receive_slots().await? {
            return allocator.allocate(self.client, kind).await;
        }
        // The received slots are used for this allocation first, before this compute node shares slots again.
        let slot = allocator.allocate(self.client, kind).await?;
        if let Err(error) = self.share_free_slots().await {
            allocator.take_back(slot);
            return Err(error);
        }
        Ok(slot)
    }

    /// Allocates a slot for a new node; if the pool is full, divides a slot of overflow values. [as
    /// [`allocate`](Self::allocate); 1 RT more to divide a slot]
    pub(super) async fn node_slot(self) -> Result<MemorySlot<RawNode>, IndexError> {
        let kind = self.index.layout.node_slots();
        match self.allocate(kind).await {
            Err(error) if error.is_full() => {
                overflow_store::divide_for(self.client, &self, kind).await?.ok_or(error)
            }
            allocated => Ok(allocated?.cast()),
        }
    }

    /// Allocates a slot for a new node that never held a linked object. [0 RT; as
    /// [`Allocator::allocate`](crate::memory::allocator::Allocator::allocate)]
    pub(super) async fn new_node_slot(self) -> Result<MemorySlot<RawNode>, IndexError> {
        self.index.allocator.allocate_new(self.client, self.index.layout.node_slots()).await
    }

    /// Shares the surplus of this compute node's free slots. [3 RT for each list]
    pub(super) async fn share_free_slots(self) -> Result<(), IndexError> {
        self.give_slots(Give::Surplus).await
    }

    /// Shares free slots with the other compute nodes. [3 RT for each list]
    pub(super) async fn give_slots(self, give: Give) -> Result<(), IndexError> {
        let tree = self.index;
        loop {
            let mut slots = tree.allocator.give(give, tree.layout.inner_capacity);
            if slots.is_empty() {
                return Ok(());
            }
            // A list is stored in a slot for nodes.
            let of_nodes = tree.layout.node_slots();
            if give == Give::All && slots.iter().all(|slot| slot.kind != of_nodes) {
                self.add_to_first_list(&mut slots).await?;
                if slots.is_empty() {
                    continue;
                }
            }
            let place = match slots.iter().rposition(|slot| slot.kind == of_nodes) {
                Some(place) => slots.swap_remove(place),
                None => match tree.allocator.allocate(self.client, of_nodes).await {
                    Ok(place) => {
                        tree.allocator.give_away();
                        place
                    }
                    Err(error) => {
                        tree.allocator.receive(slots);
                        if !error.is_full() {
                            return Err(error);
                        }
                        let divided = overflow_store::divide_for(self.client, &self, of_nodes).await?;
                        let place = divided.ok_or(error)?;
                        slots = tree.allocator.give(give, tree.layout.inner_capacity);
                        place
                    }
                },
            };
            self.give_list(place.cast(), &slots).await?;
        }
    }

    /// Moves as many of `slots` to the first list as it has free positions. A leaving client that has freed values and
    /// no node does not need a slot for another list then, which a full pool does not have. [1 RT; 3 more if there is
    /// a list, and 1 if it has free positions]
    async fn add_to_first_list(self, slots: &mut Vec<MemorySlot<()>>) -> Result<(), IndexError> {
        let tree = self.index;
        let Some(first) = self.first_list().await? else { return Ok(()) };
        // This client owns all lists until it stores the pointer again: a list that others can find never changes.
        if self.client.post(tree.swap_lists(Some(first), None)?).await? != Swapped::Won {
            return Ok(());
        }
        let old = self.read_node(first).await?;
        let mut all = self.listed(&old, first).await?;
        let mut place = tree.freed_slot(first, old.version());
        let free = tree.layout.inner_capacity.saturating_sub(all.len());
        if free > 0 {
            all.extend(slots.drain(slots.len().saturating_sub(free)..));
            let mut list = tree.list(&place, &all, old.sibling());
            self.client.post(write(place.at, &list.seal_in(&place))).await?;
            place.version = Some(list.version());
        }
        if self.client.post(tree.swap_lists(None, Some(first))?).await? != Swapped::Won {
            // Others have shared slots in the meantime, so this client keeps its lists, and shares them as new ones.
            tree.allocator.receive(all);
            tree.allocator.receive([place.cast()]);
            self.receive_lists(old.sibling()).await?;
        }
        Ok(())
    }

    /// Stores the list of `slots` in `place` and prepends it to the others. [3 RT]
    async fn give_list(self, place: MemorySlot<RawNode>, slots: &[MemorySlot<()>]) -> Result<(), IndexError> {
        self.hit(coverage::SLOTS_GIVEN);
        let mut place = place;
        for _ in 0..TRIES_MAX {
            let first = self.first_list().await?;
            let mut list = self.index.list(&place, slots, first);
            self.client.post(write(place.at, &list.seal_in(&place))).await?;
            let prepend = self.index.swap_lists(first, Some(place.at))?;
            if self.client.post(prepend).await? == Swapped::Won {
                return Ok(());
            }
            place.version = Some(list.version());
        }
        Err(IndexError::Exhausted { operation: "leave", tries: TRIES_MAX })
    }

    /// Takes all slots that other compute nodes have shared; returns whether there were any. [1 RT; 1 more and 1 for
    /// each list]
    async fn receive_slots(self) -> Result<bool, IndexError> {
        let (tree, op) = (self.index, self.named("split"));
        let first = self.first_list().await?;
        if first.is_none() || self.client.post(tree.swap_lists(first, None)?).await? != Swapped::Won {
            return Ok(false);
        }
        self.hit(coverage::SLOTS_RECEIVED);
        op.receive_lists(first).await?;
        Ok(true)
    }

    /// Receives the slots of the list at `next` and of its successors, which this client owns. [1 RT for each list]
    async fn receive_lists(self, mut next: Option<Remote<RawNode>>) -> Result<(), IndexError> {
        let tree = self.index;
        for _ in 0..LISTS_MAX {
            let Some(at) = next else { return Ok(()) };
            let list = self.read_node(at).await?;
            let slots = self.listed(&list, at).await?;
            tree.allocator.receive(slots);
            tree.allocator.receive([tree.freed_slot(at, list.version()).cast()]);
            next = list.sibling();
        }
        Err(IndexError::Exhausted { operation: self.name, tries: LISTS_MAX })
    }

    /// Counts the shared free slots, those of the lists included. [1 RT, and 1 for each list]
    pub(super) async fn count_shared_slots(self) -> Result<u64, IndexError> {
        let mut next = self.first_list().await?;
        let mut slots = 0;
        for _ in 0..LISTS_MAX {
            let Some(at) = next else { return Ok(slots) };
            let list = self.read_node(at).await?;
            let listed = self.listed(&list, at).await?;
            slots += 1 + listed.len() as u64;
            next = list.sibling();
        }
        Err(IndexError::Exhausted { operation: self.name, tries: LISTS_MAX })
    }

    /// Returns the slots of the list at `at`. [0 RT; as [`Fabric::find_added_nodes`] if a slot is on a memory node that
    /// was added]
    async fn listed<B: Deref<Target = [u8]>>(
        self,
        list: &Node<'_, B>,
        at: Remote<RawNode>,
    ) -> Result<Vec<MemorySlot<()>>, IndexError> {
        if let Ok(slots) = listed(list, &self.fabric().shape()) {
            return Ok(slots);
        }
        self.fabric().find_added_nodes().await?;
        listed(list, &self.fabric().shape()).map_err(|what| self.damaged(at, what))
    }

    /// Returns the pointer to the first list. [1 RT]
    async fn first_list(self) -> Result<Option<Remote<RawNode>>, IndexError> {
        let first = self.index.entry.free_list();
        let word = self.client.post(read(first.at())).await?.whole_word();
        Ok(first.open_pointer(word)?)
    }
}

/// Returns the slots of a list, or the reason why the node is not a list, because the slot may contain another node.
fn listed<B: Deref<Target = [u8]>>(
    list: &Node<'_, B>,
    shape: &PoolShape,
) -> Result<Vec<MemorySlot<()>>, String> {
    if list.level() != 1 || !list.freed() {
        return Err("it is not a list of free slots".to_owned());
    }
    let slot = |number: usize| {
        let separator = list.separator(number);
        let number_at = |at: usize| u32_at(separator, at);
        let kind = SlotKind { bytes: number_at(4) & 0xFF_FFFF, of: separator[7] };
        let at = list.child(number + 1);
        let offset = at.address().offset();
        let in_chunks = CHUNK_BYTES..shape.host_bytes;
        let is_slot = at.address().memory() == Memory::Host
            && at.node().0 < shape.nodes
            && offset.is_multiple_of(UNIT_BYTES as u64)
            && in_chunks.contains(&offset);
        let slot = MemorySlot { at: at.part(0), version: Some(number_at(0)), is_zero: false, kind };
        if is_slot { Ok(slot) } else { Err(format!("it lists a free slot at {at}")) }
    };
    (0..list.count()).map(slot).collect()
}
