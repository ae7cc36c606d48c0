//! The parameters of a run, drawn from its seed.

use super::faults;
use crate::seeds::loopback::{filter_bytes, smart_config, sphinx_config};
use crate::seeds::plan::{DEVICE_BYTES, Plan, SIZES};
use crate::workload::{CHURNING, GROWING, MIXED, variant};
use farwood_index::consistency::Consistency;
use farwood_index::lock::{LocalLocks, LockWidth};
use farwood_index::mutant::Mutant;
use farwood_index::ordered::{OrderedConfig, System};
use farwood_index::sherman::options::LockRead;
use farwood_index::{sherman, sphinx};
use farwood_sim::fault::{Fault, FaultRule, FaultTrigger};
use farwood_sim::{NicModel, NodeAddition, WorldSpec};
use farwood_testkit::harness::TestRng;

/// One run.
#[derive(Clone, Debug)]
pub struct SimulatorCase {
    /// The operations of the run.
    pub plan: Plan,
    /// The simulated world, with its faults.
    pub spec: WorldSpec,
    /// Clients of all compute nodes together.
    pub clients: usize,
    /// Operations that are answered before the clients stop.
    pub operations: u64,
    /// Virtual time after which the run counts as stuck, nanoseconds.
    pub nanoseconds_max: u64,
    /// The fault that is put into the index deliberately.
    pub mutant: Option<Mutant>,
    /// Another client acquires every lock once, just before the client of the test, and holds it for this number of
    /// nanoseconds.
    pub rival_holds_ns: Option<u64>,
}

/// Operations of a counted seed.
pub const OPERATIONS: u64 = 1_000;
/// Faults of a counted seed.
pub const FAULTS: u64 = 3;
/// Virtual time after which a run counts as stuck, nanoseconds: several times the time limit for a lock.
const TIME_MAX: u64 = 400_000_000_000;
/// The time for which a frozen compute node keeps its locks in runs with a lease, nanoseconds.
const LEASE: u64 = 2_500_000;
/// Compute node 0 neither crashes nor freezes for long: the verbs that it sends trigger the other faults.
pub(super) const CLOCK: usize = 0;

/// Coverage marks near the split of a hash table: a client that is delayed there then finds the split in progress.
const NEAR_SPLITS: [&str; 3] = [
    "sphinx: an entry about to be inserted into a nearly full bucket",
    "sphinx: an entry about to change in a nearly full bucket",
    "sphinx: entries in both halves",
];

impl SimulatorCase {
    /// The run of a seed without faults.
    pub fn new(system: System, seed: u64) -> Self {
        let mut case = Self::sherman(seed);
        // Sherman's own lock options do not matter to a radix tree: its locks name their holders.
        case.plan.index = match system {
            System::Sherman => case.plan.index,
            System::Smart => OrderedConfig::Smart(smart_config(seed)),
            System::Sphinx => OrderedConfig::Sphinx(sphinx_config(seed)),
        };
        if system == System::Sphinx {
            case.plan.cache_bytes = filter_bytes(seed);
            case.plan.widen();
        }
        if system == System::Smart && case.plan.cache_bytes > 0 {
            // A node cache of less than about 16 KiB caches nothing.
            case.plan.cache_bytes = case.plan.cache_bytes.max(1 << 14);
        }
        case
    }

