//! A thread that runs futures for other threads.
//!
//! Other threads send jobs to a task thread. Each job creates a future there, and the thread polls it to its end,
//! because the futures of clients are not `Send`. The thread polls them as [`run_all`](super::run_all) does, and sleeps
//! while it has none. The panic of a job or a future ends that job or future only.

use super::poll_source::poll;
use super::round_waits::{Round, RoundWaits};
use super::timers::fire_timers;
use crate::fork::ForkCount;
use slab::Slab;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread, ThreadId};

/// Maximum futures that run at a time, and that begin between two polls of the sources. More wait.
const RUNNING_MAX: usize = 256;

/// A future of the thread.
pub(super) type Task = Pin<Box<dyn Future<Output = ()>>>;
/// Creates a future on the thread that runs it.
pub(super) type Job = Box<dyn FnOnce() -> Task + Send>;

/// The state that the thread shares with its users.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Set together with a change of the state, so that the thread locks it only after a change.
    is_changed: AtomicBool,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Tasks that were woken, by their keys.
    woken: Vec<usize>,
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
        f.debug_struct("TaskThread").field("id", &self.id).finish_non_exhaustive()
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
    /// The round of the last poll.
    round: u64,
}

impl Running {
    /// Polls the task. Returns whether it has ended, if only by a panic.
    fn has_ended(&mut self) -> bool {
        // The poll sees everything that happened before a wake-up.
        self.state.is_set.swap(false, Ordering::Acquire);
        let polled = catch_unwind(AssertUnwindSafe(|| poll(self.task.as_mut(), &self.waker)));
        !matches!(polled, Ok(Poll::Pending))
    }
}

/// The tasks of the thread.
struct Tasks {
    shared: Arc<Shared>,
    running: Slab<Running>,
    /// Tasks to poll next.
    ready: Vec<usize>,
    /// Tasks to poll in the next round.
    later: Vec<usize>,
    /// The number of the round, and of the jobs that have begun in it.
    round: u64,
    begun: usize,
    /// Whether jobs wait for the end of tasks, or for the next round.
    jobs_wait: bool,
    closed: bool,
}

impl Tasks {
    fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            running: Slab::new(),
            ready: Vec::new(),
            later: Vec::new(),
            round: 0,
            begun: 0,
            jobs_wait: false,
            closed: false,
        }
    }

    /// Polls each task that is woken, once. Tasks that another task wakes run before the sources are polled, as in
    /// [`run_all`](super::run_all).
    fn run_round(&mut self) -> Round {
        let mut round = Round { fired: fire_timers(), ..Round::default() };
        self.round += 1;
        self.begun = 0;
        self.ready.append(&mut self.later);
        while self.take() {
            round.polled = true;
            round.advanced |= self.poll();
        }
        round.advanced |= self.begun > 0;
        round
    }

    /// Takes woken tasks and new jobs. Returns whether there are any.
    fn take(&mut self) -> bool {
        let can_begin = self.jobs_wait && self.running.len().max(self.begun) < RUNNING_MAX;
        if self.shared.is_changed.swap(false, Ordering::Acquire) || can_begin {
            let jobs: Vec<Job> = {
                let mut state = self.shared.lock();
                self.ready.append(&mut state.woken);
                let count = state.jobs.len().min(RUNNING_MAX - self.running.len().max(self.begun));
                let jobs = state.jobs.drain(..count).collect();
                self.jobs_wait = !state.jobs.is_empty();
                self.closed = state.is_closed && !self.jobs_wait;
                jobs
            };
            for job in jobs {
                self.begin(job);
            }
        }
        !self.ready.is_empty()
    }

    fn begin(&mut self, job: Job) {
        self.begun += 1;
        let Ok(task) = catch_unwind(AssertUnwindSafe(job)) else { return };
        let entry = self.running.vacant_entry();
        let shared = Arc::clone(&self.shared);
        let state = Arc::new(TaskWaker { shared, key: entry.key(), is_set: AtomicBool::new(true) });
        let waker = Waker::from(Arc::clone(&state));
        self.ready.push(entry.key());
        entry.insert(Running { task, state, waker, round: 0 });
    }

    /// Polls the tasks that are ready, and that were not polled in this round. Returns whether one has ended.
    fn poll(&mut self) -> bool {
        let before = self.running.len();
        for key in self.ready.drain(..) {
            let Some(task) = self.running.get_mut(key) else { continue };
            if task.round == self.round {
                self.later.push(key);
                continue;
            }
            task.round = self.round;
            if task.has_ended() {
                let ended = self.running.remove(key);
                let _ = catch_unwind(AssertUnwindSafe(|| drop(ended)));
            }
        }
        self.running.len() < before
    }
}

