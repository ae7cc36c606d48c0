//! One run: its world, its faults, its servers and its clients.

use farwood_fabric::{Capabilities, NodeId};
use farwood_index::catfish::{
    CatfishConfig, IdKind, IdleChecks, Issue, NotificationMode, Query, Rectangle, Relation, ServerSettings,
    ServiceSettings, StoreGranularity,
};
use farwood_index::mutant::Mutant;
use farwood_sim::fault::{CrashPoint, Fault, FaultRule, FaultTrigger, RETRY_NS};
use farwood_sim::{NicModel, WorldSpec};
use farwood_testkit::harness::TestRng;

/// One run.
#[derive(Clone, Debug)]
pub struct SpatialCase {
    /// The world, with its faults. Compute node 0 serves; compute node 1 serves after node 0 has crashed; the others
    /// search.
    pub spec: WorldSpec,
    /// The index.
    pub config: CatfishConfig,
    /// The settings of the server.
    pub settings: ServerSettings,
    /// Items that are loaded before the run.
    pub loaded: u64,
    /// Changes that a worker makes between two pauses, on average.
    pub burst: u64,
    /// Workers of the server that change the tree.
    pub workers: usize,
    /// Clients that search.
    pub clients: usize,
    /// Searches that are answered before the run ends.
    pub searches: u64,
    /// Whether a search has one READ or many in flight.
    pub issue: Issue,
    /// Virtual time without the end of a search after which the run counts as stuck, nanoseconds.
    pub stuck_after_ns: u64,
    /// Clients change the tree and search it by message, too. `None`: all clients search by READs, and workers of the
    /// server change the tree.
    pub messages: Option<ServiceSettings>,
    /// The deliberate fault of server and clients, if there is one.
    pub mutant: Option<Mutant>,
}

/// Searches of a counted seed.
pub const SEARCHES: u64 = 1_000;
/// Commits of a counted seed.
pub const COMMITS: u64 = 100;
/// Faults of a counted seed.
pub const FAULTS: u64 = 3;
/// Virtual time without the end of a search after which a run counts as stuck, nanoseconds.
const STUCK_AFTER_NS: u64 = 20_000_000_000;
/// The same for runs with messages. It is shorter, because their clients poll continuously.
const MESSAGES_STUCK_AFTER_NS: u64 = 10_000_000_000;
/// Compute nodes that serve, the second after the first has crashed.
pub(super) const SERVERS: usize = 2;
/// Edge of the square that holds all items: so small that rectangles overlap.
pub(super) const EDGE: u64 = 40;

impl SpatialCase {
    /// The run of a seed without faults.
    pub fn new(seed: u64) -> Self {
        let mut random = TestRng::new(seed ^ 0x7370_6174);
        let names = NicModel::names();
        let card =
            if random.once_in(2) { "cx5-100g" } else { names[random.below(names.len() as u64) as usize] };
        let mut card = NicModel::named(card).expect("the simulator has this NIC");
        card.pcie.bytes_per_ns = [card.pcie.bytes_per_ns, 0.5, 0.2][random.below(3) as usize];
        let memory_nodes = 1 + random.below(2) as u16;
        let spec = WorldSpec {
            memory_nodes,
            compute_nodes: SERVERS + 3,
            threads: 1 + random.below(2) as usize,
            stretch: [1, 2, 8][random.below(3) as usize],
            seed,
            ..WorldSpec::small(card)
        };
        let grains =
            [StoreGranularity::Node, StoreGranularity::Line, StoreGranularity::Word, StoreGranularity::Word];
        let settings = ServerSettings {
            visit_ns: random.below(300),
            store_ns: 1 + random.below(60),
            grain: grains[random.below(4) as usize],
            reuse_delay_ns: [0, 0, 2_000, 20_000][random.below(4) as usize],
            verifies_searches: true,
        };
        Self {
            spec,
            config: CatfishConfig {
                blocks: 1 + random.below(2) as usize,
                node: NodeId(memory_nodes - 1),
                ring_bytes: 1024,
                ..CatfishConfig::default()
            },
            settings,
            loaded: [0, 30, 300][random.below(3) as usize],
            burst: [4, 16][random.below(2) as usize],
            workers: 1 + random.below(3) as usize,
            clients: 8,
            searches: SEARCHES,
            issue: if random.once_in(4) { Issue::One } else { Issue::Many },
            stuck_after_ns: STUCK_AFTER_NS,
            messages: None,
            mutant: None,
        }
    }

