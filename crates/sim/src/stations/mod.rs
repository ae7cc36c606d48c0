//! The stations that a verb passes, each a file: what it costs there, and who waits for whom.
//!
//! ```text
//! cpu -> send_queue -> messages + link -> wire -> link + messages -> units -> atomics | pcie -> link -> wire -> link
//! ```
//!
//! Stations keep time in picoseconds, because a message of a fast card takes no whole number of nanoseconds.

pub(crate) mod atomics;
pub(crate) mod cpu;
pub(crate) mod fifo;
pub(crate) mod messages;
pub(crate) mod outstanding;
pub(crate) mod pcie;
pub(crate) mod send_queue;
pub(crate) mod server;
pub(crate) mod units;
