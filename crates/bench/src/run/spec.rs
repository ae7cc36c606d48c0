//! What a run is: everything that the command line can say about it, and what follows from that.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use farwood_index::lock::LockWidth;
use farwood_index::ordered::System;
use farwood_transport::any::Place;
use farwood_transport::rdma::queue_pairs;
use serde::{Deserialize, Serialize};

use super::ground::pool_of;
use crate::distribution::Distribution;
use crate::keys::{KEY_BYTES_MIN, KeyLength, Keys};
use crate::workload::{Workload, WorkloadSpec};
use crate::{Error, Result, redis, values};

/// Share of a node that a bulk load fills (Sherman §5.1).
pub const FILL: f64 = 0.8;
/// Budget of an index cache where `--cache-bytes` is not given.
const CACHE_BYTES: usize = 512 << 20;
/// Bytes of loaded keys for each of a filter's where `--cache-bytes` is not given: the filter is 2 % of them.
const KEY_BYTES_PER_FILTER_BYTE: f64 = 50.0;
/// Integer keys loaded where `--keys` is not given.
const KEYS_DEFAULT: u64 = 1_000_000;
/// Card of the laboratory where `--nic` is not given: Sherman's.
pub const NIC_DEFAULT: &str = "cx5-100g";
/// Virtual seconds that a run in the laboratory measures where nothing is said.
const SIM_SECONDS: f64 = 0.02;
/// Virtual seconds before it measures.
const SIM_WARM_UP_SECONDS: f64 = 0.005;
/// Less than an operation takes in the laboratory: a READ goes there and back in 1.8 us on the fastest card.
const SIM_OPERATION_SECONDS: f64 = 1.5e-6;
/// Rounds of each contestant where there are several.
const ROUNDS: usize = 3;

/// The fabrics that a run can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FabricKind {
    /// Shared memory between processes of this machine.
    Shm,
    /// TCP to memory nodes in a process that the run starts, or where a pool's URL says.
    Tcp,
    /// RDMA to memory nodes where a pool's URL says.
    Rdma,
    /// The laboratory: a simulated network in virtual time.
    Sim,
}

impl FabricKind {
    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            FabricKind::Shm => "shm",
            FabricKind::Tcp => "tcp",
            FabricKind::Rdma => "rdma",
            FabricKind::Sim => "sim",
        }
    }
}

impl fmt::Display for FabricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FabricKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<FabricKind> {
        let problem = match name {
            "shm" => return Ok(FabricKind::Shm),
            "tcp" => return Ok(FabricKind::Tcp),
            "sim" => return Ok(FabricKind::Sim),
            "rdma" => return Ok(FabricKind::Rdma),
            _ => format!("no such fabric: {name}"),
        };
        Err(Error::parameter("--fabric", problem, "give shm, tcp, rdma or sim"))
    }
}

/// Where the keys of a run come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeySource {
    /// Integers spread over 64 bits, of so many bytes.
    Integers(usize),
    /// The lines of a file.
    File(PathBuf, KeyLength),
    /// The English words that come with the program.
    Words(KeyLength),
    /// So many keys like e-mail addresses, made up.
    Emails(u32),
}

impl KeySource {
    /// Reads or makes the keys.
    pub fn keys(&self) -> Result<Keys> {
        match self {
            KeySource::Integers(key_bytes) => Keys::integers(*key_bytes),
            KeySource::File(file, length) => Keys::from_file(file, *length),
            KeySource::Words(length) => Ok(crate::tour::words(*length)),
            KeySource::Emails(count) => Ok(crate::keys::emails(*count)),
        }
    }

    /// The same source with the length of its keys fixed: what other processes are told.
    #[must_use]
    pub fn fixed(self, key_bytes: usize) -> KeySource {
        match self {
            KeySource::File(file, KeyLength::Longest) => KeySource::File(file, KeyLength::Padded(key_bytes)),
            other => other,
        }
    }
}

