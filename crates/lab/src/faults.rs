//! Faults of a checked run, drawn from its seed.

use farwood_fabric::NodeId;
use farwood_sim::RandomStream;
use farwood_sim::fault::{CrashPoint, Fault, FaultRule, FaultTrigger, RETRY_NS};

/// Compute node 0 neither crashes nor freezes, so that some client continues, and its verbs trigger other faults.
const SURVIVOR: usize = 0;
/// One of this number of verbs is delayed, on average.
const VERBS_PER_DELAY: u64 = 12;

/// The faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FaultMix {
    /// None: verbs take exactly the times of the NIC model, so runs are regular and find little
    None,
    /// Verbs arrive up to 50 us late, at random
    Delays,
    /// Delays, and up to two compute nodes crash
    Crashes,
    /// Delays, crashes, compute nodes that freeze, memory nodes that are unreachable for a while or slow
    All,
}

impl FaultMix {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Delays => "delays",
            Self::Crashes => "crashes",
            Self::All => "all",
        }
    }
}

/// The machines of a run, and the verbs that each compute node sends, about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machines {
    pub(crate) memory_nodes: u16,
    pub(crate) compute_nodes: usize,
    pub(crate) verbs: u64,
}

/// The faults of a seed.
pub(crate) fn draw(seed: u64, mix: FaultMix, machines: Machines) -> Vec<FaultRule> {
    let mut draw = Draw { random: RandomStream::new(seed, "faults of the lab"), machines };
    let Machines { compute_nodes, verbs, .. } = machines;
    let mut rules = Vec::new();
    if mix == FaultMix::None {
        return rules;
    }
    for compute_node in 0..compute_nodes {
        let count = draw.random.below(2 * verbs / VERBS_PER_DELAY);
        rules.extend((0..count).map(|_| draw.delay(compute_node)));
    }
    if matches!(mix, FaultMix::Crashes | FaultMix::All) {
        let crashes = draw.random.below(compute_nodes.min(3) as u64) as usize;
        rules.extend((1..=crashes).map(|compute_node| draw.crash(compute_node)));
    }
    if mix == FaultMix::All {
        let count = draw.random.below(4);
        rules.extend((0..count).map(|_| draw.outage()));
    }
    rules
}

struct Draw {
    random: RandomStream,
    machines: Machines,
}

impl Draw {
    /// One of the verbs that a compute node sends.
    fn verb(&mut self, compute_node: usize) -> FaultTrigger {
        FaultTrigger::Verb { compute_node, number: 1 + self.random.below(self.machines.verbs) }
    }

    /// A delay, short ones more often than long ones.
    fn delay(&mut self, compute_node: usize) -> FaultRule {
        let longest = [500, 5_000, 50_000][self.random.below(3) as usize];
        let nanoseconds = 1 + self.random.below(longest);
        FaultRule { when: self.verb(compute_node), fault: Fault::Delay { nanoseconds } }
    }

    fn crash(&mut self, compute_node: usize) -> FaultRule {
        let points = [CrashPoint::Before, CrashPoint::At, CrashPoint::After];
        let point = points[self.random.below(3) as usize];
        FaultRule { when: self.verb(compute_node), fault: Fault::Crash { compute_node, point } }
    }

    fn outage(&mut self) -> FaultRule {
        let random = &mut self.random;
        let node = NodeId(random.below(u64::from(self.machines.memory_nodes)) as u16);
        let compute_node = 1 + random.below(self.machines.compute_nodes as u64 - 1) as usize;
        // Half of the outages are longer than the retries of a NIC, so that verbs fail.
        let nanoseconds = 1 + random.below(2 * RETRY_NS);
        let fault = match random.below(4) {
            0 => Fault::Freeze { compute_node, nanoseconds },
            1 => Fault::Down { node, nanoseconds },
            2 => Fault::Partition { compute_node, node, nanoseconds },
            _ => Fault::Slow { node, times: 2 + random.below(20) },
        };
        FaultRule { when: self.verb(SURVIVOR), fault }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_faults_and_the_survivor_stays() {
        let machines = Machines { memory_nodes: 2, compute_nodes: 3, verbs: 300 };
        for seed in 0..200 {
            let rules = draw(seed, FaultMix::All, machines);
            assert_eq!(rules, draw(seed, FaultMix::All, machines));
            let stops = |rule: &FaultRule| {
                matches!(
                    rule.fault,
                    Fault::Crash { compute_node: SURVIVOR, .. }
                        | Fault::Freeze { compute_node: SURVIVOR, .. }
                )
            };
            assert!(!rules.iter().any(stops), "{seed}");
        }
        assert!(draw(1, FaultMix::None, machines).is_empty());
    }
}
