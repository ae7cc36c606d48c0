//! A memory node's processor: runnable threads share its cores in time slices.
//!
//! A thread that has more work when a job ends, such as one that polls for messages, retains its core until the end
//! of its slice. A thread that waits releases its core immediately.

use crate::queue::Key;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

/// Work for a core.
#[derive(Debug)]
pub(crate) struct CpuJob {
    /// Nanoseconds of work left.
    pub(crate) left: u64,
    /// The action at its end.
    pub(crate) then: Then,
}

/// The action at the end of a job.
#[derive(Debug)]
pub(crate) enum Then {
    /// Wake a server's task.
    Wake {
        /// The thread.
        thread: Key,
        /// The task's waker.
        waker: Waker,
        /// The flag that the task reads.
        done: Rc<Cell<bool>>,
    },
    /// Serve a request that passed the kernel.
    Serve(Key),
}

/// A job on a core.
#[derive(Debug)]
pub(crate) struct RunningJob {
    pub(crate) job: CpuJob,
    /// Nanoseconds of work that are done when the slice ends.
    pub(crate) takes: u64,
    /// Nanoseconds of the slice that the thread will have used at that time.
    pub(crate) used: u64,
}

/// A core whose thread has finished its job and may have another one at the same moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetainedCore {
    pub(crate) thread: Key,
    /// Nanoseconds of the slice that the thread has used.
    pub(crate) used: u64,
}

/// The cores of one memory node.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    /// Number of busy or retained cores.
    pub(crate) busy: u32,
    /// Jobs that wait for a core.
    pub(crate) waiting: VecDeque<CpuJob>,
    /// Jobs on a core, by the key of their slice.
    pub(crate) running: slab::Slab<RunningJob>,
    /// Retained cores.
    pub(crate) kept: Vec<RetainedCore>,
    /// CPU time of all cores, nanoseconds.
    pub(crate) worked: u64,
}

impl Cores {
    /// Takes the core that a thread retained, if any; yields the used part of its slice.
    pub(crate) fn take_retained(&mut self, thread: Key) -> Option<u64> {
        let at = self.kept.iter().position(|kept| kept.thread == thread)?;
        Some(self.kept.swap_remove(at).used)
    }
}
