//! The clock that operations are timed with.

use std::time::Instant;

/// Nanoseconds since the clock was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock(Instant::now())
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}
