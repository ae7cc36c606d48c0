//! Fabrics on real machines: shared memory, TCP and RDMA. Only this crate makes the system calls.
//!
//! | module | contents | feature |
//! |---|---|---|
//! | [`any`] | one type for all fabrics, chosen from a URL | |
//! | [`fork`] | takes memory and connections of its parent from a forked child, and refuses its handles | |
//! | [`heap`] | huge pages for the caches of a process | |
//! | [`runtime`] | runs clients on threads | |
//! | [`shm`] | shared memory between the processes of one machine | |
//! | [`small_file`] | configurations, tokens and certificates: regular files of limited length | |
//! | [`thread_clock`] | the processor time of threads | |
//! | [`tcp`] | memory nodes as daemons that execute verbs | `tcp` |
//! | [`rdma`] | memory nodes whose network devices execute verbs | `rdma` |
//! | [`etcd`] | discovery of memory nodes | `etcd` |
//! | [`wire`] | the frames between compute nodes and memory nodes | `tcp` |
//! | `client`, `daemon`, `stream` | the two halves that TCP and RDMA share, and their connections | `tcp` |
//!
//! `rdma` imports nothing from `tcp`. Unsafe code lives only in files named `sys.rs`: one unsafe operation per block,
//! each with its proof.
#![deny(unsafe_code)]

pub mod any;
mod boot;
#[cfg(feature = "tcp")]
#[cfg_attr(
    not(feature = "rdma"),
    expect(dead_code, reason = "RDMA uses more of the shared half than TCP does")
)]
mod client;
#[cfg(feature = "tcp")]
#[cfg_attr(
    not(feature = "rdma"),
    expect(dead_code, reason = "RDMA uses more of the shared half than TCP does")
)]
mod daemon;
#[cfg(feature = "etcd")]
mod discovery;
#[cfg(feature = "tcp")]
mod error;
pub mod fork;
pub mod heap;
mod random;
#[cfg(feature = "rdma")]
pub mod rdma;
mod remedy;
pub mod runtime;
pub mod shm;
pub mod small_file;
#[cfg(feature = "tcp")]
mod stream;
#[cfg(feature = "tcp")]
pub mod tcp;
pub mod thread_clock;
#[cfg(feature = "tcp")]
pub mod wire;

#[cfg(feature = "etcd")]
pub use discovery::etcd;
pub use random::random_number;
