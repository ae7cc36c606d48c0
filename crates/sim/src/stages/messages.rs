//! Message rates of a NIC: requests per second in each direction, independent of their size.

use super::fifo::{Bandwidth, Fifo, each};
use crate::nic_model::NicModel;
use farwood_fabric::{Memory, Op};

/// Service times of requests and answers at NICs and links.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageCosts {
    host_read: u64,
    host_write: u64,
    device: u64,
    link: Bandwidth,
    request_header: u64,
    response_header: u64,
}

/// Service times of one verb, picoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VerbService {
    /// At the message engine.
    pub(crate) message: u64,
    /// At the link: the request.
    pub(crate) request: u64,
    /// At the link: the answer.
    pub(crate) answer: u64,
}

impl MessageCosts {
    pub(crate) fn new(card: &NicModel) -> Self {
        Self {
            host_read: each(card.messages.host_read_per_us),
            host_write: each(card.messages.host_write_per_us),
            device: each(card.messages.device_per_us),
            link: Bandwidth::new(card.wire.link_bytes_per_ns),
            request_header: card.wire.request_header_bytes,
            response_header: card.wire.response_header_bytes,
        }
    }

    /// The service times of a verb.
    #[inline]
    pub(crate) fn of(&self, op: &Op, memory: Memory) -> VerbService {
        let (message, sent, fetched) = match op {
            Op::Write { data, .. } => (self.host_write, data.len(), 0),
            Op::Read { into } => (self.host_read, 0, into.len()),
            _ => (self.host_read, 0, 0),
        };
        VerbService {
            message: if memory == Memory::Device { self.device } else { message },
            request: self.link.transfer(sent as u64 + self.request_header),
            answer: self.link.transfer(fetched as u64 + self.response_header),
        }
    }
}

/// One direction of a NIC: its message engine and its link. The slower one limits the rate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NicDirection {
    messages: Fifo,
    link: Fifo,
}

impl NicDirection {
    /// Sends a request or an answer; yields the time at which its last byte has left the NIC.
    #[inline]
    pub(crate) fn send(&mut self, now: u64, message: u64, bytes: u64) -> u64 {
        let ready = self.messages.absorb(now, message);
        self.link.serve(ready, bytes)
    }

    /// Receives a message whose last byte arrives at `now`; yields the time at which the NIC has processed it.
    #[inline]
    pub(crate) fn receive(&mut self, now: u64, message: u64, bytes: u64) -> u64 {
        let received = self.link.absorb(now, bytes);
        self.messages.absorb(received, message)
    }
}
