//! The threads of compute nodes. The clients of a thread are tasks that share its CPU time.

use crate::queue::Key;
use std::collections::VecDeque;

/// A thread of a compute node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Thread {
    /// The virtual time at which the thread finishes its current work, in nanoseconds.
    pub(crate) busy_until: u64,
    /// Tasks that can run, each with the CPU time that its wake-up costs, in nanoseconds.
    pub(crate) ready: VecDeque<(Key, u64)>,
    /// Whether an event that will run the next task is in the event queue.
    pub(crate) called: bool,
}
