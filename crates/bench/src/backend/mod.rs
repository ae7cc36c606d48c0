//! The systems that a run measures, behind one trait: ordered indexes, spatial indexes, Redis and other peers.
//!
//! | file | contents |
//! |---|---|
//! | `pool.rs`, `attachment.rs`, `memory_nodes.rs` | the pool of a run, and attachments to it |
//! | `clients.rs`, `checked.rs` | the parameters of a process of clients; keys and values with their checks |
//! | `ordered/` | Farwood's ordered indexes |
//! | `spatial/` | Farwood's spatial index, and its peer rstar |
//! | `redis/` | Redis over TCP |
//! | `peers/` | LMDB, `BTreeMap`, congee and a skip list (feature `peers`) |
//!
//! Each compute node of a real fabric is a process, also if there is only one: it starts with empty caches and page
//! tables, without traces of the loading.

pub(crate) mod attachment;
pub(crate) mod checked;
pub(crate) mod clients;
pub(crate) mod memory_nodes;
pub mod ordered;
#[cfg(feature = "peers")]
pub mod peers;
pub mod pool;
pub(crate) mod redis;
pub mod spatial;

use std::any::Any;

use serde_json::Map;

use crate::Result;
use crate::driver::processes::{WorkerCommand, WorkerProcesses};
use crate::driver::protocol::Round;
use crate::driver::worker::JobKind;
use crate::record::Record;
use crate::spec::REDIS;
use crate::spec::ordered::RunSpec;

/// The jobs of the worker processes of all backends.
pub const JOBS: &[JobKind] = &[
    JobKind::of::<crate::driver::program::ProgramJob>(),
    JobKind::of::<memory_nodes::MemoryNodesJob>(),
    JobKind::of::<pool::StoreCleanup>(),
    JobKind::of::<ordered::process::OrderedJob>(),
    JobKind::of::<spatial::process::SpatialJob>(),
    JobKind::of::<redis::RedisJob>(),
    #[cfg(feature = "peers")]
    JobKind::of::<peers::process::PeerJob>(),
    #[cfg(feature = "peers")]
    JobKind::of::<spatial::rstar::RstarJob>(),
];

/// A system that a run measures. Opening it has created and loaded its store, unless its own processes do.
pub(crate) trait Backend {
    /// Its name in tables and on progress bars.
    fn label(&self) -> String;

    /// Starts the server, if the system needs one of its own, and the processes of clients. All are ready when this
    /// returns.
    fn start(&self, worker: &WorkerCommand) -> Result<Running>;

    /// Adds the results of `round` to the record of the run.
    fn finish(&self, record: Record, round: &Round) -> Record;
}

/// The processes of a backend, which wait for orders.
pub(crate) struct Running {
    /// The record of the run without its results.
    pub(crate) record: Record,
    pub(crate) processes: WorkerProcesses,
    /// What the processes use: a server, a folder. Dropped after them.
    pub(crate) held: Option<Box<dyn Any>>,
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
        ..ours.clone()
    }
}

/// Adds the results of a Farwood index to its record.
pub fn finish(record: Record, round: &Round) -> Record {
    let (measurement, seconds) = (&round.measurement, round.seconds);
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
    Record { memory_node_bytes: round.bytes, ..record }
}

/// Refuses peers that `spec` cannot be compared with.
pub(crate) fn check_peers(spec: &RunSpec) -> Result<()> {
    spec.peers.iter().try_for_each(|peer| if peer == REDIS { redis::check(spec) } else { check_peer(peer) })
}

/// The peers of a run, in the order of the spec.
pub(crate) fn peers_of(spec: &RunSpec, ours: &ordered::OrderedBackend) -> Result<Vec<Box<dyn Backend>>> {
    let backend = |name: &String| {
        Ok(if name == REDIS {
            Box::new(redis::RedisBackend::new(spec, ours)) as Box<dyn Backend>
        } else {
            peer(name, spec, ours)?
        })
    };
    spec.peers.iter().map(backend).collect()
}

#[cfg(feature = "peers")]
fn check_peer(name: &str) -> Result<()> {
    name.parse::<peers::PeerKind>().map(drop)
}

#[cfg(feature = "peers")]
fn peer(name: &str, spec: &RunSpec, ours: &ordered::OrderedBackend) -> Result<Box<dyn Backend>> {
    Ok(Box::new(peers::process::PeerBackend::new(name.parse()?, spec, ours)))
}

#[cfg(not(feature = "peers"))]
fn check_peer(name: &str) -> Result<()> {
    Err(not_built(name))
}

#[cfg(not(feature = "peers"))]
fn peer(name: &str, _: &RunSpec, _: &ordered::OrderedBackend) -> Result<Box<dyn Backend>> {
    Err(not_built(name))
}

/// The error of a peer that this program was built without.
#[cfg(not(feature = "peers"))]
pub(crate) fn not_built(name: &str) -> crate::Error {
    let problem = format!("this program was built with redis as its only peer, without {name}");
    let remedy = "build it with `cargo build --release -p farwood-cli --features peers`";
    crate::Error::parameter("--peer", problem, remedy)
}
