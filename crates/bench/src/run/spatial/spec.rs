//! What a run of a spatial index is: everything that the command line can say about it.

use farwood_fabric::NodeId;
use farwood_index::catfish::adaptive::{BackOffSettings, Rule};
use farwood_index::catfish::layout::BLOCKS_DEFAULT;
use farwood_index::catfish::{CONNECTIONS_MAX, Config};

use super::super::spec::{Amount, FabricKind};
use super::changes;
use super::variant::Variant;
use crate::rectangles::{Mix, Scale, Source};
use crate::{Error, Result};

/// Rectangles where nothing is said (Catfish §V-B).
pub const RECTANGLES_DEFAULT: u64 = 2_000_000;
/// Virtual seconds that a run in the laboratory measures, and those before it: heartbeats come every 10 ms.
const SIM_SECONDS: f64 = 0.2;
const SIM_WARM_UP_SECONDS: f64 = 0.1;
/// Rounds of each contestant where there are several.
const ROUNDS: usize = 3;

/// One run.
#[derive(Clone, Debug)]
pub struct SpatialSpec {
    /// How clients search.
    pub variant: Variant,
    /// The fabric.
    pub fabric: FabricKind,
    /// The laboratory's card: a name, or the path of a card file.
    pub nic: Option<String>,
    /// The mix of requests.
    pub mix: Mix,
    /// How large windows are.
    pub scale: Scale,
    /// Where the rectangles come from.
    pub source: Source,
    /// Blocks of a node, of 7 entries each.
    pub blocks: usize,
    /// Compute nodes that ask: processes, or machines of the laboratory besides the server's.
    pub compute_nodes: usize,
    /// Threads of each compute node; `None`: one for each client, and of real processes at most the cores.
    pub threads: Option<usize>,
    /// Clients of all compute nodes; `None`: one for each.
    pub clients: Option<u64>,
    /// The measured phase; `None`: 3 seconds, or 0.2 virtual ones.
    pub amount: Option<Amount>,
    /// Seconds of warm-up; `None`: 1, or 0.1 virtual ones.
    pub warm_up_seconds: Option<f64>,
    /// How long each client waits between two requests, nanoseconds.
    pub think_ns: u64,
    /// Seed of the data and of all requests.
    pub seed: u64,
    /// Peers to measure in the same run, by name.
    pub peers: Vec<String>,
}

impl Default for SpatialSpec {
    /// Searches of scale 0.00001 among two million rectangles, by one client in shared memory.
    fn default() -> SpatialSpec {
        SpatialSpec {
            variant: Variant::Catfish,
            fabric: FabricKind::Shm,
            nic: None,
            mix: Mix::Search,
            scale: Scale::Edge(1e-5),
            source: Source::Uniform(RECTANGLES_DEFAULT),
            blocks: BLOCKS_DEFAULT,
            compute_nodes: 1,
            threads: None,
            clients: None,
            amount: None,
            warm_up_seconds: None,
            think_ns: 0,
            seed: 1,
            peers: Vec::new(),
        }
    }
}

impl SpatialSpec {
    /// Clients of all compute nodes.
    pub fn clients(&self) -> u64 {
        self.clients.unwrap_or(self.compute_nodes as u64)
    }

    /// Threads of each compute node.
    pub fn threads(&self) -> usize {
        let clients = self.clients().div_ceil(self.compute_nodes as u64) as usize;
        let processors = match self.fabric {
            FabricKind::Shm | FabricKind::Tcp | FabricKind::Rdma => {
                std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
            }
            FabricKind::Sim => clients,
        };
        self.threads.unwrap_or(processors).clamp(1, clients)
    }

    /// Whether clients need a connection to the server.
    pub(super) fn connects(&self) -> bool {
        self.variant.messages() || changes(self.mix) && self.variant != Variant::Local
    }

    /// The measured phase of one round.
    pub(super) fn amount(&self) -> Amount {
        let seconds = if self.fabric == FabricKind::Sim { SIM_SECONDS } else { 3.0 };
        self.amount.unwrap_or(Amount::Seconds(seconds))
    }

