//! A simulator of an RDMA network, deterministic and in virtual time.
//!
//! Index code that runs on any fabric runs here in one thread, with thousands of clients, on any NIC model
//! ([`NicModel`]), with injected faults. The same seed repeats the same run. Bytes move line by line at the times at
//! which the modelled NIC reads or writes them, so torn reads, overtaking and lost updates occur as on hardware.
//!
//! | module | content |
//! |---|---|
//! | [`World`] | machines, a pool in their memory, clients |
//! | [`TaskGroup`] | the executor: tasks of clients and servers |
//! | [`NicModel`] | the parameters of a NIC model, read from a file |
//! | [`fault`] | rules that inject faults into the stream of verbs |
//! | [`trace`] | events of a run: digests, Perfetto, sequence diagrams |
//! | `stages/` | queues and costs of each stage of a verb, one file per stage |
//! | `device/` | the path of a verb through the stages |
//!
//! `docs/nic-model.md` gives the source of every parameter, and lists what is not modelled.
#![deny(unsafe_code)]

mod addition;
mod device;
mod fabric;
pub mod fault;
mod image;
mod memory;
pub mod nic_model;
mod queue;
mod random;
mod server;
mod stages;
#[expect(unsafe_code, reason = "a hint to the processor")]
mod sys;
mod task_group;
pub mod trace;
mod world;

pub use addition::NodeAddition;
pub use device::Counts;
pub use fabric::SimFabric;
pub use image::PoolImage;
pub use nic_model::{NicModel, NicModelError};
pub use random::RandomStream;
pub use server::{SimMemory, SimServer};
pub use task_group::{RunOutcome, SimThread, TaskGroup};
pub use trace::{OperationSpan, Trace, TraceEvent, Tracing};
pub use world::{CAPABILITIES, World, WorldError, WorldSpec, untimed};

/// An error: tasks wait for events that are not scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("deadlock: {0} tasks wait for an event that is not scheduled")]
pub struct Stuck(pub usize);
