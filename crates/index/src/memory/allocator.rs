//! An allocator that takes the slots of an index from one chunk at a time, and the chunks from the memory nodes in turn
//! (Sherman §4.2.4).
//!
//! The clients of a compute node share it. When a compute node leaves, it returns the rest of its chunk, and the next
//! compute node that allocates for the same index takes that rest. A compute node also adopts the chunk of a crashed
//! one, and uses the memory after its last object. Slots of removed objects are reused first ([`slot`](super::slot)
//! states why that is safe).

use super::adopt::Objects;
use super::chunks::{Chunks, OpenChunk, pool_full, wait_for_chunk};
use super::free_list::{FreeList, Give, Which};
use super::slot::{MemorySlot, SlotKind};
use crate::coverage;
use crate::error::IndexError;
use farwood_fabric::chunks::CHUNK_BYTES;
use farwood_fabric::{Client, Fabric, NodeId};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Allocates slots for one index.
#[derive(Debug)]
pub struct Allocator {
    chunks: Chunks<Units>,
    state: Mutex<AllocatorState>,
}

#[derive(Debug, Default)]
struct AllocatorState {
    chunk: Option<OpenChunk>,
    /// Slots of objects that were removed from the index, or never linked.
    free: FreeList,
    /// The memory node of the next chunk; at first derived from the client's identity.
    next_node: Option<u16>,
    /// Slots that were allocated, less those that were freed, including those of other compute nodes.
    allocated: i64,
}

/// Objects that begin at multiples of a unit.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// The number of the index, which every object stores at the same offset: no two indexes of a pool ever have the
    /// same number.
    pub index: u64,
    /// The offset of the number in an object, bytes.
    pub index_offset: usize,
    /// Objects begin at multiples of this, bytes.
    pub unit_bytes: usize,
    /// The sizes of slots.
    pub room_of: SlotSizes,
}

/// The sizes of the slots of an index.
#[derive(Clone, Copy, Debug)]
pub enum SlotSizes {
    /// One size, bytes.
    One(u32),
    /// The size that the function reads from the first unit of an object; if the object does not store its size, the
    /// number, bytes.
    Told(fn(&[u8]) -> Option<u64>, u32),
}

impl Units {
    fn slot_bytes(&self, first_unit: &[u8]) -> u64 {
        match self.room_of {
            SlotSizes::One(bytes) => u64::from(bytes),
            SlotSizes::Told(stored, otherwise) => stored(first_unit).unwrap_or(u64::from(otherwise)),
        }
    }
}

impl Objects for Units {
    fn end(&self, chunk: &[u8]) -> u64 {
        let index = self.index.to_le_bytes();
        let units = chunk.chunks_exact(self.unit_bytes).enumerate();
        let objects = units.filter(|(_, unit)| unit[self.index_offset..][..8] == index);
        let ends = objects.map(|(number, unit)| {
            let begin = (number * self.unit_bytes) as u64;
            begin + self.slot_bytes(unit).next_multiple_of(self.unit_bytes as u64)
        });
        ends.max().unwrap_or(0)
    }
}

/// Smallest rest of a chunk that a compute node returns for others when it takes another chunk, bytes.
const REST_BYTES_MIN: u64 = 64 << 10;

