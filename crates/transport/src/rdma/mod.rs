//! RDMA as a fabric: a network device executes verbs in a memory node's memory, without its processors.
//!
//! A memory node is the same daemon as over TCP, with an RDMA device ([`serve`]). Authentication, fencing and formation
//! use its TCP connections, with tokens and TLS; verbs use one queue pair (or several) per thread and memory node.
//! Farwood loads rdma-core at run time and does not need it to build; without it, opening a device returns an error.
//!
//! | file | contents |
//! |---|---|
//! | `abi/` | the memory layouts of libibverbs' objects |
//! | `sys.rs` | libibverbs, loaded; devices, domains and registered memory. Unsafe |
//! | `queue/` | queue pairs: connecting, posting, completions. `queue/sys.rs` is the unsafe half |
//! | `spec.rs`, `open.rs`, `device.rs` | [`DeviceSpec`]: how users name a device; opening it; its capabilities |
//! | `target.rs` | the device at a memory node |
//! | `region.rs` | the regions of a memory node, and its promises |
//! | `pool.rs`, `shared.rs` | [`RdmaPool`], [`RdmaFabric`]: the pool as a fabric; [`serve`]: a memory node |
//! | `queue_pairs.rs` | one thread's queue pairs, shared by its clients |
//! | `node_queue_pair.rs` | one thread's queue pair to one memory node: posts, completions, reconnecting after a loss |
//! | `mlx5/` | masked compare-and-swap on mlx5 devices. `mlx5/sys.rs` is the unsafe half |
//! | `atomics_probe.rs` | a test of a device's atomics on memory of this process |
//! | `arena.rs` | registered buffers of requests |
//! | `error.rs` | [`RdmaError`] |

mod abi;
mod arena;
mod atomics_probe;
mod device;
mod error;
mod mlx5;
mod node_queue_pair;
mod open;
mod pool;
mod queue;
mod queue_pairs;
mod region;
mod shared;
mod spec;
#[allow(unsafe_code)]
mod sys;
mod target;

pub use device::{DeviceKind, DeviceMemoryLocation, DeviceReport, LinkKind};
pub use error::RdmaError;
pub use open::{devices, examine};
pub use pool::{RdmaFabric, RdmaPool, serve};
pub use region::NodeDevice;
pub use spec::{DeviceSpec, device_from_env, queue_pairs};
