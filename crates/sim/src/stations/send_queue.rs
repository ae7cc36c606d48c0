//! A queue pair's send queue: requests leave in their order, and some must wait for answers first.

use crate::queue::Key;
use std::collections::VecDeque;

/// The client's end of a queue pair.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendQueue {
    /// Requests that have not left, in order.
    pub(crate) waiting: VecDeque<Key>,
    /// READs and atomics in flight.
    pub(crate) asking: u32,
    /// When the last request that left arrives: none arrives before it.
    pub(crate) last_arrival: u64,
    /// Requests that are sent again, for their memory node could not be reached: what comes behind them waits.
    pub(crate) resending: u32,
    /// Raised when the queue pair breaks: what left before does not count any more.
    pub(crate) epoch: u32,
}
