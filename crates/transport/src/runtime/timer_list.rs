//! Timers, in the order of the times at which they are due.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

/// The key of a timer. No two timers of a process have the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerKey {
    /// The time at which the timer is due, nanoseconds.
    due: u64,
    number: u64,
}

impl TimerKey {
    fn new(due: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { due, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// Returns the time at which the timer is due, nanoseconds.
    pub(super) fn due(self) -> u64 {
        self.due
    }
}

/// The wakers of timers. The caller wakes and drops wakers outside of the borrow or mutex that guards the list, because
/// a waker can run code of its executor.
#[derive(Default)]
pub(super) struct TimerList(BTreeMap<TimerKey, Waker>);

impl TimerList {
    /// No timers.
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds a timer that wakes `waker` at `due`.
    pub(super) fn add(&mut self, due: u64, waker: Waker) -> TimerKey {
        let key = TimerKey::new(due);
        self.0.insert(key, waker);
        key
    }

    /// Removes a timer, if it is still in the list.
    pub(super) fn remove(&mut self, key: TimerKey) -> Option<Waker> {
        self.0.remove(&key)
    }

    /// Returns the time at which the first timer is due.
    pub(super) fn first_due(&self) -> Option<u64> {
        self.0.first_key_value().map(|(key, _)| key.due)
    }

    /// Removes the first timer if it is due at `now`.
    pub(super) fn take_due(&mut self, now: u64) -> Option<Waker> {
        let first = self.0.first_entry().filter(|first| first.key().due <= now)?;
        Some(first.remove())
    }

    /// Returns the number of timers that wake `waker`.
    #[cfg(test)]
    pub(super) fn count_of(&self, waker: &Waker) -> usize {
        self.0.values().filter(|of| of.will_wake(waker)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_taken_in_the_order_in_which_they_are_due() {
        let mut timers = TimerList::new();
        let keys = [30, 10, 20, 10].map(|due| timers.add(due, Waker::noop().clone()));
        assert_eq!(timers.first_due(), Some(10));
        assert!(timers.take_due(9).is_none());
        assert!(timers.remove(keys[1]).is_some());
        assert!(timers.remove(keys[1]).is_none());
        assert!(
            timers.take_due(20).is_some() && timers.take_due(20).is_some() && timers.take_due(20).is_none()
        );
        assert_eq!(timers.first_due(), Some(keys[0].due()));
    }
}
