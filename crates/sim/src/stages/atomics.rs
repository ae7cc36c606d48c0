//! Atomic slots: atomics whose addresses share a slot execute one after the other.

use crate::nic_model::Atomics;
use crate::queue::Key;
use farwood_fabric::Memory;
use std::collections::VecDeque;

/// One slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct AtomicSlot {
    /// Whether an atomic holds it.
    pub(crate) busy: bool,
    /// Atomics that wait for it, each at the head of its processing unit.
    pub(crate) waiting: VecDeque<Key>,
}

/// The slots of one NIC, for host and for device memory.
#[derive(Clone, Debug)]
pub(crate) struct AtomicSlots {
    host: Vec<AtomicSlot>,
    device: Vec<AtomicSlot>,
}

impl AtomicSlots {
    pub(crate) fn new(card: &Atomics) -> Self {
        Self {
            host: vec![AtomicSlot::default(); card.slots],
            device: vec![AtomicSlot::default(); card.slots],
        }
    }

    /// The slot of the word at `offset`.
    #[inline]
    pub(crate) fn of(&mut self, memory: Memory, offset: u64) -> &mut AtomicSlot {
        let slots = match memory {
            Memory::Host => &mut self.host,
            Memory::Device => &mut self.device,
        };
        let at = (offset >> 3) as usize % slots.len();
        &mut slots[at]
    }
}

/// The effect of an atomic on its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOutcome {
    /// It stores a word.
    Stored,
    /// It stores nothing.
    Unchanged,
}

/// The time for which an atomic holds its slot, nanoseconds.
#[inline]
pub(crate) fn hold(card: &Atomics, memory: Memory, outcome: AtomicOutcome) -> u64 {
    let hold = match (memory, outcome) {
        (Memory::Host, AtomicOutcome::Stored) => card.host_success_ns,
        (Memory::Host, AtomicOutcome::Unchanged) => card.host_failure_ns,
        (Memory::Device, AtomicOutcome::Stored) => card.device_success_ns,
        (Memory::Device, AtomicOutcome::Unchanged) => card.device_failure_ns,
    };
    hold as u64
}
