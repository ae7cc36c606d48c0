//! The server of a memory node: its local memory, its immediates, and its shared processor.

use crate::device::Device;
use crate::queue::{Event, Key};
use crate::stages::server::{CpuJob, RetainedCore, RunningJob, Then};
use farwood_fabric::{Address, FabricError, Memory, NodeId, Server, ServerMemory};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A server thread of one memory node. Clones denote the same thread.
#[derive(Clone)]
pub struct SimServer {
    memory: SimMemory,
    thread: Key,
    wakes: bool,
}

/// The host memory of a memory node, accessed by its own processor.
#[derive(Clone)]
pub struct SimMemory {
    device: Rc<RefCell<Device>>,
    node: NodeId,
}

impl SimServer {
    pub(crate) fn new(device: Rc<RefCell<Device>>, node: NodeId) -> Self {
        let thread = {
            let mut device = device.borrow_mut();
            device.server_threads += 1;
            device.server_threads
        };
        Self { memory: SimMemory { device, node }, thread, wakes: true }
    }

    /// Receives immediates without the wake-up cost, for a dispatcher whose receivers pay for their own wake-up.
    #[must_use]
    pub fn without_wake_up_cost(self) -> Self {
        Self { wakes: false, ..self }
    }

    /// CPU time of all cores of this memory node, nanoseconds.
    pub fn worked(&self) -> u64 {
        self.memory.device.borrow().memory[usize::from(self.memory.node.0)].cores.worked
    }
}

impl SimMemory {
    fn at(&self, offset: u64) -> Result<Address, FabricError> {
        let at = Address::new(self.node, Memory::Host, offset);
        let bytes = self.device.borrow().shape.host_bytes;
        match at {
            Some(at) if !offset.is_multiple_of(8) => Err(FabricError::Misaligned { at }),
            Some(at) if offset.saturating_add(8) > bytes => Err(FabricError::OutOfRange { at, bytes: 8 }),
            Some(at) => Ok(at),
            None => {
                let at = Address::new(self.node, Memory::Host, 8).expect("offset 8 is an address");
                Err(FabricError::OutOfRange { at, bytes: 8 })
            }
        }
    }
}

impl ServerMemory for SimMemory {
    fn load(&self, offset: u64) -> Result<u64, FabricError> {
        let at = self.at(offset)?;
        let mut device = self.device.borrow_mut();
        device.touch(at, 8);
        Ok(device.word(at))
    }

    fn store(&self, offset: u64, word: u64) -> Result<(), FabricError> {
        let at = self.at(offset)?;
        let mut device = self.device.borrow_mut();
        device.touch(at, 8);
        device.set_word(at, word);
        Ok(())
    }
}

impl Server for SimServer {
    type Local = SimMemory;

    fn local(&self) -> &SimMemory {
        &self.memory
    }

    async fn receive(&self) -> Result<u32, FabricError> {
        let (immediate, waited) = Receiving { memory: &self.memory, waited: false }.await;
        if waited && self.wakes {
            // The wake-up runs on a core.
            let wake = self.memory.device.borrow().card.server.wake_ns;
            self.compute(wake as u64).await;
        }
        Ok(immediate)
    }

    fn compute(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        Computing { server: self, left: Some(nanoseconds), done: Rc::default() }
    }

    fn busy_wait(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        self.compute(nanoseconds)
    }
}

struct Receiving<'a> {
    memory: &'a SimMemory,
    waited: bool,
}

impl Future for Receiving<'_> {
    type Output = (u32, bool);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(u32, bool)> {
        let mut device = self.memory.device.borrow_mut();
        let node = &mut device.memory[usize::from(self.memory.node.0)];
        if let Some(immediate) = node.immediates.pop_front() {
            return Poll::Ready((immediate, self.waited));
        }
        node.receivers.push(context.waker().clone());
        drop(device);
        self.waited = true;
        Poll::Pending
    }
}