/// How much each client does in the measured phase.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Amount {
    /// As much as it can in so many seconds.
    Seconds(f64),
    /// So many operations, all clients together.
    Operations(u64),
}

/// One run.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The index.
    pub index: System,
    /// Its variant by name; `None`: the one that is recommended.
    pub variant: Option<String>,
    /// How large its locks are, whatever the variant.
    pub lock_width: LockWidth,
    /// The fabric.
    pub fabric: FabricKind,
    /// The laboratory's card: a name, or the path of a card file; `None`: [`NIC_DEFAULT`].
    pub nic: Option<String>,
    /// In the laboratory: memory node i and compute node i are one machine with one NIC.
    pub colocate: bool,
    /// The mix of operations.
    pub workload: Workload,
    /// How popular the keys are.
    pub distribution: Distribution,
    /// Over how many ranks popularity is drawn; `None`: over the loaded keys.
    pub zipf_ranks: Option<u64>,
    /// Keys loaded before measuring; `None`: a million integers, or what a file leaves for inserts.
    pub keys: Option<u64>,
    /// Where the keys come from.
    pub key_source: KeySource,
    /// Length of a value in bytes.
    pub value_bytes: usize,
    /// Length of a scan in keys.
    pub range_size: u32,
    /// Size of a node in bytes, where nodes have one size; `None`: what the index takes unless told.
    pub node_bytes: Option<usize>,
    /// Of a radix tree: whether each inner node has room for 256 children, as SMART's artifact reserves it.
    pub preallocate: bool,
    /// Of a radix tree: whether a scan reads many nodes and leaves by one doorbell.
    pub batched_scans: bool,
    /// Budget of each compute node's index cache, in bytes; `None`: 512 MiB, and of a filter a fiftieth of the loaded
    /// keys' bytes.
    pub cache_bytes: Option<usize>,
    /// Memory nodes of the run's own pool.
    pub memory_nodes: u16,
    /// Compute nodes: processes, or machines of the laboratory.
    pub compute_nodes: usize,
    /// Threads of each compute node; `None`: one per client, and of real processes at most the cores.
    pub threads: Option<usize>,
    /// Clients of all compute nodes; `None`: one for each compute node.
    pub clients: Option<u64>,
    /// The measured phase. `load` inserts all its keys if this is `None`; else 3 seconds, or 20 virtual milliseconds
    /// in the laboratory.
    pub amount: Option<Amount>,
    /// Seconds of warm-up after a pass over the whole tree that fills the caches; 0: neither, caches are cold.
    /// `None`: 1 second, or 5 virtual milliseconds in the laboratory.
    pub warm_up_seconds: Option<f64>,
    /// In the laboratory, of a load: so many keys are in before it counts.
    pub warm_up_keys: u64,
    /// Seed of all clients' operations.
    pub seed: u64,
    /// An existing pool by its URL; `None`: a pool is made for the run.
    pub pool: Option<String>,
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
            fabric: FabricKind::Shm,
            nic: None,
            colocate: false,
            workload: Workload::YcsbC,
            distribution: Distribution::Zipf { theta: crate::distribution::THETA_DEFAULT },
            zipf_ranks: None,
            keys: None,
            key_source: KeySource::Integers(KEY_BYTES_MIN),
            value_bytes: 8,
            range_size: 100,
            node_bytes: None,
            preallocate: false,
            batched_scans: true,
            cache_bytes: None,
            memory_nodes: 1,
            compute_nodes: 1,
            threads: None,
            clients: None,
            amount: None,
            warm_up_seconds: None,
            warm_up_keys: 0,
            seed: 1,
            pool: None,
            peers: Vec::new(),
        }
    }
}

impl RunSpec {
    /// Clients of all compute nodes.
    pub fn clients(&self) -> u64 {
        self.clients.unwrap_or(self.compute_nodes as u64)
    }

