//! The parameters of a run of an ordered index, and values derived from them.

use super::smart_overrides::SmartOverrides;
use super::sphinx_overrides::SphinxOverrides;
use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;
use farwood_index::ordered::System;
use farwood_transport::any::PoolLocation;
use farwood_transport::rdma::queue_pairs;

use super::fabric::{FabricKind, pool_place};
use super::fault::TimedFault;
use super::node_files::NodeFiles;
use super::simulated::WarmUpEnd;
use super::{
    REDIS, ROUNDS, SECONDS_MAX, THREADS_MAX, check_clients, check_compute_nodes, is_duration, refuse,
};
use crate::driver::cpu::CpuPinning;
use crate::driver::protocol::Amount;
use crate::workload::distribution::Distribution;
use crate::workload::keys::{KEY_BYTES_MIN, KeyLength, KeySource, Keys};
use crate::workload::{Workload, WorkloadSpec, values};
use crate::{Error, Result};

/// Share of a node that a bulk load fills (Sherman §5.1).
pub const FILL: f64 = 0.8;
/// Default budget of an index cache.
const CACHE_BYTES: usize = 512 << 20;
/// Bytes of loaded keys for each byte of a filter cache by default: the filter has 2 % of the bytes of the keys.
const KEY_BYTES_PER_FILTER_BYTE: f64 = 50.0;
/// Integer keys loaded by default.
const KEYS_DEFAULT: u64 = 1_000_000;
/// Simulated NIC by default: Sherman's.
pub const NIC_DEFAULT: &str = "cx5-100g";
/// Virtual seconds that a simulated run measures by default.
const SIM_SECONDS: f64 = 0.02;
/// Virtual seconds of warm-up by default.
const SIM_WARM_UP_SECONDS: f64 = 0.005;
/// A lower bound on the simulated latency of an operation: a READ takes 1.8 us on the fastest NIC model.
const SIM_OPERATION_SECONDS: f64 = 1.5e-6;

/// The duration of a failed CAS in host memory, in the simulator. Sources bound it, and no source measures it alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailedCas {
    /// The duration in the NIC model: the shortest one that a measurement allows.
    #[default]
    OfModel,
    /// The duration of a successful CAS: the longest one.
    LikeSuccess,
}

/// A run of an ordered index.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The kind of index that the run measures.
    pub index: System,
    /// The name of the index's variant. `None` selects the recommended variant.
    pub variant: Option<String>,
    /// The size of its locks, in any variant.
    pub lock_width: LockWidth,
    /// Sherman: the consistency scheme; `None`: as the library creates the index, or the default of the simulated
    /// fabric.
    pub consistency: Option<Consistency>,
    /// The fabric on which the run executes.
    pub fabric: FabricKind,
    /// The simulated NIC: a name, or the path of a NIC file; `None`: [`NIC_DEFAULT`].
    pub nic: Option<String>,
    /// In the simulator: CPU time of an operation besides its verbs, in nanoseconds; `None`: as in the NIC model.
    pub operation_ns: Option<f64>,
    /// In the simulator: the duration of a failed CAS in host memory.
    pub failed_cas: FailedCas,
    /// In the simulator: memory node i and compute node i are one machine with one NIC.
    pub colocate: bool,
    /// The mix of operations.
    pub workload: Workload,
    /// The popularity of the keys.
    pub distribution: Distribution,
    /// The number of ranks over which popularity is drawn; `None`: the number of loaded keys.
    pub zipf_ranks: Option<u64>,
    /// Keys loaded before measuring; `None`: a million integers, or the share of a file that is not kept for inserts.
    pub keys: Option<u64>,
    /// The source of the keys.
    pub key_source: KeySource,
    /// Length of a value in bytes.
    pub value_bytes: usize,
    /// Length of a scan in keys.
    pub range_size: u32,
    /// Size of a node in bytes, if all nodes have one size; `None`: the default of the index.
    pub node_bytes: Option<usize>,
    /// SMART: the options that differ from those of the variant.
    pub smart: SmartOverrides,
    /// Sphinx: the options that differ from those of the variant.
    pub sphinx: SphinxOverrides,
    /// Radix trees: whether a scan reads many nodes and leaves with one doorbell.
    pub batched_scans: bool,
    /// Budget of each compute node's index cache, in bytes; `None`: 512 MiB, and for a filter a fiftieth of the bytes
    /// of the loaded keys.
    pub cache_bytes: Option<usize>,
    /// Memory nodes of a pool that the run creates.
    pub memory_nodes: u16,
    /// Compute nodes: processes, or simulated machines.
    pub compute_nodes: usize,
    /// Threads of each compute node; `None`: one per client, and for real processes at most one per CPU.
    pub threads: Option<usize>,
    /// Clients of all compute nodes together; `None`: one per compute node.
    pub clients: Option<u64>,
    /// The measured phase; `None`: `load` inserts all its keys, other workloads run 3 seconds, or 20 virtual
    /// milliseconds in the simulator.
    pub amount: Option<Amount>,
    /// Seconds of warm-up after a scan of the whole tree that fills the caches; 0: no scan and no warm-up, so that
    /// caches are cold; `None`: 1 second, or 5 virtual milliseconds in the simulator.
    pub warm_up_seconds: Option<f64>,
    /// The end of the warm-up.
    pub warm_up_end: WarmUpEnd,
    /// In the simulator: faults that happen in the measured phase.
    pub faults: Vec<TimedFault>,
    /// In the simulator: the length of the intervals of the timeline, virtual milliseconds; `None`: no timeline, and
    /// about 50 intervals if there are faults.
    pub timeline_ms: Option<f64>,
    /// In the simulator: operations of all clients that arrive in a second, at random; `None`: a client begins an
    /// operation when the last one has ended.
    pub rate: Option<u64>,
    /// In the simulator, for `load`: keys that are bulk-loaded; clients insert the others.
    pub preloaded_keys: u64,
    /// In the simulator, for `load`: keys inserted before the measured phase.
    pub warm_up_keys: u64,
    /// In the simulator: puts of the workload that one client executes after the bulk load and before any time passes,
    /// so that leaves fill up and split as in a tree that has been written to.
    pub warm_up_puts: u64,
    /// Seed of all clients' operations.
    pub seed: u64,
    /// The URL of an existing pool; `None`: the run creates a pool.
    pub pool: Option<String>,
    /// The files of the memory nodes of a pool that the run creates over TCP; `None`: they have none.
    pub files: Option<NodeFiles>,
    /// Peers to measure in the same run, by name.
    pub peers: Vec<String>,
}

