//! From the doorbell to the memory node's NIC.

use super::{Device, Ends, Flight, Flying, Kind};
use crate::queue::{Event, Key};
use crate::stations::pcie::Window;
use farwood_fabric::{Doorbell, Link, Op};

impl Device {
    /// Takes a doorbell from the thread that runs now: its CPU time is spent, and then it rings.
    pub(crate) fn ring(&mut self, client: Key, doorbell: Doorbell, waited_for: bool) -> Key {
        let mut node = None;
        let mut cpu = 0.0;
        for request in doorbell.requests() {
            let same = node.replace(request.at.node()) == Some(request.at.node());
            cpu += if same { self.card.cpu.chained_post_ns } else { self.card.cpu.post_ns };
            // A kernel copies bytes that go and bytes that come; a card copies them itself.
            let copied = match &request.op {
                Op::Write { data, .. } => {
                    cpu += self.card.cpu.payload_ns;
                    data.len()
                }
                Op::Read { into } => into.len(),
                _ => 0,
            };
            cpu += self.card.server.kernel_byte_ns * copied as f64;
        }
        self.spend(cpu);
        let left = doorbell.requests().len() as u32;
        let flight = Flight { doorbell: Some(doorbell), client, left, error: None, waker: None, waited_for };
        let flight = self.flights.insert(flight) as Key;
        self.counts.doorbells += u64::from(waited_for);
        let now = self.now();
        self.queue.at(now, Event::Post(flight));
        flight
    }

    /// A doorbell reaches the NIC: its verbs enter their send queues.
    pub(super) fn post(&mut self, flight: Key) {
        let Flight { doorbell, client, .. } = &self.flights[flight as usize];
        let client = *client;
        let connection = &self.connections[client as usize];
        let first_queue = connection.first_queue;
        if self.compute[connection.compute].crashed {
            // The thread died after it had spent the time and before the doorbell rang.
            if !self.flights[flight as usize].waited_for {
                self.flights.remove(flight as usize);
            }
            return;
        }
        let Some(doorbell) = doorbell else { unreachable!("a doorbell that rings is there") };
        let count = doorbell.requests().len();
        let mut queue = first_queue;
        for index in 0..count {
            let verb = self.flying(flight, client, index, first_queue);
            let before = std::mem::replace(&mut queue, verb.queue);
            self.nics[verb.nics.client].in_flight.add();
            let key = self.verbs.insert(verb) as Key;
            self.note(key, "post");
            self.queues[queue].waiting.push_back(key);
            if before != queue {
                self.pump(before);
            }
        }
        self.pump(queue);
    }

    fn flying(&mut self, flight: Key, client: Key, index: usize, first_queue: usize) -> Flying {
        let doorbell = self.flights[flight as usize].doorbell.as_ref().expect("it was there a moment ago");
        let request = &doorbell.requests()[index];
        let (kind, bytes, immediate) = match &request.op {
            Op::Read { into } => (Kind::Read, into.len(), None),
            Op::Write { data, immediate } => (Kind::Write, data.len(), *immediate),
            _ => (Kind::Atomic, 8, None),
        };
        let queue = first_queue + usize::from(request.at.node().0);
        let service = self.costs.of(&request.op, request.at.memory());
        let servers = &self.memory[usize::from(request.at.node().0)].nics;
        let server = if let [only] = servers[..] { only } else { servers[client as usize % servers.len()] };
        let nics = Ends { client: self.compute[self.connections[client as usize].compute].nic, server };
        self.posted += 1;
        Flying {
            number: self.posted,
            flight,
            index: index as u32,
            kind,
            at: request.at,
            bytes: bytes as u32,
            link: request.link,
            client,
            nics,
            // Queue pairs are spread evenly: their numbers are given out in turn.
            unit: (client % self.card.units.count) as usize,
            service,
            queue,
            epoch: self.queues[queue].epoch,
            counted: true,
            window: Window { from: 0, to: 0 },
            by_line: false,
            open: false,
            answered: false,
            immediate,
            kept: None,
            abandoned: false,
            store: None,
            shuffle: 0,
            resent: false,
            last_words: false,
        }
    }

    /// Lets the requests of a send queue leave that may.
    pub(super) fn pump(&mut self, queue: usize) {
        while let Some(&verb) = self.queues[queue].waiting.front() {
            let flying = &self.verbs[verb as usize];
            let asks = flying.kind != Kind::Write;
            let asking = self.queues[queue].asking;
            let fenced = flying.link == Link::Fenced && asking > 0;
            if fenced || asks && asking >= self.card.messages.read_atomic_window {
                return;
            }
            self.queues[queue].waiting.pop_front();
            self.queues[queue].asking += u32::from(asks);
            self.leave(verb);
        }
    }

    /// A request leaves the client's NIC.
    fn leave(&mut self, verb: Key) {
        let Some(delay) = self.rules_at_leaving(verb) else { return };
        let Flying { nics, service, queue, at, bytes, .. } = self.verbs[verb as usize];
        self.fetch_ahead(at, bytes as usize);
        let nic = &mut self.nics[nics.client];
        let penalty = nic.in_flight.penalty(&self.card.outstanding);
        let slow = nic.slowness;
        let left =
            nic.out.send(self.queue.now, (service.message + penalty.service) * slow, service.request * slow);
        let arrival = left + self.card.wire.one_way_ns as u64 + penalty.latency + delay;
        // A reliable connection delivers in order: what is delayed delays what comes behind it.
        let arrival = arrival.max(self.queues[queue].last_arrival);
        self.queues[queue].last_arrival = arrival;
        self.queue.at(arrival, Event::Arrive(verb));
    }
}
