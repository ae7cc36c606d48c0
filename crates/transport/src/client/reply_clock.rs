//! The time limit of an answer: for the whole frame, so that a peer that sends single bytes at intervals does not
//! extend it.

use std::time::{Duration, Instant};

/// Minimum transfer rate of a frame, bytes per second.
pub(crate) const RATE_MIN: u64 = 100 << 10;
/// Polls between two reads of the clock.
const POLLS: u32 = 64;

/// Measures the time until the next complete frame, with few reads of the clock. It runs only while it is polled.
#[derive(Debug)]
pub(crate) struct ReplyClock {
    limit: Duration,
    since: Instant,
    polls: u32,
    /// Bytes to be transferred until the frame is complete.
    bytes: usize,
}

impl ReplyClock {
    /// A clock for peers that answer within `limit`, plus the transfer time of the bytes at [`RATE_MIN`].
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, since: Instant::now(), polls: 0, bytes: 0 }
    }

    /// Starts again, for a transfer of `bytes` bytes: when a request is queued and none was pending, when a frame
    /// begins to arrive, and when it is complete.
    #[inline]
    pub(crate) fn restart(&mut self, bytes: usize) {
        (self.polls, self.bytes) = (0, bytes);
    }

    /// Counts a poll; returns whether the time is over.
    #[inline]
    pub(crate) fn is_over(&mut self) -> bool {
        self.polls = self.polls.wrapping_add(1).max(1);
        if self.polls == 1 {
            self.since = Instant::now();
        }
        self.polls.is_multiple_of(POLLS) && self.since.elapsed() > self.limit + self.travel()
    }

    #[cold]
    fn travel(&self) -> Duration {
        Duration::from_secs(self.bytes as u64 / RATE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_over_after(clock: &mut ReplyClock, pause: Duration) -> bool {
        let is_over = |clock: &mut ReplyClock| (0..POLLS).any(|_| clock.is_over());
        assert!(!is_over(clock));
        std::thread::sleep(pause);
        is_over(clock)
    }

    #[test]
    fn the_limit_grows_with_the_bytes_and_ends_at_a_restart() {
        let (limit, pause) = (Duration::from_millis(50), Duration::from_millis(60));
        let mut clock = ReplyClock::new(limit);
        assert!(is_over_after(&mut clock, pause));
        clock.restart(0);
        assert!(is_over_after(&mut clock, pause));
        clock.restart(2 * RATE_MIN as usize);
        assert!(!is_over_after(&mut clock, pause), "two seconds more");
    }
}
