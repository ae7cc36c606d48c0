//! The specification of a run: the parameters of runs of ordered and of spatial indexes, and values derived from them.
//!
//! Nothing here starts a process or opens a pool.

pub mod fabric;
pub mod ordered;
pub mod spatial;
pub mod spatial_variant;
pub mod system;

/// The name of Redis on the command line and in records.
pub(crate) const REDIS: &str = "redis";
/// The name of rstar on the command line and in records.
pub(crate) const RSTAR: &str = "rstar";
/// Rounds of each backend in a comparison.
const ROUNDS: usize = 3;

/// The error of a command line flag.
fn refuse(flag: &'static str, problem: &str, remedy: &str) -> crate::Result<()> {
    Err(crate::Error::parameter(flag, problem, remedy))
}
