//! Rules at work: what is late, lost, cut off or dead.
//!
//! A request to a memory node that cannot be reached is sent again until it can be, or until the card gives up: then
//! it fails, and with it everything that its queue pair has under way. The queue pair is connected afresh by the next
//! post.

use super::{ComputeNode, Device, Kind, OpenTransfer};
use crate::fault::{CrashPoint, Fault, Happened, RETRY_NS, When};
use crate::queue::{Event, Key};
use farwood_fabric::{FabricError, NodeId};

/// Why a verb failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expired {
    Unreachable,
    Revoked,
}

impl Device {
    /// Lets the rules happen that wait for a time.
    pub(crate) fn call_rules(&mut self) {
        for rule in 0..self.rules.len() {
            if let When::Time(time) = self.rules[rule].when {
                self.queue.at(time, Event::Rule(rule as Key));
            }
        }
    }

    /// A client comes to a mark: rules that wait for it know their verb now.
    pub(crate) fn pass_mark(&mut self, client: Key, passed: &'static str) {
        *self.marks.entry(passed).or_default() += 1;
        let compute = self.connections[client as usize].compute;
        let sent = self.compute[compute].sent;
        for rule in &mut self.rules {
            if let When::Mark { compute_node, mark, number } = rule.when
                && (compute_node, mark) == (compute, passed)
            {
                rule.when = When::Verb { compute_node, number: sent + number };
            }
        }
    }

    /// What rules make of a verb that is about to leave: its delay, or `None`, if it does not leave.
    pub(super) fn rules_at_leaving(&mut self, verb: Key) -> Option<u64> {
        let compute = self.connections[self.verbs[verb as usize].client as usize].compute;
        if self.compute[compute].crashed {
            self.drop_unsent(verb);
            return None;
        }
        self.compute[compute].sent += 1;
        let sent = self.compute[compute].sent;
        let mut delay = 0;
        if self.rules_ended {
            return Some(delay);
        }
        for rule in 0..self.rules.len() {
            if self.rules[rule].when != (When::Verb { compute_node: compute, number: sent }) {
                continue;
            }
            match self.rules[rule].fault {
                Fault::Delay { nanoseconds } => {
                    self.met.delays += 1;
                    self.happened.push(Happened { time: self.queue.now, fault: self.rules[rule].fault });
                    delay += nanoseconds;
                }
                Fault::Crash { compute_node, point: CrashPoint::After } if compute_node == compute => {
                    self.verbs[verb as usize].last_words = true;
                }
                Fault::Crash { compute_node, point } => {
                    self.crash(compute_node);
                    if compute_node == compute && point == CrashPoint::Before {
                        self.drop_unsent(verb);
                        return None;
                    }
                }
                _ => self.apply(rule),
            }
        }
        Some(delay)
    }

    fn drop_unsent(&mut self, verb: Key) {
        self.met.lost += 1;
        self.settle(verb);
        self.retire(verb);
    }

    /// A rule's fault happens.
    pub(super) fn apply(&mut self, rule: usize) {
        if self.rules_ended {
            return;
        }
        let (now, fault) = (self.queue.now, self.rules[rule].fault);
        if !matches!(fault, Fault::Crash { .. } | Fault::Delay { .. }) {
            self.happened.push(Happened { time: now, fault });
        }
        match fault {
            Fault::Crash { compute_node, .. } => self.crash(compute_node),
            Fault::Freeze { compute_node, nanoseconds } => {
                self.met.freezes += 1;
                for thread in self.compute[compute_node].threads.clone() {
                    let thread = &mut self.threads[thread as usize];
                    thread.busy_until = thread.busy_until.max(now) + nanoseconds;
                }
                self.compute[compute_node].silent = Some((now, now + nanoseconds));
            }
            Fault::Delay { .. } => {}
            Fault::Down { node, nanoseconds } => {
                self.met.downs += 1;
                let node = &mut self.memory[usize::from(node.0)];
                node.down_until = node.down_until.max(now + nanoseconds);
            }
            Fault::Slow { node, times } => {
                self.met.slow += 1;
                for nic in self.memory[usize::from(node.0)].nics.clone() {
                    self.nics[nic].slowness = times;
                }
            }
            Fault::Partition { compute_node, node, nanoseconds } => {
                self.met.partitions += 1;
                self.compute[compute_node].cut_off.push((node.0, now + nanoseconds));
            }
        }
    }

    /// A compute node is no more.
    pub(super) fn crash(&mut self, compute: usize) {
        if std::mem::replace(&mut self.compute[compute].crashed, true) {
            return;
        }
        self.met.crashes += 1;
        let fault = Fault::Crash { compute_node: compute, point: CrashPoint::At };
        self.happened.push(Happened { time: self.queue.now, fault });
        self.fallen.push(compute);
        if self.kept.write_survives_writer_bytes_max < usize::MAX {
            self.cut_transfers(compute);
        }
    }

