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
mod device;
mod error;
mod line;
mod link;
mod mlx5;
mod pool;
mod queue;
#[allow(unsafe_code)]
mod sys;
mod target;
mod trial;

pub use device::{
    CardKind, CardReport, DevicePlace, DeviceSpec, LinkKind, device_of_environment, devices, examine,
    queue_pairs,
};
pub use error::RdmaError;
use pool::Ground;
pub use pool::{NodeCard, RdmaFabric, RdmaPool, serve};
