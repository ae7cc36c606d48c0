//! Micro-benchmarks in the simulator: verbs and locks on the fabric, without an index.
//!
//! The NIC models are calibrated with these only. Their records have the fields of all records; those of an index are
//! empty, and `options` has the parameters.

mod card_file;
mod locks;
mod point;
mod verbs;

pub use card_file::{CARD_FILE_HEADING, CardValue, NicMetric, card_values};
pub(crate) use locks::{LocksSpec, simulate_locks};
pub use point::{NicMeasurement, NicPoint, NicTarget};
pub use verbs::Verb;
pub(crate) use verbs::{Load, VerbsSpec, Words, simulate_verbs};

use farwood_sim::{World, WorldSpec};
use serde_json::{Map, Value};

use crate::Result;
use crate::driver::stopwatch::Timed;
use crate::record::Record;
use crate::record::machine::{Machine, commit, profile};

/// Seed of the micro-benchmarks of figures.
const SEED: u64 = 1;
/// Host memory of a memory node, bytes.
const HOST_BYTES: u64 = 64 << 20;

/// The machines of a micro-benchmark.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// The name of the NIC model, or the path of its file.
    pub(crate) nic: String,
    pub(crate) memory_nodes: u16,
    pub(crate) compute_nodes: usize,
    /// Threads of each compute node, with one client each.
    pub(crate) threads: usize,
    pub(crate) seed: u64,
}

impl Cluster {
    pub(crate) fn new(nic: &str, memory_nodes: u16, compute_nodes: usize, threads: usize) -> Cluster {
        Cluster { nic: nic.to_owned(), memory_nodes, compute_nodes, threads, seed: SEED }
    }

    /// The simulated world; `device_bytes` overrides the device memory of the NIC model.
    fn world(&self, device_bytes: Option<u64>) -> Result<World> {
        let &Cluster { memory_nodes, compute_nodes, threads, .. } = self;
        let small = WorldSpec::small(crate::run::nic_model(&self.nic)?);
        Ok(World::new(WorldSpec {
            memory_nodes,
            compute_nodes,
            threads,
            host_bytes: HOST_BYTES,
            device_bytes,
            seed: self.seed,
            ..small
        })?)
    }

    /// The record of the results; `round_trips` of micro-benchmarks are those of a post or of a lock.
    fn record(&self, world: &World, timed: &Timed, options: Map<String, Value>) -> Record {
        let measured = timed.measurement.measured(timed.seconds, None);
        Record {
            fabric: "sim".to_owned(),
            nic: Some(world.spec().card.name.clone()),
            nic_hash: Some(world.spec().card.hash()),
            colocate: Some(false),
            options,
            memory_nodes: Some(u64::from(self.memory_nodes)),
            compute_nodes: self.compute_nodes as u64,
            threads: self.threads as u64,
            clients: (self.compute_nodes * self.threads) as u64,
            simulated_verbs_per_second: Some(timed.verbs_per_second),
            seed: self.seed,
            commit: commit(),
            profile: profile(),
            machine: Machine::here(),
            distribution: "uniform".to_owned(),
            ..Record::of(measured, timed.measurement.by_operation(timed.seconds, None))
        }
    }
}
