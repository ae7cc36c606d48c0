//! From the memory node back to the client.

use super::{Device, Flight, Flying, Kind};
use crate::queue::{Event, Key};
use farwood_fabric::Op;

impl Device {
    /// An answer leaves: the bytes of a READ, the word of an atomic, the acknowledgement of a WRITE.
    pub(super) fn answer(&mut self, verb: Key) {
        let Flying { nics, service, .. } = self.verbs[verb as usize];
        let nic = &mut self.nics[nics.server];
        let left = nic.out.send(self.queue.now, 0, service.answer * nic.slowness);
        self.queue.at(left + self.card.wire.one_way_ns as u64, Event::Return(verb));
    }

    /// An answer's last byte has come.
    pub(super) fn come_back(&mut self, verb: Key) {
        let Flying { nics, service, .. } = self.verbs[verb as usize];
        let now = self.queue.now;
        let nic = &mut self.nics[nics.client];
        let passed = nic.into.receive(now, 0, service.answer * nic.slowness);
        if passed > now {
            self.queue.at(passed, Event::Complete(verb));
        } else {
            self.complete(verb);
        }
    }

    /// The client's NIC has the answer.
    pub(super) fn complete(&mut self, verb: Key) {
        self.note(verb, "complete");
        let stale = self.stale(verb);
        self.settle(verb);
        if !stale {
            let queue = self.verbs[verb as usize].queue;
            self.queues[queue].asking -= u32::from(self.verbs[verb as usize].kind != Kind::Write);
            self.pump(queue);
        }
        if self.verbs[verb as usize].last_words {
            let compute = self.connections[self.verbs[verb as usize].client as usize].compute;
            self.crash(compute);
        }
        self.retire(verb);
    }

    /// A verb is answered, or never will be.
    pub(super) fn settle(&mut self, verb: Key) {
        let flying = &mut self.verbs[verb as usize];
        flying.answered = true;
        if std::mem::take(&mut flying.counted) {
            let nic = self.verbs[verb as usize].nics.client;
            self.nics[nic].in_flight.remove();
        }
        let Flying { flight, index, .. } = self.verbs[verb as usize];
        let flight_key = flight;
        let flight = &mut self.flights[flight as usize];
        flight.left -= 1;
        if self.verbs[verb as usize].open
            && self.verbs[verb as usize].kept.is_none()
            && let Some(doorbell) = &flight.doorbell
            && let Op::Write { data, .. } = &doorbell.requests()[index as usize].op
        {
            // The client takes its doorbell back while the last lines are yet to be placed.
            let data = doorbell.payload()[data.clone()].to_vec();
            self.verbs[verb as usize].kept = Some(data);
        }
        if self.flights[flight_key as usize].left == 0 {
            self.land(flight_key);
        }
    }

    /// All verbs of a doorbell are answered.
    pub(super) fn land(&mut self, key: Key) {
        let flight = &mut self.flights[key as usize];
        if !flight.waited_for {
            let Flight { client, error, .. } = self.flights.remove(key as usize);
            if let Some(error) = error {
                self.connections[client as usize].failed = Some(error);
            }
        } else if let Some(waker) = flight.waker.take() {
            waker.wake();
        }
    }

    /// Forgets a verb on whose behalf nothing will happen any more.
    pub(super) fn retire(&mut self, verb: Key) {
        let flying = &self.verbs[verb as usize];
        if flying.answered && !flying.open {
            self.verbs.remove(verb as usize);
        }
    }
}
