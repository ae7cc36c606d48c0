//! The systems that a run measures, behind one trait: ordered indexes, spatial indexes, Redis and other peers.
//!
//! | file | contents |
//! |---|---|
//! | `interface.rs` | the trait of a measured system, and functions that add measurements to a record |
//! | `pool.rs`, `attachment.rs`, `memory_nodes.rs` | the pool of a run, and attachments to it |
//! | `clients.rs`, `checked.rs` | the parameters of a worker process; buffers that check keys and values |
//! | `ordered/` | Farwood's ordered indexes |
//! | `spatial/` | Farwood's spatial index, and its peer rstar |
//! | `redis/` | Redis over TCP |
//! | `peers/` | LMDB, `BTreeMap`, congee and a skip list (feature `peers`) |
//!
//! Each compute node of a real fabric is a separate process, even if there is only one. It starts with empty caches and
//! page tables, because another process has loaded the index.

pub mod checked;
pub(crate) mod clients;
mod interface;
pub(crate) mod memory_nodes;
pub mod ordered;
#[cfg(feature = "peers")]
pub mod peers;
pub mod pool;
pub(crate) mod redis;
pub mod spatial;

pub use interface::finish;
pub(crate) use interface::{Backend, Running};

use crate::Result;
use crate::driver::processes::WorkerCommand;
use crate::driver::worker::JobKind;
use crate::spec::ordered::RunSpec;
use crate::spec::{NO_LOG, REDIS};

/// All jobs that a worker process can execute.
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

/// Refuses peers that cannot execute the run of `spec`.
pub(crate) fn check_peers(spec: &RunSpec) -> Result<()> {
    spec.peers.iter().try_for_each(|peer| match peer.as_str() {
        REDIS => redis::check(spec),
        NO_LOG => ordered::without_log::check(spec),
        other => check_peer(other),
    })
}

/// The peers of a run, in the order of the spec.
pub(crate) fn peers_of(
    spec: &RunSpec,
    ours: &ordered::OrderedBackend,
    worker: &WorkerCommand,
    loading: &mut dyn FnMut(u64, u64),
) -> Result<Vec<Box<dyn Backend>>> {
    let backend = |name: &String| {
        Ok(match name.as_str() {
            REDIS => Box::new(redis::RedisBackend::new(spec, ours)) as Box<dyn Backend>,
            NO_LOG => Box::new(ordered::without_log::WithoutLog::open(spec, ours, worker, loading)?),
            other => peer(other, spec, ours)?,
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
    Err(interface::not_built(name))
}

#[cfg(not(feature = "peers"))]
fn peer(name: &str, _: &RunSpec, _: &ordered::OrderedBackend) -> Result<Box<dyn Backend>> {
    Err(interface::not_built(name))
}
