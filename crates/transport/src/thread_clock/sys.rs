//! The clock of a thread. All unsafe code of this module.

use std::mem::MaybeUninit;

/// The processor-time clock of a thread of this process.
#[derive(Debug)]
pub(super) struct ThreadClock(Option<libc::clockid_t>);

impl ThreadClock {
    /// The clock of the calling thread; if the system has none, a clock that stands still.
    pub(super) fn of_this_thread() -> Self {
        let mut clock = MaybeUninit::uninit();
        // SAFETY: the function has no conditions.
        let thread = unsafe { libc::pthread_self() };
        // SAFETY: `thread` runs, and the library may write a clock to `clock`.
        let failed = unsafe { libc::pthread_getcpuclockid(thread, clock.as_mut_ptr()) };
        // SAFETY: the library has written the clock, because it reports no failure.
        Self((failed == 0).then(|| unsafe { clock.assume_init() }))
    }

    /// Processor time of the thread, nanoseconds; 0 after the thread has ended.
    pub(super) fn nanoseconds(&self) -> u64 {
        let Some(clock) = self.0 else { return 0 };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel checks the clock, and writes the time to `time`, which lives until the call returns.
        let failed = unsafe { libc::clock_gettime(clock, &raw mut time) };
        match (failed, u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec)) {
            (0, Ok(seconds), Ok(nanoseconds)) => seconds * 1_000_000_000 + nanoseconds,
            _ => 0,
        }
    }
}
