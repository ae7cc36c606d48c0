//! Runs in the simulator: the same indexes, streams and checks as on real fabrics, in virtual time and in one process.

pub(crate) mod micro;
mod ordered;
mod spatial;
mod trace;

pub use ordered::{card_of, check_measured, nic_model, simulate, with_network};
pub use spatial::simulate_spatial;
pub use trace::{CachesBefore, TracedOperation, TracedRun, trace};
