//! RDMA as far memory: a network card executes verbs in a memory node's memory, and no processor there does.
//!
//! A memory node is the one over TCP ([`crate::tcp`]), with a card ([`serve`]): who is let in, who is fenced and which
//! pool it is goes over TCP as it does there, with its tokens and TLS; verbs go over a queue pair (or several) for
//! each thread and memory node. rdma-core is loaded at run time: nothing of it is needed to build, and where it is
//! missing, opening says so.
//!
//! | file | what it knows |
//! |---|---|
//! | `abi/` | how libibverbs' objects lie in memory |
//! | `sys.rs` | libibverbs, loaded; devices, domains and registered memory. Unsafe |
//! | `queue/` | queue pairs: connecting them, posting, completions. `queue/sys.rs` is the unsafe half |
//! | `device.rs` | [`DeviceSpec`]: which card, port and address; what the card can do |
//! | `target.rs` | the card at a memory node, and what it promises |
//! | `pool.rs` | [`RdmaPool`], [`RdmaFabric`]: the pool as a fabric; [`serve`]: a memory node |
//! | `line.rs` | one thread's queue pairs, shared by its clients |
//! | `link.rs` | one of them: doorbell lists out, completions in, coming back after a loss |
//! | `mlx5/` | masked compare-and-swap as mlx5 cards take it, where it is asked for. `mlx5/sys.rs` is the unsafe half |
//! | `trial.rs` | atomics, tried on memory of this process |
//! | `arena.rs` | registered memory that requests are staged in |
//! | `error.rs` | [`RdmaError`]: what can go wrong, where, and what to do about it |

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

pub use device::{CardKind, CardReport, DevicePlace, LinkKind};
pub use error::RdmaError;
pub use open::{devices, examine};
pub use pool::{RdmaFabric, RdmaPool, serve};
pub use region::NodeCard;
pub use spec::{DeviceSpec, device_of_environment, queue_pairs};
