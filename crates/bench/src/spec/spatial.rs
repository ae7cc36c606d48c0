//! The parameters of a run of a spatial index, and values derived from them.

use farwood_fabric::NodeId;
use farwood_index::catfish::adaptive::{BackOffRule, BackOffSettings};
use farwood_index::catfish::layout::BLOCKS_DEFAULT;
use farwood_index::catfish::{CONNECTIONS_MAX, CatfishConfig};

use super::fabric::FabricKind;
use super::spatial_variant::Variant;
use super::{RECTANGLES_MAX, ROUNDS, check_clients, check_compute_nodes, is_duration, refuse};
use crate::Result;
use crate::driver::protocol::Amount;
use crate::workload::rectangles::{RectangleSource, Scale, SpatialMix};

/// Rectangles by default (Catfish §V-B).
pub const RECTANGLES_DEFAULT: u64 = 2_000_000;
/// Share of a node that a bulk load fills. The paper does not give one; R*-tree nodes are about 70 % full.
pub(crate) const FILL: f64 = 0.7;
/// Virtual seconds that a simulated run measures, and of its warm-up: the server sends a heartbeat every 10 ms.
const SIM_SECONDS: f64 = 0.2;
const SIM_WARM_UP_SECONDS: f64 = 0.1;

/// A run of a spatial index.
#[derive(Clone, Debug)]
pub struct SpatialSpec {
    /// The search path of the clients.
    pub variant: Variant,
    /// The fabric on which the run executes.
    pub fabric: FabricKind,
    /// The simulated NIC: a name, or the path of a NIC file.
    pub nic: Option<String>,
    /// The mix of requests.
    pub mix: SpatialMix,
    /// The size of the windows.
    pub scale: Scale,
    /// The source of the rectangles.
    pub source: RectangleSource,
    /// Blocks of 7 entries in a node.
    pub blocks: usize,
    /// Compute nodes of the clients: processes, or simulated machines besides the server's.
    pub compute_nodes: usize,
    /// Threads of each compute node; `None`: one per client, and for real processes at most one per CPU.
    pub threads: Option<usize>,
    /// Clients of all compute nodes together; `None`: one per compute node.
    pub clients: Option<u64>,
    /// The measured phase; `None`: 3 seconds, or 0.2 virtual ones.
    pub amount: Option<Amount>,
    /// Seconds of warm-up; `None`: 1, or 0.1 virtual ones.
    pub warm_up_seconds: Option<f64>,
    /// The time between two requests of a client, in nanoseconds.
    pub think_ns: u64,
    /// Processor time of a simulated client's search by READs, besides that of examining nodes, in nanoseconds; `None`:
    /// that of the server for a request.
    pub search_ns: Option<u64>,
    /// Seed of the data and of all requests.
    pub seed: u64,
    /// Peers to measure in the same run, by name.
    pub peers: Vec<String>,
}

impl Default for SpatialSpec {
    /// Searches of scale 0.00001 among two million rectangles by one client in shared memory.
    fn default() -> SpatialSpec {
        SpatialSpec {
            variant: Variant::Catfish,
            fabric: FabricKind::Shm,
            nic: None,
            mix: SpatialMix::Search,
            scale: Scale::Edge(1e-5),
            source: RectangleSource::Uniform(RECTANGLES_DEFAULT),
            blocks: BLOCKS_DEFAULT,
            compute_nodes: 1,
            threads: None,
            clients: None,
            amount: None,
            warm_up_seconds: None,
            think_ns: 0,
            search_ns: None,
            seed: 1,
            peers: Vec::new(),
        }
    }
}

impl SpatialSpec {
    /// Clients of all compute nodes together.
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
    pub(crate) fn connects(&self) -> bool {
        self.variant.connects(self.mix)
    }

    /// The measured phase of one round.
    pub(crate) fn amount(&self) -> Amount {
        let seconds = if self.fabric == FabricKind::Sim { SIM_SECONDS } else { 3.0 };
        self.amount.unwrap_or(Amount::Seconds(seconds))
    }

