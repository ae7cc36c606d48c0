//! The steps of a request at the memory node's NIC: message engine, processing unit, execution.

use super::{Device, PostedVerb, VerbKind};
use crate::queue::{Event, Key};
use crate::stages::fifo::MessageArrival;
use farwood_fabric::{Memory, NodeId, Op};
use std::task::Waker;

impl Device {
    /// Receives a request whose first packet arrives now.
    pub(super) fn arrive(&mut self, verb: Key) {
        if !self.apply_arrival_rules(verb) {
            return;
        }
        let PostedVerb { nics, service, last_byte, queue, at, .. } = self.verbs[verb as usize];
        let now = self.queue.now;
        let nic = &mut self.nics[nics.server];
        let misses = nic.caches.of_received(at.memory());
        let arrival = MessageArrival::new(now, last_byte);
        let message = (service.message + misses.service) * nic.slowdown;
        let received = nic.into.receive(arrival, message, service.request * nic.slowdown);
        self.verbs[verb as usize].last_byte = received.last;
        // A kernel passes on whole messages, a NIC packets.
        let mut enters = if self.kernel_work(verb) > 0 { received.last } else { received.first };
        if self.card.translations.is_some() || self.card.queue_pairs.is_some() {
            // The requests of a queue pair stay in order, although some of them need no translation.
            let last = &mut self.queues[queue].last_enter;
            let delayed = (enters + misses.latency).max(*last);
            *last = delayed;
            self.verbs[verb as usize].last_byte += delayed - enters;
            enters = delayed;
        }
        if enters > now {
            self.queue.at(enters, Event::Enter(verb));
        } else {
            self.enter(verb);
        }
    }

    /// Passes a request from the NIC to its processing unit, through the kernel if the network has one.
    pub(super) fn enter(&mut self, verb: Key) {
        if self.kernel_work(verb) == 0 {
            self.at_unit(verb);
            return;
        }
        let queue = self.verbs[verb as usize].queue;
        let in_kernel = &mut self.queues[queue].in_kernel;
        in_kernel.push_back(verb);
        if in_kernel.len() == 1 {
            self.enqueue_kernel_work(verb, self.kernel_work(verb));
        }
    }

    /// Kernel time of a request, nanoseconds.
    fn kernel_work(&self, verb: Key) -> u64 {
        let server = &self.card.server;
        let bytes = f64::from(self.verbs[verb as usize].bytes);
        (server.kernel_message_ns + server.kernel_byte_ns * bytes) as u64
    }

    /// Ends the kernel work of a request, and starts that of the next one of its connection.
    pub(super) fn finish_kernel_work(&mut self, verb: Key) {
        let queue = self.verbs[verb as usize].queue;
        let in_kernel = &mut self.queues[queue].in_kernel;
        in_kernel.pop_front();
        let next = in_kernel.front().copied();
        self.at_unit(verb);
        if let Some(next) = next {
            self.enqueue_kernel_work(next, self.kernel_work(next));
        }
    }

    /// Passes a request to its processing unit.
    pub(super) fn at_unit(&mut self, verb: Key) {
        let (nic, unit) = self.unit_of(verb);
        let overtakes = self.may_overtake(verb, nic, unit);
        let unit = &mut self.nics[nic].units[unit];
        if unit.atomic.is_some() && !overtakes {
            unit.waiting.push_back(verb);
        } else {
            self.serve(verb);
        }
    }

    /// Whether `verb` is a READ that may overtake the atomic that its processing unit executes, because both belong to
    /// one queue pair and the device does not order them.
    fn may_overtake(&self, verb: Key, nic: usize, unit: usize) -> bool {
        let posted = &self.verbs[verb as usize];
        let Some(atomic) = self.nics[nic].units[unit].atomic else { return false };
        let waiting = &self.nics[nic].units[unit].waiting;
        !self.kept.atomic_then_read
            && posted.kind == VerbKind::Read
            && self.verbs[atomic as usize].queue == posted.queue
            && waiting.iter().all(|&other| self.verbs[other as usize].queue != posted.queue)
    }

    fn unit_of(&self, verb: Key) -> (usize, usize) {
        let PostedVerb { nics, unit, .. } = self.verbs[verb as usize];
        (nics.server, unit)
    }

    fn serve(&mut self, verb: Key) {
        if self.refuse(verb) {
            return;
        }
        self.note(verb, "serve");
        self.count(verb);
        match self.verbs[verb as usize].kind {
            VerbKind::Read | VerbKind::Write => self.transfer(verb),
            VerbKind::Atomic => {
                let (nic, unit) = self.unit_of(verb);
                self.nics[nic].units[unit].atomic = Some(verb);
                self.take_slot(verb);
            }
        }
    }

