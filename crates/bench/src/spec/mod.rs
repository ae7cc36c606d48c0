//! The specification of a run: the parameters of runs of ordered and of spatial indexes, and values derived from them.
//!
//! Nothing here starts a process or opens a pool.

pub mod count;
pub mod fabric;
pub mod fault;
pub mod node_files;
pub mod ordered;
pub mod simulated;
pub mod smart_overrides;
pub mod spatial;
pub mod spatial_variant;
pub mod sphinx_overrides;
pub mod system;

/// The name of Redis on the command line and in records.
pub(crate) const REDIS: &str = "redis";
/// The name of the peer that is the same index on memory nodes without a log.
pub(crate) const NO_LOG: &str = "no-log";
/// The name of rstar on the command line and in records.
pub(crate) const RSTAR: &str = "rstar";
/// Rounds of each backend in a comparison.
const ROUNDS: usize = 3;

/// The longest time of a run or its warm-up: a week.
const SECONDS_MAX: f64 = 604_800.0;
/// Maximum threads of a compute node.
pub const THREADS_MAX: usize = 1 << 16;
/// Maximum compute nodes of a run.
pub const COMPUTE_NODES_MAX: usize = 1024;
/// Maximum clients of a run: each has buffers, and in the simulator a task.
pub const CLIENTS_MAX: u64 = 1 << 16;
/// Maximum rectangles of a run.
const RECTANGLES_MAX: u64 = 1 << 30;
/// The largest cache: 1 TiB, of which a tree may allocate all when it is opened.
const CACHE_BYTES_MAX: usize = 1 << 40;

/// Refuses a number of compute nodes that is out of range.
fn check_compute_nodes(compute_nodes: usize) -> crate::Result<()> {
    if (1..=COMPUTE_NODES_MAX).contains(&compute_nodes) {
        return Ok(());
    }
    refuse(
        "--compute-nodes",
        &format!("{compute_nodes} processes"),
        &format!("give 1 to {COMPUTE_NODES_MAX}"),
    )
}

/// Refuses more clients than a run can have.
fn check_clients(clients: u64) -> crate::Result<()> {
    if clients <= CLIENTS_MAX {
        return Ok(());
    }
    refuse("--clients", &format!("{clients} clients"), &format!("give at most {CLIENTS_MAX}"))
}

/// Whether a run can have this duration; false for a NaN.
fn is_duration(seconds: f64) -> bool {
    (0.0..=SECONDS_MAX).contains(&seconds)
}

/// The error of a command line flag.
fn refuse(flag: &'static str, problem: &str, remedy: &str) -> crate::Result<()> {
    Err(crate::Error::parameter(flag, problem, remedy))
}
