//! The choice between messages and READs, which the threads of a handle share.

use farwood_index::catfish::adaptive::{PathComparison, SearchPath};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Requests until the next trial, after one that could not be done.
const AFTER_FAILURE: u64 = 16;

/// The next step of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Use this path.
    Path(SearchPath),
    /// Use both, and compare the times in a [`PathChoice::trial`].
    Trial,
}

/// Learns which path is faster for one kind of request, and chooses it.
#[derive(Debug)]
pub(super) struct PathChoice {
    requests: AtomicU64,
    /// The number of the request that is the next trial; the largest number while a trial runs.
    next_trial: AtomicU64,
    prefers_messages: AtomicBool,
    comparison: Mutex<PathComparison>,
}

impl PathChoice {
    /// A choice that uses READs until the first trial is done, which is the second request: a program with a single
    /// request needs no connection.
    pub(super) fn new() -> Self {
        Self {
            requests: AtomicU64::new(0),
            next_trial: AtomicU64::new(1),
            prefers_messages: AtomicBool::new(false),
            comparison: Mutex::default(),
        }
    }

    /// The requests so far.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Chooses for the next request. One thread at a time makes a trial.
    pub(super) fn next(&self) -> Choice {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let due = number >= self.next_trial.load(Ordering::Relaxed);
        if due && self.next_trial.swap(u64::MAX, Ordering::Relaxed) != u64::MAX {
            return Choice::Trial;
        }
        Choice::Path(self.preferred())
    }

    /// The faster path, as far as it is known.
    pub(super) fn preferred(&self) -> SearchPath {
        if self.prefers_messages.load(Ordering::Relaxed) { SearchPath::Message } else { SearchPath::Offload }
    }

    fn comparison(&self) -> MutexGuard<'_, PathComparison> {
        self.comparison.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the trial that [`next`](Self::next) has chosen.
    pub(super) fn trial(&self) -> Trial<'_> {
        Trial { choice: self }
    }

    /// No server answered: requests use READs, and a later one is a trial.
    pub(super) fn fail(&self) {
        *self.comparison() = PathComparison::default();
        self.prefers_messages.store(false, Ordering::Relaxed);
        self.next_trial.store(self.requests() + AFTER_FAILURE, Ordering::Relaxed);
    }

    /// The median time by message divided by that by READs.
    pub(super) fn message_to_reads(&self) -> Option<f64> {
        self.comparison().message_to_reads()
    }
}

/// A trial. It ends when it is dropped, with or without a result.
pub(super) struct Trial<'c> {
    choice: &'c PathChoice,
}

impl Trial<'_> {
    /// Whether the number of earlier requests is even.
    pub(super) fn is_even(&self) -> bool {
        self.choice.requests().is_multiple_of(2)
    }

    /// Records the times of both paths.
    pub(super) fn compare(self, message_ns: u64, reads_ns: u64) {
        let mut comparison = self.choice.comparison();
        comparison.record(message_ns, reads_ns);
        let prefers_messages = comparison.faster() == Some(SearchPath::Message);
        self.choice.prefers_messages.store(prefers_messages, Ordering::Relaxed);
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        let next = self.choice.requests() + self.choice.comparison().interval();
        self.choice.next_trial.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_faster_path_is_preferred_until_no_server_answers() {
        let choice = PathChoice::new();
        assert_eq!(choice.next(), Choice::Path(SearchPath::Offload));
        assert_eq!(choice.next(), Choice::Trial);
        assert_eq!(choice.next(), Choice::Path(SearchPath::Offload), "another thread makes the trial");
        choice.trial().compare(1_000, 4_000);
        assert_eq!(choice.next(), Choice::Path(SearchPath::Message));
        let trials = (0..1_000).filter(|_| {
            let is_trial = choice.next() == Choice::Trial;
            if is_trial {
                choice.trial().compare(1_000, 4_000);
            }
            is_trial
        });
        assert!((9..15).contains(&trials.count()), "a few at first, and then every 400 requests");
        choice.fail();
        assert_eq!(choice.next(), Choice::Path(SearchPath::Offload));
        assert_eq!(choice.message_to_reads(), None);
    }
}
