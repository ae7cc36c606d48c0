//! The daemon half of a memory node, shared by TCP and RDMA: membership, fencing, and verbs that its threads execute.
//!
//! | file | contents |
//! |---|---|
//! | `spec.rs` | [`NodeSpec`]: the configuration of a memory node |
//! | `node.rs` | [`MemoryNode`]: start and stop; [`TcpServer`]: the server role, [`TcpMemory`]: its memory |
//! | `store.rs` | host and device memory, and the execution of verbs in them |
//! | `log/` | the write-ahead log of a memory node with a file |
//! | `snapshot/` | a copy-on-write view of the memory at one moment |
//! | `registry.rs` | the connections of a memory node, and the fenced clients |
//! | `verb_executor.rs` | `VerbExecutor`: a device that executes verbs in place of the threads |
//! | `restored.rs` | `RestoredNode`: a memory node without threads, for tests |
//! | `shared.rs` | the state that all threads share |
//! | `connection.rs` | one connection: receives frames, sends answers |
//! | `snapshot_controls.rs` | the controls of snapshots, and those of connections that use one |
//! | `worker.rs` | the threads |
//! | `sync_timing.rs` | when a thread begins the sync that its answers wait for |
//! | `counters.rs`, `event.rs` | [`NodeCounts`], [`NodeEvent`]: counters, and events for the log |
//! | `event_sums.rs` | [`SummedEvent`]: sums of events of refused and invalid connections |

mod attached_clients;
mod connection;
mod counters;
mod event;
mod event_sums;
mod growth_controls;
mod log;
mod node;
mod registry;
mod restored;
mod shared;
mod snapshot;
mod snapshot_controls;
mod spec;
mod store;
mod sync_timing;
pub(crate) mod verb_executor;
mod worker;

pub use counters::{LATENCY_BUCKETS, NodeCounts};
pub use event::{GoneClient, NodeEvent, NodeEvents};
pub use event_sums::SummedEvent;
pub use log::{Durability, FrozenLog, LogMutant, LogReport, LogTuning};
pub use node::{MemoryNode, NodeMonitor, TcpMemory, TcpServer};
pub(crate) use restored::RestoredNode;
pub use snapshot::SnapshotMutant;
pub use spec::{CONNECTIONS_MAX_DEFAULT, NodeSpec};
pub use store::NodeFile;
