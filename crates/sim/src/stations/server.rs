//! A memory node's processor: its cores are shared in slices by whoever has something to compute.

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
    /// A server's code goes on, and finds the work done.
    Wake(Waker, Rc<Cell<bool>>),
    /// A request that went through the kernel is served.
    Serve(Key),
}

/// The cores of one memory node.
#[derive(Debug, Default)]
pub(crate) struct Cores {
    /// Cores at work.
    pub(crate) busy: u32,
    /// Jobs that wait for a core.
    pub(crate) waiting: VecDeque<Job>,
    /// Jobs on a core, by the key of their slice.
    pub(crate) running: slab::Slab<(Job, u64)>,
    /// Nanoseconds worked by all cores together.
    pub(crate) worked: u64,
}
