//! The interface of a system that a run measures.

use std::any::Any;

use serde_json::Map;

use crate::Result;
use crate::driver::processes::{WorkerCommand, WorkerProcesses};
use crate::driver::protocol::Round;
use crate::record::Record;

/// A system that a run measures. Opening a backend creates and loads its store, unless the backend's own processes do
/// so later.
pub(crate) trait Backend {
    /// The name of the system in tables and on progress bars.
    fn label(&self) -> String;

    /// Starts the system's own server, if it needs one, and the client processes. All are ready when this returns.
    fn start(&self, worker: &WorkerCommand) -> Result<Running>;

    /// Adds the results of `round` to the record of the run.
    fn finish(&self, record: Record, round: &Round) -> Record;
}

/// The processes of a backend, which wait for requests of the parent.
pub(crate) struct Running {
    /// The record of the run without its results.
    pub(crate) record: Record,
    pub(crate) processes: WorkerProcesses,
    /// The resources that the processes use: a server, a folder. Dropped after the processes.
    pub(crate) resources: Option<Box<dyn Any>>,
}

/// The record of a peer in a run whose record is `ours`: the same workload, without the fields of far memory.
pub(crate) fn peer_record(name: &str, ours: &Record) -> Record {
    Record {
        index: name.to_owned(),
        peer: Some(name.to_owned()),
        variant: None,
        options: Map::new(),
        consistency: None,
        memory_nodes: None,
        memory_node_bytes: None,
        durability: None,
        sync_us: None,
        ..ours.clone()
    }
}

/// Adds the results of a Farwood index to its record.
pub fn finish(record: Record, round: &Round) -> Record {
    let (measurement, seconds) = (&round.measurement, round.seconds);
    let record = Record { latency_histogram: measurement.latency_histogram(), ..record };
    record.measured_as(
        measurement.measured(seconds, round.bytes),
        measurement.by_operation(seconds, round.bytes),
    )
}

/// Adds the results of a peer, which has no round trips, verbs and caches, to its record.
pub(crate) fn finish_peer(record: Record, round: &Round) -> Record {
    let (measurement, seconds) = (&round.measurement, round.seconds);
    let record =
        record.measured_as(measurement.measured_locally(seconds), measurement.by_operation_locally(seconds));
    let latency_histogram = measurement.latency_histogram();
    Record { memory_node_bytes: round.bytes, latency_histogram, ..record }
}

/// The error of a peer that this program was built without.
#[cfg(not(feature = "peers"))]
pub(crate) fn not_built(name: &str) -> crate::Error {
    let problem = format!("this program was built with redis as its only peer, without {name}");
    let remedy = "build it with `cargo build --release -p farwood-cli --features peers`";
    crate::Error::parameter("--peer", problem, remedy)
}
