//! Runs in the simulator: the same indexes, streams and checks as on real fabrics, in virtual time and in one process.

pub(crate) mod micro;
mod ordered;
mod spatial;

pub use ordered::{nic_model, simulate};
pub use spatial::simulate_spatial;
