//! The answer: from the memory node back to the client.

use super::{Device, PostedDoorbell, PostedVerb, VerbKind};
use crate::fault::RETRY_NS;
use crate::queue::{Event, Key};
use farwood_fabric::Op;

impl Device {
    /// Sends an answer: the bytes of a READ, the word of an atomic, the acknowledgement of a WRITE.
    pub(super) fn answer(&mut self, verb: Key) {
        let PostedVerb { nics, service, .. } = self.verbs[verb as usize];
        let nic = &mut self.nics[nics.server];
        let left = nic.out.send(self.queue.now, 0, service.answer * nic.slowdown);
        self.queue.at(left + self.card.wire.one_way_ns as u64, Event::Return(verb));
    }

    /// Receives the last byte of an answer.
    pub(super) fn receive_answer(&mut self, verb: Key) {
        let PostedVerb { nics, service, client, at, .. } = self.verbs[verb as usize];
        let now = self.queue.now;
        if let Some(until) = self.unreachable_until(client, at.node()) {
            // The NIC requests the answer again until it arrives or the retries end.
            if until - now > RETRY_NS {
                self.queue.at(now + RETRY_NS, Event::Expire(verb));
            } else {
                self.queue.at(until, Event::Return(verb));
            }
            return;
        }
        let nic = &mut self.nics[nics.client];
        let passed = nic.into.receive(now, 0, service.answer * nic.slowdown);
        if passed > now {
            self.queue.at(passed, Event::Complete(verb));
        } else {
            self.complete(verb);
        }
    }

    /// Completes a verb at the client's NIC.
    pub(super) fn complete(&mut self, verb: Key) {
        self.note(verb, "complete");
        let stale = self.stale(verb);
        self.finish_verb(verb);
        if !stale {
            let queue = self.verbs[verb as usize].queue;
            self.queues[queue].fetches_in_flight -=
                u32::from(self.verbs[verb as usize].kind != VerbKind::Write);
            self.send_ready(queue);
        }
        if self.verbs[verb as usize].crash_after_answer {
            let compute = self.connections[self.verbs[verb as usize].client as usize].compute;
            self.crash(compute);
        }
        self.forget(verb);
    }

    /// Finishes a verb that is answered or has failed.
    pub(super) fn finish_verb(&mut self, verb: Key) {
        let posted = &mut self.verbs[verb as usize];
        posted.answered = true;
        if std::mem::take(&mut posted.counted) {
            let nic = self.verbs[verb as usize].nics.client;
            self.nics[nic].in_flight.remove();
        }
        let PostedVerb { flight, index, .. } = self.verbs[verb as usize];
        let flight_key = flight;
        let flight = &mut self.doorbells[flight as usize];
        flight.left -= 1;
        if self.verbs[verb as usize].open
            && !self.verbs[verb as usize].abandoned
            && let Some(doorbell) = &flight.doorbell
            && let Op::Write { data, .. } = &doorbell.requests()[index as usize].op
        {
            // The client gets its request buffer back before the last cache lines of the WRITE are placed.
            let data = doorbell.payload()[data.clone()].to_vec();
            self.verbs[verb as usize].kept = Some(data);
        }
        if self.doorbells[flight_key as usize].left == 0 {
            self.finish_doorbell(flight_key);
        }
    }

    /// Finishes a doorbell whose verbs are all answered.
    pub(super) fn finish_doorbell(&mut self, key: Key) {
        let flight = &mut self.doorbells[key as usize];
        if !flight.awaited {
            let PostedDoorbell { client, error, .. } = self.doorbells.remove(key as usize);
            if let Some(error) = error {
                self.connections[client as usize].failed = Some(error);
            }
        } else if let Some(waker) = flight.waker.take() {
            waker.wake();
        }
    }

    /// Removes a verb without pending events.
    pub(super) fn forget(&mut self, verb: Key) {
        let posted = &self.verbs[verb as usize];
        if posted.answered && !posted.open {
            self.verbs.remove(verb as usize);
        }
    }
}
