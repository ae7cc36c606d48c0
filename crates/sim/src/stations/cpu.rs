//! Clients' threads: coroutines share the CPU time of theirs.

use crate::queue::Key;
use std::collections::VecDeque;

/// A thread of a compute node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Thread {
    /// Until when it is busy, nanoseconds.
    pub(crate) busy_until: u64,
    /// Tasks that can go on, each with what it costs to wake it, nanoseconds.
    pub(crate) ready: VecDeque<(Key, u64)>,
    /// Whether an event will run the next task.
    pub(crate) called: bool,
}
