//! Storing, reading and freeing overflow values, for every kind of index.
//!
//! A change stores the new value before it looks for its leaf. A conditional change stores it after the decision; if
//! the key is present, the client holds the lock of the leaf meanwhile. Both free the old value after the answer to the
//! WRITE of the leaf. A change that stores nothing frees the new value. The slots of an interrupted change are lost
//! until the index is dropped.

use super::overflow::{
    self, Link, OVERFLOW_KIND, OverflowValue, PART_BYTES_MAX, PARTS_MAX, RawOverflow, UNIT_BYTES,
};
use super::slot::{MemorySlot, SlotKind};
use crate::coverage;
use crate::error::IndexError;
use farwood_fabric::{Client, Fabric};

/// Coverage mark of a value in parts that fill free slots. The pools of `cargo xtask swarm` are not full, so the mark
/// is not in [`MARKS`](coverage::MARKS).
const STORED_IN_PIECES: &str = "an overflow value in pieces";

/// The memory in which an index stores overflow values.
pub(crate) trait OverflowMemory {
    /// Number of the index.
    fn index(&self) -> u64;

    /// Allocates a slot.
    async fn allocate(&self, kind: SlotKind) -> Result<MemorySlot<RawOverflow>, IndexError>;

    /// Takes the largest free slot that is not larger than `kind`.
    fn take_at_most(&self, kind: SlotKind) -> Option<MemorySlot<RawOverflow>>;

    /// Takes one of the smallest free slots that are larger than `kind`.
    fn take_larger(&self, kind: SlotKind) -> Option<MemorySlot<RawOverflow>>;

    /// Converts a slot to which no pointer leads into a slot for objects of `kind`, which are not larger.
    fn convert<T>(&self, slot: MemorySlot<RawOverflow>, kind: SlotKind) -> MemorySlot<T> {
        let mut slot = slot.cast();
        (slot.version, slot.kind) = (None, kind);
        slot
    }

    /// Adds the rests of a slot that was divided.
    fn add_rests(&self, rests: Vec<MemorySlot<RawOverflow>>);

    /// Frees a slot.
    fn take_back(&self, slot: MemorySlot<RawOverflow>);
}

/// An overflow value that no entry links yet.
pub(crate) struct UnlinkedValue {
    pub(crate) link: Link,
    slots: Vec<MemorySlot<RawOverflow>>,
}

impl UnlinkedValue {
    /// Frees the value, which no entry links.
    pub(crate) fn free(self, memory: &impl OverflowMemory) {
        free_slots(self.slots, memory);
    }
}

/// Stores an overflow value. [1 RT; more as in the allocation]
pub(crate) async fn store<F: Fabric>(
    client: &Client<F>,
    memory: &impl OverflowMemory,
    value: &[u8],
) -> Result<UnlinkedValue, IndexError> {
    let mut slots = Vec::new();
    for length in overflow::lengths(value.len()) {
        match slot_for(client, memory, length).await {
            Ok(slot) => slots.push(slot),
            Err(error) => {
                free_slots(slots, memory);
                return if error.is_full() {
                    store_in_pieces(client, memory, value, error).await
                } else {
                    Err(error)
                };
            }
        }
    }
    let (link, images) = overflow::lay_out(memory.index(), value, &mut slots);
    overflow::write_all(client, &images).await?;
    Ok(UnlinkedValue { link, slots })
}

/// Allocates a slot for an object of `length` bytes; if the pool is full, the front of a larger slot.
/// [as [`OverflowMemory::allocate`]; 1 RT more to divide a slot]
async fn slot_for<F: Fabric>(
    client: &Client<F>,
    memory: &impl OverflowMemory,
    length: usize,
) -> Result<MemorySlot<RawOverflow>, IndexError> {
    let kind = overflow::slot_kind(length);
    match memory.allocate(kind).await {
        Err(error) if error.is_full() => divide_larger(client, memory, kind).await?.ok_or(error),
        allocated => allocated,
    }
}

