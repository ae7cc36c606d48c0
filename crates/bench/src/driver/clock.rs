//! Real time, and the condition under which a client stops.

use std::time::Instant;

use super::protocol::Amount;

/// A clock that counts nanoseconds from its creation.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

impl Clock {
    /// Starts a clock at 0.
    pub fn new() -> Clock {
        Clock(Instant::now())
    }

    /// Nanoseconds since the clock was created.
    #[inline]
    pub fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    /// The deadline of a phase that starts now, in which each client does `amount` of work.
    pub fn deadline(&self, amount: Amount) -> Deadline {
        match amount {
            Amount::Seconds(seconds) => Deadline::Time(self.now() + (seconds * 1e9) as u64),
            Amount::Operations(operations) => Deadline::Operations(operations),
        }
    }
}

/// The condition under which a client stops.
#[derive(Clone, Copy, Debug)]
pub enum Deadline {
    /// The run ends when the clock reaches this time, in nanoseconds.
    Time(u64),
    /// After this many operations.
    Operations(u64),
}

impl Deadline {
    /// Whether a client that has done `done` operations stops at `now`.
    #[inline]
    pub fn is_over(self, now: u64, done: u64) -> bool {
        match self {
            Deadline::Time(end) => now >= end,
            Deadline::Operations(operations) => done >= operations,
        }
    }
}