    /// Threads of each compute node.
    pub fn threads(&self) -> usize {
        let clients = self.clients().div_ceil(self.compute_nodes as u64) as usize;
        let processors = match self.fabric {
            FabricKind::Tcp if self.has_redis() => super::pins::Pins::of_this_machine().clients.len(),
            FabricKind::Shm | FabricKind::Tcp | FabricKind::Rdma => {
                std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
            }
            FabricKind::Sim => clients,
        };
        self.threads.unwrap_or(processors).clamp(1, clients)
    }

    /// Connections of all compute nodes to each memory node: one for each thread; over RDMA as many as the pool's URL
    /// says, where the thread has as many clients.
    pub fn connections(&self) -> u64 {
        let threads = (self.threads() * self.compute_nodes) as u64;
        threads * self.queue_pairs().min(self.clients() / threads).max(1)
    }

    fn queue_pairs(&self) -> u64 {
        match self.pool.as_deref().map(pool_of) {
            Some(Ok(Place::Rdma(address))) => queue_pairs(&address).map_or(1, |count| count.get().into()),
            _ => 1,
        }
    }

    /// Whether Redis is measured as well.
    pub(super) fn has_redis(&self) -> bool {
        self.peers.iter().any(|peer| peer == redis::NAME)
    }

    /// How often each contestant is measured.
    pub(super) fn rounds(&self) -> usize {
        // A load ends with the keys: there is no second round on the same tree.
        if self.peers.is_empty() || self.workload == Workload::Load { 1 } else { ROUNDS }
    }

    /// The measured phase of one round.
    pub(super) fn amount(&self) -> Amount {
        match (self.amount, self.workload) {
            (Some(amount), _) => amount,
            (None, Workload::Load) => Amount::Operations(u64::MAX),
            (None, _) if self.fabric == FabricKind::Sim => Amount::Seconds(SIM_SECONDS),
            (None, _) => Amount::Seconds(3.0),
        }
    }

    /// Seconds of warm-up.
    pub(super) fn warm_up_seconds(&self) -> f64 {
        self.warm_up_seconds.unwrap_or(match self.fabric {
            FabricKind::Shm | FabricKind::Tcp | FabricKind::Rdma => 1.0,
            FabricKind::Sim => SIM_WARM_UP_SECONDS,
        })
    }

    /// What the clients ask for. `ranks` is how many keys there are at all.
    pub(super) fn workload(&self, ranks: u64) -> WorkloadSpec {
        WorkloadSpec {
            workload: self.workload,
            distribution: self.distribution,
            zipf_ranks: self.zipf_ranks.unwrap_or(0),
            keys: self.keys.unwrap_or_else(|| self.keys_default(ranks)),
            ranks,
            range_size: self.range_size,
            clients: self.clients(),
            seed: self.seed,
        }
    }

