//! The fabrics that run on real machines. This room touches the operating system so that no other has to.
//!
//! | module | fabric |
//! |---|---|
//! | [`any`] | (any of them) |
//! | [`etcd`] | (finds memory nodes over TCP) |
//! | [`heap`] | (puts the caches of a process into huge pages) |
//! | [`rdma`] | memory nodes whose network cards execute verbs |
//! | [`runtime`] | (runs clients on threads) |
//! | [`shm`] | shared memory between the processes of one machine |
//! | [`tcp`] | memory nodes as daemons, over TCP |
//!
//! Unsafe code lives only in files named `sys.rs`: one unsafe operation to a block, each with its proof.
#![deny(unsafe_code)]

pub mod any;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod heap;
#[cfg(feature = "rdma")]
pub mod rdma;
pub mod runtime;
pub mod shm;
#[cfg(feature = "tcp")]
#[cfg_attr(
    not(feature = "rdma"),
    allow(dead_code, unused_imports, reason = "RDMA uses more of the shared half than TCP does")
)]
pub mod tcp;
mod timers;
