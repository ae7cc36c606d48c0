//! The post: from the doorbell to the memory node's NIC.

use super::{Completion, Device, NicPair, PostedDoorbell, PostedVerb, VerbKind};
use crate::queue::{Event, Key};
use crate::stages::fifo::MessageArrival;
use crate::stages::pcie::TransferWindow;
use crate::stages::send_queue::SendQueue;
use farwood_fabric::{ChainFlag, Doorbell, Op};

impl Device {
    /// Posts a doorbell of the running thread, after the CPU time that the post takes.
    pub(crate) fn ring(&mut self, client: Key, doorbell: Doorbell, completion: Completion) -> Key {
        let awaited = completion == Completion::Awaited;
        let mut node = None;
        let mut cpu = 0.0;
        for request in doorbell.requests() {
            let same = node.replace(request.at.node()) == Some(request.at.node());
            cpu += if same { self.card.cpu.chained_post_ns } else { self.card.cpu.post_ns };
            // A kernel copies the bytes in both directions; a NIC uses DMA.
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
        let posted =
            PostedDoorbell { doorbell: Some(doorbell), client, left, error: None, waker: None, awaited };
        let doorbell_key = self.doorbells.insert(posted) as Key;
        self.counts.doorbells += u64::from(awaited);
        let now = self.now();
        self.queue.at(now, Event::Post(doorbell_key));
        doorbell_key
    }

    /// Moves the verbs of a doorbell to their send queues.
    pub(super) fn post(&mut self, doorbell_key: Key) {
        let PostedDoorbell { doorbell, client, .. } = &self.doorbells[doorbell_key as usize];
        let client = *client;
        let connection = &self.connections[client as usize];
        let first_queue = connection.first_queue;
        if self.compute[connection.compute].crashed {
            // The node crashed after the CPU time of the post and before the doorbell reached the NIC.
            if !self.doorbells[doorbell_key as usize].awaited {
                self.doorbells.remove(doorbell_key as usize);
            }
            return;
        }
        let Some(doorbell) = doorbell else { unreachable!("a posted doorbell holds its requests") };
        let count = doorbell.requests().len();
        let mut queue = first_queue;
        for index in 0..count {
            let verb = self.posted(doorbell_key, client, index, first_queue);
            let before = std::mem::replace(&mut queue, verb.queue);
            self.nics[verb.nics.client].in_flight.add();
            let key = self.verbs.insert(verb) as Key;
            self.note(key, "post");
            self.queues[queue].waiting.push_back(key);
            if before != queue {
                self.send_ready(before);
            }
        }
        self.send_ready(queue);
    }

    fn posted(&mut self, doorbell_key: Key, client: Key, index: usize, first_queue: usize) -> PostedVerb {
        let doorbell = self.doorbells[doorbell_key as usize]
            .doorbell
            .as_ref()
            .expect("a posted doorbell holds its requests");
        let request = &doorbell.requests()[index];
        let (kind, bytes, immediate) = match &request.op {
            Op::Read { into } => (VerbKind::Read, into.len(), None),
            Op::Write { data, immediate } => (VerbKind::Write, data.len(), *immediate),
            _ => (VerbKind::Atomic, 8, None),
        };
        let queue = first_queue + usize::from(request.at.node().0);
        let service = self.costs.of(&request.op, request.at.memory());
        let SendQueue { server, unit, epoch, .. } = self.queues[queue];
        let nics = NicPair { client: self.compute[self.connections[client as usize].compute].nic, server };
        self.posted += 1;
        PostedVerb {
            number: self.posted,
            doorbell_key,
            index: index as u32,
            kind,
            at: request.at,
            bytes: bytes as u32,
            link: request.link,
            client,
            nics,
            unit,
            service,
            queue,
            epoch,
            counted: true,
            last_byte: 0,
            window: TransferWindow { from: 0, to: 0 },
            copies_by_line: false,
            open: false,
            answered: false,
            immediate,
            kept: None,
            abandoned: false,
            store: None,
            rotation: 0,
            resent: false,
            crash_after_answer: false,
        }
    }

    /// Sends the requests at the head of a send queue that need not wait.
    pub(super) fn send_ready(&mut self, queue: usize) {
        while let Some(&verb) = self.queues[queue].waiting.front() {
            let posted = &self.verbs[verb as usize];
            let asks = posted.kind != VerbKind::Write;
            let fetches_in_flight = self.queues[queue].fetches_in_flight;
            let fenced = posted.link == ChainFlag::Fenced && fetches_in_flight > 0;
            if fenced || asks && fetches_in_flight >= self.card.messages.read_atomic_window {
                return;
            }
            self.queues[queue].waiting.pop_front();
            self.queues[queue].fetches_in_flight += u32::from(asks);
            self.leave(verb);
        }
    }

    /// Sends a request from the client's NIC.
    fn leave(&mut self, verb: Key) {
        let Some(delay) = self.apply_send_rules(verb) else { return };
        let PostedVerb { nics, service, queue, at, bytes, .. } = self.verbs[verb as usize];
        self.fetch_ahead(at, bytes as usize);
        let nic = &mut self.nics[nics.client];
        let penalty = nic.in_flight.penalty(&self.card.outstanding);
        let (slow, misses) = (nic.slowdown, nic.caches.of_sent());
        let now = MessageArrival::new(self.queue.now, 0);
        let left = nic.out.send(
            now,
            (service.message + penalty.service + misses.service) * slow,
            service.request * slow,
        );
        let arrival =
            left.first + self.card.wire.one_way_ns as u64 + penalty.latency + misses.latency + delay;
        // A reliable connection delivers in order: a delayed request also delays the requests after it.
        let arrival = arrival.max(self.queues[queue].last_arrival);
        let last_byte = arrival + (left.last - left.first);
        self.queues[queue].last_arrival = last_byte;
        self.verbs[verb as usize].last_byte = last_byte;
        self.queue.at(arrival, Event::Arrive(verb));
    }
}
