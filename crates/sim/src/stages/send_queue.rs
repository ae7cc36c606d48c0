//! The send queue of a queue pair: requests leave in order, and some wait for answers first.

use crate::queue::Key;
use std::collections::VecDeque;

/// The client side of a queue pair.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendQueue {
    /// The memory node's NIC.
    pub(crate) server: usize,
    /// The processing unit of that NIC that serves the queue pair.
    pub(crate) unit: usize,
    /// Requests that have not been sent, in order.
    pub(crate) waiting: VecDeque<Key>,
    /// READs and atomics in flight.
    pub(crate) fetches_in_flight: u32,
    /// The arrival time of the last request that was sent; no later request arrives before it.
    pub(crate) last_arrival: u64,
    /// The time at which the memory node's NIC has received the last request, if the model has caches whose misses
    /// delay requests.
    pub(crate) last_enter: u64,
    /// Number of requests that are being resent because their memory node is unreachable; later requests wait for them.
    pub(crate) resending: u32,
    /// Requests for the memory node's kernel, in order; it processes one of them at a time.
    pub(crate) in_kernel: VecDeque<Key>,
    /// Incremented when the queue pair breaks; requests of earlier epochs are dropped.
    pub(crate) epoch: u32,
}