    /// What is not placed yet of a WRITE that is too long to survive its writer never will be.
    fn cut_transfers(&mut self, compute: usize) {
        for node in 0..self.memory.len() {
            for OpenTransfer { verb, .. } in self.memory[node].open.clone() {
                let flying = &self.verbs[verb as usize];
                let mine = self.connections[flying.client as usize].compute == compute;
                let survives = flying.bytes as usize <= self.kept.write_survives_writer_bytes_max;
                if mine && flying.kind == Kind::Write && !survives {
                    self.abandon_transfer(verb);
                }
            }
        }
    }

    /// Whether a request that has come is to be dealt with.
    pub(super) fn rules_at_arrival(&mut self, verb: Key) -> bool {
        let flying = &self.verbs[verb as usize];
        let (node, client) = (flying.at.node(), flying.client);
        if self.refuse(verb) {
            return false;
        }
        let (now, queue) = (self.queue.now, self.verbs[verb as usize].queue);
        let resent = self.verbs[verb as usize].resent;
        let until = match self.unreachable_until(client, node) {
            // What was behind those that are sent again stays behind them.
            None if !resent && self.queues[queue].resending > 0 => now.max(self.queues[queue].last_arrival),
            None => {
                self.queues[queue].resending -=
                    u32::from(std::mem::take(&mut self.verbs[verb as usize].resent));
                return true;
            }
            Some(until) => until,
        };
        if !resent {
            self.verbs[verb as usize].resent = true;
            self.queues[queue].resending += 1;
        }
        if until - now > RETRY_NS {
            self.queue.at(now + RETRY_NS, Event::Expire(verb));
            return false;
        }
        // Sent again until it gets through; what follows it waits behind it.
        self.queues[queue].last_arrival = self.queues[queue].last_arrival.max(until);
        self.queue.at(until, Event::Arrive(verb));
        false
    }

    /// Whether a compute node may be revoked.
    pub(crate) fn shows_no_life(&self, node: &ComputeNode) -> bool {
        let now = self.queue.now;
        let silent = |(since, until)| self.lease_ns.is_some_and(|lease| now < until && now - since >= lease);
        node.crashed || node.revoked || node.silent.is_some_and(silent)
    }

    /// Until when a client cannot reach a memory node.
    #[inline]
    pub(crate) fn unreachable_until(&self, client: Key, node: NodeId) -> Option<u64> {
        let compute = &self.compute[self.connections[client as usize].compute];
        let down = self.memory[usize::from(node.0)].down_until;
        let cut_off = compute.cut_off.iter().filter(|(cut, _)| *cut == node.0);
        let until = cut_off.fold(down, |until, (_, cut)| until.max(*cut));
        (until > self.queue.now).then_some(until)
    }

    /// Drops a verb that a memory node must not serve any more: its queue pair broke, or its sender was revoked.
    #[inline]
    pub(super) fn refuse(&mut self, verb: Key) -> bool {
        let compute = self.connections[self.verbs[verb as usize].client as usize].compute;
        let why = if self.compute[compute].revoked {
            Expired::Revoked
        } else if self.stale(verb) {
            Expired::Unreachable
        } else {
            return false;
        };
        self.fail(verb, why);
        true
    }

    /// Whether a verb was posted on a queue pair that has broken since.
    #[inline]
    pub(super) fn stale(&self, verb: Key) -> bool {
        let flying = &self.verbs[verb as usize];
        self.queues[flying.queue].epoch != flying.epoch
    }

    /// The card gives a request up: its queue pair breaks.
    pub(super) fn expire(&mut self, verb: Key) {
        if !self.stale(verb) {
            let queue = self.verbs[verb as usize].queue;
            let queue = &mut self.queues[queue];
            queue.epoch += 1;
            queue.asking = 0;
            queue.resending = 0;
            queue.last_arrival = 0;
            let waiting = std::mem::take(&mut queue.waiting);
            for waiting in waiting {
                self.fail(waiting, Expired::Unreachable);
            }
        }
        self.fail(verb, Expired::Unreachable);
    }

    #[cold]
    fn fail(&mut self, verb: Key, why: Expired) {
        self.met.lost += 1;
        self.connections[self.verbs[verb as usize].client as usize].lost += 1;
        self.note(verb, "lost");
        let flying = &self.verbs[verb as usize];
        let (flight, node, client) = (flying.flight, flying.at.node(), flying.client);
        let identity = self.compute[self.connections[client as usize].compute].identity;
        let error = match why {
            Expired::Revoked => FabricError::Revoked(identity),
            Expired::Unreachable => FabricError::NodeLost {
                node,
                why: "no answer within the card's retries: the node is down, or cut off".to_owned(),
            },
        };
        self.flights[flight as usize].error.get_or_insert(error);
        self.settle(verb);
        self.retire(verb);
    }
}
