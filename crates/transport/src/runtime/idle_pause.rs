//! Pauses between polls that bring no answer.

/// The first pause, nanoseconds. Each further one is longer by a sixteenth of it.
pub(super) const PAUSE_FIRST: u64 = 50_000;
/// The longest pause, nanoseconds: a thread that wakes up five hundred times per second needs less than 2 % of a
/// processor.
const PAUSE_MAX: u64 = 2_000_000;

/// Returns the length of a pause, nanoseconds. Pauses count from 0.
pub(super) fn idle_pause(number: u32) -> u64 {
    // Later pauses have the greatest length.
    (PAUSE_FIRST + PAUSE_FIRST / 16 * u64::from(number.min(1 << 10))).min(PAUSE_MAX)
}

/// Returns the length of the longest pause if it begins at `now`: it ends at a multiple of its length, at which other
/// futures also wake up.
pub(super) fn longest_idle_pause(now: u64) -> u64 {
    PAUSE_MAX - now % PAUSE_MAX
}

/// Polls of a connection without an answer, by futures whose executor does not poll it.
#[cfg(feature = "tcp")]
#[derive(Debug, Default)]
pub(crate) struct IdlePolls(u32);

#[cfg(feature = "tcp")]
impl IdlePolls {
    /// Polls before the first pause. They take some milliseconds.
    const BUSY_MAX: u32 = 2_000;

    /// Counts a poll.
    #[inline]
    pub(crate) fn add(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    /// Starts again, after an answer, or with the first request.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }

    /// Returns the number of polls.
    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.0
    }

    /// The time of the next poll, nanoseconds; `None`: at once. The longest pauses of several futures end together.
    #[inline]
    pub(crate) fn end_of_pause(&self) -> Option<u64> {
        let number = self.0.checked_sub(Self::BUSY_MAX + 1)?;
        let now = crate::shm::monotonic_nanoseconds();
        Some(match idle_pause(number) {
            PAUSE_MAX => now + longest_idle_pause(now),
            pause => now + pause,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pauses_of_several_futures_end_together() {
        assert_eq!([0, 1, 16, u32::MAX].map(idle_pause), [50_000, 53_125, 100_000, PAUSE_MAX]);
        for now in [0, 1, PAUSE_MAX - 1, 5 * PAUSE_MAX + 3] {
            let next = now + longest_idle_pause(now);
            assert!(next > now && next.is_multiple_of(PAUSE_MAX), "{now}");
        }
    }

    #[test]
    fn pauses_begin_after_some_polls() {
        let mut polls = IdlePolls::default();
        for _ in 0..IdlePolls::BUSY_MAX {
            polls.add();
        }
        assert_eq!(polls.end_of_pause(), None);
        polls.add();
        let now = crate::shm::monotonic_nanoseconds();
        assert!(polls.end_of_pause().unwrap() >= now + PAUSE_FIRST);
        polls.0 = u32::MAX;
        assert!(polls.end_of_pause().unwrap().is_multiple_of(PAUSE_MAX));
        polls.reset();
        assert_eq!((polls.count(), polls.end_of_pause()), (0, None));
    }
}
