//! Runs in the simulator: the same indexes, streams and checks as on real fabrics, in virtual time and in one process.

mod arrivals;
mod faults;
mod loaded_pool;
pub(crate) mod micro;
mod ordered;
mod spatial;
mod trace;

pub use loaded_pool::KeptPool;
pub use micro::{
    CARD_FILE_HEADING, CardValue, NicMeasurement, NicMetric, NicPoint, NicTarget, Verb, card_values,
};
pub use ordered::{card_of, check_measured, nic_model, simulate, simulate_in, with_network};
pub use spatial::simulate_spatial;
pub use trace::{CachesBefore, TracedOperation, TracedRun, trace};
