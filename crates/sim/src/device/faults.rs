//! Fault injection: delayed and lost verbs, crashes, outages and partitions.
//!
//! The NIC retries a request to an unreachable memory node until it is reachable or the retries end. Then the request
//! fails together with all requests in flight on its queue pair. The next post reconnects the queue pair.

use super::{ComputeNode, Device, OpenTransfer, VerbKind};
use crate::fault::{CrashPoint, Fault, FaultTrigger, InjectedFault, RETRY_NS};
use crate::queue::{Event, Key};
use farwood_fabric::{FabricError, NodeId};

/// The reason why a verb failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VerbFailure {
    Unreachable,
    Revoked,
}

impl Device {
    /// Schedules the rules whose trigger is a time.
    pub(crate) fn schedule_timed_rules(&mut self) {
        for rule in 0..self.rules.len() {
            if let FaultTrigger::Time(time) = self.rules[rule].when {
                self.queue.at(time, Event::FaultRule(rule as Key));
            }
        }
    }

    /// Counts a coverage mark, and resolves the rules that wait for it to the number of a verb.
    pub(crate) fn record_coverage(&mut self, client: Key, passed: &'static str) {
        *self.marks.entry(passed).or_default() += 1;
        let compute = self.connections[client as usize].compute;
        let sent = self.compute[compute].sent;
        for rule in &mut self.rules {
            if let FaultTrigger::Mark { compute_node, mark, number } = rule.when
                && (compute_node, mark) == (compute, passed)
            {
                rule.when = FaultTrigger::Verb { compute_node, number: sent + number };
            }
        }
    }