/// Divides a free slot that is larger than `kind`, and yields its front. `None`: there is none. [1 RT]
async fn divide_larger<F: Fabric>(
    client: &Client<F>,
    memory: &impl OverflowMemory,
    kind: SlotKind,
) -> Result<Option<MemorySlot<RawOverflow>>, IndexError> {
    let Some(larger) = memory.take_larger(kind) else { return Ok(None) };
    let (front, rests, images) = overflow::divide(memory.index(), larger, kind);
    overflow::write_all(client, &images).await?;
    memory.add_rests(rests);
    Ok(Some(front))
}

/// Divides a free slot of overflow values, and yields its front as a slot of `kind` for other objects, which never held
/// a linked object. `None`: no free slot is large enough. [1 RT]
///
/// Clients only read overflow values, and identify them by hash, version and length. So a client that follows a stale
/// link to the front does not accept another object as its value, and does not change it. The reverse would not be
/// safe: clients lock and change nodes and leaves.
pub(crate) async fn divide_for<F: Fabric, T>(
    client: &Client<F>,
    memory: &impl OverflowMemory,
    kind: SlotKind,
) -> Result<Option<MemorySlot<T>>, IndexError> {
    let bytes = kind.bytes.next_multiple_of(UNIT_BYTES as u32);
    let front = SlotKind { bytes, of: OVERFLOW_KIND };
    let least = SlotKind { bytes: bytes - 1, ..front };
    let Some(larger) = memory.take_larger(least) else { return Ok(None) };
    let (front, rests, images) = overflow::divide(memory.index(), larger, front);
    overflow::write_all(client, &images).await?;
    memory.add_rests(rests);
    Ok(Some(memory.convert(front, kind)))
}

/// Stores a value in parts that fill smaller slots of a full pool; returns `full` if there are too few of them.
/// [2 RT; 1 more for each slot that is divided]
async fn store_in_pieces<F: Fabric>(
    client: &Client<F>,
    memory: &impl OverflowMemory,
    value: &[u8],
    full: IndexError,
) -> Result<UnlinkedValue, IndexError> {
    let (mut slots, mut lengths, mut rest) = (Vec::new(), Vec::new(), value.len());
    while rest > 0 && lengths.len() < PARTS_MAX {
        let part = rest.min(PART_BYTES_MAX);
        let kind = overflow::slot_kind(part);
        let slot = match memory.take_at_most(kind) {
            Some(slot) => slot,
            None => match divide_larger(client, memory, kind).await? {
                Some(slot) => slot,
                None => break,
            },
        };
        let length = part.min(overflow::part_bytes(slot.kind));
        rest -= length;
        slots.push(slot);
        lengths.push(length);
    }
    if rest > 0 || lengths.len() < 2 {
        free_slots(slots, memory);
        return Err(full);
    }
    match slot_for(client, memory, overflow::list_bytes(lengths.len())).await {
        Ok(list) => slots.push(list),
        Err(error) => {
            free_slots(slots, memory);
            return Err(error);
        }
    }
    client.fabric().record_coverage(STORED_IN_PIECES);
    let (link, images) = overflow::lay_out_pieces(memory.index(), value, &lengths, &mut slots);
    overflow::write_all(client, &images).await?;
    Ok(UnlinkedValue { link, slots })
}

/// Frees the value that `replaced` points to, which no entry links any longer; returns whether that succeeded. If it
/// fails, the slots are lost until the index is dropped, but the change is complete. [0 RT; 1 for a value of several
/// parts]
pub(crate) async fn free<F: Fabric>(
    client: &Client<F>,
    memory: &impl OverflowMemory,
    replaced: Option<Link>,
) -> bool {
    let Some(link) = replaced else { return false };
    let Ok(slots) = overflow::slots_of(client, memory.index(), link).await else { return false };
    free_slots(slots, memory);
    true
}

/// Reads the value that `link` points to; returns `None` if it was replaced or removed after the link was read. [1 RT;
/// 2 for a value of several parts]
pub(crate) async fn read<F: Fabric>(
    client: &Client<F>,
    index: u64,
    link: Link,
) -> Result<Option<OverflowValue>, IndexError> {
    let found = overflow::follow(client, index, link).await?;
    if found.is_none() {
        client.fabric().record_coverage(coverage::VALUE_REPLACED);
    }
    Ok(found)
}

fn free_slots(slots: Vec<MemorySlot<RawOverflow>>, memory: &impl OverflowMemory) {
    for slot in slots {
        memory.take_back(slot);
    }
}