    /// Seconds of warm-up.
    pub(crate) fn warm_up_seconds(&self) -> f64 {
        let default = if self.fabric == FabricKind::Sim { SIM_WARM_UP_SECONDS } else { 1.0 };
        self.warm_up_seconds.unwrap_or(default)
    }

    /// The number of rounds in which each backend is measured.
    pub(crate) fn rounds(&self) -> usize {
        // A second round would search what the first one has inserted.
        if self.peers.is_empty() || self.mix.inserts() { 1 } else { ROUNDS }
    }

    /// The configuration with which the index is created.
    pub(crate) fn config(&self) -> CatfishConfig {
        CatfishConfig { blocks: self.blocks, node: NodeId(0), ..CatfishConfig::default() }
    }

    /// Bytes of a node.
    pub(crate) fn node_bytes(&self) -> usize {
        64 * (1 + 5 * self.blocks)
    }

    /// The back-off, with the paper's constants.
    pub(crate) fn back_off(rule: BackOffRule) -> BackOffSettings {
        BackOffSettings { rule, ..BackOffSettings::default() }
    }

    /// Host memory in bytes for `rectangles` and for inserts, rings and retired nodes.
    pub(crate) fn host_bytes(rectangles: u64) -> u64 {
        const MORE_BYTES: u64 = 512 << 20;
        let bytes = (rectangles as f64 * 1.2 / (FILL * 7.0) * 320.0) as u64 + MORE_BYTES;
        bytes.next_multiple_of(farwood_fabric::chunks::CHUNK_BYTES)
    }

    /// Checks all parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range or contradicts another, with its flag and a remedy.
    pub fn check(&self) -> Result<()> {
        let (clients, sim) = (self.clients(), self.fabric == FabricKind::Sim);
        check_compute_nodes(self.compute_nodes)?;
        check_clients(clients)?;
        if let RectangleSource::Uniform(count) = self.source
            && count > RECTANGLES_MAX
        {
            let problem = format!("{count} rectangles");
            return refuse("--keys", &problem, &format!("give at most {RECTANGLES_MAX}"));
        }
        if clients < self.compute_nodes as u64 {
            let problem = format!("{clients} clients on {} compute nodes", self.compute_nodes);
            return refuse("--clients", &problem, "give at least one client to each compute node");
        }
        if self.connects() && clients as usize + self.compute_nodes >= CONNECTIONS_MAX {
            let problem = format!("{clients} clients, and a server has {CONNECTIONS_MAX} connections");
            return refuse("--clients", &problem, "give fewer clients");
        }
        if self.variant == Variant::Local && (sim || self.compute_nodes > 1) {
            let problem = "a local search runs in one process of this machine";
            return refuse(
                "--variant",
                problem,
                "omit --fabric sim and --compute-nodes, or give another variant",
            );
        }
        if self.fabric == FabricKind::Rdma {
            let problem = "a run creates its spatial pool, and cannot start memory nodes over RDMA";
            return refuse("--fabric", problem, "give shm, tcp or sim");
        }
        if self.nic.is_some() && !sim {
            let problem = "NICs are simulated with --fabric sim only";
            return refuse("--nic", problem, "add --fabric sim, or omit --nic");
        }
        if sim && !self.peers.is_empty() {
            let problem = "peers run in real time, the simulator in virtual time";
            return refuse("--peer", problem, "omit --peer");
        }
        if self.scale == Scale::Hundred && self.mix.inserts() {
            let problem = "inserts need a scale, and windows with a hundred results have none";
            return refuse("--scale", problem, "give --workload search, or another scale");
        }
        let (seconds, warm_up) = match self.amount() {
            Amount::Seconds(seconds) => (seconds, self.warm_up_seconds()),
            Amount::Operations(operations) => (operations.min(1) as f64, self.warm_up_seconds()),
        };
        if !(seconds > 0.0 && is_duration(seconds) && is_duration(warm_up)) {
            let problem = format!("{seconds} to measure after a warm-up of {warm_up}");
            let remedy = "give more than 0 and at most a week, and a warm-up of 0 or more and at most a week";
            return refuse("--seconds", &problem, remedy);
        }
        Ok(())
    }
}
