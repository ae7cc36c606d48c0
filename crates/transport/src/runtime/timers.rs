//! Timers: a thread whose futures all pause sleeps until the first of them is due.
//!
//! The timer of a dropped pause remains, and wakes its executor once without effect.

use super::poll_source::is_polled_by_executor;
use crate::shm::monotonic_nanoseconds;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

/// Pauses up to this length spin, nanoseconds: a wake-up takes as long.
const SPIN_MAX: u64 = 50_000;

/// A due time, and the waker. The earliest is the greatest.
struct Timer(Reverse<u64>, Waker);

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

thread_local! {
    /// The timers of this thread's executors.
    static TIMERS: RefCell<BinaryHeap<Timer>> = const { RefCell::new(BinaryHeap::new()) };
}

/// Wakes the futures whose timers are due. Returns whether there were any.
pub(crate) fn fire_timers() -> bool {
    TIMERS.with_borrow_mut(|timers| {
        if timers.is_empty() {
            return false;
        }
        let (now, before) = (monotonic_nanoseconds(), timers.len());
        while timers.peek().is_some_and(|timer| timer.0.0 <= now) {
            timers.pop().into_iter().for_each(|timer| timer.1.wake());
        }
        timers.len() < before
    })
}

/// Sleeps until this thread is woken, or its next timer is due.
pub(crate) fn park() {
    let due = TIMERS.with_borrow(|timers| timers.peek().map(|timer| timer.0.0));
    match due.map(|due| due.saturating_sub(monotonic_nanoseconds())) {
        None => thread::park(),
        Some(0) => {}
        Some(left) => thread::park_timeout(Duration::from_nanos(left)),
    }
}

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
    let due = monotonic_nanoseconds().saturating_add(nanoseconds);
    // The waker of the timer; another executor, which may continue this future, has another waker.
    let mut set: Option<Waker> = None;
    let mut has_yielded = false;
    poll_fn(|context| {
        let left = due.saturating_sub(monotonic_nanoseconds());
        if std::mem::replace(&mut has_yielded, true) && left == 0 {
            return Poll::Ready(());
        }
        if left <= SPIN_MAX || !is_polled_by_executor(context) {
            context.waker().wake_by_ref();
        } else if !set.as_ref().is_some_and(|set| set.will_wake(context.waker())) {
            TIMERS.with_borrow_mut(|timers| timers.push(Timer(Reverse(due), context.waker().clone())));
            set = Some(context.waker().clone());
        }
        Poll::Pending
    })
    .await;
}

/// Longest pause between two attempts in the first second, nanoseconds.
const POLL_PAUSE_MAX: u64 = 500_000;
/// The time after which attempts are rarer, nanoseconds.
const POLL_IDLE_AFTER: u64 = 1_000_000_000;
/// The pause between two attempts then, nanoseconds: a thread that wakes up five hundred times per second needs less
/// than 2 % of a processor.
const POLL_IDLE_PAUSE: u64 = 2_000_000;

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
    if waited < POLL_IDLE_AFTER {
        (waited / 16).min(POLL_PAUSE_MAX)
    } else {
        POLL_IDLE_PAUSE - now % POLL_IDLE_PAUSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{block_on, run_all};
    use std::future::Future;
    use std::pin::Pin;
    use std::task::Context;

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
    fn the_longest_pauses_of_several_futures_end_together() {
        assert_eq!(poll_pause(7, 160), 10);
        assert_eq!(poll_pause(7, POLL_IDLE_AFTER - 1), POLL_PAUSE_MAX);
        for now in [0, 1, POLL_IDLE_PAUSE - 1, 5 * POLL_IDLE_PAUSE + 3] {
            let next = now + poll_pause(now, POLL_IDLE_AFTER);
            assert!(next > now && next.is_multiple_of(POLL_IDLE_PAUSE), "{now}");
        }
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
