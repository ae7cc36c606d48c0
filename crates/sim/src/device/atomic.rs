//! Atomics: acquire a slot, read, compare, write back all eight bytes.
//!
//! A WRITE to the word between the read and the write-back is lost.

use super::serve::LATE_NS_MAX;
use super::{Device, PostedVerb};
use crate::queue::{Event, Key};
use crate::stages::atomics::{AtomicOutcome, hold};
use farwood_fabric::{Memory, Op};

impl Device {
    /// Waits for the slot of the atomic's address.
    pub(super) fn take_slot(&mut self, verb: Key) {
        let PostedVerb { at, nics, .. } = self.verbs[verb as usize];
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
            // The atomic is delayed, and READs of its queue pair do not wait for it.
            after = after.max(self.queue.now + self.random.below(LATE_NS_MAX));
        }
        if after > self.queue.now {
            self.queue.at(after, Event::AtomicBegin(verb));
        } else {
            self.begin_atomic(verb);
        }
    }

    /// Reads the word and decides what to store.
    pub(super) fn begin_atomic(&mut self, verb: Key) {
        let PostedVerb { at, .. } = self.verbs[verb as usize];
        self.touch(at, 8);
        self.intercept_cas(verb);
        let before = self.word(at);
        let masks = self.kept.masked_cas;
        let (op, _) = self.op(verb);
        let mut store = answer(op, before);
        if let Op::MaskedCas { swap, .. } = op
            && !masks
        {
            // A NIC without masks swaps the whole word.
            store = store.and(Some(*swap));
        }
        if !self.kept.write_beside_cas {
            // A failed CAS stores the word that it found.
            store = store.or(Some(before));
        }
        let now = self.queue.now;
        let slow = self.nics[self.verbs[verb as usize].nics.server].slowdown;
        let outcome = store.map_or(AtomicOutcome::Unchanged, |_| AtomicOutcome::Stored);
        let held = hold(&self.card.atomics, at.memory(), outcome) * slow;
        let posted = &mut self.verbs[verb as usize];
        (posted.store, posted.open) = (store, true);
        self.queue.at(now + held, Event::AtomicEnd(verb));
        let latency = match at.memory() {
            Memory::Host => self.card.pcie.read_ns as u64 * slow,
            Memory::Device => held,
        };
        self.queue.at(now + latency, Event::Answer(verb));
    }

    /// Writes the word back, and hands slot and processing unit to the next atomic.
    pub(super) fn end_atomic(&mut self, verb: Key) {
        let posted = &mut self.verbs[verb as usize];
        let (at, store) = (posted.at, posted.store);
        posted.open = false;
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
        self.forget(verb);
    }
}

/// Sets the answer of an atomic that found `before`; yields the word to store, if any.
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