    /// The run of a seed with a Sherman tree and without faults.
    fn sherman(seed: u64) -> Self {
        let mut random = TestRng::new(seed);
        let mut options = variant(seed).features();
        if random.once_in(6) {
            options.lock.width = LockWidth::Packed;
        }
        if random.once_in(4) {
            options.lock_read = LockRead::Together;
        }
        let sizes = SIZES[random.below(SIZES.len() as u64) as usize];
        let consistency = random.once_in(4).then_some(Consistency::Checksum);
        let consistency = if random.once_in(4) { Some(Consistency::Versions) } else { consistency };
        let compute_nodes = 3 + random.below(3) as usize;
        let config =
            sherman::ShermanConfig { sizes, options, consistency, ..sherman::ShermanConfig::default() };
        let plan = Plan {
            seed,
            index: OrderedConfig::Sherman(config),
            radix_value_bytes: sizes.value_bytes,
            keys: [12, 40, 90, 240][random.below(4) as usize],
            mix: [MIXED, GROWING, CHURNING, CHURNING][random.below(4) as usize],
            cache_bytes: [0, 1 << 10, 1 << 20][random.below(3) as usize],
            snapshots: false,
        };
        let names = NicModel::names();
        // Half of the runs use the NIC of the papers. Other tests check the figures of the other NICs.
        let card =
            if random.once_in(2) { "cx5-100g" } else { names[random.below(names.len() as u64) as usize] };
        let mut card = NicModel::named(card).expect("the simulator has this NIC");
        // A slow PCIe bus makes transfers long, so that they overlap.
        card.pcie.bytes_per_ns = [card.pcie.bytes_per_ns, 0.5, 0.2][random.below(3) as usize];
        let spec = WorldSpec {
            memory_nodes: 1 + random.below(3) as u16,
            compute_nodes,
            threads: 1 + random.below(2) as usize,
            device_bytes: Some(DEVICE_BYTES[random.below(3) as usize]),
            colocate: random.once_in(4),
            stretch: [1, 2, 8][random.below(3) as usize],
            seed,
            ..WorldSpec::small(card)
        };
        Self {
            plan,
            spec,
            clients: compute_nodes.max(8) + random.below(4) as usize,
            operations: OPERATIONS,
            nanoseconds_max: TIME_MAX,
            mutant: None,
            rival_holds_ns: None,
        }
    }

    /// The run of a counted seed. Of eight seeds of Sphinx, one has tables that soon cannot grow, and two delay
    /// clients where tables are split.
    pub fn with_faults(system: System, seed: u64) -> Self {
        let case = Self::new(system, seed);
        match (system, seed % 8) {
            (System::Sphinx, 3) => Self { mutant: Some(Mutant::TablesShallow), ..case.add_faults() },
            (System::Sphinx, 2 | 6) => case.use_growing_table().add_faults().add_delays_near_splits(),
            _ => case.add_faults(),
        }
    }

    /// The run of a swarm's seed. Of four seeds of Sherman, one has values of any length and another a lease; every
    /// other seed scans by snapshots.
    pub fn swarm(system: System, seed: u64) -> Self {
        let mut case = Self::with_faults(system, seed);
        if seed % 8 == 5 {
            case = case.with_added_node();
        }
        if system != System::Sherman {
            return case;
        }
        if seed % 2 == 1 {
            case = case.with_snapshots();
        }
        match seed % 4 {
            2 => case.with_lease(),
            3 => case.with_any_length(),
            _ => case,
        }
    }

    /// Adds a memory node while the clients work: the last one.
    #[must_use]
    pub fn with_added_node(mut self) -> Self {
        self.spec.memory_nodes = self.spec.memory_nodes.max(2);
        let at_ns = 1 + TestRng::new(self.plan.seed ^ 0x6164_6465).below(400_000);
        self.spec.addition = Some(NodeAddition { nodes_before: self.spec.memory_nodes - 1, at_ns });
        self
    }

    /// Scans by snapshots, without versions of one byte: on a slow network, no snapshot of them is fast enough.
    #[must_use]
    pub fn with_snapshots(mut self) -> Self {
        self.plan.snapshots = true;
        self.plan.sherman().consistency.get_or_insert(Consistency::Versions);
        self
    }

    /// Uses many keys and one table of small subtables.
    fn use_growing_table(mut self) -> Self {
        let groups = sphinx::Groups::new(0).expect("0 is a valid number");
        let options = sphinx::SphinxFeatures { groups, ..sphinx::SphinxVariant::Filter.features() };
        self.plan.use_sphinx(sphinx::SphinxConfig { options, ..sphinx::SphinxConfig::default() });
        (self.plan.keys, self.plan.mix, self.spec.memory_nodes) = (240, CHURNING, 1);
        self
    }

