//! The laboratory: a deterministic RDMA network in virtual time.
//!
//! One seed, one thread, virtual nanoseconds: index code that runs on any fabric runs here, with thousands of clients,
//! on any [`Card`], with any fault, and the same run again from the same seed. Bytes move line by line at the
//! times at which the model of the NIC touches them, so torn reads, overtaking and lost updates really happen.
//!
//! | module | what it holds |
//! |---|---|
//! | [`World`] | machines, a pool in their memory, clients |
//! | [`Crew`] | clients' work, run together |
//! | [`card`] | the numbers of a NIC, as data |
//! | [`fault`] | rules on the stream of verbs |
//! | [`trace`] | what happened when: digests, Perfetto, sequence diagrams |
//! | `stations/` | what a verb passes, one file each |
//! | `device/` | a verb's way through them |
//!
//! `docs/nic-model.md` gives every number with its source, and what is not modelled.
#![deny(unsafe_code)]

pub mod card;
mod crew;
mod device;
mod fabric;
pub mod fault;
mod memory;
mod queue;
mod random;
mod server;
mod stations;
#[allow(unsafe_code, reason = "a hint to the processor")]
mod sys;
pub mod trace;
mod world;

pub use card::{Card, CardError};
pub use crew::{Crew, Ended, Seat};
pub use device::Counts;
pub use fabric::SimFabric;
pub use random::Stream;
pub use server::{SimMemory, SimServer};
pub use trace::{Trace, TraceEvent, Tracing};
pub use world::{CAPABILITIES, World, WorldError, WorldSpec, at_once};

/// A run in which somebody waits for what will never happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} pieces of work wait for something that will never happen")]
pub struct Stuck(pub usize);
