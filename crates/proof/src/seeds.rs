//! Runs of ordered indexes that a seed determines: clients of several compute nodes in one thread, every operation
//! recorded and checked. The same seed always gives the same run.
//!
//! | module | contents |
//! |---|---|
//! | [`loopback`] | runs on the loopback fabric: the seed draws the order of polls, word by word |
//! | [`simulator`] | runs in the simulator: a network, virtual time and faults |
//! | [`spatial`] | runs of spatial indexes in the simulator |
//! | [`mutants`] | checks that the tests detect a broken index or fabric |
//! | [`runner`] | runs many seeds on all processors |
//! | `plan`, `record`, `check` | the requests of a run, its record, and the checks at its end |

mod check;
pub mod loopback;
pub mod mutants;
mod plan;
mod record;
pub mod runner;
pub mod simulator;
pub mod spatial;

pub use plan::Plan;
pub use record::RunTotals;