    /// Seconds of warm-up.
    pub(super) fn warm_up_seconds(&self) -> f64 {
        let default = if self.fabric == FabricKind::Sim { SIM_WARM_UP_SECONDS } else { 1.0 };
        self.warm_up_seconds.unwrap_or(default)
    }

    /// How often each contestant is measured.
    pub(super) fn rounds(&self) -> usize {
        // What one round inserts, the next would search.
        if self.peers.is_empty() || changes(self.mix) { 1 } else { ROUNDS }
    }

    /// What the index is created with.
    pub(super) fn config(&self) -> Config {
        Config { blocks: self.blocks, node: NodeId(0), ..Config::default() }
    }

    /// Bytes of a node.
    pub(super) fn node_bytes(&self) -> usize {
        64 * (1 + 5 * self.blocks)
    }

    /// The back-off, with the paper's constants.
    pub(super) fn back_off(rule: Rule) -> BackOffSettings {
        BackOffSettings { rule, ..BackOffSettings::default() }
    }

    /// Host memory for so many rectangles and for what clients insert, and for rings and rests.
    pub(super) fn host_bytes(rectangles: u64) -> u64 {
        const MORE_BYTES: u64 = 512 << 20;
        let bytes = (rectangles as f64 * 1.2 / (super::FILL * 7.0) * 320.0) as u64 + MORE_BYTES;
        bytes.next_multiple_of(farwood_fabric::chunks::CHUNK_BYTES)
    }

    /// Refuses values that cannot be, each with its flag and a remedy.
    ///
    /// # Errors
    /// The first of them.
    pub fn check(&self) -> Result<()> {
        let refuse = |flag, problem: String, remedy: &str| Err(Error::parameter(flag, problem, remedy));
        let (clients, sim) = (self.clients(), self.fabric == FabricKind::Sim);
        if self.compute_nodes == 0 || clients < self.compute_nodes as u64 {
            let problem = format!("{clients} clients on {} compute nodes", self.compute_nodes);
            return refuse("--clients", problem, "give at least one client to each compute node");
        }
        if self.connects() && clients as usize + self.compute_nodes >= CONNECTIONS_MAX {
            let problem = format!("{clients} clients, and a server has {CONNECTIONS_MAX} connections");
            return refuse("--clients", problem, "give fewer clients");
        }
        if self.variant == Variant::Local && (sim || self.compute_nodes > 1) {
            let problem = "a local search takes place in one process of this machine".to_owned();
            return refuse(
                "--variant",
                problem,
                "leave --fabric sim and --compute-nodes out, or take another variant",
            );
        }
        if self.fabric == FabricKind::Rdma {
            let problem = "a run makes its own spatial pool, and starts no memory node over RDMA".to_owned();
            return refuse("--fabric", problem, "give shm, tcp or sim");
        }
        if self.nic.is_some() && !sim {
            let problem = "cards are simulated in the laboratory only".to_owned();
            return refuse("--nic", problem, "add --fabric sim, or leave it out");
        }
        if sim && !self.peers.is_empty() {
            let problem = "peers run in real time, and the laboratory's is virtual".to_owned();
            return refuse("--peer", problem, "leave it out");
        }
        if self.scale == Scale::Hundred && changes(self.mix) {
            let problem = "inserts have a scale, and windows with a hundred results have none".to_owned();
            return refuse("--scale", problem, "give --workload search, or another scale");
        }
        let (seconds, warm_up) = match self.amount() {
            Amount::Seconds(seconds) => (seconds, self.warm_up_seconds()),
            Amount::Operations(operations) => (operations as f64, self.warm_up_seconds()),
        };
        if !(seconds.is_finite() && seconds > 0.0 && warm_up.is_finite() && warm_up >= 0.0) {
            let problem = format!("{seconds} to measure, and {warm_up} before that");
            return refuse("--seconds", problem, "give more than 0, and a warm-up of 0 or more");
        }
        Ok(())
    }
}
