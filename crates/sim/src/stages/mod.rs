//! The stages of a verb, one file per stage: queues and costs.
//!
//! ```text
//! cpu -> send_queue -> messages + link -> wire -> link + messages -> units -> atomics | pcie -> link -> wire -> link
//! ```
//!
//! Stages keep time in picoseconds, because the service time of a message is not a whole number of nanoseconds.

pub(crate) mod atomics;
pub(crate) mod cpu;
pub(crate) mod fifo;
pub(crate) mod messages;
pub(crate) mod nic_caches;
pub(crate) mod outstanding;
pub(crate) mod pcie;
pub(crate) mod send_queue;
pub(crate) mod server;
pub(crate) mod units;
