//! Worker processes, their threads and their clients, independent of the measured system.
//!
//! | file | contents |
//! |---|---|
//! | `protocol.rs` | messages between the parent process and its workers |
//! | `processes.rs`, `worker.rs` | the parent's side of the protocol; the worker's side |
//! | `program.rs`, `cleanup.rs` | workers that run another program; workers that remove the objects of a killed run |
//! | `threads.rs`, `round_robin.rs` | threads of a worker; several clients on one thread |
//! | `cpu.rs`, `loopback.rs` | CPU pinning; the latency of the machine's loopback interface |
//! | `clock.rs`, `stopwatch.rs` | real time; the operations of a simulated run that are measured |
//! | `steady.rs`, `timeline.rs` | the warm-up until the throughput is steady; throughput over the measured phase |
//! | `progress.rs` | the phases of a run |

pub(crate) mod cleanup;
pub mod clock;
pub(crate) mod cpu;
pub(crate) mod loopback;
pub mod processes;
pub(crate) mod program;
pub mod progress;
pub mod protocol;
pub mod round_robin;
pub mod steady;
pub mod stopwatch;
pub(crate) mod sync_latency;
pub(crate) mod threads;
pub mod timeline;
pub mod worker;