    /// Makes clients send messages to the server. Each machine is a memory node, too, which holds the inboxes of its
    /// clients.
    #[must_use]
    pub fn with_messages(mut self) -> Self {
        let mut random = TestRng::new(self.spec.seed ^ 0x7461_6C6B);
        self.spec.memory_nodes = self.spec.compute_nodes as u16;
        self.spec.colocate = true;
        self.config.node = NodeId(0);
        self.stuck_after_ns = MESSAGES_STUCK_AFTER_NS;
        self.messages = Some(ServiceSettings {
            notice: if random.once_in(2) { NotificationMode::Event } else { NotificationMode::Polling },
            poll_ns: 100 + random.below(2_000),
            heartbeat_ns: 50_000 + random.below(500_000),
            silence_ns: 200_000 + random.below(2_000_000),
            message_ns: random.below(1_000),
            wake_ns: random.below(10_000),
            idle_checks: if random.once_in(2) { IdleChecks::Rare } else { IdleChecks::Frequent },
        });
        self
    }

    /// Uses an index of unique numbers, with records. Some payloads are longer than a node.
    #[must_use]
    pub fn with_records(mut self) -> Self {
        self.config = CatfishConfig { blocks: 5, ring_bytes: 8192, ids: IdKind::Number, ..self.config };
        // A search reads several nodes for each record, and must end before the slots of all of them are reused.
        self.loaded = self.loaded.min(120);
        self.settings.reuse_delay_ns = self.settings.reuse_delay_ns.max(20_000);
        self
    }

    /// Uses a fabric that tears all but words, as shared memory and TCP do: a pair of versions checks each node.
    #[must_use]
    pub fn with_version_pairs(mut self) -> Self {
        let words = Capabilities {
            whole_bytes: 8,
            version_pair_bytes_max: 1 << 16,
            cpu_sees_write: true,
            ..self.spec.promised
        };
        (self.spec.promised, self.spec.kept) = (words, words);
        self
    }

    /// A run of the swarm: one in sixteen has no faults; by READs only or by message as well; checked by lines or by
    /// version pairs; one in four with records.
    pub fn swarm(seed: u64) -> Self {
        let case = if seed.is_multiple_of(16) { Self::new(seed) } else { Self::with_faults(seed) };
        let case = if (seed / 4).is_multiple_of(2) { case } else { case.with_messages() };
        let case = if (seed / 8).is_multiple_of(3) { case.with_version_pairs() } else { case };
        if (seed / 32) % 4 == 3 { case.with_records() } else { case }
    }

    /// The run of a counted seed. In every other run the server crashes, and the second server replaces it.
    pub fn with_faults(seed: u64) -> Self {
        let mut case = Self::new(seed);
        let mut random = TestRng::new(seed ^ 0x6661_756C);
        let mut rules: Vec<_> = (0..=FAULTS).map(|_| case.fault(&mut random)).collect();
        if random.once_in(2) {
            let fault = Fault::Crash { compute_node: 0, point: CrashPoint::At };
            rules.push(FaultRule { when: FaultTrigger::Time(1 + random.below(3_000_000)), fault });
        }
        case.spec.rules = rules;
        case
    }

    /// A fault that a search survives, or that explains its error.
    fn fault(&self, random: &mut TestRng) -> FaultRule {
        let searchers = (self.spec.compute_nodes - SERVERS) as u64;
        let compute_node = SERVERS + random.below(searchers) as usize;
        let when = FaultTrigger::Verb { compute_node, number: 1 + random.below(600) };
        let node = self.config.node;
        let longest = [100_000, RETRY_NS, 3 * RETRY_NS][random.below(3) as usize];
        let outage = 1 + random.below(longest);
        let fault = match random.below(6) {
            // Compute node 2 never crashes, so that searches continue.
            0 if compute_node > SERVERS => {
                let points = [CrashPoint::Before, CrashPoint::At, CrashPoint::After];
                Fault::Crash { compute_node, point: points[random.below(3) as usize] }
            }
            1 => Fault::Freeze { compute_node, nanoseconds: 1 + random.below(3_000_000) },
            2 => Fault::Down { node, nanoseconds: outage },
            3 => Fault::Partition { compute_node, node, nanoseconds: outage },
            4 => Fault::Slow { node, times: 2 + random.below(20) },
            _ => Fault::Delay { nanoseconds: 1 + random.below(1_000_000) },
        };
        FaultRule { when, fault }
    }
}

/// Draws the bounds of an item; some are points.
pub(super) fn bounds(random: &mut TestRng) -> Rectangle {
    let min = [random.below(EDGE) as f64, random.below(EDGE) as f64];
    let edges = [random.below(4) as f64, random.below(4) as f64];
    Rectangle::new(min, [min[0] + edges[0], min[1] + edges[1]]).expect("edges are not negative")
}

pub(super) fn query(random: &mut TestRng) -> Query {
    let min = [random.below(EDGE) as f64, random.below(EDGE) as f64];
    let edge = [0, 3, 10, EDGE][random.below(4) as usize] as f64;
    let window = Rectangle::new(min, [min[0] + edge, min[1] + edge]).expect("an edge is not negative");
    let relations = [Relation::Intersects, Relation::Intersects, Relation::Within, Relation::Contains];
    Query { window, relation: relations[random.below(4) as usize] }
}
