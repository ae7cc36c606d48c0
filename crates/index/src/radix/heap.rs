//! An allocator for slots of several sizes: 64 to 8192 bytes for nodes and leaves, and the sizes of overflow values. It
//! has one chunk of 8 MiB per memory node.
//!
//! A slot serves objects of one kind and size for as long as its index exists ([`slot`](crate::memory::slot)); freed
//! slots are reused first. If the pool is full, a larger slot serves a node or a leaf, which then has the slot's size.
//! The caller chooses the memory node, so that the WRITE of an object and the CAS that links it form one chain.
//!
//! When a compute node leaves, the next one takes the rests of its chunks; those of a crashed compute node are adopted
//! ([`adopt`](crate::memory::adopt)). The free slots of a compute node that leaves or crashes are lost until the index
//! is dropped.

use super::inner::NodeSize;
use super::leaf;
use crate::coverage;
use crate::error::IndexError;
use crate::memory::adopt::{Objects, SLOT_BYTES_MAX};
use crate::memory::chunks::{Chunks, OpenChunk, pool_full, wait_for_chunk};
use crate::memory::free_list::{FreeList, Which};
use crate::memory::overflow::{self, OVERFLOW_KIND};
use crate::memory::slot::{MemorySlot, SlotKind};
use crate::radix::tree::TreeOptions;
use crate::radix::tree::options::Allocation;
use farwood_fabric::directory::Entry;
use farwood_fabric::{Client, Fabric, NodeId};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes up to which equal front and rear versions prove a copy on every NIC (docs/nic-model.md). The first words of
/// larger slots are in one line (`radix/tree/fetch.rs`).
const PAIR_BYTES: u32 = 1024;
/// Bytes of the first words of a slot, and of a line.
const FRONT_BYTES: u64 = 24;
const LINE_BYTES: u64 = 64;

/// Coverage mark of a slot that is larger than its object needs. The pools of `cargo xtask swarm` are not full, so the
/// mark is not in [`MARKS`](crate::radix::MARKS).
const LARGER_SLOT_REUSED: &str = "radix: a larger slot reused";

/// The kind of the objects in a slot, which never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the kinds have these names")]
pub enum ObjectKind {
    Inner = 0,
    /// An overflow value, or a part of one.
    Overflow = OVERFLOW_KIND as isize,
    Leaf = 2,
    Subtable = 3,
    Directory = 4,
}

impl ObjectKind {
    /// Slots of `bytes` bytes for such objects.
    pub fn slot_kind(self, bytes: usize) -> SlotKind {
        SlotKind { bytes: bytes as u32, of: self as u8 }
    }
}

/// The memory of one index.
#[derive(Debug)]
pub struct Heap {
    chunks: Chunks<RadixObjects>,
    state: Mutex<HeapState>,
    allocation: Allocation,
    /// Whether the memory of objects that were linked is reused.
    reuses: bool,
}

#[derive(Debug, Default)]
struct HeapState {
    /// The chunk of each memory node in which slots are allocated.
    chunks: BTreeMap<u16, OpenChunk>,
    /// The free slots of each memory node.
    free: BTreeMap<u16, FreeList>,
    /// Bytes that were allocated, less those that were freed.
    allocated: i64,
}

impl Heap {
    /// The heap of the index at a directory entry.
    pub fn new(entry: &Entry) -> Self {
        let objects = RadixObjects { index: entry.number };
        let chunks = Chunks::new(entry.slot, objects);
        Self { chunks, state: Mutex::default(), allocation: Allocation::Words, reuses: true }
    }

    /// The heap of a tree with these options.
    #[must_use]
    pub fn with(self, options: &TreeOptions) -> Self {
        Self { allocation: options.allocation, reuses: !options.swaps_leaves(), ..self }
    }

    /// The bytes that a slot of that kind takes.
    fn bytes_of(&self, kind: SlotKind) -> i64 {
        self.allocation.rounded(u64::from(kind.bytes)).cast_signed()
    }