impl Allocator {
    /// An allocator for the index at directory entry `entry`.
    pub fn new(entry: u8, objects: Units) -> Self {
        Self { chunks: Chunks::new(entry, objects), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, AllocatorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates a slot of that kind. [0 RT; at the end of a chunk as in [`take`](farwood_fabric::chunks::take)]
    ///
    /// # Errors
    /// [`PoolFull`](farwood_fabric::FabricError::PoolFull) where no memory node has a free chunk.
    pub async fn allocate<F: Fabric, T>(
        &self,
        client: &Client<F>,
        kind: SlotKind,
    ) -> Result<MemorySlot<T>, IndexError> {
        self.allocate_one(client, kind, Which::All).await
    }

    /// As [`allocate`](Self::allocate), but yields a slot that never held a linked object, so no stale pointer leads to
    /// it.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub async fn allocate_new<F: Fabric, T>(
        &self,
        client: &Client<F>,
        kind: SlotKind,
    ) -> Result<MemorySlot<T>, IndexError> {
        self.allocate_one(client, kind, Which::New).await
    }

    async fn allocate_one<F: Fabric, T>(
        &self,
        client: &Client<F>,
        kind: SlotKind,
        which: Which,
    ) -> Result<MemorySlot<T>, IndexError> {
        let mut since_ns = None;
        loop {
            if let Some(slot) = self.reuse_or_carve(client, kind, which) {
                return Ok(slot);
            }
            let Some(guard) = self.chunks.try_begin() else {
                wait_for_chunk(client, &mut since_ns).await;
                continue;
            };
            if !self.has_slot(kind, which) {
                let taken = self.take_chunk(client, kind.bytes).await?;
                let before = self.state().chunk.replace(taken);
                if let Some(rest) = before.filter(|open| CHUNK_BYTES - open.used() >= REST_BYTES_MIN) {
                    self.chunks.leave(client, rest).await?;
                }
            }
            drop(guard);
        }
    }

    /// Whether the next slot of that kind needs no chunk.
    fn has_slot(&self, kind: SlotKind, which: Which) -> bool {
        let state = self.state();
        let fits =
            state.chunk.as_ref().is_some_and(|open| open.used() + u64::from(kind.bytes) <= CHUNK_BYTES);
        fits || state.free.has(kind, which)
    }

    fn reuse_or_carve<F: Fabric, T>(
        &self,
        client: &Client<F>,
        kind: SlotKind,
        which: Which,
    ) -> Option<MemorySlot<T>> {
        let mut state = self.state();
        if let Some(free) = state.free.take(kind, which) {
            if free.is_used() {
                client.fabric().record_coverage(coverage::SLOT_REUSED);
            }
            state.allocated += 1;
            return Some(free.cast());
        }
        let open = state.chunk.as_mut()?;
        let slot = open.carve(open.used(), kind)?;
        state.allocated += 1;
        Some(slot)
    }

    /// Removes one of the free slots, which `take` chooses.
    pub(crate) fn take_free<T>(
        &self,
        take: impl FnOnce(&mut FreeList) -> Option<MemorySlot<()>>,
    ) -> Option<MemorySlot<T>> {
        let mut state = self.state();
        let slot = take(&mut state.free)?;
        state.allocated += 1;
        Some(slot.cast())
    }

    /// Slots that this compute node has allocated, less those that it freed.
    pub fn allocated(&self) -> i64 {
        self.state().allocated
    }

    /// Frees the slot of an object that was removed from the index, or was never linked.
    pub fn take_back<T>(&self, slot: MemorySlot<T>) {
        let mut state = self.state();
        state.free.put(slot.cast());
        state.allocated -= 1;
    }

    /// Stops counting an allocated slot, which from now on stores a list of free slots and is itself a free slot.
    pub fn give_away(&self) {
        self.state().allocated -= 1;
    }

    /// Frees an unused slot, which becomes the last of its kind to be reused.
    pub fn put_aside<T>(&self, slot: MemorySlot<T>) {
        let mut state = self.state();
        state.free.put_last(slot.cast());
        state.allocated -= 1;
    }

    /// Whether the next slot of that kind needs a chunk.
    pub fn is_dry(&self, kind: SlotKind) -> bool {
        !self.has_slot(kind, Which::All)
    }

    /// Removes up to `count` free slots for other compute nodes: all, or the surplus. Slots that never held a linked
    /// object stay: a compute node that adopts the chunk of a crashed one cannot distinguish them from its unused rest.
    pub fn give(&self, give: Give, count: usize) -> Vec<MemorySlot<()>> {
        self.state().free.give(give, count)
    }

    /// Adds free slots of other compute nodes.
    pub fn receive(&self, slots: impl IntoIterator<Item = MemorySlot<()>>) {
        let mut state = self.state();
        slots.into_iter().for_each(|slot| state.free.put(slot));
    }

    /// Obtains a chunk with `bytes` free bytes: the chunk of a crashed client on any memory node, or a new chunk from
    /// the next memory node that has one.
    async fn take_chunk<F: Fabric>(&self, client: &Client<F>, bytes: u32) -> Result<OpenChunk, IndexError> {
        client.fabric().find_added_nodes().await?;
        let nodes = client.fabric().shape().nodes;
        let first = self.state().next_node.unwrap_or(client.fabric().identity().slot % nodes);
        for node in 0..nodes {
            if let Some(adopted) = self.chunks.adopt(client, NodeId(node), bytes).await? {
                return Ok(adopted);
            }
        }
        for step in 0..nodes {
            let node = (first + step) % nodes;
            if let Some(taken) = self.chunks.take(client, NodeId(node), bytes).await? {
                self.state().next_node = Some((node + 1) % nodes);
                return Ok(taken);
            }
        }
        Err(pool_full(client).await)
    }

    /// Returns the rest of the chunk, which the next compute node can take. [1 RT]
    pub async fn leave<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        let chunk = self.state().chunk.take();
        if let Some(chunk) = chunk {
            self.chunks.leave(client, chunk).await?;
        }
        Ok(())
    }
}
