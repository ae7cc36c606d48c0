//! Atomics: a slot, a read, a comparison, a write-back of all eight bytes.
//!
//! What a WRITE places in the word between the read and the write-back is lost.

use super::serve::LATE_NS_MAX;
use super::{Device, Flying};
use crate::queue::{Event, Key};
use crate::stations::atomics::hold;
use farwood_fabric::{Memory, Op};

impl Device {
    /// Waits for the slot of the atomic's address.
    pub(super) fn take_slot(&mut self, verb: Key) {
        let Flying { at, nics, .. } = self.verbs[verb as usize];
        let slot = self.nics[nics.server].slots.of(at.memory(), at.offset());
        if slot.busy {
            slot.waiting.push_back(verb);
            return;
        }
        slot.busy = true;
        self.wait_for_writes(verb);
    }

    fn wait_for_writes(&mut self, verb: Key) {
        let mut after = self.writes_before(verb);
        if !self.kept.atomic_then_read {
            // It takes its time, and READs of its queue pair do not wait.
            after = after.max(self.queue.now + self.chance.below(LATE_NS_MAX));
        }
        if after > self.queue.now {
            self.queue.at(after, Event::AtomicBegin(verb));
        } else {
            self.begin_atomic(verb);
        }
    }

    /// Reads the word and decides.
    pub(super) fn begin_atomic(&mut self, verb: Key) {
        let Flying { at, .. } = self.verbs[verb as usize];
        self.touch(at, 8);
        self.outrun(verb);
        let before = self.word(at);
        let masks = self.kept.masked_cas;
        let (op, _) = self.op(verb);
        let mut store = answer(op, before);
        if let Op::MaskedCas { swap, .. } = op
            && !masks
        {
            // A card without masks swaps the whole word.
            store = store.and(Some(*swap));
        }
        if !self.kept.write_beside_cas {
            // It stores what it found where it fails.
            store = store.or(Some(before));
        }
        let now = self.queue.now;
        let slow = self.nics[self.verbs[verb as usize].nics.server].slowness;
        let held = hold(&self.card.atomics, at.memory(), store.is_some()) * slow;
        let flying = &mut self.verbs[verb as usize];
        (flying.store, flying.open) = (store, true);
        self.queue.at(now + held, Event::AtomicEnd(verb));
        let latency = match at.memory() {
            Memory::Host => self.card.pcie.read_ns as u64 * slow,
            Memory::Device => held,
        };
        self.queue.at(now + latency, Event::Answer(verb));
    }

    /// Writes back, and leaves slot and processing unit to the next.
    pub(super) fn end_atomic(&mut self, verb: Key) {
        let flying = &mut self.verbs[verb as usize];
        let (at, store) = (flying.at, flying.store);
        flying.open = false;
        if let Some(word) = store {
            self.touch(at, 8);
            self.set_word(at, word);
        }
        let nic = self.verbs[verb as usize].nics.server;
        let slot = self.nics[nic].slots.of(at.memory(), at.offset());
        slot.busy = false;
        let next = slot.waiting.pop_front();
        slot.busy = next.is_some();
        if let Some(next) = next {
            self.wait_for_writes(next);
        }
        self.free_unit(verb);
        self.retire(verb);
    }
}

/// Answers an atomic that found `before`; yields the word to store, if any.
pub(super) fn answer(op: &mut Op, before: u64) -> Option<u64> {
    match op {
        Op::Cas { compare, swap, old } => {
            *old = before;
            (*compare == before).then_some(*swap)
        }
        Op::MaskedCas { compare, compare_mask, swap, swap_mask, old } => {
            *old = before;
            let equal = (before ^ *compare) & *compare_mask == 0;
            equal.then_some(before & !*swap_mask | *swap & *swap_mask)
        }
        Op::Faa { add, old } => {
            *old = before;
            Some(before.wrapping_add(*add))
        }
        Op::Read { .. } | Op::Write { .. } => unreachable!("an atomic"),
    }
}
