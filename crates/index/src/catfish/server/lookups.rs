//! The numbers of lookups by message and by READs, for statistics.

use super::super::wire::message::Request;
use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of lookups during a term.
#[derive(Debug, Default)]
pub(super) struct LookupCounts {
    executed: AtomicU64,
    offloaded: AtomicU64,
}

impl LookupCounts {
    /// Counts a request if it is a lookup.
    pub(super) fn note(&self, request: Option<&Request>) {
        if matches!(request, Some(Request::Search(_) | Request::Count(_) | Request::Nearest(..))) {
            self.note_executed();
        }
    }

    /// Counts a lookup.
    pub(super) fn note_executed(&self) {
        self.executed.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds lookups that a client has executed by READs.
    pub(super) fn note_offloaded(&self, count: u64) {
        // A client may send any number.
        let _ = self
            .offloaded
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sum| Some(sum.saturating_add(count)));
    }

    /// Lookups that the server executed, and lookups that clients executed by READs.
    pub(super) fn executed_and_offloaded(&self) -> (u64, u64) {
        (self.executed.load(Ordering::Relaxed), self.offloaded.load(Ordering::Relaxed))
    }
}
