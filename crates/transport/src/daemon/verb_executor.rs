//! A memory node whose verbs a network card executes, and not the node's threads.
//!
//! Everything but the verbs stays as it is: who is let in, who is connected, who is fenced, which pool it is. A
//! connection asks for a queue pair ([`Control::Queue`](crate::wire::Control)); the queue pair is the connection's, and
//! ends with it.

use crate::error::TcpError;
use crate::shm::Mapping;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Executes verbs in a memory node's memory.
pub(crate) trait Card: fmt::Debug + Send + Sync {
    /// What a compute node must know to reach the memory: the answer to `Control::Region`.
    fn region(&self) -> [u64; 4];

    /// Makes a queue pair, connected to the one that `other` describes; and describes it.
    ///
    /// # Errors
    /// In words.
    fn connect(&self, other: [u64; 4]) -> Result<(Box<dyn Queue>, [u64; 4]), String>;

    /// Why it does not work any more, if so. In words, once.
    fn failed(&self) -> Option<String>;

    /// Lets go of the memory: when this returns, no card reaches it. There are no queue pairs any more.
    fn end(&self);
}

/// A queue pair at the memory node.
pub(crate) trait Queue: fmt::Debug + Send {
    /// Ends it: when this is `Ok`, nothing of it lands any more. May be asked again.
    ///
    /// # Errors
    /// In words: the card may still execute what arrives for it.
    fn end(&mut self) -> Result<(), String>;
}

/// What a card is fitted to.
#[derive(Debug)]
pub(crate) struct NodeMemory {
    /// Host memory from 0 on, device memory behind it, and behind both what no verb may reach.
    pub(crate) mapping: Arc<Mapping>,
    /// Host memory, bytes.
    pub(crate) host_bytes: u64,
    /// Device memory, bytes.
    pub(crate) device_bytes: u64,
    /// Where immediates go.
    pub(crate) immediates: Arc<Immediates>,
}

/// Fits a card to a memory node.
pub(crate) type Fit<'a> = &'a dyn Fn(NodeMemory) -> Result<Box<dyn Card>, TcpError>;

/// Immediates that wait for the server.
#[derive(Debug, Default)]
pub(crate) struct Immediates(Mutex<VecDeque<u32>>);

impl Immediates {
    /// Exclusively.
    pub(crate) fn queue(&self) -> MutexGuard<'_, VecDeque<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
