//! A device that executes verbs in a memory node's memory, in place of the node's threads.
//!
//! Everything except the verbs stays the same: authentication, connections, fences, formation. A connection asks for a
//! queue pair ([`Control::ConnectQueuePair`](crate::wire::Control)); the queue pair belongs to the connection, and ends
//! with it.

use crate::error::TcpError;
use crate::shm::Mapping;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Executes verbs in a memory node's memory.
pub(crate) trait VerbExecutor: fmt::Debug + Send + Sync {
    /// Returns the data that a compute node needs to access the memory: the answer to `Control::Region`.
    fn region(&self) -> [u64; 4];

    /// Makes a queue pair, connected to the one that `other` describes; returns it and its description.
    ///
    /// # Errors
    /// The reason why the queue pairs cannot be connected.
    fn connect(&self, other: [u64; 4]) -> Result<(Box<dyn ExecutorQueuePair>, [u64; 4]), String>;

    /// Returns the reason why the device failed; later calls return `None`.
    fn failed(&self) -> Option<String>;

    /// Releases the memory: when this returns, the device no longer accesses it. All queue pairs have ended before.
    fn end(&self);
}

/// A queue pair at the memory node.
pub(crate) trait ExecutorQueuePair: fmt::Debug + Send {
    /// Ends the queue pair: when this returns `Ok`, none of its verbs executes afterwards. May be called again.
    ///
    /// # Errors
    /// The reason. The device may then still execute requests that arrive for the queue pair.
    fn end(&mut self) -> Result<(), String>;
}

/// The memory in which a device executes verbs.
#[derive(Debug)]
pub(crate) struct NodeMemory {
    /// Host memory from 0 on, then device memory, then bytes that no verb may access.
    pub(crate) mapping: Arc<Mapping>,
    /// Host memory, bytes.
    pub(crate) host_bytes: u64,
    /// Device memory, bytes.
    pub(crate) device_bytes: u64,
    /// The destination of immediates.
    pub(crate) immediates: Arc<ImmediateQueue>,
}

/// Attaches a device to a memory node.
pub(crate) type Attach<'a> = &'a dyn Fn(NodeMemory) -> Result<Box<dyn VerbExecutor>, TcpError>;

/// Immediates that wait for the server.
#[derive(Debug, Default)]
pub(crate) struct ImmediateQueue(Mutex<VecDeque<u32>>);

impl ImmediateQueue {
    /// Locks the queue.
    pub(crate) fn queue(&self) -> MutexGuard<'_, VecDeque<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