impl Default for RunSpec {
    /// `ycsb-c` on a million integer keys of 8 B, zipf 0.99, one client, 3 seconds.
    fn default() -> RunSpec {
        RunSpec {
            index: System::Sherman,
            variant: None,
            lock_width: LockWidth::Word,
            consistency: None,
            fabric: FabricKind::Shm,
            nic: None,
            operation_ns: None,
            failed_cas: FailedCas::OfModel,
            colocate: false,
            workload: Workload::YcsbC,
            distribution: Distribution::Zipf { theta: crate::workload::distribution::THETA_DEFAULT },
            zipf_ranks: None,
            keys: None,
            key_source: KeySource::Integers(KEY_BYTES_MIN),
            value_bytes: 8,
            range_size: 100,
            node_bytes: None,
            smart: SmartOverrides::default(),
            sphinx: SphinxOverrides::default(),
            batched_scans: true,
            cache_bytes: None,
            memory_nodes: 1,
            compute_nodes: 1,
            threads: None,
            clients: None,
            amount: None,
            warm_up_seconds: None,
            warm_up_end: WarmUpEnd::AfterTime,
            faults: Vec::new(),
            timeline_ms: None,
            rate: None,
            preloaded_keys: 0,
            warm_up_keys: 0,
            warm_up_puts: 0,
            seed: 1,
            pool: None,
            files: None,
            peers: Vec::new(),
        }
    }
}

impl RunSpec {
    /// Clients of all compute nodes together.
    pub fn clients(&self) -> u64 {
        self.clients.unwrap_or(self.compute_nodes as u64)
    }

    /// Threads of each compute node.
    pub fn threads(&self) -> usize {
        let clients = self.clients().div_ceil(self.compute_nodes as u64) as usize;
        let processors = match self.fabric {
            FabricKind::Tcp if self.has_redis() => CpuPinning::of_this_machine().clients.len(),
            FabricKind::Shm | FabricKind::Tcp | FabricKind::Rdma => {
                std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
            }
            FabricKind::Sim => clients,
        };
        self.threads.unwrap_or(processors).clamp(1, clients)
    }

    /// Connections of all compute nodes to each memory node: one per thread; over RDMA as many per thread as the pool's
    /// URL asks for, but at most one per client.
    pub fn connections(&self) -> u64 {
        let threads = (self.threads() * self.compute_nodes) as u64;
        threads * self.queue_pairs().min(self.clients() / threads).max(1)
    }