    /// Delays every compute node when it first changes an entry near a split, and when it first splits.
    fn add_delays_near_splits(mut self) -> Self {
        let mut random = TestRng::new(self.plan.seed ^ 0x6C61_7465);
        for compute_node in 0..self.spec.compute_nodes {
            for mark in NEAR_SPLITS {
                let when = FaultTrigger::Mark { compute_node, mark, number: 1 };
                let nanoseconds = 1_000 + random.below(60_000);
                self.spec.rules.push(FaultRule { when, fault: Fault::Delay { nanoseconds } });
            }
        }
        self
    }

    fn add_faults(mut self) -> Self {
        let rules = faults::draw(&self);
        // A lost post can leave a chunk without an owner: each compute node may lose one.
        if rules.iter().any(|rule| matches!(rule.fault, Fault::Down { .. } | Fault::Partition { .. })) {
            self.spec.host_bytes *= 2;
        }
        // A slow NIC does not sample a READ in the promised time.
        self.spec.promised.brief_reads &= !rules.iter().any(|rule| matches!(rule.fault, Fault::Slow { .. }));
        self.spec.rules = rules;
        self
    }

    /// Adds a lease: a compute node that is frozen for longer may be revoked, and still wakes up.
    #[must_use]
    pub fn with_lease(mut self) -> Self {
        self.spec.lease_ns = Some(LEASE);
        let crashes = |rule: &FaultRule| match rule.fault {
            Fault::Crash { compute_node, .. } => Some(compute_node),
            _ => None,
        };
        let mut gone: Vec<usize> = self.spec.rules.iter().filter_map(crashes).collect();
        let (named, nodes) = (self.locks_name_holders(), self.spec.compute_nodes);
        for rule in &mut self.spec.rules {
            let Fault::Freeze { compute_node, nanoseconds } = &mut rule.fault else { continue };
            let may_go =
                named && *compute_node != CLOCK && (gone.contains(compute_node) || nodes - gone.len() > 2);
            if *nanoseconds >= LEASE && may_go {
                gone.push(*compute_node);
                gone.sort_unstable();
                gone.dedup();
            } else {
                *nanoseconds = (*nanoseconds).min(LEASE - 1);
            }
        }
        self
    }

    /// Gives values of the Sherman tree any length.
    #[must_use]
    pub fn with_any_length(mut self) -> Self {
        self.plan.use_any_length();
        // Every compute node has a chunk. A compute node that returns its chunk may take another before the first one
        // is free.
        self.spec.host_bytes *= 2;
        self
    }

    /// Whether locks name their holders, so that clients can take those of crashed clients.
    pub(super) fn locks_name_holders(&self) -> bool {
        match &self.plan.index {
            OrderedConfig::Sherman(config) => config.options.lock.width == LockWidth::Word,
            OrderedConfig::Smart(_) | OrderedConfig::Sphinx(_) => true,
        }
    }

    /// Whether a compute node knows that it owns a lock whose release was lost.
    pub(super) fn lost_releases_are_known(&self) -> bool {
        match &self.plan.index {
            OrderedConfig::Sherman(config) => {
                self.locks_name_holders() && config.options.lock.local != LocalLocks::None
            }
            OrderedConfig::Smart(_) | OrderedConfig::Sphinx(_) => true,
        }
    }

    /// Whether clients wait for a lock by spinning.
    pub(super) fn waits_by_spinning(&self) -> bool {
        match &self.plan.index {
            OrderedConfig::Sherman(config) => config.options.lock.local == LocalLocks::Spinning,
            OrderedConfig::Smart(_) | OrderedConfig::Sphinx(_) => false,
        }
    }
}
