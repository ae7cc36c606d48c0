//! What the processes of a run say to each other: one line of JSON each.
//!
//! ```text
//! parent                         worker
//!   job            ------->        opens the pool and the index
//!                  <-------      ready
//!   warm up        ------->
//!                  <-------      warm
//!   go, so much    ------->        measures
//!                  <-------      measured            (as often as the parent likes)
//!   end, or a closed pipe ---->    leaves
//! ```
//!
//! A worker whose pipe closes ends at once, whatever it is doing: its parent is gone.

use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::servers::{MemoryJob, RedisServerJob};
use super::spatial::node::SpatialJob;
use super::spatial::server::ProgramJob;
use super::spec::{Amount, FabricKind, KeySource};
use crate::measure::Measurement;
use crate::rectangles::Source;
use crate::redis::RedisJob;
use crate::tour::{MapJob, MapReport, TourJob, TourReport};
use crate::workload::WorkloadSpec;

/// What a worker process is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Job {
    /// A compute node of a benchmark.
    Node(NodeJob),
    /// A process of a peer.
    Peer(PeerJob),
    /// A process of clients of Redis.
    Redis(RedisJob),
    /// A process of memory nodes.
    Memory(MemoryJob),
    /// A process that becomes `redis-server`.
    RedisServer(RedisServerJob),
    /// A compute node of the tour.
    Tour(TourJob),
    /// A compute node of the tour of the map.
    Map(MapJob),
    /// A compute node of a spatial run.
    Spatial(SpatialJob),
    /// A process of a spatial peer, and the rectangles that it loads.
    SpatialPeer((SpatialJob, Source)),
    /// A process that becomes another program.
    Program(ProgramJob),
    /// Removes what a run leaves, however it ends.
    Janitor(Litter),
}

/// What the clients of one process do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClientsJob {
    pub(crate) keys: KeySource,
    pub(crate) value_bytes: usize,
    pub(crate) workload: WorkloadSpec,
    pub(crate) threads: usize,
    /// The processors that the process may use; none: all.
    pub(crate) cpus: Vec<usize>,
    /// Their numbers among all clients of the run.
    pub(crate) clients: Range<u64>,
}

/// A compute node of a benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NodeJob {
    pub(crate) fabric: FabricKind,
    /// The pool by its URL, and the index by name.
    pub(crate) pool: String,
    pub(crate) name: String,
    pub(crate) cache_bytes: usize,
    pub(crate) clients: ClientsJob,
}

/// A process of a peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PeerJob {
    pub(crate) peer: String,
    pub(crate) folder: PathBuf,
    pub(crate) entries_max: u64,
    /// Whether this process loads the keys.
    pub(crate) loads: bool,
    pub(crate) clients: ClientsJob,
}

/// What a run makes outside of its processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Litter {
    /// A pool by its URL.
    pub(crate) pool: Option<String>,
    /// An index: only it is dropped, and the pool stays.
    pub(crate) index: Option<String>,
    pub(crate) folders: Vec<PathBuf>,
}

/// What a worker is told after its job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Warm the caches, for so many seconds after a pass over everything and reads that fill them. Changes nothing.
    WarmUp(f64),
    /// Do so much, and measure it.
    Go(Amount),
    /// Leave.
    End,
}

/// What a worker answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    Ready,
    /// Where the memory nodes listen.
    Serving(Vec<String>),
    Warm,
    Measured(Round),
    Toured(Box<TourReport>),
    Mapped(Box<MapReport>),
    Failed(String),
}

/// What was measured in one round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) measurement: Measurement,
    pub(crate) seconds: f64,
    /// Bytes of the index cache in use; of a peer, of its store where it can tell.
    pub(crate) bytes: Option<u64>,
}
