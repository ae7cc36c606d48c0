//! A memory node's server: its own memory, its messages, and a processor that others use as well.

use crate::device::Device;
use crate::queue::{Event, Key};
use crate::stations::server::{Job, Then};
use farwood_fabric::{Address, FabricError, LocalMemory, Memory, NodeId, Server};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The server of one memory node.
#[derive(Clone)]
pub struct SimServer {
    memory: SimMemory,
}

/// A memory node's memory, as its own processor sees it.
#[derive(Clone)]
pub struct SimMemory {
    device: Rc<RefCell<Device>>,
    node: NodeId,
}

impl SimServer {
    pub(crate) fn new(device: Rc<RefCell<Device>>, node: NodeId) -> Self {
        Self { memory: SimMemory { device, node } }
    }

    /// Nanoseconds that all cores of this memory node together have worked.
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

impl LocalMemory for SimMemory {
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
        if waited {
            // The event wakes a thread, which needs a core.
            let wake = self.memory.device.borrow().card.server.wake_ns;
            self.compute(wake as u64).await;
        }
        Ok(immediate)
    }

    fn compute(&self, nanoseconds: u64) -> impl Future<Output = ()> {
        Computing { memory: &self.memory, left: Some(nanoseconds), done: Rc::default() }
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
    memory: &'a SimMemory,
    /// What is to be done, until the cores have it.
    left: Option<u64>,
    done: Rc<Cell<bool>>,
}

impl Future for Computing<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.left.take() {
            Some(0) => self.done.set(true),
            Some(left) => {
                let then = Then::Wake(context.waker().clone(), Rc::clone(&self.done));
                self.memory.device.borrow_mut().employ(self.memory.node, Job { left, then });
            }
            None => {}
        }
        if self.done.get() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Device {
    /// Gives the cores of a memory node something to do.
    fn employ(&mut self, node: NodeId, job: Job) {
        let cores = &mut self.memory[usize::from(node.0)].cores;
        cores.waiting.push_back(job);
        self.occupy(usize::from(node.0));
    }

    /// Gives the kernel of a memory node a request to deal with.
    pub(crate) fn employ_kernel(&mut self, verb: Key, nanoseconds: u64) {
        let node = self.verbs[verb as usize].at.node();
        self.employ(node, Job { left: nanoseconds, then: Then::Serve(verb) });
    }

    /// Lets idle cores take what waits, a slice each.
    fn occupy(&mut self, node: usize) {
        let server = &self.card.server;
        let cores = &mut self.memory[node].cores;
        while cores.busy < server.cores {
            let Some(job) = cores.waiting.pop_front() else { return };
            let slice = job.left.min(server.quantum_ns as u64);
            // A core that others want as well has to switch.
            let switch = if cores.waiting.is_empty() { 0 } else { server.switch_ns as u64 };
            cores.busy += 1;
            cores.worked += slice + switch;
            let key = cores.running.insert((job, slice));
            self.queue.at(self.queue.now + slice + switch, Event::Slice(node as Key, key as Key));
        }
    }

    /// A core's slice is over.
    pub(crate) fn end_slice(&mut self, node: Key, slice: Key) {
        let cores = &mut self.memory[node as usize].cores;
        let (mut job, worked) = cores.running.remove(slice as usize);
        cores.busy -= 1;
        job.left -= worked;
        if job.left > 0 {
            cores.waiting.push_back(job);
        } else {
            match job.then {
                Then::Wake(waker, done) => {
                    done.set(true);
                    waker.wake();
                }
                Then::Serve(verb) => self.queue.at(self.queue.now, Event::Kernel(verb)),
            }
        }
        self.occupy(node as usize);
    }
}
