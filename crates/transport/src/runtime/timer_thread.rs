//! A thread that wakes the tasks of other executors, such as those of tokio, when their pauses end. It starts with the
//! first such pause of the process, and sleeps while there is none. The timer of a dropped pause is removed.

use super::timer_list::{TimerKey, TimerList};
use crate::fork::ForkCount;
use crate::shm::monotonic_nanoseconds;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Duration;

/// The thread of one process: a forked child has none.
struct TimerThread {
    process: ForkCount,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    timers: Mutex<TimerList>,
    /// Notified of a timer that is due before all others.
    earlier: Condvar,
}

static THREAD: Mutex<Option<TimerThread>> = Mutex::new(None);

/// A timer of the thread, which is removed when the value is dropped.
pub(super) struct ProcessTimer {
    key: TimerKey,
    process: ForkCount,
    shared: Arc<Shared>,
}

impl ProcessTimer {
    /// Returns the time at which it is due, nanoseconds.
    pub(super) fn due(&self) -> u64 {
        self.key.due()
    }

    /// Returns whether the thread that has the timer runs in this process.
    pub(super) fn is_of_this_process(&self) -> bool {
        self.process.is_current()
    }
}

impl Drop for ProcessTimer {
    /// In a forked child, another thread of the parent may have held the mutex.
    fn drop(&mut self) {
        if self.is_of_this_process() {
            let waker = self.shared.lock().remove(self.key);
            drop(waker);
        }
    }
}

/// Sets a timer that wakes `waker` at `due`. Returns `None` if that is impossible at the moment, and the caller must
/// ask again: the thread cannot be started, another thread is setting a timer, or a thread of the parent held the mutex
/// at a fork.
pub(super) fn set(due: u64, waker: &Waker) -> Option<ProcessTimer> {
    let (process, shared) = THREAD.try_lock().ok().and_then(|mut thread| current(&mut thread))?;
    let waker = waker.clone();
    let mut timers = shared.lock();
    if timers.first_due().is_none_or(|first| due < first) {
        shared.earlier.notify_one();
    }
    let key = timers.add(due, waker);
    drop(timers);
    Some(ProcessTimer { key, process, shared })
}

/// The state of this process's thread, which is started if it does not exist. `None`: it cannot be started.
fn current(thread: &mut Option<TimerThread>) -> Option<(ForkCount, Arc<Shared>)> {
    if let Some(thread) = thread.as_ref().filter(|thread| thread.process.is_current()) {
        return Some((thread.process, Arc::clone(&thread.shared)));
    }
    let shared = Arc::<Shared>::default();
    let of_thread = Arc::clone(&shared);
    thread::Builder::new().name("farwood-timer".to_owned()).spawn(move || of_thread.run()).ok()?;
    // The wakers of a parent belong to tasks that do not run in this process; their list may be in use.
    if let Some(parent) = thread.replace(TimerThread { process: ForkCount::now(), shared }) {
        std::mem::forget(parent);
    }
    thread.as_ref().map(|thread| (thread.process, Arc::clone(&thread.shared)))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, TimerList> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut timers = self.lock();
        loop {
            let now = monotonic_nanoseconds();
            if let Some(waker) = timers.take_due(now) {
                drop(timers);
                // A waker can run code of the other executor. If that code panics, the thread continues.
                let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
                timers = self.lock();
                continue;
            }
            timers = match timers.first_due() {
                None => self.earlier.wait(timers).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let waited = self.earlier.wait_timeout(timers, Duration::from_nanos(due - now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// Returns the number of timers that wake `waker`.
#[cfg(test)]
pub(crate) fn timers_of(waker: &Waker) -> usize {
    let thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    thread.as_ref().map_or(0, |thread| thread.shared.lock().count_of(waker))
}

#[cfg(test)]
mod tests {
    use super::super::sleep::sleep;
    use super::*;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Sender, channel};
    use std::task::{Context, Wake};

    /// Longer than a test.
    const HOUR: u64 = 3_600_000_000_000;
    /// The longest wait for another thread, on a busy machine.
    const BUSY_MAX: Duration = Duration::from_mins(1);

    /// Counts its wake-ups.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll(pause: Pin<&mut impl Future<Output = ()>>, waker: &Waker) {
        assert!(pause.poll(&mut Context::from_waker(waker)).is_pending());
    }

    /// A waker of another executor.
    fn counting() -> (Arc<Counting>, Waker) {
        let counting = Arc::<Counting>::default();
        (Arc::clone(&counting), Waker::from(counting))
    }

    #[test]
    fn a_pause_asks_again_until_a_timer_is_set() {
        let (counting, waker) = counting();
        let mut pause = Box::pin(sleep(HOUR));
        let thread = THREAD.lock();
        let woken = [(); 2].map(|()| {
            poll(pause.as_mut(), &waker);
            counting.0.load(Ordering::SeqCst)
        });
        drop(thread);
        assert_eq!(woken, [1, 2], "without a timer, each poll wakes the task");
        for _ in 0..1_000_000 {
            poll(pause.as_mut(), &waker);
            if timers_of(&waker) == 1 {
                return;
            }
        }
        panic!("no poll has set a timer");
    }

    #[test]
    fn a_dropped_pause_leaves_no_timer() {
        let (_, waker) = counting();
        let mut were_set = 0;
        for _ in 0..1_000 {
            let mut pause = Box::pin(sleep(HOUR));
            poll(pause.as_mut(), &waker);
            were_set += timers_of(&waker);
        }
        assert!((1..=1_000).contains(&were_set), "{were_set}");
        assert_eq!(timers_of(&waker), 0);
    }

    /// Panics, or sends a message.
    enum Foreign {
        Panics,
        Sends(Mutex<Sender<()>>),
    }

    impl Wake for Foreign {
        fn wake(self: Arc<Self>) {
            match &*self {
                Self::Panics => panic!("of another executor"),
                Self::Sends(sender) => sender.lock().unwrap().send(()).unwrap(),
            }
        }
    }

    #[test]
    fn the_thread_continues_after_the_panic_of_a_waker() {
        let (sender, woken) = channel();
        let wakers = [Foreign::Panics, Foreign::Sends(Mutex::new(sender))].map(Arc::new).map(Waker::from);
        let due = monotonic_nanoseconds();
        let timers = wakers.each_ref().map(|waker| {
            loop {
                if let Some(timer) = set(due, waker) {
                    break timer;
                }
            }
        });
        assert_eq!(woken.recv_timeout(BUSY_MAX), Ok(()));
        drop(timers);
    }
}
