//! The processor time of threads, which other threads of the process read.

#[allow(unsafe_code)]
mod sys;

use std::sync::{Mutex, MutexGuard, PoisonError};
use sys::ThreadClock;

/// The clocks of a group of threads.
#[derive(Debug, Default)]
pub struct ThreadClocks {
    group: Mutex<Group>,
}

#[derive(Debug, Default)]
struct Group {
    running: Vec<Running>,
    next: u64,
    /// Processor time of threads that have left the group, nanoseconds.
    left_ns: u64,
}

/// A thread in the group.
#[derive(Debug)]
struct Running {
    number: u64,
    clock: ThreadClock,
    /// Processor time of the thread when it joined, nanoseconds.
    before_ns: u64,
}

impl Running {
    fn nanoseconds(&self) -> u64 {
        self.clock.nanoseconds().saturating_sub(self.before_ns)
    }
}

/// The membership of the calling thread in a group. It ends when this is dropped, by the same thread.
#[derive(Debug)]
#[must_use = "the thread leaves the group when this is dropped"]
pub struct Membership<'c> {
    clocks: &'c ThreadClocks,
    number: u64,
}

impl ThreadClocks {
    fn group(&self) -> MutexGuard<'_, Group> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the calling thread. Its processor time counts from now on.
    pub fn join(&self) -> Membership<'_> {
        let mut group = self.group();
        let number = group.next;
        group.next += 1;
        let clock = ThreadClock::of_this_thread();
        let before_ns = clock.nanoseconds();
        group.running.push(Running { number, clock, before_ns });
        Membership { clocks: self, number }
    }

    /// The threads in the group.
    pub fn threads(&self) -> usize {
        self.group().running.len()
    }

    /// Processor time that all threads, past and present, have used, nanoseconds.
    pub fn nanoseconds(&self) -> u64 {
        let group = self.group();
        group.left_ns + group.running.iter().map(Running::nanoseconds).sum::<u64>()
    }
}

impl Drop for Membership<'_> {
    fn drop(&mut self) {
        let mut group = self.clocks.group();
        if let Some(position) = group.running.iter().position(|running| running.number == self.number) {
            group.left_ns += group.running.swap_remove(position).nanoseconds();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_working_thread_uses_processor_time_and_a_sleeping_one_does_not() {
        let clocks = ThreadClocks::default();
        let used = |work: &(dyn Fn() + Sync)| {
            let before = clocks.nanoseconds();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _membership = clocks.join();
                    work();
                });
            });
            Duration::from_nanos(clocks.nanoseconds() - before)
        };
        let slept = used(&|| std::thread::sleep(Duration::from_millis(50)));
        assert!(slept < Duration::from_millis(25), "{slept:?}");
        // The thread may have to share its processor.
        let worked = used(&|| {
            let (begun, before) = (Instant::now(), clocks.nanoseconds());
            while clocks.nanoseconds() - before < 20_000_000 && begun.elapsed() < Duration::from_mins(1) {
                std::hint::spin_loop();
            }
        });
        assert!(worked >= Duration::from_millis(20), "{worked:?}");
        assert_eq!(clocks.threads(), 0);
    }
}