    fn queue_pairs(&self) -> u64 {
        match self.pool.as_deref().map(pool_place) {
            Some(Ok(PoolLocation::Rdma(address))) => {
                queue_pairs(&address).map_or(1, |count| count.get().into())
            }
            _ => 1,
        }
    }

    /// Whether Redis is one of the peers. Servers and clients are then pinned to CPUs.
    pub(crate) fn has_redis(&self) -> bool {
        self.peers.iter().any(|peer| peer == REDIS)
    }

    /// The same run without a log and peers.
    pub(crate) fn without_log(&self) -> Self {
        Self { files: None, peers: Vec::new(), threads: Some(self.threads()), ..self.clone() }
    }

    /// The number of rounds in which each backend is measured.
    pub(crate) fn rounds(&self) -> usize {
        // A load inserts every key once, so the same tree cannot have a second round.
        if self.peers.is_empty() || self.workload == Workload::Load { 1 } else { ROUNDS }
    }

    /// The measured phase of one round.
    pub fn amount(&self) -> Amount {
        match (self.amount, self.workload) {
            (Some(amount), _) => amount,
            (None, Workload::Load) => Amount::Operations(u64::MAX),
            (None, _) if self.fabric == FabricKind::Sim => Amount::Seconds(SIM_SECONDS),
            (None, _) => Amount::Seconds(3.0),
        }
    }

    /// Seconds of warm-up.
    pub fn warm_up_seconds(&self) -> f64 {
        self.warm_up_seconds.unwrap_or(match self.fabric {
            FabricKind::Shm | FabricKind::Tcp | FabricKind::Rdma => 1.0,
            FabricKind::Sim => SIM_WARM_UP_SECONDS,
        })
    }

    /// The workload of the clients. `ranks` is the number of keys that exist.
    pub fn workload(&self, ranks: u64) -> WorkloadSpec {
        WorkloadSpec {
            workload: self.workload,
            distribution: self.distribution,
            zipf_ranks: self.zipf_ranks.unwrap_or(0),
            keys: self.keys.unwrap_or_else(|| self.keys_default(ranks)),
            preloaded_keys: self.preloaded_keys,
            ranks,
            range_size: self.range_size,
            clients: self.clients(),
            seed: self.seed,
        }
    }

    /// Budget of each compute node's index cache, in bytes.
    pub(crate) fn cache_bytes(&self, keys: &Keys, workload: &WorkloadSpec) -> usize {
        self.cache_bytes.unwrap_or_else(|| match self.index {
            System::Sherman | System::Smart => CACHE_BYTES,
            System::Sphinx => {
                let key_bytes = keys.key_bytes_mean().unwrap_or(keys.key_bytes() as f64);
                (workload.keys as f64 * key_bytes / KEY_BYTES_PER_FILTER_BYTE) as usize
            }
        })
    }

    fn keys_default(&self, ranks: u64) -> u64 {
        let share = match self.workload {
            workload if workload.is_shermans() => ranks * 2 / 3,
            workload if workload.adds_keys() => ranks * 4 / 5,
            _ => ranks,
        };
        share.min(match self.key_source {
            KeySource::Integers(_) => KEYS_DEFAULT,
            _ => u64::MAX,
        })
    }

    /// The largest number of keys that the tree can reach; the pool must have memory for them.
    pub fn entries_max(&self, workload: &WorkloadSpec) -> u64 {
        let space = workload.workload.key_space(workload.keys);
        if !workload.workload.adds_keys() {
            return space;
        }
        // A twentieth of the operations insert.
        let operations = self.operations_max();
        (space.saturating_add(operations / 20).saturating_add(1_000_000)).min(workload.ranks)
    }

    /// An upper bound on the number of operations, for any machine, or for the simulated clients.
    pub(super) fn operations_max(&self) -> u64 {
        let seconds = |seconds: f64| match self.fabric {
            FabricKind::Shm | FabricKind::Tcp | FabricKind::Rdma => {
                (seconds * self.rounds() as f64 * 10e6) as u64
            }
            FabricKind::Sim => {
                ((seconds + self.warm_up_seconds_max()) / SIM_OPERATION_SECONDS) as u64 * self.clients()
            }
        };
        match self.amount() {
            Amount::Operations(operations) if self.fabric == FabricKind::Sim => {
                operations.saturating_add(seconds(0.0))
            }
            Amount::Operations(operations) => operations.saturating_mul(self.rounds() as u64),
            Amount::Seconds(time) => seconds(time),
        }
    }

