//! The parameters of a checked run, drawn from its seed.

use crate::faults::{FaultMix, Machines, draw};
use farwood_sim::fault::FaultRule;
use farwood_sim::{NicModel, RandomStream, Tracing, WorldSpec};

/// Clients, keys and operations of a run by default: few keys, so that clients contend for them.
pub(crate) const CLIENTS: u64 = 9;
pub(crate) const KEYS: u64 = 12;
pub(crate) const OPERATIONS: u64 = 600;
/// Machines of a run.
const MEMORY_NODES: u16 = 2;
const COMPUTE_NODES: usize = 3;
/// Verbs that an operation sends, at most, if a fault is to hit it with some probability.
const VERBS_PER_OPERATION: u64 = 3;

/// What the user asks of the checked runs.
#[derive(Clone, Debug)]
pub(crate) struct CaseOptions {
    pub(crate) faults: FaultMix,
    pub(crate) clients: usize,
    pub(crate) keys: u64,
    pub(crate) operations: u64,
    /// The faults that are kept of those that the seed draws, by number; `None`: all.
    pub(crate) only_faults: Option<Vec<usize>>,
    pub(crate) mutant: Option<&'static str>,
}

/// One checked run.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) clients: usize,
    pub(crate) keys: u64,
    pub(crate) operations: u64,
    /// The faults of the run, each with its number among those that the seed draws.
    pub(crate) rules: Vec<(usize, FaultRule)>,
    pub(crate) faults: FaultMix,
    pub(crate) mutant: Option<&'static str>,
    stretch: u64,
    pcie_bytes_per_ns: Option<f64>,
}

impl Case {
    /// The run of a seed. What a seed draws does not depend on the other options, so that a run can be shrunk.
    pub(crate) fn new(seed: u64, options: &CaseOptions) -> Self {
        let mut random = RandomStream::new(seed, "machines of the lab");
        // The verbs of a run with the default number of operations.
        let verbs = OPERATIONS * VERBS_PER_OPERATION / COMPUTE_NODES as u64;
        let machines = Machines { memory_nodes: MEMORY_NODES, compute_nodes: COMPUTE_NODES, verbs };
        let kept = |number: &usize| options.only_faults.as_ref().is_none_or(|only| only.contains(number));
        let rules = draw(seed, options.faults, machines).into_iter().enumerate();
        Self {
            seed,
            clients: options.clients,
            keys: options.keys,
            operations: options.operations,
            rules: rules.filter(|(number, _)| kept(number)).collect(),
            faults: options.faults,
            mutant: options.mutant,
            stretch: [1, 2, 8][random.below(3) as usize],
            // A slow PCIe bus makes transfers long, so that they overlap.
            pcie_bytes_per_ns: [None, Some(0.5), Some(0.2)][random.below(3) as usize],
        }
    }

    /// The simulated machines.
    pub(crate) fn world_spec(&self, tracing: Tracing) -> WorldSpec {
        let mut card = NicModel::named("cx5-100g").expect("the simulator has this NIC");
        card.pcie.bytes_per_ns = self.pcie_bytes_per_ns.unwrap_or(card.pcie.bytes_per_ns);
        WorldSpec {
            memory_nodes: MEMORY_NODES,
            compute_nodes: COMPUTE_NODES,
            threads: 2,
            stretch: self.stretch,
            tracing,
            rules: self.rules.iter().map(|(_, rule)| *rule).collect(),
            seed: self.seed,
            ..WorldSpec::small(card)
        }
    }

    /// The options of `check` that repeat the run.
    pub(crate) fn command(&self) -> String {
        let Self { seed, clients, keys, operations, rules, faults, mutant, .. } = self;
        let rules: Vec<_> = rules.iter().map(|(number, _)| number.to_string()).collect();
        let rules = if rules.is_empty() { "none".to_owned() } else { rules.join(",") };
        let mutant = mutant.map(|name| format!(" --mutant '{name}'")).unwrap_or_default();
        format!(
            "check --seeds {seed}..{} --faults {} --clients {clients} --keys {keys} --operations {operations} \
             --only-faults {rules}{mutant}",
            seed + 1,
            faults.name(),
        )
    }
}
