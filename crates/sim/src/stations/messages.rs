//! The message rate of a NIC: so many requests a second in each direction, whatever their size.

use super::fifo::{Fifo, each};
use crate::card::Messages;
use farwood_fabric::{Memory, Op};

/// What a request takes of the message rate, picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageCosts {
    host_read: u64,
    host_write: u64,
    device: u64,
}

impl MessageCosts {
    pub(crate) fn new(card: &Messages) -> Self {
        Self {
            host_read: each(card.host_read_per_us),
            host_write: each(card.host_write_per_us),
            device: each(card.device_per_us),
        }
    }

    /// What a request takes.
    #[inline]
    pub(crate) fn of(&self, op: &Op, memory: Memory) -> u64 {
        match (memory, op) {
            (Memory::Device, _) => self.device,
            (Memory::Host, Op::Write { .. }) => self.host_write,
            (Memory::Host, _) => self.host_read,
        }
    }
}

/// One direction of a NIC: its message engine and its link. What is slower counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Direction {
    messages: Fifo,
    link: Fifo,
}

impl Direction {
    /// Sends a request or an answer; yields when its last byte has left.
    #[inline]
    pub(crate) fn send(&mut self, now: u64, message: u64, bytes: u64) -> u64 {
        let ready = self.messages.absorb(now, message);
        self.link.serve(ready, bytes)
    }

    /// Takes in what has come with its last byte at `now`; yields when it has passed.
    #[inline]
    pub(crate) fn receive(&mut self, now: u64, message: u64, bytes: u64) -> u64 {
        let received = self.link.absorb(now, bytes);
        self.messages.absorb(received, message)
    }
}
