//! Timers: a thread whose futures all pause sleeps until the first of them is due.
//!
//! A timer is removed when its pause is dropped. Pauses of a millisecond or more end at multiples of a millisecond, so
//! that pauses of the same millisecond end together.
//!
//! Other executors have no timers of ours: the thread of [`timer_thread`](super::timer_thread) wakes their tasks.

use super::poll_source::{FIRST_POLL, is_polled_by_executor};
use super::timer_list::{TimerKey, TimerList};
use super::timer_thread::{self, ProcessTimer};
use crate::shm::monotonic_nanoseconds;
use std::cell::RefCell;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

/// Pauses of this length or longer end at its multiples, nanoseconds.
const ROUND_MIN: u64 = 1_000_000;

thread_local! {
    /// The timers of this thread's executors.
    static TIMERS: RefCell<TimerList> = const { RefCell::new(TimerList::new()) };
}

/// Wakes the futures whose timers are due. Returns whether there were any.
pub(super) fn fire_timers() -> bool {
    if next_due().is_none() {
        return false;
    }
    let now = monotonic_nanoseconds();
    let mut has_fired = false;
    while let Some(waker) = TIMERS.with_borrow_mut(|timers| timers.take_due(now)) {
        waker.wake();
        has_fired = true;
    }
    has_fired
}

/// The time at which the next timer of this thread is due.
fn next_due() -> Option<u64> {
    TIMERS.with_borrow(TimerList::first_due)
}

/// Sleeps until this thread is woken, or its next timer is due.
pub(super) fn park() {
    match next_due() {
        None => thread::park(),
        Some(due) => park_until(due),
    }
}

/// Sleeps until this thread is woken, its next timer is due, or `nanoseconds` have passed.
pub(super) fn park_for(nanoseconds: u64) {
    let end = monotonic_nanoseconds().saturating_add(nanoseconds);
    park_until(next_due().map_or(end, |due| due.min(end)));
}

fn park_until(end: u64) {
    let left = end.saturating_sub(monotonic_nanoseconds());
    if left > 0 {
        thread::park_timeout(Duration::from_nanos(left));
    }
}

/// Returns the end of a pause of `nanoseconds` that begins now.
pub(super) fn end_of_pause(nanoseconds: u64) -> u64 {
    let end = monotonic_nanoseconds().saturating_add(nanoseconds);
    match end.checked_next_multiple_of(ROUND_MIN) {
        Some(rounded) if nanoseconds >= ROUND_MIN => rounded,
        _ => end,
    }
}

/// The timer of a future that pauses. It is removed when the value is dropped.
#[derive(Default)]
pub(crate) struct TaskTimer(Option<SetTimer>);

/// A timer, and the waker that it wakes.
struct SetTimer {
    keeper: TimerKeeper,
    waker: Waker,
}

/// The list that contains a timer.
enum TimerKeeper {
    Thread(ThreadTimer),
    Process(ProcessTimer),
}

/// A timer of the thread that has set it. A thread that drops the value later does not find the timer, which then wakes
/// its executor once without effect.
struct ThreadTimer(TimerKey);

impl Drop for ThreadTimer {
    fn drop(&mut self) {
        // At the end of the thread there is no list.
        let waker = TIMERS.try_with(|timers| timers.borrow_mut().remove(self.0));
        drop(waker);
    }
}

impl TaskTimer {
    /// Wakes the task of `context` at `due`: by its executor if that is one of ours, otherwise by the timer thread. A
    /// timer that this value has set before for the same task, and that is still due, remains instead. If no timer can
    /// be set, the task is woken at once; it is then polled again, and asks again.
    pub(crate) fn wake_at(&mut self, due: u64, context: &Context<'_>) {
        let waker = context.waker();
        if waker.will_wake(FIRST_POLL) || self.0.as_ref().is_some_and(|set| set.will_wake(waker)) {
            return;
        }
        self.0 = set(due, context).map(|keeper| SetTimer { keeper, waker: waker.clone() });
        if self.0.is_none() {
            waker.wake_by_ref();
        }
    }
}

/// Sets a timer; `None`: that is impossible at the moment.
fn set(due: u64, context: &Context<'_>) -> Option<TimerKeeper> {
    if is_polled_by_executor(context) {
        let waker = context.waker().clone();
        let key = TIMERS.try_with(|timers| timers.borrow_mut().add(due, waker)).ok()?;
        return Some(TimerKeeper::Thread(ThreadTimer(key)));
    }
    timer_thread::set(due, context.waker()).map(TimerKeeper::Process)
}

impl SetTimer {
    /// Returns whether the timer is still due, and then wakes the task of `waker`.
    fn will_wake(&self, waker: &Waker) -> bool {
        let due = match &self.keeper {
            TimerKeeper::Thread(timer) => timer.0.due(),
            TimerKeeper::Process(timer) if timer.is_of_this_process() => timer.due(),
            TimerKeeper::Process(_) => return false,
        };
        self.waker.will_wake(waker) && due > monotonic_nanoseconds()
    }
}

#[cfg(test)]
mod tests {
    use super::super::executor::block_on;
    use super::*;
    use std::future::poll_fn;
    use std::task::Poll;

    /// Longer than a test.
    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn a_dropped_timer_is_removed_and_the_first_poll_sets_none() {
        let mut polls = 0;
        block_on(poll_fn(|context| {
            polls += 1;
            for _ in 0..1_000 {
                let mut timer = TaskTimer::default();
                timer.wake_at(end_of_pause(HOUR), context);
                timer.wake_at(end_of_pause(HOUR), context);
                let count = TIMERS.with_borrow(|timers| timers.count_of(context.waker()));
                assert_eq!((count, timer.0.is_some()), (usize::from(polls > 1), polls > 1));
            }
            context.waker().wake_by_ref();
            if polls > 2 { Poll::Ready(()) } else { Poll::Pending }
        }));
        assert_eq!(next_due(), None);
    }

    #[test]
    fn a_parked_thread_continues_when_its_timer_is_due_or_it_is_woken() {
        let key = TIMERS.with_borrow_mut(|timers| {
            timers.add(HOUR + monotonic_nanoseconds(), Waker::noop().clone());
            timers.add(5_000_000 + monotonic_nanoseconds(), Waker::noop().clone())
        });
        // A thread can wake up early.
        while monotonic_nanoseconds() < key.due() {
            park_for(HOUR);
        }
        assert!(fire_timers() && !fire_timers());
        thread::current().unpark();
        park_for(HOUR);
    }
}
