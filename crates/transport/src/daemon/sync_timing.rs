//! When a worker begins the sync of the log that its answers wait for.

use super::log::Log;
use std::time::{Duration, Instant};

/// Answers that leave after one sync, from which on the next sync waits for more.
const SHARING_ANSWERS: u64 = 4;
/// The time for which a sync waits for more after one that many answers shared.
const SHARED_RECENTLY: Duration = Duration::from_millis(10);

/// The moment of a worker's next sync. If many answers shared the last one, the next one waits half the time that a
/// sync takes, so that it also covers the requests that clients send after the answers of the last one.
#[derive(Debug, Default)]
pub(super) struct SyncTiming {
    /// The last record whose sync this worker has begun.
    begun: u64,
    /// The moment when answers began to wait for a later record.
    since: Option<Instant>,
    /// Answers that have begun to wait since the last sync.
    answers: u64,
    /// The moment of the last sync, if many answers shared it.
    shared: Option<Instant>,
}

impl SyncTiming {
    /// Counts answers that wait.
    #[inline]
    pub(super) fn count(&mut self, answers: u64) {
        self.answers += answers;
    }

    /// Whether a sync begins as soon as it has waited for more.
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
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        let is_shared = self.shared.is_some_and(|at| now - at < SHARED_RECENTLY);
        if is_shared && now - since < log.short_sync() / 2 {
            return false;
        }
        self.shared = (std::mem::take(&mut self.answers) >= SHARING_ANSWERS).then_some(now);
        (self.begun, self.since) = (asked, None);
        log.begin_sync()
    }
}
