//! Atomic slots: two atomics whose addresses fall into one slot follow each other.

use crate::card::Atomics;
use crate::queue::Key;
use farwood_fabric::Memory;
use std::collections::VecDeque;

/// One slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    /// Whether an atomic holds it.
    pub(crate) busy: bool,
    /// Atomics that wait for it, each at the head of its processing unit.
    pub(crate) waiting: VecDeque<Key>,
}

/// The slots of one NIC, for host and for device memory.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    host: Vec<Slot>,
    device: Vec<Slot>,
}

impl Slots {
    pub(crate) fn new(card: &Atomics) -> Self {
        Self { host: vec![Slot::default(); card.slots], device: vec![Slot::default(); card.slots] }
    }

    /// The slot of the word at `offset`.
    #[inline]
    pub(crate) fn of(&mut self, memory: Memory, offset: u64) -> &mut Slot {
        let slots = match memory {
            Memory::Host => &mut self.host,
            Memory::Device => &mut self.device,
        };
        let at = (offset >> 3) as usize % slots.len();
        &mut slots[at]
    }
}

/// How long an atomic holds its slot, nanoseconds.
#[inline]
pub(crate) fn hold(card: &Atomics, memory: Memory, stored: bool) -> u64 {
    let hold = match (memory, stored) {
        (Memory::Host, true) => card.host_success_ns,
        (Memory::Host, false) => card.host_failure_ns,
        (Memory::Device, true) => card.device_success_ns,
        (Memory::Device, false) => card.device_failure_ns,
    };
    hold as u64
}
