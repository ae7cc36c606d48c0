//! The faults of a run, drawn from its seed.

use super::draw::{CLOCK, FAULTS, SimulatorCase};
use crate::workload::CHURNING;
use farwood_fabric::NodeId;
use farwood_index::ordered::OrderedConfig;
use farwood_sim::fault::{CrashPoint, Fault, FaultRule, FaultTrigger, RETRY_NS};
use farwood_testkit::harness::TestRng;

/// Draws the faults of a run: more than a counted seed needs.
pub(super) fn draw(case: &SimulatorCase) -> Vec<FaultRule> {
    let mut draw = Draw { random: TestRng::new(case.plan.seed ^ 0x6661_756C), case, crashes: Vec::new() };
    let count = FAULTS + 2 + draw.random.below(4);
    (0..count).map(|_| draw.rule()).collect()
}

/// Draws faults.
struct Draw<'c> {
    random: TestRng,
    case: &'c SimulatorCase,
    crashes: Vec<usize>,
}

impl Draw<'_> {
    fn rule(&mut self) -> FaultRule {
        let nodes = self.case.spec.compute_nodes;
        let compute_node = self.random.below(nodes as u64) as usize;
        // Most compute nodes send some thousand verbs for their share of the operations; some send fewer.
        let number = 1 + self.random.below(600);
        let own = FaultTrigger::Verb { compute_node, number };
        let clock = FaultTrigger::Verb { compute_node: CLOCK, number };
        let node = NodeId(self.random.below(u64::from(self.case.spec.memory_nodes)) as u16);
        match self.random.below(7) {
            0 | 1 if self.may_crash(compute_node) => {
                self.crashes.push(compute_node);
                // In runs that merge leaves, every other crash interrupts a merge, which changes three nodes.
                let own =
                    if matches!(self.case.plan.index, OrderedConfig::Sphinx(_)) && self.random.once_in(2) {
                        self.in_growth(compute_node)
                    } else if self.case.plan.mix == CHURNING && self.random.once_in(2) {
                        self.in_merge(compute_node)
                    } else {
                        own
                    };
                let point =
                    [CrashPoint::Before, CrashPoint::At, CrashPoint::After][self.random.below(3) as usize];
                FaultRule { when: own, fault: Fault::Crash { compute_node, point } }
            }
            2 => FaultRule { when: clock, fault: self.freeze(compute_node) },
            3 => {
                let nanoseconds = self.outage();
                FaultRule { when: clock, fault: Fault::Down { node, nanoseconds } }
            }
            4 => {
                let nanoseconds = self.outage();
                FaultRule { when: clock, fault: Fault::Partition { compute_node, node, nanoseconds } }
            }
            5 => FaultRule { when: clock, fault: Fault::Slow { node, times: 2 + self.random.below(20) } },
            _ => {
                let nanoseconds = 1 + self.random.below(1_000_000);
                FaultRule { when: own, fault: Fault::Delay { nanoseconds } }
            }
        }
    }

    /// One of the next verbs of a merge.
    fn in_merge(&mut self, compute_node: usize) -> FaultTrigger {
        let marks = [("a merge begun", 8), ("a root about to be removed", 2), ("a marked node linked", 2)];
        let (mark, verbs) = marks[self.random.below(3) as usize];
        FaultTrigger::Mark { compute_node, mark, number: 1 + self.random.below(verbs) }
    }

    /// One of the next verbs of a table's growth, or of a change of the tree that is about to be entered in the table.
    fn in_growth(&mut self, compute_node: usize) -> FaultTrigger {
        let marks = [
            ("sphinx: a split begun", 12),
            ("sphinx: entries in both halves", 4),
            ("sphinx: a directory about to be doubled", 2),
            ("radix: a leaf split", 6),
            ("radix: a node replaced by a larger one", 8),
            ("radix: a node removed", 6),
        ];
        let (mark, verbs) = marks[self.random.below(6) as usize];
        FaultTrigger::Mark { compute_node, mark, number: 1 + self.random.below(verbs) }
    }

    /// Two compute nodes must not crash. A crash needs locks that name their holders, because other locks would stay
    /// held.
    fn may_crash(&self, compute_node: usize) -> bool {
        let left = self.case.spec.compute_nodes - self.crashes.len();
        self.case.locks_name_holders()
            && compute_node != CLOCK
            && left > 2
            && !self.crashes.contains(&compute_node)
    }

    fn freeze(&mut self, compute_node: usize) -> Fault {
        // A few freezes last longer than clients wait for a lock, except in runs that would spin all that time.
        let long = compute_node != CLOCK && !self.case.waits_by_spinning() && self.random.once_in(24);
        let nanoseconds = if long {
            21_000_000_000
        } else {
            let most = [20_000, 300_000, 3_000_000, 30_000_000][self.random.below(4) as usize];
            1 + self.random.below(most)
        };
        Fault::Freeze { compute_node, nanoseconds }
    }

    /// Outages are longer than the NIC's retries only if a compute node can repeat a lost release.
    fn outage(&mut self) -> u64 {
        let lengths: &[u64] = if self.case.lost_releases_are_known() {
            &[100_000, RETRY_NS, 12_000_000, 12_000_000]
        } else {
            &[100_000, RETRY_NS]
        };
        let most = lengths[self.random.below(lengths.len() as u64) as usize];
        1 + self.random.below(most)
    }
}