    fn count(&mut self, verb: Key) {
        let client = self.verbs[verb as usize].client as usize;
        let mut counts = self.connections[client].counts;
        match self.op(verb).0 {
            Op::Read { into } => {
                counts.reads += 1;
                counts.bytes_read += into.len() as u64;
            }
            Op::Write { data, immediate } => {
                counts.bytes_written += data.len() as u64;
                match immediate {
                    Some(_) => counts.write_imm += 1,
                    None => counts.writes += 1,
                }
            }
            Op::Cas { .. } => counts.cas += 1,
            Op::MaskedCas { .. } => counts.masked_cas += 1,
            Op::Faa { .. } => counts.faa += 1,
        }
        self.connections[client].counts = counts;
    }

    /// Starts the transfer of a READ or WRITE.
    fn transfer(&mut self, verb: Key) {
        let PostedVerb { at, bytes, kind, .. } = self.verbs[verb as usize];
        let bytes = self.slowed_bytes(u64::from(bytes));
        if at.memory() == Memory::Device {
            self.copy_at_once(verb);
            self.answer(verb);
        } else if kind == VerbKind::Read {
            self.fetch(verb, bytes);
        } else {
            self.place(verb, bytes);
        }
    }

    /// Starts the transfer of a READ. Its answer leaves when the first packet is sampled.
    fn fetch(&mut self, verb: Key, bytes: u64) {
        let after = self.writes_before(verb);
        let nic = &mut self.nics[self.verbs[verb as usize].nics.server];
        let window = nic.bus.read(self.queue.now, after, bytes, nic.slowdown);
        self.open_transfer(verb, window);
        let posted = &mut self.verbs[verb as usize];
        if posted.is_answered_in_packets() {
            posted.last_byte = window.to;
            let packet = (window.to - window.from) * self.card.wire.mtu_bytes / u64::from(posted.bytes);
            self.queue.at(window.from + packet, Event::Answer(verb));
        }
    }

    /// Starts the transfer of a WRITE. The WRITE is acknowledged when its last byte has arrived.
    fn place(&mut self, verb: Key, bytes: u64) {
        let PostedVerb { at, nics, last_byte, .. } = self.verbs[verb as usize];
        let arrival = MessageArrival::new(self.queue.now, last_byte);
        let nic = &mut self.nics[nics.server];
        let mut window = nic.bus.write(arrival, bytes, nic.slowdown);
        if self.writes_are_delayed(at.node()) {
            let late = self.random.below(LATE_NS_MAX);
            window = self.nics[nics.server].bus.delay(window, late);
        }
        self.open_transfer(verb, window);
        if arrival.last > self.queue.now {
            self.queue.at(arrival.last, Event::Answer(verb));
        } else {
            self.answer(verb);
        }
    }

    /// Whether WRITEs may be placed long after their acknowledgement: the device does not order them before later
    /// arrivals, or not across its NICs, or it reports `cpu_sees_write` without implementing it.
    fn writes_are_delayed(&self, node: NodeId) -> bool {
        !self.kept.arrival_sees_write
            || self.memory[usize::from(node.0)].nics.len() > 1
            || self.promised.cpu_sees_write && !self.kept.cpu_sees_write
    }

    /// The number of bytes whose transfer at full speed takes as long as the slowed transfer of `bytes` bytes.
    fn slowed_bytes(&mut self, bytes: u64) -> u64 {
        if self.stretch == 1 { bytes } else { bytes * (1 + self.random.below(self.stretch)) }
    }

    /// Frees the processing unit of an atomic, and serves the requests that wait for it.
    pub(super) fn free_unit(&mut self, verb: Key) {
        let (nic, unit) = self.unit_of(verb);
        self.nics[nic].units[unit].atomic = None;
        while self.nics[nic].units[unit].atomic.is_none() {
            let Some(next) = self.nics[nic].units[unit].waiting.pop_front() else { return };
            self.serve(next);
        }
    }

    /// Delivers an immediate to the server of its memory node.
    pub(super) fn deliver(&mut self, at: farwood_fabric::Address, immediate: Option<u32>) {
        let node = &mut self.memory[usize::from(at.node().0)];
        node.immediates.extend(immediate);
        if immediate.is_some() {
            // The first task to run takes the immediate.
            node.receivers.drain(..).for_each(Waker::wake);
        }
    }
}

/// Largest delay of a WRITE or an atomic whose order is not guaranteed, nanoseconds.
pub(super) const LATE_NS_MAX: u64 = 20_000;
