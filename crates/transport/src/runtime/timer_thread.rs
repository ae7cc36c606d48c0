//! A thread that wakes the tasks of other executors, such as those of tokio, when their pauses end. It starts with the
//! first such pause of the process, and sleeps while there is none.

use super::timers::Timer;
use crate::fork::ForkCount;
use crate::shm::monotonic_nanoseconds;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
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
    timers: Mutex<BinaryHeap<Timer>>,
    /// Notified of a timer that is due before all others.
    earlier: Condvar,
}

static THREAD: Mutex<Option<TimerThread>> = Mutex::new(None);

/// Wakes `waker` at `due`, or at once if that is impossible: no thread can be started, or a thread of the parent held
/// the mutex at a fork.
pub(super) fn wake_at(due: u64, waker: &Waker) {
    let shared = THREAD.try_lock().ok().and_then(|mut thread| current(&mut thread));
    let Some(shared) = shared else {
        waker.wake_by_ref();
        return;
    };
    let mut timers = shared.timers.lock().unwrap_or_else(PoisonError::into_inner);
    if timers.peek().is_none_or(|first| due < first.due()) {
        shared.earlier.notify_one();
    }
    timers.push(Timer::new(due, waker.clone()));
}

/// The state of this process's thread, which is started if it does not exist. `None`: it cannot be started.
fn current(thread: &mut Option<TimerThread>) -> Option<Arc<Shared>> {
    if let Some(thread) = thread.as_ref().filter(|thread| thread.process.is_current()) {
        return Some(Arc::clone(&thread.shared));
    }
    let shared = Arc::<Shared>::default();
    let of_thread = Arc::clone(&shared);
    thread::Builder::new().name("farwood-timer".to_owned()).spawn(move || of_thread.run()).ok()?;
    // The wakers of a parent belong to tasks that do not run in this process; their heap may be in use.
    if let Some(parent) = thread.replace(TimerThread { process: ForkCount::now(), shared }) {
        std::mem::forget(parent);
    }
    thread.as_ref().map(|thread| Arc::clone(&thread.shared))
}

impl Shared {
    fn run(&self) {
        let mut timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = monotonic_nanoseconds();
            let left = timers.peek().map(|first| first.due().saturating_sub(now));
            timers = match left {
                None => self.earlier.wait(timers).unwrap_or_else(PoisonError::into_inner),
                Some(0) => {
                    let first = timers.pop();
                    // A waker may run code of the other executor.
                    drop(timers);
                    first.into_iter().for_each(Timer::wake);
                    self.timers.lock().unwrap_or_else(PoisonError::into_inner)
                }
                Some(left) => {
                    let waited = self.earlier.wait_timeout(timers, Duration::from_nanos(left));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