    /// Checks all parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range or contradicts another, with its flag and a remedy.
    pub fn check(&self) -> Result<()> {
        self.check_system()?;
        values::check_value_bytes(self.value_bytes)?;
        self.check_counts()?;
        let seconds = match self.amount {
            Some(Amount::Seconds(seconds)) => seconds,
            _ => 1.0,
        };
        if !(seconds > 0.0 && is_duration(seconds)) {
            let problem = format!("{seconds} is not a duration to measure");
            let remedy = format!("give more than 0, and at most {SECONDS_MAX}");
            return Err(Error::parameter("--seconds", problem, remedy));
        }
        if self.amount == Some(Amount::Operations(0)) {
            let problem = "0 operations";
            return Err(Error::parameter("--operations", problem, "give at least 1"));
        }
        let warm_up_seconds = self.warm_up_seconds();
        if !is_duration(warm_up_seconds) {
            let problem = format!("{warm_up_seconds} is not a duration");
            let remedy = format!("give 0 (cold) or more seconds, and at most {SECONDS_MAX}");
            return Err(Error::parameter("--warmup", problem, remedy));
        }
        self.check_fabric()?;
        self.check_simulated()?;
        self.check_peers()
    }

    /// Refuses parameters of other fabrics.
    fn check_fabric(&self) -> Result<()> {
        let is_sim = self.fabric == FabricKind::Sim;
        match self {
            RunSpec { fabric: FabricKind::Rdma, pool: None, .. } => refuse(
                "--pool",
                "a run does not start memory nodes over RDMA",
                "start them with `farwood serve --rdma`, and give --pool rdma://HOST:PORT",
            ),
            RunSpec { nic: Some(_), .. } if !is_sim => refuse(
                "--nic",
                "NICs are simulated with --fabric sim only",
                "add --fabric sim, or omit --nic",
            ),
            RunSpec { operation_ns: Some(_), .. } if !is_sim => refuse(
                "--operation-ns",
                "CPU time is charged with --fabric sim only",
                "add --fabric sim, or omit --operation-ns",
            ),
            RunSpec { preloaded_keys: 1.., .. } if !is_sim || self.workload != Workload::Load => {
                let problem = "only a simulated load begins with keys that are bulk-loaded";
                refuse(
                    "--preloaded-keys",
                    problem,
                    "add --fabric sim --workload load, or omit --preloaded-keys",
                )
            }
            RunSpec { preloaded_keys: preloaded @ 1.., keys: Some(keys), .. } if preloaded >= keys => {
                let problem = format!("{preloaded} of {keys} keys leave no key to insert");
                refuse("--preloaded-keys", &problem, "give fewer than --keys")
            }
            RunSpec { warm_up_keys: 1.., .. } if !is_sim || self.workload != Workload::Load => {
                let problem = "only a simulated load has a warm-up in keys";
                refuse("--warmup-keys", problem, "add --fabric sim --workload load, or omit --warmup-keys")
            }
            RunSpec { warm_up_keys: warm_up @ 1.., keys: Some(keys), preloaded_keys, .. }
                if *warm_up >= keys - preloaded_keys =>
            {
                let problem =
                    format!("{warm_up} of {} inserted keys leave none to measure", keys - preloaded_keys);
                refuse("--warmup-keys", &problem, "give fewer than --keys, without the preloaded ones")
            }
            RunSpec { warm_up_puts: 1.., .. } if !is_sim || self.workload.mix(0).put == 0 => {
                let problem = "a warm-up of puts needs the simulator, and a workload with puts";
                refuse("--workload", problem, "give a workload with puts in the simulator")
            }
            RunSpec { colocate: true, .. } if !is_sim => {
                let problem = "memory nodes and compute nodes can share NICs with --fabric sim only";
                refuse("--colocate", problem, "add --fabric sim, or omit --colocate")
            }
            RunSpec { colocate: true, memory_nodes, compute_nodes, .. }
                if usize::from(*memory_nodes) < *compute_nodes =>
            {
                let problem = "each compute node needs a memory node to share a machine with";
                refuse("--colocate", problem, "give at least as many memory nodes as compute nodes")
            }
            RunSpec { files: Some(_), fabric, pool, .. } if *fabric != FabricKind::Tcp || pool.is_some() => {
                let problem = "only memory nodes over TCP that the run starts have a level of durability";
                refuse("--durability", problem, "add --fabric tcp, and omit --pool")
            }
            RunSpec { pool: Some(_), .. } if is_sim => {
                refuse("--pool", "the simulator creates its own pool", "omit --pool")
            }
            RunSpec { peers, .. } if is_sim && !peers.is_empty() => {
                refuse("--peer", "peers run in real time, the simulator in virtual time", "omit --peer")
            }
            _ => Ok(()),
        }
    }

