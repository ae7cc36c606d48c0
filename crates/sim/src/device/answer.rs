//! The last step of a verb: its answer travels from the memory node to the client, and the client's NIC completes it.

use super::{Device, PostedDoorbell, PostedVerb, VerbKind};
use crate::fault::RETRY_NS;
use crate::queue::{Event, Key};
use crate::stages::fifo::MessageArrival;
use farwood_fabric::Op;

impl Device {
    /// Sends the answer of `verb`: the bytes of a READ, the previous word of an atomic, or the acknowledgement of a
    /// WRITE.
    pub(super) fn answer(&mut self, verb: Key) {
        let PostedVerb { nics, service, last_byte, .. } = self.verbs[verb as usize];
        let nic = &mut self.nics[nics.server];
        let at = MessageArrival::new(self.queue.now, last_byte);
        let sent = nic.out.send(at, 0, service.answer * nic.slowdown);
        let returns = sent.after(self.card.wire.one_way_ns as u64);
        self.verbs[verb as usize].last_byte = returns.last;
        self.queue.at(returns.first, Event::Return(verb));
    }

    /// Receives the answer of `verb` at the client's NIC, and completes the verb when the NIC has processed the answer.
    pub(super) fn receive_answer(&mut self, verb: Key) {
        let PostedVerb { nics, service, client, at, last_byte, .. } = self.verbs[verb as usize];
        let now = self.queue.now;
        if let Some(until) = self.unreachable_until(client, at.node()) {
            // The NIC requests the answer again until it arrives or the retries end.
            if until - now > RETRY_NS {
                // The transfer of a READ ends before its last byte would arrive.
                self.queue.at((now + RETRY_NS).max(last_byte), Event::Expire(verb));
            } else {
                self.queue.at(until, Event::Return(verb));
            }
            return;
        }
        let nic = &mut self.nics[nics.client];
        let answer = MessageArrival::new(now, last_byte);
        let received = nic.into.receive(answer, 0, service.answer * nic.slowdown).last;
        if received > now {
            self.queue.at(received, Event::Complete(verb));
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

    /// Records that a verb is answered or has failed, and finishes its doorbell if it was the last one.
    pub(super) fn finish_verb(&mut self, verb: Key) {
        let posted = &mut self.verbs[verb as usize];
        posted.answered = true;
        if std::mem::take(&mut posted.counted) {
            let nic = self.verbs[verb as usize].nics.client;
            self.nics[nic].in_flight.remove();
        }
        let PostedVerb { doorbell_key, index, .. } = self.verbs[verb as usize];
        let posted_doorbell = &mut self.doorbells[doorbell_key as usize];
        posted_doorbell.left -= 1;
        if self.verbs[verb as usize].open
            && !self.verbs[verb as usize].abandoned
            && let Some(doorbell) = &posted_doorbell.doorbell
            && let Op::Write { data, .. } = &doorbell.requests()[index as usize].op
        {
            // The client gets its request buffer back before the last cache lines of the WRITE are placed.
            let data = doorbell.payload()[data.clone()].to_vec();
            self.verbs[verb as usize].kept = Some(data);
        }
        if self.doorbells[doorbell_key as usize].left == 0 {
            self.finish_doorbell(doorbell_key);
        }
    }

    /// Finishes a doorbell whose verbs are all answered: wakes the client that awaits it, or removes a detached one.
    pub(super) fn finish_doorbell(&mut self, key: Key) {
        let doorbell = &mut self.doorbells[key as usize];
        if !doorbell.awaited {
            let PostedDoorbell { client, error, .. } = self.doorbells.remove(key as usize);
            if let Some(error) = error {
                self.connections[client as usize].failed = Some(error);
            }
        } else if let Some(waker) = doorbell.waker.take() {
            waker.wake();
        }
    }

    /// Removes a verb that is answered and whose transfer has ended, because no further event refers to it.
    pub(super) fn forget(&mut self, verb: Key) {
        let posted = &self.verbs[verb as usize];
        if posted.answered && !posted.open {
            self.verbs.remove(verb as usize);
        }
    }
}