    /// Budget of each compute node's index cache, in bytes.
    pub(super) fn cache_bytes(&self, keys: &Keys, workload: &WorkloadSpec) -> usize {
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

    /// Keys that the tree holds at most, for which a pool must have room.
    pub(super) fn entries_max(&self, workload: &WorkloadSpec) -> u64 {
        let space = workload.workload.key_space(workload.keys);
        if !workload.workload.adds_keys() {
            return space;
        }
        // Inserts without a bound: a twentieth of more operations than a machine does, or simulated clients.
        let seconds = |seconds: f64| match self.fabric {
            FabricKind::Shm | FabricKind::Tcp | FabricKind::Rdma => {
                (seconds * self.rounds() as f64 * 10e6) as u64
            }
            FabricKind::Sim => {
                ((seconds + self.warm_up_seconds()) / SIM_OPERATION_SECONDS) as u64 * self.clients()
            }
        };
        let operations = match self.amount() {
            Amount::Operations(operations) if self.fabric == FabricKind::Sim => {
                operations.saturating_add(seconds(0.0))
            }
            Amount::Operations(operations) => operations.saturating_mul(self.rounds() as u64),
            Amount::Seconds(time) => seconds(time),
        };
        (space.saturating_add(operations / 20).saturating_add(1_000_000)).min(workload.ranks)
    }

    /// Refuses values that cannot be, each with its flag and a remedy.
    pub fn check(&self) -> Result<()> {
        self.check_system()?;
        values::check_value_bytes(self.value_bytes)?;
        self.check_counts()?;
        let seconds = match self.amount {
            Some(Amount::Seconds(seconds)) => seconds,
            _ => 1.0,
        };
        if !(seconds.is_finite() && seconds > 0.0) {
            let problem = format!("{seconds} is no time to measure");
            return Err(Error::parameter("--seconds", problem, "give more than 0"));
        }
        if self.amount == Some(Amount::Operations(0)) {
            let problem = "there is nothing to do";
            return Err(Error::parameter("--operations", problem, "give at least 1"));
        }
        let warm_up_seconds = self.warm_up_seconds();
        if !(warm_up_seconds.is_finite() && warm_up_seconds >= 0.0) {
            let problem = format!("{warm_up_seconds} is no time");
            return Err(Error::parameter("--warmup", problem, "give 0 (cold) or more seconds"));
        }
        self.check_fabric()?;
        self.check_peers()
    }

    /// Refuses what only another fabric has.
    fn check_fabric(&self) -> Result<()> {
        let refuse = |flag, problem: &str, remedy: &str| Err(Error::parameter(flag, problem, remedy));
        let is_sim = self.fabric == FabricKind::Sim;
        match self {
            RunSpec { fabric: FabricKind::Rdma, pool: None, .. } => refuse(
                "--pool",
                "memory nodes over RDMA are not started by a run",
                "start them with `farwood serve --rdma`, and give --pool rdma://HOST:PORT",
            ),
            RunSpec { nic: Some(_), .. } if !is_sim => refuse(
                "--nic",
                "cards are simulated in the laboratory only",
                "add --fabric sim, or leave it out",
            ),
            RunSpec { warm_up_keys: 1.., .. } if !is_sim || self.workload != Workload::Load => {
                let problem = "only a load in the laboratory counts from a key on";
                refuse("--warmup-keys", problem, "add --fabric sim --workload load, or leave it out")
            }
            RunSpec { warm_up_keys: warm_up @ 1.., keys: Some(keys), .. } if warm_up >= keys => {
                let problem = format!("no key is left to count of {keys}");
                refuse("--warmup-keys", &problem, "give less than --keys")
            }
            RunSpec { colocate: true, .. } if !is_sim => {
                let problem = "who shares a NIC can be chosen in the laboratory only";
                refuse("--colocate", problem, "add --fabric sim, or leave it out")
            }
            RunSpec { colocate: true, memory_nodes, compute_nodes, .. }
                if usize::from(*memory_nodes) < *compute_nodes =>
            {
                let problem = "there is no memory node for each compute node to share a machine with";
                refuse("--colocate", problem, "give at least as many memory nodes as compute nodes")
            }
            RunSpec { pool: Some(_), .. } if is_sim => {
                refuse("--pool", "the laboratory makes its own pool", "leave it out")
            }
            RunSpec { peers, .. } if is_sim && !peers.is_empty() => {
                refuse("--peer", "peers run in real time, and the laboratory's is virtual", "leave it out")
            }
            _ => Ok(()),
        }
    }

    fn check_counts(&self) -> Result<()> {
        if self.compute_nodes == 0 || self.compute_nodes > 1024 {
            let problem = format!("{} processes", self.compute_nodes);
            return Err(Error::parameter("--compute-nodes", problem, "give 1 to 1024"));
        }
        if self.memory_nodes == 0 || self.memory_nodes > 256 {
            let problem = format!("{} memory nodes", self.memory_nodes);
            return Err(Error::parameter("--memory-nodes", problem, "give 1 to 256"));
        }
        if self.clients() < self.compute_nodes as u64 {
            let problem = format!("{} clients for {} compute nodes", self.clients(), self.compute_nodes);
            let remedy = "it is the total: give at least one client to each compute node";
            return Err(Error::parameter("--clients", problem, remedy));
        }
        if self.threads == Some(0) {
            return Err(Error::parameter("--threads", "no threads do nothing", "give at least 1"));
        }
        if self.zipf_ranks == Some(0) {
            let problem = "there is nothing to draw from";
            return Err(Error::parameter("--zipf-ranks", problem, "give at least 1"));
        }
        Ok(())
    }

    fn check_peers(&self) -> Result<()> {
        if let (KeySource::File(_, KeyLength::Any), [_, ..]) = (&self.key_source, &self.peers[..]) {
            let problem = "peers have keys of one length";
            return Err(Error::parameter("--peer", problem, "give --key-bytes, which pads keys with zeros"));
        }
        for peer in &self.peers {
            if peer == redis::NAME {
                self.check_redis()?;
            } else {
                check_peer(peer)?;
            }
        }
        Ok(())
    }

    /// Redis is compared over TCP only, with servers that this run starts.
    fn check_redis(&self) -> Result<()> {
        let refuse = |problem: &str, remedy: &str| Err(Error::parameter("--peer", problem, remedy));
        if self.fabric != FabricKind::Tcp {
            return refuse("redis is reached over TCP", "add --fabric tcp");
        }
        if self.pool.is_some() {
            return refuse(
                "redis is compared with memory nodes that the run starts beside it",
                "leave --pool out",
            );
        }
        if !self.clients().is_multiple_of(self.connections()) {
            let problem = format!("{} requests on {} connections", self.clients(), self.connections());
            let remedy = "give --clients that --connections (or --threads) divide";
            return Err(Error::parameter("--clients", problem, remedy));
        }
        redis::check(self.workload)
    }
}

#[cfg(feature = "peers")]
fn check_peer(peer: &str) -> Result<()> {
    peer.parse::<crate::peers::PeerKind>().map(drop)
}

#[cfg(not(feature = "peers"))]
fn check_peer(peer: &str) -> Result<()> {
    Err(not_built(peer))
}

/// A peer that this program does not have.
#[cfg(not(feature = "peers"))]
pub(super) fn not_built(peer: &str) -> Error {
    let problem = format!("this program was built with redis as its only peer, and not with {peer}");
    let remedy = "build it with `cargo build --release -p farwood --features peers`";
    Error::parameter("--peer", problem, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_a_fiftieth_of_the_keys_and_other_caches_are_not() {
        let bytes = |index, key_source: KeySource| {
            let spec = RunSpec { index, keys: Some(10_000), key_source, ..RunSpec::default() };
            let keys = spec.key_source.keys().unwrap();
            spec.cache_bytes(&keys, &spec.workload(keys.ranks()))
        };
        assert_eq!(bytes(System::Sphinx, KeySource::Integers(8)), 10_000 * 8 / 50);
        let words = bytes(System::Sphinx, KeySource::Words(KeyLength::Any));
        assert!((1_840..1_850).contains(&words), "{words}: words have 9.23 bytes");
        assert_eq!(bytes(System::Smart, KeySource::Integers(8)), CACHE_BYTES);
        let told = RunSpec { index: System::Sphinx, cache_bytes: Some(7), ..RunSpec::default() };
        assert_eq!(told.cache_bytes(&told.key_source.keys().unwrap(), &told.workload(1)), 7);
    }

    #[test]
    fn each_compute_node_that_shares_a_machine_has_a_memory_node_to_share_it_with() {
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
    fn a_simulated_pool_has_room_for_what_all_its_clients_can_insert() {
        let entries = |clients| {
            let spec = RunSpec {
                fabric: FabricKind::Sim,
                workload: Workload::YcsbD,
                clients: Some(clients),
                ..RunSpec::default()
            };
            spec.entries_max(&spec.workload(1 << 40))
        };
        // In 25 ms a client does at most 25 ms / 1.5 us operations, and a twentieth of them insert.
        assert!(entries(8_001) - entries(1) > 8_000 * 16_666 / 20 - 1);
    }
}
