//! Sleeping, and repeated attempts with pauses between them.

use super::idle_pause::longest_idle_pause;
use super::timers::{TaskTimer, end_of_pause};
use crate::shm::monotonic_nanoseconds;
use std::future::poll_fn;
use std::task::Poll;

/// Pauses up to this length spin, nanoseconds: a wake-up takes as long.
const SPIN_MAX: u64 = 50_000;

/// Yields to the other futures of the thread.
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Sleeps at least `nanoseconds`, and yields at least once. A loop that sleeps until an answer arrives would otherwise
/// never end on a machine so slow that the time is over at the first poll: its executor could not poll the connections.
pub(crate) async fn sleep(nanoseconds: u64) {
    let due = end_of_pause(nanoseconds);
    let mut timer = TaskTimer::default();
    let mut has_yielded = false;
    poll_fn(|context| {
        let left = due.saturating_sub(monotonic_nanoseconds());
        if std::mem::replace(&mut has_yielded, true) && left == 0 {
            return Poll::Ready(());
        }
        if left <= SPIN_MAX {
            context.waker().wake_by_ref();
        } else {
            timer.wake_at(due, context);
        }
        Poll::Pending
    })
    .await;
}

/// Longest pause between two attempts in the first second, nanoseconds.
const POLL_PAUSE_MAX: u64 = 500_000;
/// The time after which attempts are rarer, nanoseconds.
const POLL_IDLE_AFTER: u64 = 1_000_000_000;

/// Repeats `attempt` until it yields a value: continuously at first, then with pauses of a sixteenth of the elapsed
/// time, up to half a millisecond, and after a second with pauses of two milliseconds. These end at multiples of their
/// length, at which other futures of the thread may also wake up.
pub(crate) async fn poll_until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut begun = None;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        let now = monotonic_nanoseconds();
        sleep(poll_pause(now, now - *begun.get_or_insert(now))).await;
    }
}

/// Nanoseconds from `now` until the next attempt, `waited` after the first one.
fn poll_pause(now: u64, waited: u64) -> u64 {
    if waited < POLL_IDLE_AFTER { (waited / 16).min(POLL_PAUSE_MAX) } else { longest_idle_pause(now) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{block_on, run_all};
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    /// Returns the processor time of this thread.
    fn processor_time() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    #[test]
    fn a_thread_whose_futures_pause_sleeps() {
        let (began, before) = (std::time::Instant::now(), processor_time());
        block_on(sleep(200_000_000));
        let pauses = |me: u64| {
            Box::pin(async move {
                for _ in 0..10 + me {
                    sleep(10_000_000).await;
                }
                poll_until({
                    let mut looks = 0;
                    move || {
                        looks += 1;
                        (looks > 400).then_some(me)
                    }
                })
                .await
            }) as Pin<Box<dyn Future<Output = u64>>>
        };
        assert_eq!(run_all((0..3).map(pauses).collect()), [0, 1, 2]);
        let (passed, worked) = (began.elapsed(), processor_time().saturating_sub(before));
        assert!(passed >= Duration::from_millis(320), "{passed:?}");
        assert!(worked < passed / 4, "{worked:?} of {passed:?}");
    }

    #[test]
    fn a_sleep_that_is_due_at_once_yields_once() {
        for nanoseconds in [0, 1] {
            let (mut pause, mut context) = (Box::pin(sleep(nanoseconds)), Context::from_waker(Waker::noop()));
            assert!(pause.as_mut().poll(&mut context).is_pending(), "{nanoseconds}");
            std::thread::sleep(Duration::from_micros(1));
            assert!(pause.as_mut().poll(&mut context).is_ready(), "{nanoseconds}");
        }
    }

    #[test]
    fn the_longest_sleep_does_not_end() {
        let (mut pause, mut polls) = (Box::pin(sleep(u64::MAX)), 0);
        block_on(poll_fn(|context| {
            polls += 1;
            assert!(pause.as_mut().poll(context).is_pending());
            if polls > 2 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }));
    }

    #[test]
    fn attempts_become_rarer() {
        assert_eq!(poll_pause(7, 160), 10);
        assert_eq!(poll_pause(7, POLL_IDLE_AFTER - 1), POLL_PAUSE_MAX);
        assert_eq!(poll_pause(7, POLL_IDLE_AFTER), longest_idle_pause(7));
    }

    #[test]
    fn a_pause_that_begins_in_one_executor_may_end_in_another() {
        let mut pause = Box::pin(sleep(30_000_000));
        let mut polls = 0;
        block_on(poll_fn(|context| {
            polls += 1;
            assert!(pause.as_mut().poll(context).is_pending());
            if polls > 1 { Poll::Ready(()) } else { Poll::Pending }
        }));
        let began = std::time::Instant::now();
        block_on(pause);
        assert!(began.elapsed() < Duration::from_secs(5));
    }
}
