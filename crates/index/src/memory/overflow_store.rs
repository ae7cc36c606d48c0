//! Storing, reading and freeing overflow values, for every kind of index.
//!
//! A change stores the new value before it looks for its leaf, and frees the old value after the answer to the WRITE
//! of the leaf. A change that stores nothing frees the new value. The slots of an interrupted change are lost until the
//! index is dropped.

use super::overflow::{self, Link, OverflowValue, RawOverflow};
use super::slot::{MemorySlot, SlotKind};
use crate::coverage;
use crate::error::IndexError;
use farwood_fabric::{Client, Fabric};

/// The memory in which an index stores overflow values.
pub(crate) trait OverflowMemory {
    /// Number of the index.
    fn index(&self) -> u64;

    /// Allocates a slot.
    async fn allocate(&self, kind: SlotKind) -> Result<MemorySlot<RawOverflow>, IndexError>;

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

/// Stores a value out of line. [1 RT; more as in the allocation]
pub(crate) async fn store<F: Fabric>(
    client: &Client<F>,
    memory: &impl OverflowMemory,
    value: &[u8],
) -> Result<UnlinkedValue, IndexError> {
    let mut slots = Vec::new();
    for length in overflow::lengths(value.len()) {
        match memory.allocate(overflow::slot_kind(length)).await {
            Ok(slot) => slots.push(slot),
            Err(error) => {
                free_slots(slots, memory);
                return Err(error);
            }
        }
    }
    let (link, images) = overflow::lay_out(memory.index(), value, &mut slots);
    overflow::write_all(client, &images).await?;
    Ok(UnlinkedValue { link, slots })
}

/// Frees the value behind `replaced`, which no entry links any more; returns whether that succeeded. Failure loses the
/// slots until the index is dropped; the change is complete all the same. [0 RT; 1 for a value of several parts]
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

/// Reads the value behind `link`; returns `None` where it was replaced or removed after the link was read. [1 RT; 2 for
/// a value of several parts]
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