    fn state(&self) -> MutexGuard<'_, HeapState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates a slot of that kind on memory node `near`, or on another one if that node is full. [0 RT; at the end
    /// of a chunk as in [`take`](farwood_fabric::chunks::take)]
    ///
    /// # Errors
    /// [`PoolFull`](farwood_fabric::FabricError::PoolFull) where no memory node has a free chunk.
    pub async fn allocate<F: Fabric, T>(
        &self,
        client: &Client<F>,
        near: NodeId,
        kind: SlotKind,
    ) -> Result<MemorySlot<T>, IndexError> {
        let (mut step, mut since_ns, mut nodes) = (0, None, client.fabric().shape().nodes);
        loop {
            if step >= nodes {
                let found = client.fabric().shape().nodes;
                if found == nodes {
                    return Err(pool_full(client).await);
                }
                // Another client of this process has found an added memory node meanwhile.
                (step, nodes) = (0, found);
            }
            let node = (near.0 + step) % nodes;
            if let Some(slot) = self.reuse_or_carve(client, node, kind) {
                return Ok(slot.cast());
            }
            let Some(_guard) = self.chunks.try_begin() else {
                wait_for_chunk(client, &mut since_ns).await;
                continue;
            };
            if let Some(slot) = self.reuse_or_carve(client, node, kind) {
                return Ok(slot.cast());
            }
            if step == 0 {
                client.fabric().find_added_nodes().await?;
                nodes = client.fabric().shape().nodes;
            }
            match self.take_chunk(client, NodeId(node), kind).await? {
                None => step += 1,
                Some(taken) => {
                    let before = self.state().chunks.insert(node, taken);
                    if let Some(rest) = before {
                        self.chunks.leave(client, rest).await?;
                    }
                }
            }
        }
    }

    /// As [`allocate`](Self::allocate); if the pool is full, a larger slot of at most `bytes_max` bytes, which keeps
    /// its size: the object in it has the size of the slot.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), also if no larger slot is free.
    pub async fn allocate_fitting<F: Fabric, T>(
        &self,
        client: &Client<F>,
        near: NodeId,
        kind: SlotKind,
        bytes_max: u32,
    ) -> Result<MemorySlot<T>, IndexError> {
        match self.allocate(client, near, kind).await {
            Err(error) if error.is_full() => self.reuse_larger(client, near, kind, bytes_max).ok_or(error),
            allocated => allocated,
        }
    }

    /// Obtains a chunk of that memory node with space for such an object: that of a crashed client, or a new one.
    async fn take_chunk<F: Fabric>(
        &self,
        client: &Client<F>,
        node: NodeId,
        kind: SlotKind,
    ) -> Result<Option<OpenChunk>, IndexError> {
        // Up to this many bytes in front of a slot may stay unused.
        let bytes = kind.bytes + self.allocation.rounded(LINE_BYTES) as u32;
        let adopted = self.chunks.adopt(client, node, bytes).await?;
        match adopted {
            Some(_) => Ok(adopted),
            None => self.chunks.take(client, node, bytes).await,
        }
    }

    fn reuse_or_carve<F: Fabric>(
        &self,
        client: &Client<F>,
        node: u16,
        kind: SlotKind,
    ) -> Option<MemorySlot<()>> {
        let mut state = self.state();
        if let Some(free) = state.free.get_mut(&node).and_then(|free| free.take(kind, Which::All)) {
            if free.is_used() {
                client.fabric().record_coverage(coverage::SLOT_REUSED);
            }
            state.allocated += self.bytes_of(kind);
            return Some(free);
        }
        let open = state.chunks.get_mut(&node)?;
        let slot = open.carve(self.allocation.rounded(start_of(kind, open.used())), kind)?;
        state.allocated += self.bytes_of(kind);
        Some(slot)
    }

    /// Takes a free slot that is larger than those of that kind, on memory node `near` if there is one.
    pub fn reuse_larger<F: Fabric, T>(
        &self,
        client: &Client<F>,
        near: NodeId,
        kind: SlotKind,
        bytes_max: u32,
    ) -> Option<MemorySlot<T>> {
        let larger = self.reuse(client, near, |free| free.take_larger(kind, bytes_max))?;
        client.fabric().record_coverage(LARGER_SLOT_REUSED);
        Some(larger)
    }

    /// Takes the largest free slot that is not larger than `kind` and holds objects of the same kind, on memory node
    /// `near` if there is one.
    pub fn reuse_at_most<F: Fabric, T>(
        &self,
        client: &Client<F>,
        near: NodeId,
        kind: SlotKind,
    ) -> Option<MemorySlot<T>> {
        self.reuse(client, near, |free| free.take_at_most(kind))
    }

    /// Takes the free slot that `take` chooses, on memory node `near` or the next one that has one.
    fn reuse<F: Fabric, T>(
        &self,
        client: &Client<F>,
        near: NodeId,
        take: impl Fn(&mut FreeList) -> Option<MemorySlot<()>>,
    ) -> Option<MemorySlot<T>> {
        let nodes = client.fabric().shape().nodes;
        let mut state = self.state();
        let mut in_order = (0..nodes).map(|step| (near.0 + step) % nodes);
        let slot = in_order.find_map(|node| take(state.free.get_mut(&node)?))?;
        state.allocated += self.bytes_of(slot.kind);
        Some(slot.cast())
    }

