//! The executor: runs the tasks of clients and servers on one thread, in an order that only the seed and the NIC
//! model decide.

use crate::device::Device;
use crate::fabric::SimFabric;
use crate::queue::{Event, Key};
use crate::stages::cpu::Thread;
use farwood_fabric::Client;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Tasks that were woken. It is `Sync` because a waker must be; the lock is never contended.
#[derive(Default)]
struct WokenTasks {
    any: AtomicBool,
    tasks: Mutex<Vec<Key>>,
}

impl WokenTasks {
    fn add(&self, task: Key) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        self.any.store(true, Ordering::Relaxed);
    }

    #[inline]
    fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Swaps the tasks with an empty list and yields true, or yields false if there are none.
    #[inline]
    fn take(&self, empty: &mut Vec<Key>) -> bool {
        if !self.any() {
            return false;
        }
        self.any.store(false, Ordering::Relaxed);
        std::mem::swap(empty, &mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        true
    }
}

struct TaskWaker {
    task: Key,
    woken: Arc<WokenTasks>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.add(self.task);
    }
}

struct Task<'env> {
    thread: Key,
    compute: Option<usize>,
    work: Option<Pin<Box<dyn Future<Output = ()> + 'env>>>,
    waker: Waker,
    /// Whether it is in its thread's ready queue.
    ready: bool,
}

/// The thread of a compute node that a client runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimThread {
    pub(crate) thread: Key,
    pub(crate) compute: usize,
}

impl SimThread {
    /// The number of the compute node.
    pub fn compute_node(&self) -> usize {
        self.compute
    }
}

/// The next action of the executor.
enum NextStep {
    /// No event is scheduled.
    None,
    /// No event is scheduled before the end of the run.
    Later,
    /// Runs the next task of a thread.
    Thread(Key),
    /// Tasks were woken or crashed. The number is the CPU time of waking a client.
    WokenTasks(f64),
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// All tasks are done, or their compute nodes have crashed.
    Done,
    /// The time limit was reached.
    Time,
    /// This number of tasks waits for an event that is not scheduled.
    Stuck(usize),
}

/// Tasks of clients and servers that run together.
///
/// Tasks of one thread share its CPU time. Tasks of a crashed compute node are dropped.
pub struct TaskGroup<'env> {
    device: Rc<RefCell<Device>>,
    tasks: Vec<Task<'env>>,
    woken: Arc<WokenTasks>,
    spare: Vec<Key>,
    /// Idle threads with a task to run now.
    idle_ready: VecDeque<Key>,
    live: usize,
    number: u64,
}

impl<'env> TaskGroup<'env> {
    pub(crate) fn new(device: Rc<RefCell<Device>>) -> Self {
        let number = {
            let mut device = device.borrow_mut();
            device.crews += 1;
            device.crews
        };
        Self {
            number,
            device,
            tasks: Vec::new(),
            woken: Arc::default(),
            spare: Vec::new(),
            idle_ready: VecDeque::new(),
            live: 0,
        }
    }

    /// Adds a task that runs on the client's thread.
    pub fn spawn(&mut self, client: &Client<SimFabric>, work: impl Future<Output = ()> + 'env) {
        self.spawn_at(client.fabric().sim_thread(), work);
    }

    /// Adds a task that owns its client, and runs on the client's thread.
    pub fn spawn_at(&mut self, seat: SimThread, work: impl Future<Output = ()> + 'env) {
        self.spawn_on(seat.thread, Some(seat.compute), work);
    }

    /// Adds a server's task. Its CPU time is what it [computes](crate::SimServer).
    pub fn spawn_server(&mut self, work: impl Future<Output = ()> + 'env) {
        let thread = {
            let mut device = self.device.borrow_mut();
            device.threads.push(Thread::default());
            device.threads.len() - 1
        };
        self.spawn_on(thread as Key, None, work);
    }

    pub(crate) fn spawn_on(
        &mut self,
        thread: Key,
        compute: Option<usize>,
        work: impl Future<Output = ()> + 'env,
    ) {
        let task = self.tasks.len() as Key;
        let waker = Waker::from(Arc::new(TaskWaker { task, woken: Arc::clone(&self.woken) }));
        self.tasks.push(Task { thread, compute, work: Some(Box::pin(work)), waker, ready: false });
        self.live += 1;
        self.woken.add(task);
    }

    /// Runs until all tasks are done.
    ///
    /// # Errors
    /// [`Stuck`](crate::Stuck) if tasks wait for events that are not scheduled.
    pub fn run(&mut self) -> Result<(), crate::Stuck> {
        crate::world::ended(self.run_until(u64::MAX))
    }

    /// Runs until all work is done, or until `time`.
    ///
    /// # Panics
    /// If another group of the world was stopped in the middle of its work: it must finish, or be dropped, first.
    pub fn run_until(&mut self, time: u64) -> RunOutcome {
        let paused = self.device.borrow_mut().paused.take();
        assert!(
            paused.is_none_or(|paused| paused == self.number),
            "another group is in the middle of its work"
        );
        let ended = self.work_until(time);
        self.device.borrow_mut().paused = (self.live > 0).then_some(self.number);
        ended
    }

