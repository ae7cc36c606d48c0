//! A request at the memory node's NIC: the entrance, its processing unit, and what is done there.

use super::{Device, Flying, Kind};
use crate::queue::{Event, Key};
use farwood_fabric::{Memory, NodeId, Op};
use std::task::Waker;

impl Device {
    /// A request's last byte has come.
    pub(super) fn arrive(&mut self, verb: Key) {
        if !self.rules_at_arrival(verb) {
            return;
        }
        let Flying { nics, service, .. } = self.verbs[verb as usize];
        let now = self.queue.now;
        let nic = &mut self.nics[nics.server];
        let passed = nic.into.receive(now, service.message * nic.slowness, service.request * nic.slowness);
        if passed > now {
            self.queue.at(passed, Event::Enter(verb));
        } else {
            self.enter(verb);
        }
    }

    /// A request is in the NIC; where requests pass through the kernel, that deals with it first.
    pub(super) fn enter(&mut self, verb: Key) {
        if self.kernel_work(verb) == 0 {
            self.at_unit(verb);
            return;
        }
        let queue = self.verbs[verb as usize].queue;
        let in_kernel = &mut self.queues[queue].in_kernel;
        in_kernel.push_back(verb);
        if in_kernel.len() == 1 {
            self.employ_kernel(verb, self.kernel_work(verb));
        }
    }

    /// What the kernel has to do for a request, nanoseconds.
    fn kernel_work(&self, verb: Key) -> u64 {
        let server = &self.card.server;
        let bytes = f64::from(self.verbs[verb as usize].bytes);
        (server.kernel_message_ns + server.kernel_byte_ns * bytes) as u64
    }

    /// The kernel has dealt with a request, and turns to the next of its connection.
    pub(super) fn leave_kernel(&mut self, verb: Key) {
        let queue = self.verbs[verb as usize].queue;
        let in_kernel = &mut self.queues[queue].in_kernel;
        in_kernel.pop_front();
        let next = in_kernel.front().copied();
        self.at_unit(verb);
        if let Some(next) = next {
            self.employ_kernel(next, self.kernel_work(next));
        }
    }

    /// A request reaches its processing unit.
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

    /// Where "atomic, then READ" is not kept, a READ does not wait for an atomic of its own queue pair.
    fn may_overtake(&self, verb: Key, nic: usize, unit: usize) -> bool {
        let flying = &self.verbs[verb as usize];
        let Some(atomic) = self.nics[nic].units[unit].atomic else { return false };
        let waiting = &self.nics[nic].units[unit].waiting;
        !self.kept.atomic_then_read
            && flying.kind == Kind::Read
            && self.verbs[atomic as usize].queue == flying.queue
            && waiting.iter().all(|&other| self.verbs[other as usize].queue != flying.queue)
    }

    fn unit_of(&self, verb: Key) -> (usize, usize) {
        let Flying { nics, unit, .. } = self.verbs[verb as usize];
        (nics.server, unit)
    }

    fn serve(&mut self, verb: Key) {
        if self.refuse(verb) {
            return;
        }
        self.note(verb, "serve");
        self.count(verb);
        match self.verbs[verb as usize].kind {
            Kind::Read | Kind::Write => self.transfer(verb),
            Kind::Atomic => {
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

    /// A READ is answered when its last line is sampled, a WRITE at once; in device memory both happen at once.
    fn transfer(&mut self, verb: Key) {
        let Flying { at, bytes, nics, kind, .. } = self.verbs[verb as usize];
        let bytes = self.stretched(u64::from(bytes));
        if at.memory() == Memory::Device {
            self.copy_at_once(verb);
            self.answer(verb);
            return;
        }
        let now = self.queue.now;
        if kind == Kind::Read {
            let after = self.writes_before(verb);
            let nic = &mut self.nics[nics.server];
            let window = nic.bus.read(now, after, bytes, nic.slowness);
            self.open_transfer(verb, window);
            return;
        }
        let nic = &mut self.nics[nics.server];
        let mut window = nic.bus.write(now, bytes, nic.slowness);
        if self.writes_linger(at.node()) {
            let late = self.chance.below(LATE_NS_MAX);
            window = self.nics[nics.server].bus.linger(window, late);
        }
        self.open_transfer(verb, window);
        self.answer(verb);
    }

    /// Whether a WRITE may be placed long after it was acknowledged: arrivals need not see it, or not those at another
    /// NIC, or the processor was promised to see it and does not.
    fn writes_linger(&self, node: NodeId) -> bool {
        !self.kept.arrival_sees_write
            || self.memory[usize::from(node.0)].nics.len() > 1
            || self.promised.cpu_sees_write && !self.kept.cpu_sees_write
    }

    /// As many bytes as would take as long as this transfer does.
    fn stretched(&mut self, bytes: u64) -> u64 {
        if self.stretch == 1 { bytes } else { bytes * (1 + self.chance.below(self.stretch)) }
    }

    /// An atomic has left its processing unit: what waited behind it goes on.
    pub(super) fn free_unit(&mut self, verb: Key) {
        let (nic, unit) = self.unit_of(verb);
        self.nics[nic].units[unit].atomic = None;
        while self.nics[nic].units[unit].atomic.is_none() {
            let Some(next) = self.nics[nic].units[unit].waiting.pop_front() else { return };
            self.serve(next);
        }
    }

    /// Delivers an immediate to its memory node's server.
    pub(super) fn deliver(&mut self, at: farwood_fabric::Address, immediate: Option<u32>) {
        let node = &mut self.memory[usize::from(at.node().0)];
        node.immediates.extend(immediate);
        if immediate.is_some() {
            // Whoever comes first gets it.
            node.receivers.drain(..).for_each(Waker::wake);
        }
    }
}

/// How late a WRITE may land where nothing is promised.
pub(super) const LATE_NS_MAX: u64 = 20_000;