    /// Converts a slot to which no pointer leads into a slot for objects of `kind`, which are not larger.
    pub fn convert<T, U>(&self, slot: MemorySlot<T>, kind: SlotKind) -> MemorySlot<U> {
        self.state().allocated -= self.bytes_of(slot.kind) - self.bytes_of(kind);
        let mut slot = slot.cast();
        (slot.version, slot.is_zero, slot.kind) = (None, false, kind);
        slot
    }

    /// Frees the slot of an object that was removed from the index. If clients swap pointers without a lock, the memory
    /// counts as free and is not reused, because a client may still hold a pointer to it.
    pub fn retire<T>(&self, slot: MemorySlot<T>) {
        if self.reuses {
            self.take_back(slot);
        } else {
            self.state().allocated -= self.bytes_of(slot.kind);
        }
    }

    /// Frees the slot of an object that was removed from the index, or was never linked.
    pub fn take_back<T>(&self, slot: MemorySlot<T>) {
        let mut state = self.state();
        let node = slot.at.node().0;
        state.allocated -= self.bytes_of(slot.kind);
        state.free.entry(node).or_default().put(slot.cast());
    }

    /// Bytes that this compute node has allocated, less those that it freed.
    pub fn bytes(&self) -> i64 {
        self.state().allocated
    }

    /// Returns the rests of the chunks, which the next compute node can take. [1 RT for each]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn leave<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        let chunks = std::mem::take(&mut self.state().chunks);
        for open in chunks.into_values() {
            self.chunks.leave(client, open).await?;
        }
        Ok(())
    }
}

/// Returns the start of the next slot of that kind in a chunk of which `used` bytes are used.
fn start_of(kind: SlotKind, used: u64) -> u64 {
    let apart = used % LINE_BYTES + FRONT_BYTES > LINE_BYTES;
    if kind.bytes > PAIR_BYTES && apart { used.next_multiple_of(LINE_BYTES) } else { used }
}

/// Recognizes the nodes, leaves, values and tables of a radix tree: the end is after the last word that is not zero.
#[derive(Debug)]
struct RadixObjects {
    index: u64,
}

impl Objects for RadixObjects {
    fn end(&self, chunk: &[u8]) -> u64 {
        // The first word of a table's bucket is not zero, and a typed node may have only a front that is not zero.
        const REST_BYTES: usize = NodeSize::Typed256.memory_bytes();
        let mut end = 0;
        for (number, word) in chunk.as_chunks::<8>().0.iter().enumerate() {
            let (at, word) = (8 * number, u64::from_le_bytes(*word));
            if word == 0 {
                continue;
            }
            end = end.max(at + REST_BYTES);
            if word as u32 == self.index as u32 {
                end = end.max(at + leaf::LEAF_BYTES_MAX);
            }
            if word == self.index && at >= overflow::INDEX {
                let begin = at - overflow::INDEX;
                let bytes = overflow::stored_slot_bytes(&chunk[begin..]).unwrap_or(0) as usize;
                end = end.max(begin + bytes.min(SLOT_BYTES_MAX));
            }
        }
        end as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radix::leaf::{LeafClass, LeafEntry, LeafGrain, LeafId, LeafValue, image};
    use crate::radix::reverse::Reverse;

    #[test]
    fn the_first_words_of_a_large_slot_are_in_one_line() {
        let (small, large) = (ObjectKind::Leaf.slot_kind(1024), ObjectKind::Inner.slot_kind(2088));
        for used in (0..256).step_by(8) {
            assert_eq!(start_of(small, used), used);
            let start = start_of(large, used);
            assert!(start >= used && start < used + LINE_BYTES);
            assert_eq!(start / LINE_BYTES, (start + FRONT_BYTES - 1) / LINE_BYTES);
        }
    }

    #[test]
    fn the_last_object_ends_within_the_used_bytes() {
        let objects = RadixObjects { index: 77 };
        let mut chunk = vec![0; 1 << 20];
        assert_eq!(objects.end(&chunk), 0);
        let class = LeafClass::for_entry(LeafGrain::Words, 8, 4000).expect("it fits");
        let entry = LeafEntry { key: &[0; 8], value: LeafValue::Inline(&[0; 4000]) };
        let leaf = image(class, Reverse::unlinked(1), LeafId { number: 77, version: 1 }, entry);
        chunk[4096 + 56..][..class.bytes()].copy_from_slice(leaf.bytes());
        let end = objects.end(&chunk);
        assert!(end >= (4096 + 56 + class.bytes()) as u64 && end <= 4096 + 56 + 8192, "{end}");
    }
}
