//! The faults of a run, drawn by its seed.

use super::{CLOCK, Case, FAULTS};
use crate::sherman::CHURNING;
use farwood_fabric::NodeId;
use farwood_index::lock::LocalLocks;
use farwood_sim::fault::{CrashPoint, Fault, RETRY_NS, Rule, When};
use farwood_testkit::harness::Chance;

/// The faults of a run: more than a counted seed must have met.
pub(super) fn drawn(case: &Case) -> Vec<Rule> {
    let mut draw = Draw { chance: Chance::new(case.plan.seed ^ 0x6661_756C), case, crashes: Vec::new() };
    let count = FAULTS + 2 + draw.chance.below(4);
    (0..count).map(|_| draw.rule()).collect()
}

/// Draws faults.
struct Draw<'c> {
    chance: Chance,
    case: &'c Case,
    crashes: Vec<usize>,
}

impl Draw<'_> {
    fn rule(&mut self) -> Rule {
        let nodes = self.case.spec.compute_nodes;
        let compute_node = self.chance.below(nodes as u64) as usize;
        // Every compute node sends some thousand verbs for its share of the operations, and some have fewer.
        let number = 1 + self.chance.below(600);
        let own = When::Verb { compute_node, number };
        let clock = When::Verb { compute_node: CLOCK, number };
        let node = NodeId(self.chance.below(u64::from(self.case.spec.memory_nodes)) as u16);
        match self.chance.below(7) {
            0 | 1 if self.may_crash(compute_node) => {
                self.crashes.push(compute_node);
                // Where leaves are merged, every other crash comes in the middle of it: three nodes are then half-way.
                let own = if self.case.plan.sphinx.is_some() && self.chance.once_in(2) {
                    self.in_growth(compute_node)
                } else if self.case.plan.mix == CHURNING && self.chance.once_in(2) {
                    self.in_merge(compute_node)
                } else {
                    own
                };
                let point =
                    [CrashPoint::Before, CrashPoint::At, CrashPoint::After][self.chance.below(3) as usize];
                Rule { when: own, fault: Fault::Crash { compute_node, point } }
            }
            2 => Rule { when: clock, fault: self.freeze(compute_node) },
            3 => {
                let nanoseconds = self.outage();
                Rule { when: clock, fault: Fault::Down { node, nanoseconds } }
            }
            4 => {
                let nanoseconds = self.outage();
                Rule { when: clock, fault: Fault::Partition { compute_node, node, nanoseconds } }
            }
            5 => Rule { when: clock, fault: Fault::Slow { node, times: 2 + self.chance.below(20) } },
            _ => {
                let nanoseconds = 1 + self.chance.below(1_000_000);
                Rule { when: own, fault: Fault::Delay { nanoseconds } }
            }
        }
    }

    /// Within the next verbs of a merge.
    fn in_merge(&mut self, compute_node: usize) -> When {
        let marks = [("a merge begun", 8), ("a root that is to give way", 2), ("a marked node linked", 2)];
        let (mark, verbs) = marks[self.chance.below(3) as usize];
        When::Mark { compute_node, mark, number: 1 + self.chance.below(verbs) }
    }

    /// Within the next verbs of a table's growth, or of a change of the tree of which the table is about to hear.
    fn in_growth(&mut self, compute_node: usize) -> When {
        let marks = [
            ("sphinx: a split begun", 12),
            ("sphinx: entries in both halves", 4),
            ("sphinx: a directory about to be doubled", 2),
            ("radix: a leaf split", 6),
            ("radix: a node replaced by a larger", 8),
            ("radix: a node that gave way", 6),
        ];
        let (mark, verbs) = marks[self.chance.below(6) as usize];
        When::Mark { compute_node, mark, number: 1 + self.chance.below(verbs) }
    }

    /// Two compute nodes stay, and a lock that cannot be told to be a dead client's lets nobody go on.
    fn may_crash(&self, compute_node: usize) -> bool {
        let left = self.case.spec.compute_nodes - self.crashes.len();
        self.case.locks_tell() && compute_node != CLOCK && left > 2 && !self.crashes.contains(&compute_node)
    }

    fn freeze(&mut self, compute_node: usize) -> Fault {
        // Rarely for longer than others wait for a lock; who waits by spinning would do nothing else all the time.
        let spins = self.case.plan.config.options.lock.local == LocalLocks::Spinning;
        let long = compute_node != CLOCK && !spins && self.chance.once_in(24);
        let nanoseconds = if long {
            21_000_000_000
        } else {
            let most = [20_000, 300_000, 3_000_000, 30_000_000][self.chance.below(4) as usize];
            1 + self.chance.below(most)
        };
        Fault::Freeze { compute_node, nanoseconds }
    }

    /// Longer than the card's retries only where a lost release can be mended.
    fn outage(&mut self) -> u64 {
        let lengths: &[u64] = if self.case.locks_are_certain() {
            &[100_000, RETRY_NS, 12_000_000, 12_000_000]
        } else {
            &[100_000, RETRY_NS]
        };
        let most = lengths[self.chance.below(lengths.len() as u64) as usize];
        1 + self.chance.below(most)
    }
}