fn run(shared: &Arc<Shared>) {
    shared.lock().thread = Some(thread::current());
    let mut tasks = Tasks::new(shared);
    let mut waits = RoundWaits::default();
    loop {
        let round = tasks.run_round();
        if tasks.closed && tasks.running.is_empty() {
            return;
        }
        waits.end(round);
    }
}

#[cfg(test)]
mod tests {
    use super::super::poll_source::{PollSource, Progress, add_poll_source};
    use super::super::sleep::{sleep, yield_now};
    use super::*;
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::rc::{Rc, Weak};
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    /// The longest wait for another thread, on a busy machine.
    const BUSY_MAX: Duration = Duration::from_mins(1);

    /// Drops the last handle, and waits until the thread has dropped everything.
    fn end(tasks: TaskThread) {
        let shared = Arc::downgrade(&tasks.shared);
        drop(tasks);
        let began = Instant::now();
        while shared.strong_count() > 0 {
            assert!(began.elapsed() < BUSY_MAX, "the thread does not end");
            thread::sleep(Duration::from_millis(1));
        }
    }

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
        end(tasks);
    }

    #[test]
    fn the_thread_ends_after_its_last_future() {
        let tasks = TaskThread::start("test").unwrap();
        let (sender, results) = channel();
        tasks.send(move || async move {
            sleep(20_000_000).await;
            sender.send(()).unwrap();
        });
        end(tasks);
        assert_eq!(results.try_recv(), Ok(()), "the future has ended before");
    }

    /// Panics when it is dropped.
    struct Panics;

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("of a value");
        }
    }

    #[test]
    fn the_thread_continues_after_a_panic() {
        let tasks = TaskThread::start("test").unwrap();
        tasks.send(|| async { panic!("of a future") });
        tasks.send(|| -> std::future::Ready<()> { panic!("of a job") });
        tasks.send(|| {
            let panics = Panics;
            poll_fn(move |_| {
                let _ = &panics;
                Poll::Ready(())
            })
        });
        assert_eq!(tasks.run(async || 7), 7);
        end(tasks);
    }

    /// Counts the polls of a source that is never answered.
    struct Counter(Cell<u32>);

    impl PollSource for Counter {
        fn advance(&self) -> Progress {
            self.0.set(self.0.get() + 1);
            Progress { answered: false, awaited: true }
        }
    }

    #[test]
    fn a_task_that_another_one_wakes_runs_before_the_sources_are_polled() {
        let tasks = TaskThread::start("test").unwrap();
        let (sender, results) = channel();
        tasks.send(move || {
            let counter = Rc::new(Counter(Cell::new(0)));
            add_poll_source(Rc::downgrade(&counter) as Weak<dyn PollSource>);
            let (waiting, handed) = (Cell::new(None::<Waker>), Cell::new(None));
            let shared = Rc::new((counter, waiting, handed));
            let receiver = Rc::clone(&shared);
            let polls = poll_fn(move |context| {
                let (counter, waiting, handed) = &*receiver;
                waiting.set(Some(context.waker().clone()));
                handed.get().map_or(Poll::Pending, |before| Poll::Ready(counter.0.get() - before))
            });
            NEXT.set(Some(Box::pin(async move { sender.send(polls.await).unwrap() })));
            async move {
                for _ in 0..3 {
                    yield_now().await;
                }
                let (counter, waiting, handed) = &*shared;
                handed.set(Some(counter.0.get()));
                waiting.take().unwrap().wake();
            }
        });
        tasks.send(|| NEXT.take().unwrap());
        assert_eq!(results.recv_timeout(BUSY_MAX), Ok(0), "polls between the wake-up and the next step");
        end(tasks);
    }

    thread_local! {
        /// The future of the next job.
        static NEXT: Cell<Option<Task>> = const { Cell::new(None) };
    }

    #[test]
    fn a_task_that_wakes_itself_does_not_keep_the_others_waiting() {
        let tasks = TaskThread::start("test").unwrap();
        let (sender, stop) = channel();
        tasks.send(move || async move {
            while stop.try_recv().is_err() {
                yield_now().await;
            }
        });
        for number in 0..100 {
            assert_eq!(tasks.run(async || number), number);
        }
        sender.send(()).unwrap();
        end(tasks);
    }
}
