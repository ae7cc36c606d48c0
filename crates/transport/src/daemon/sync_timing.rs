//! When a worker begins the sync of the log that its answers wait for.

use super::log::Log;
use std::time::Instant;

/// Requests since the last sync from which on the next one waits for more.
const SHARED_REQUESTS: u64 = 8;

/// The moment of a worker's next sync. If many requests shared the last one, a sync waits half the time that it takes,
/// so that answers of a client's other requests, and the requests that follow them, are part of it.
#[derive(Debug, Default)]
pub(super) struct SyncTiming {
    /// The last record whose sync this worker has begun.
    begun: u64,
    /// The moment when answers began to wait for a later record.
    since: Option<Instant>,
    /// Requests since the last sync.
    requests: u64,
    /// Whether many requests shared the last sync.
    is_shared: bool,
}

impl SyncTiming {
    /// Counts requests that were executed.
    #[inline]
    pub(super) fn count(&mut self, requests: u64) {
        self.requests += requests;
    }

    /// Whether a sync is going to begin as soon as it has waited for more requests.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    /// No answer waits any more.
    #[inline]
    pub(super) fn cancel(&mut self) {
        self.since = None;
    }

    /// Begins the sync that answers wait for, if it is time. True: the answers may leave now.
    pub(super) fn begin_sync(&mut self, log: &Log) -> bool {
        let asked = log.last_asked();
        if asked <= self.begun {
            return false;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.is_shared && since.elapsed() < log.short_sync() / 2 {
            return false;
        }
        self.is_shared = std::mem::take(&mut self.requests) >= SHARED_REQUESTS;
        (self.begun, self.since) = (asked, None);
        log.begin_sync()
    }
}