    fn work_until(&mut self, time: u64) -> RunOutcome {
        self.call(0.0, None);
        self.run_idle();
        while self.live > 0 {
            match self.next_that_matters(time) {
                NextStep::None => return RunOutcome::Stuck(self.live),
                NextStep::Later => return RunOutcome::Time,
                NextStep::Thread(thread) => self.run_next(thread),
                NextStep::WokenTasks(cost) => {
                    // Tasks of crashed compute nodes are not woken, whatever the result of their last verbs.
                    self.drop_crashed();
                    self.call(cost, None);
                }
            }
            self.run_idle();
        }
        RunOutcome::Done
    }

    /// Processes events until a thread must run, or a task was woken.
    fn next_that_matters(&self, time: u64) -> NextStep {
        let device = &mut *self.device.borrow_mut();
        loop {
            let event = match device.queue.pop(time) {
                Ok(Event::Thread(thread)) => return NextStep::Thread(thread),
                Ok(event) => event,
                Err(more) => return if more { NextStep::Later } else { NextStep::None },
            };
            device.process(event);
            if self.woken.any() || !device.crashed_nodes.is_empty() {
                let polls = !matches!(event, Event::Timer(_) | Event::Slice(..) | Event::ReleaseCore(..));
                return NextStep::WokenTasks(if polls { device.card.cpu.poll_ns } else { 0.0 });
            }
        }
    }

    /// Schedules the tasks that were woken: now if the thread is idle, otherwise when it gets there. `by` is the task
    /// that woke them, and the time at which its thread did so.
    fn call(&mut self, cost: f64, by: Option<(Key, u64)>) {
        let mut woken = std::mem::take(&mut self.spare);
        if !self.woken.take(&mut woken) {
            self.spare = woken;
            return;
        }
        for task in woken.drain(..) {
            let Task { thread, work: Some(_), ready: false, .. } = self.tasks[task as usize] else {
                continue;
            };
            let mut device = self.device.borrow_mut();
            let observer = self.tasks[task as usize].compute.is_none();
            let cost = match by {
                _ if observer => 0.0,
                None => cost,
                Some((by, _)) if by == task => device.card.cpu.yield_ns,
                Some(_) => device.card.cpu.hand_over_ns,
            };
            self.tasks[task as usize].ready = true;
            let now = device.queue.now;
            let time = by.map_or(now, |(_, done)| done.max(now));
            let calling = &mut device.threads[thread as usize];
            calling.ready.push_back((task, cost as u64));
            if std::mem::replace(&mut calling.called, true) {
                continue;
            }
            if calling.busy_until <= now && time == now {
                self.idle_ready.push_back(thread);
            } else {
                let time = calling.busy_until.max(time);
                device.queue.at(time, Event::Thread(thread));
            }
        }
        self.spare = woken;
    }

    /// Runs the next task of each idle thread.
    fn run_idle(&mut self) {
        while let Some(thread) = self.idle_ready.pop_front() {
            self.run_next(thread);
        }
    }

    /// Runs the next task of a thread.
    fn run_next(&mut self, thread: Key) {
        let next = {
            let mut device = self.device.borrow_mut();
            let now = device.queue.now;
            let running = &mut device.threads[thread as usize];
            if running.busy_until > now {
                // The compute node was frozen in the meantime.
                let time = running.busy_until;
                device.queue.at(time, Event::Thread(thread));
                return;
            }
            let next = running.ready.pop_front();
            if let Some((_, cost)) = next {
                device.thread_time = Some(now + cost);
            }
            next
        };
        if let Some((task, _)) = next {
            self.poll(task);
        }
        let mut device = self.device.borrow_mut();
        let done = device.thread_time.take();
        if let Some(thread_time) = done {
            let running = &mut device.threads[thread as usize];
            running.busy_until = running.busy_until.max(thread_time);
        }
        let running = &mut device.threads[thread as usize];
        running.called = !running.ready.is_empty();
        if running.called {
            let time = running.busy_until;
            device.queue.at(time, Event::Thread(thread));
        }
        drop(device);
        if let Some((task, _)) = next {
            self.call(0.0, Some((task, done.unwrap_or(0))));
        }
    }

    fn poll(&mut self, number: Key) {
        let task = &mut self.tasks[number as usize];
        task.ready = false;
        let Some(work) = &mut task.work else { return };
        if let Poll::Ready(()) = work.as_mut().poll(&mut Context::from_waker(&task.waker)) {
            task.work = None;
            self.live -= 1;
        }
    }

    /// Drops the tasks of crashed compute nodes.
    fn drop_crashed(&mut self) {
        if self.device.borrow().crashed_nodes.is_empty() {
            return;
        }
        let crashed_nodes = std::mem::take(&mut self.device.borrow_mut().crashed_nodes);
        for node in crashed_nodes {
            for task in &mut self.tasks {
                if task.compute == Some(node) && task.work.take().is_some() {
                    self.live -= 1;
                }
            }
        }
    }
}

impl Drop for TaskGroup<'_> {
    /// Drops unfinished tasks and clears the ready queues of their threads.
    fn drop(&mut self) {
        self.tasks.clear();
        let mut device = self.device.borrow_mut();
        if device.paused == Some(self.number) {
            device.paused = None;
        }
        for thread in &mut device.threads {
            thread.ready.clear();
        }
    }
}

impl std::fmt::Debug for TaskGroup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Crew").field("live", &self.live).finish_non_exhaustive()
    }
}
