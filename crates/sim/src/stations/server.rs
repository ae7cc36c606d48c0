//! A memory node's processor: its cores are shared in slices by whoever has something to compute.
//!
//! A thread that has more to compute as soon as it is done keeps its core until its slice is over, as one does that
//! looks for messages all the time. One that waits for something else leaves its core at once.

use crate::queue::Key;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

/// Work for a core.
#[derive(Debug)]
pub(crate) struct Job {
    /// Nanoseconds of work left.
    pub(crate) left: u64,
    /// What happens when it is done.
    pub(crate) then: Then,
}

/// What a finished job leads to.
#[derive(Debug)]
pub(crate) enum Then {
    /// A server's thread goes on, and finds the work done.
    Wake {
        /// The thread.
        thread: Key,
        /// Its code.
        waker: Waker,
        /// What it looks at.
        done: Rc<Cell<bool>>,
    },
    /// A request that went through the kernel is served.
    Serve(Key),
}

/// A job on a core.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) job: Job,
    /// Nanoseconds of it that are done when the event comes.
    pub(crate) takes: u64,
    /// Nanoseconds of the slice that its thread has used by then.
    pub(crate) used: u64,
}

/// A core whose thread is done, and may have more to do at this moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) thread: Key,
    /// Nanoseconds of the slice that the thread has used.
    pub(crate) used: u64,
}

/// The cores of one memory node.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    /// Cores at work, or kept.
    pub(crate) busy: u32,
    /// Jobs that wait for a core.
    pub(crate) waiting: VecDeque<Job>,
    /// Jobs on a core, by the key of their slice.
    pub(crate) running: slab::Slab<Running>,
    /// Cores that their threads may keep.
    pub(crate) kept: Vec<Kept>,
    /// Nanoseconds worked by all cores together.
    pub(crate) worked: u64,
}

impl Cores {
    /// The core that a thread has kept, if it has; yields what it has used of its slice.
    pub(crate) fn take_kept(&mut self, thread: Key) -> Option<u64> {
        let at = self.kept.iter().position(|kept| kept.thread == thread)?;
        Some(self.kept.swap_remove(at).used)
    }
}