    /// Applies the rules to a verb that is about to be sent. Yields its delay, or `None` if it is not sent.
    pub(super) fn apply_send_rules(&mut self, verb: Key) -> Option<u64> {
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
            if self.rules[rule].when != (FaultTrigger::Verb { compute_node: compute, number: sent }) {
                continue;
            }
            match self.rules[rule].fault {
                Fault::Delay { nanoseconds } => {
                    self.met.delays += 1;
                    self.happened.push(InjectedFault { time: self.queue.now, fault: self.rules[rule].fault });
                    delay += nanoseconds;
                }
                Fault::Crash { compute_node, point: CrashPoint::After } if compute_node == compute => {
                    self.verbs[verb as usize].crash_after_answer = true;
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
        self.finish_verb(verb);
        self.forget(verb);
    }

    /// Injects the fault of a rule.
    pub(super) fn apply(&mut self, rule: usize) {
        if self.rules_ended {
            return;
        }
        let (now, fault) = (self.queue.now, self.rules[rule].fault);
        if !matches!(fault, Fault::Crash { .. } | Fault::Delay { .. }) {
            self.happened.push(InjectedFault { time: now, fault });
        }
        match fault {
            Fault::Crash { compute_node, .. } => self.crash(compute_node),
            Fault::Freeze { compute_node, nanoseconds } => {
                self.met.freezes += 1;
                for thread in self.compute[compute_node].threads.clone() {
                    let thread = &mut self.threads[thread as usize];
                    thread.busy_until = thread.busy_until.max(now) + nanoseconds;
                }
                self.compute[compute_node].frozen = Some((now, now + nanoseconds));
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
                    self.nics[nic].slowdown = times;
                }
            }
            Fault::Partition { compute_node, node, nanoseconds } => {
                self.met.partitions += 1;
                self.compute[compute_node].partitioned.push((node.0, now + nanoseconds));
            }
        }
    }

    /// Crashes a compute node.
    pub(super) fn crash(&mut self, compute: usize) {
        if std::mem::replace(&mut self.compute[compute].crashed, true) {
            return;
        }
        self.met.crashes += 1;
        let fault = Fault::Crash { compute_node: compute, point: CrashPoint::At };
        self.happened.push(InjectedFault { time: self.queue.now, fault });
        self.crashed_nodes.push(compute);
        if self.kept.write_survives_writer_bytes_max < usize::MAX {
            self.cut_transfers(compute);
        }
    }

    /// Cuts WRITEs of a crashed compute node that are too long to survive their writer.
    fn cut_transfers(&mut self, compute: usize) {
        for node in 0..self.memory.len() {
            for OpenTransfer { verb, .. } in self.memory[node].open.clone() {
                let posted = &self.verbs[verb as usize];
                let mine = self.connections[posted.client as usize].compute == compute;
                let survives = posted.bytes as usize <= self.kept.write_survives_writer_bytes_max;
                if mine && posted.kind == VerbKind::Write && !survives {
                    self.abandon_transfer(verb);
                }
            }
        }
    }

    /// Applies faults to a request that has arrived; yields whether the memory node serves it.
    pub(super) fn apply_arrival_rules(&mut self, verb: Key) -> bool {
        let posted = &self.verbs[verb as usize];
        let (node, client) = (posted.at.node(), posted.client);
        if self.refuse(verb) {
            return false;
        }
        let (now, queue) = (self.queue.now, self.verbs[verb as usize].queue);
        let resent = self.verbs[verb as usize].resent;
        let until = match self.unreachable_until(client, node) {
            // Requests that follow a resent request stay after it.
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
        // The request is resent until it arrives, and later requests wait for it.
        self.queues[queue].last_arrival = self.queues[queue].last_arrival.max(until);
        self.queue.at(until, Event::Arrive(verb));
        false
    }

    /// Whether a compute node may be revoked.
    pub(crate) fn may_be_revoked(&self, node: &ComputeNode) -> bool {
        let now = self.queue.now;
        let frozen = |(since, until)| self.lease_ns.is_some_and(|lease| now < until && now - since >= lease);
        node.crashed || node.revoked || node.frozen.is_some_and(frozen)
    }

    /// The time until which a client cannot reach a memory node.
    #[inline]
    pub(crate) fn unreachable_until(&self, client: Key, node: NodeId) -> Option<u64> {
        let compute = &self.compute[self.connections[client as usize].compute];
        let down = self.memory[usize::from(node.0)].down_until;
        let partitioned = compute.partitioned.iter().filter(|(cut, _)| *cut == node.0);
        let until = partitioned.fold(down, |until, (_, cut)| until.max(*cut));
        (until > self.queue.now).then_some(until)
    }

    /// Drops a verb that a memory node must not serve: its queue pair broke, or its sender was revoked.
    #[inline]
    pub(super) fn refuse(&mut self, verb: Key) -> bool {
        let compute = self.connections[self.verbs[verb as usize].client as usize].compute;
        let why = if self.compute[compute].revoked {
            VerbFailure::Revoked
        } else if self.stale(verb) {
            VerbFailure::Unreachable
        } else {
            return false;
        };
        self.fail(verb, why);
        true
    }

    /// Whether the queue pair of a verb broke after the post.
    #[inline]
    pub(super) fn stale(&self, verb: Key) -> bool {
        let posted = &self.verbs[verb as usize];
        self.queues[posted.queue].epoch != posted.epoch
    }

    /// Stops retrying a request, and breaks its queue pair.
    pub(super) fn expire(&mut self, verb: Key) {
        if !self.stale(verb) {
            let queue = self.verbs[verb as usize].queue;
            let queue = &mut self.queues[queue];
            queue.epoch += 1;
            queue.fetches_in_flight = 0;
            queue.resending = 0;
            queue.last_arrival = 0;
            let waiting = std::mem::take(&mut queue.waiting);
            for waiting in waiting {
                self.fail(waiting, VerbFailure::Unreachable);
            }
        }
        self.fail(verb, VerbFailure::Unreachable);
    }

    #[cold]
    fn fail(&mut self, verb: Key, why: VerbFailure) {
        self.met.lost += 1;
        self.connections[self.verbs[verb as usize].client as usize].lost += 1;
        self.note(verb, "lost");
        let posted = &self.verbs[verb as usize];
        let (doorbell_key, node, client) = (posted.doorbell_key, posted.at.node(), posted.client);
        let identity = self.compute[self.connections[client as usize].compute].identity;
        let error = match why {
            VerbFailure::Revoked => FabricError::Revoked(identity),
            VerbFailure::Unreachable => FabricError::NodeLost {
                node,
                why: "no answer within the NIC's retries: the node is down or partitioned".to_owned(),
            },
        };
        self.doorbells[doorbell_key as usize].error.get_or_insert(error);
        self.finish_verb(verb);
        self.forget(verb);
    }
}
