//! A thread that runs futures which other threads send to it: the clients of a pool whose futures may move between
//! threads.
//!
//! The futures themselves stay on the thread, because clients belong to one thread. The thread polls them as
//! [`run_all`](super::run_all) does, and sleeps while it has none.

use super::poll_source::poll;
use super::round_waits::{Round, RoundWaits};
use super::timers::fire_timers;
use crate::fork::ForkCount;
use slab::Slab;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread, ThreadId};
use std::time::Duration;

/// Maximum futures that run at a time. More wait.
const RUNNING_MAX: usize = 256;

/// A future of the thread.
pub(super) type Task = Pin<Box<dyn Future<Output = ()>>>;
/// Creates a future on the thread that runs it.
pub(super) type Job = Box<dyn FnOnce() -> Task + Send>;

/// The state that the thread shares with its users.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when the thread has no job left.
    idle: Condvar,
    /// Set together with a change of the state, so that the thread locks it only after a change.
    is_changed: AtomicBool,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Tasks that were woken, by their keys.
    woken: Vec<usize>,
    running: usize,
    is_closed: bool,
    thread: Option<Thread>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the thread.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        self.is_changed.store(true, Ordering::Release);
        if let Some(thread) = &state.thread {
            thread.unpark();
        }
    }
}

/// A thread that runs futures. When the value is dropped, the thread ends after the last of its futures.
///
/// A forked child must not use it, because it does not have the thread. There the destructor leaks the state: another
/// thread of the parent may have held the mutex.
pub struct TaskThread {
    shared: Arc<Shared>,
    id: ThreadId,
    process: ForkCount,
}

impl TaskThread {
    /// Starts a thread named `name`.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn start(name: &str) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || run(&of_thread))?;
        Ok(Self { shared, id: thread.thread().id(), process: ForkCount::now() })
    }

    /// Runs the future that `job` creates on the thread.
    pub fn send<F: Future<Output = ()> + 'static>(&self, job: impl FnOnce() -> F + Send + 'static) {
        self.send_job(Box::new(move || Box::pin(job())));
    }

    pub(super) fn send_job(&self, job: Job) {
        self.shared.change(|state| state.jobs.push_back(job));
    }

    /// Whether this is the calling thread.
    pub fn is_current(&self) -> bool {
        thread::current().id() == self.id
    }

    /// Waits until the thread has no future left, or `limit` has passed. Returns whether it has none.
    pub fn wait_idle(&self, limit: Duration) -> bool {
        if self.is_current() {
            return false;
        }
        let is_busy = |state: &mut State| state.running > 0 || !state.jobs.is_empty();
        let state = self.shared.lock();
        let waited = self.shared.idle.wait_timeout_while(state, limit, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for TaskThread {
    fn drop(&mut self) {
        if self.process.is_current() {
            self.shared.change(|state| state.is_closed = true);
        } else {
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

impl std::fmt::Debug for TaskThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskThread").field("running", &self.shared.lock().running).finish_non_exhaustive()
    }
}

/// The waker of one task.
struct TaskWaker {
    shared: Arc<Shared>,
    key: usize,
    is_set: AtomicBool,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_set.swap(true, Ordering::AcqRel) {
            self.shared.change(|state| state.woken.push(self.key));
        }
    }
}

/// A running task.
struct Running {
    task: Task,
    state: Arc<TaskWaker>,
    waker: Waker,
}

/// The tasks of the thread.
struct Tasks {
    shared: Arc<Shared>,
    running: Slab<Running>,
    /// Tasks to poll next.
    ready: Vec<usize>,
    /// Whether a job has begun in this round.
    has_begun: bool,
    closed: bool,
}

impl Tasks {
    /// Takes woken tasks and new jobs. Returns whether there are any.
    fn take(&mut self) -> bool {
        self.has_begun = false;
        if !self.shared.is_changed.swap(false, Ordering::Acquire) {
            return false;
        }
        let mut jobs = Vec::new();
        {
            let mut state = self.shared.lock();
            self.ready.append(&mut state.woken);
            while self.running.len() + jobs.len() < RUNNING_MAX
                && let Some(job) = state.jobs.pop_front()
            {
                jobs.push(job);
            }
            state.running = self.running.len() + jobs.len();
            self.closed = state.is_closed && state.jobs.is_empty();
        }
        for job in jobs {
            let entry = self.running.vacant_entry();
            let shared = Arc::clone(&self.shared);
            let state = Arc::new(TaskWaker { shared, key: entry.key(), is_set: AtomicBool::new(true) });
            let waker = Waker::from(Arc::clone(&state));
            self.ready.push(entry.key());
            entry.insert(Running { task: job(), state, waker });
            self.has_begun = true;
        }
        !self.ready.is_empty()
    }

    /// Polls the tasks that are ready. Returns whether one has ended.
    fn poll(&mut self) -> bool {
        let before = self.running.len();
        for key in self.ready.drain(..) {
            let Some(Running { task, state, waker }) = self.running.get_mut(key) else { continue };
            state.is_set.store(false, Ordering::Release);
            if let Poll::Ready(()) = poll(task.as_mut(), waker) {
                self.running.remove(key);
            }
        }
        if self.running.len() < before {
            let mut state = self.shared.lock();
            state.running = self.running.len();
            // Jobs that found no place can start.
            self.shared.is_changed.store(true, Ordering::Release);
            if state.running == 0 && state.jobs.is_empty() {
                self.shared.idle.notify_all();
            }
        }
        self.running.len() < before
    }
}

fn run(shared: &Arc<Shared>) {
    shared.lock().thread = Some(thread::current());
    let mut tasks = Tasks {
        shared: Arc::clone(shared),
        running: Slab::new(),
        ready: Vec::new(),
        has_begun: false,
        closed: false,
    };
    let mut waits = RoundWaits::default();
    loop {
        let fired = fire_timers();
        let polled = tasks.take();
        let has_ended = tasks.poll();
        if tasks.closed && tasks.running.is_empty() {
            return;
        }
        waits.end(Round { fired, polled, advanced: has_ended || tasks.has_begun });
    }
}

#[cfg(test)]
mod tests {
    use super::super::sleep::{sleep, yield_now};
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn futures_of_other_threads_run_and_end() {
        let tasks = TaskThread::start("test").unwrap();
        let (sender, results) = channel();
        for number in 0..1_000 {
            let sender = sender.clone();
            tasks.send(move || async move {
                for _ in 0..number % 3 {
                    yield_now().await;
                }
                if number % 100 == 0 {
                    sleep(2_000_000).await;
                }
                sender.send(number).unwrap();
            });
        }
        let mut all: Vec<u32> = results.iter().take(1_000).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..1_000));
        assert!(tasks.wait_idle(Duration::from_secs(5)));
    }

    #[test]
    fn the_thread_ends_after_its_last_future() {
        let tasks = TaskThread::start("test").unwrap();
        let (sender, results) = channel();
        tasks.send(move || async move {
            sleep(20_000_000).await;
            sender.send(()).unwrap();
        });
        assert!(!tasks.wait_idle(Duration::ZERO));
        drop(tasks);
        results.recv().unwrap();
        assert!(results.recv().is_err(), "the thread has dropped the future");
    }
}