    fn check_counts(&self) -> Result<()> {
        check_compute_nodes(self.compute_nodes)?;
        if self.memory_nodes == 0 || self.memory_nodes > 256 {
            let problem = format!("{} memory nodes", self.memory_nodes);
            return Err(Error::parameter("--memory-nodes", problem, "give 1 to 256"));
        }
        if self.clients() < self.compute_nodes as u64 {
            let problem = format!("{} clients for {} compute nodes", self.clients(), self.compute_nodes);
            let remedy = "--clients is the total: give at least one per compute node";
            return Err(Error::parameter("--clients", problem, remedy));
        }
        check_clients(self.clients())?;
        if let Some(threads) = self.threads.filter(|threads| !(1..=THREADS_MAX).contains(threads)) {
            let problem = format!("{threads} threads");
            return Err(Error::parameter("--threads", problem, format!("give 1 to {THREADS_MAX}")));
        }
        if self.zipf_ranks == Some(0) {
            let problem = "0 ranks";
            return Err(Error::parameter("--zipf-ranks", problem, "give at least 1"));
        }
        Ok(())
    }

    fn check_peers(&self) -> Result<()> {
        if let (KeySource::File(_, KeyLength::Any), [_, ..]) = (&self.key_source, &self.peers[..]) {
            let problem = "peers need keys of one length";
            return refuse("--peer", problem, "give --key-bytes, which pads keys with zeros");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_filter_is_a_fiftieth_of_the_keys() {
        let bytes = |index, key_source: KeySource| {
            let spec = RunSpec { index, keys: Some(10_000), key_source, ..RunSpec::default() };
            let keys = spec.key_source.keys().unwrap();
            spec.cache_bytes(&keys, &spec.workload(keys.ranks()))
        };
        assert_eq!(bytes(System::Sphinx, KeySource::Integers(8)), 10_000 * 8 / 50);
        let words = bytes(System::Sphinx, KeySource::Words(KeyLength::Any));
        assert!((1_840..1_850).contains(&words), "{words}: words have 9.23 bytes on average");
        assert_eq!(bytes(System::Smart, KeySource::Integers(8)), CACHE_BYTES);
        let given = RunSpec { index: System::Sphinx, cache_bytes: Some(7), ..RunSpec::default() };
        assert_eq!(given.cache_bytes(&given.key_source.keys().unwrap(), &given.workload(1)), 7);
    }

    #[test]
    fn each_colocated_compute_node_needs_a_memory_node() {
        let shared = |memory_nodes, compute_nodes| RunSpec {
            fabric: FabricKind::Sim,
            colocate: true,
            memory_nodes,
            compute_nodes,
            ..RunSpec::default()
        };
        assert!(shared(2, 2).check().is_ok() && shared(3, 2).check().is_ok());
        let refused = shared(1, 2).check().unwrap_err().to_string();
        assert!(refused.contains("--colocate"), "{refused}");
    }

    #[test]
    fn only_a_simulated_workload_with_puts_has_a_warm_up_of_puts() {
        let of = |fabric, workload| {
            RunSpec { fabric, workload, warm_up_puts: 10, ..RunSpec::default() }.check().is_ok()
        };
        assert!(of(FabricKind::Sim, Workload::WriteIntensive));
        assert!(!of(FabricKind::Sim, Workload::YcsbC), "its first client never puts");
        assert!(!of(FabricKind::Shm, Workload::WriteIntensive));
    }

    #[test]
    fn a_simulated_pool_has_memory_for_all_inserts() {
        let entries = |clients| {
            let spec = RunSpec {
                fabric: FabricKind::Sim,
                workload: Workload::YcsbD,
                clients: Some(clients),
                ..RunSpec::default()
            };
            spec.entries_max(&spec.workload(1 << 40))
        };
        // In 25 ms a client executes at most 25 ms / 1.5 us operations, and a twentieth of them insert.
        assert!(entries(8_001) - entries(1) > 8_000 * 16_666 / 20 - 1);
    }
}
