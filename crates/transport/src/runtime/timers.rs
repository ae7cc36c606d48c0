//! Timers: a thread whose futures all pause sleeps until the first of them is due.
//!
//! The timer of a dropped pause remains, and wakes its executor once without effect. Pauses of a millisecond or more
//! end at multiples of a millisecond, so that the pauses of one future in the same millisecond share a timer.
//!
//! Other executors have no timers of ours: the thread of [`timer_thread`](super::timer_thread) wakes their tasks.

use super::poll_source::is_polled_by_executor;
use super::timer_thread;
use crate::shm::monotonic_nanoseconds;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

/// Pauses of this length or longer end at its multiples, nanoseconds.
const ROUND_MIN: u64 = 1_000_000;
/// Pauses up to this length spin, nanoseconds: a wake-up takes as long.
const SPIN_MAX: u64 = 50_000;

/// A due time, and the waker. The earliest is the greatest.
pub(super) struct Timer(Reverse<u64>, Waker);

impl Timer {
    pub(super) fn new(due: u64, waker: Waker) -> Self {
        Self(Reverse(due), waker)
    }

    /// The time at which it is due, nanoseconds.
    pub(super) fn due(&self) -> u64 {
        self.0.0
    }

    pub(super) fn wake(self) {
        self.1.wake();
    }
}

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

/// The timers of this thread's executors.
struct ThreadTimers {
    heap: BinaryHeap<Timer>,
    /// The last timer that was set.
    last: Option<(u64, Waker)>,
}

impl ThreadTimers {
    fn set(&mut self, due: u64, waker: &Waker) {
        let is_set = |(last, of): &(u64, Waker)| *last == due && of.will_wake(waker);
        if !self.last.as_ref().is_some_and(is_set) {
            self.heap.push(Timer::new(due, waker.clone()));
            self.last = Some((due, waker.clone()));
        }
    }
}

thread_local! {
    static TIMERS: RefCell<ThreadTimers> =
        const { RefCell::new(ThreadTimers { heap: BinaryHeap::new(), last: None }) };
}

/// Wakes the futures whose timers are due. Returns whether there were any.
pub(crate) fn fire_timers() -> bool {
    TIMERS.with_borrow_mut(|ThreadTimers { heap, last }| {
        if heap.is_empty() {
            return false;
        }
        let (now, before) = (monotonic_nanoseconds(), heap.len());
        while heap.peek().is_some_and(|timer| timer.due() <= now) {
            heap.pop().into_iter().for_each(Timer::wake);
        }
        if heap.is_empty() {
            *last = None;
        }
        heap.len() < before
    })
}

/// Sleeps until this thread is woken, or its next timer is due.
pub(crate) fn park() {
    let due = TIMERS.with_borrow(|timers| timers.heap.peek().map(Timer::due));
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
    let due = match due.checked_next_multiple_of(ROUND_MIN) {
        Some(rounded) if nanoseconds >= ROUND_MIN => rounded,
        _ => due,
    };
    // The waker of the timer; another executor, which may continue this future, has another waker.
    let mut set: Option<Waker> = None;
    let mut has_yielded = false;
    poll_fn(|context| {
        let left = due.saturating_sub(monotonic_nanoseconds());
        if std::mem::replace(&mut has_yielded, true) && left == 0 {
            return Poll::Ready(());
        }
        if left <= SPIN_MAX {
            context.waker().wake_by_ref();
        } else if !set.as_ref().is_some_and(|set| set.will_wake(context.waker())) {
            wake_at(due, context);
            set = Some(context.waker().clone());
        }
        Poll::Pending
    })
    .await;
}

/// Wakes the task of `context` at `due`: by its executor if that is one of ours, otherwise by the timer thread.
pub(crate) fn wake_at(due: u64, context: &Context<'_>) {
    if is_polled_by_executor(context) {
        TIMERS.with_borrow_mut(|timers| timers.set(due, context.waker()));
    } else {
        timer_thread::wake_at(due, context.waker());
    }
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
