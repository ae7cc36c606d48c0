//! The highest cut that a compute node has seen.
//!
//! Memory nodes at `--durability interval` number *cuts*: points of time that lie between the same changes on all
//! memory nodes of a pool. A memory node puts its cut into every answer, and a compute node puts the highest cut that
//! any of its threads has seen into every request. A memory node that receives a higher cut begins that cut before it
//! executes the request. So if a request is before a cut, everything that its sender had seen is before that cut, too,
//! on every memory node. Module `daemon::log` uses this to restore a pool.

use std::sync::atomic::{AtomicU64, Ordering};

/// The highest cut that the threads of a compute node have seen in answers of a pool.
#[derive(Debug, Default)]
pub(crate) struct KnownCut(AtomicU64);

impl KnownCut {
    /// Records the cut of an answer. Called before a client gets the answer.
    #[inline]
    pub(crate) fn raise(&self, cut: u64) {
        if cut > self.0.load(Ordering::Relaxed) {
            self.0.fetch_max(cut, Ordering::Release);
        }
    }

    /// The cut for a request.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
