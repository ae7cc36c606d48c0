//! Clients' threads: the tasks of a thread share its CPU time.

use crate::queue::Key;
use std::collections::VecDeque;

/// A thread of a compute node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Thread {
    /// The end of its current work, nanoseconds.
    pub(crate) busy_until: u64,
    /// Tasks that can run, each with the CPU time of its wake-up, nanoseconds.
    pub(crate) ready: VecDeque<(Key, u64)>,
    /// Whether an event will run the next task.
    pub(crate) called: bool,
}