struct Computing<'a> {
    server: &'a SimServer,
    /// CPU time to spend, until it is handed to the cores.
    left: Option<u64>,
    done: Rc<Cell<bool>>,
}

impl Future for Computing<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.left.take() {
            Some(0) => self.done.set(true),
            Some(left) => {
                let SimServer { memory, thread, .. } = self.server;
                let (waker, done) = (context.waker().clone(), Rc::clone(&self.done));
                let job = CpuJob { left, then: Then::Wake { thread: *thread, waker, done } };
                memory.device.borrow_mut().continue_thread(memory.node, *thread, job);
            }
            None => {}
        }
        if self.done.get() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Device {
    /// Runs a job of a thread on the core that it retained, or queues it.
    fn continue_thread(&mut self, node: NodeId, thread: Key, job: CpuJob) {
        let number = usize::from(node.0);
        match self.memory[number].cores.take_retained(thread) {
            Some(used) => self.begin_slice(number, job, used, 0),
            None => self.enqueue_job(node, job),
        }
    }

    /// Queues a job for the cores of a memory node.
    fn enqueue_job(&mut self, node: NodeId, job: CpuJob) {
        let cores = &mut self.memory[usize::from(node.0)].cores;
        cores.waiting.push_back(job);
        self.assign_idle_cores(usize::from(node.0));
    }

    /// Queues the kernel work of a request.
    pub(crate) fn enqueue_kernel_work(&mut self, verb: Key, nanoseconds: u64) {
        let node = self.verbs[verb as usize].at.node();
        self.enqueue_job(node, CpuJob { left: nanoseconds, then: Then::Serve(verb) });
    }

    /// Assigns waiting jobs to idle cores, for one slice each.
    fn assign_idle_cores(&mut self, node: usize) {
        let (cores_max, switch) = (self.card.server.cores, self.card.server.switch_ns as u64);
        while self.memory[node].cores.busy < cores_max {
            let cores = &mut self.memory[node].cores;
            let Some(job) = cores.waiting.pop_front() else { return };
            // Waiting jobs force a context switch.
            let switch = if cores.waiting.is_empty() { 0 } else { switch };
            cores.busy += 1;
            self.begin_slice(node, job, 0, switch);
        }
    }

    /// Runs a job on a core until the job or the slice ends.
    fn begin_slice(&mut self, node: usize, job: CpuJob, used: u64, switch: u64) {
        let takes = job.left.min(self.card.server.quantum_ns as u64 - used);
        let cores = &mut self.memory[node].cores;
        cores.worked += takes + switch;
        let key = cores.running.insert(RunningJob { job, takes, used: used + takes });
        self.queue.at(self.queue.now + takes + switch, Event::Slice(node as Key, key as Key));
    }

    /// Ends a job or a slice.
    pub(crate) fn end_slice(&mut self, node: Key, slice: Key) {
        let quantum = self.card.server.quantum_ns as u64;
        let now = self.queue.now;
        let cores = &mut self.memory[node as usize].cores;
        let RunningJob { mut job, takes, used } = cores.running.remove(slice as usize);
        job.left -= takes;
        if job.left > 0 {
            cores.waiting.push_back(job);
        } else {
            match job.then {
                Then::Wake { thread, waker, done } => {
                    done.set(true);
                    waker.wake();
                    if used < quantum {
                        cores.kept.push(RetainedCore { thread, used });
                        self.queue.at(now, Event::ReleaseCore(node, thread));
                        return;
                    }
                }
                Then::Serve(verb) => self.queue.at(now, Event::Kernel(verb)),
            }
        }
        self.memory[node as usize].cores.busy -= 1;
        self.assign_idle_cores(node as usize);
    }

    /// Releases the core of a thread that has no more work.
    pub(crate) fn release_core(&mut self, node: Key, thread: Key) {
        let cores = &mut self.memory[node as usize].cores;
        if cores.take_retained(thread).is_some() {
            cores.busy -= 1;
            self.assign_idle_cores(node as usize);
        }
    }
}
