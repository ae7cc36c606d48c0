//! Message rates of a NIC: requests per second in each direction, independent of their size.
//!
//! A message larger than the MTU travels in packets, and every stage forwards a packet when it has all of it. Messages
//! to and from device memory travel as a whole, because their bytes are copied at one time.

use super::fifo::{Bandwidth, Fifo, MessageArrival, MessageService, each};
use crate::nic_model::NicModel;
use farwood_fabric::{Memory, Op};

/// Service times of requests and answers at NICs and links.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageCosts {
    host_read: u64,
    host_write: u64,
    device: u64,
    link: Bandwidth,
    mtu: u64,
    request_header: u64,
    response_header: u64,
}

/// Service times of one verb.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VerbService {
    /// At the message engine, picoseconds.
    pub(crate) message: u64,
    /// At the link: the request.
    pub(crate) request: MessageService,
    /// At the link: the answer.
    pub(crate) answer: MessageService,
}

impl MessageCosts {
    pub(crate) fn new(card: &NicModel) -> Self {
        Self {
            host_read: each(card.messages.host_read_per_us),
            host_write: each(card.messages.host_write_per_us),
            device: each(card.messages.device_per_us),
            link: Bandwidth::new(card.wire.link_bytes_per_ns),
            mtu: card.wire.mtu_bytes,
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
        let payload = if memory == Memory::Device { u64::MAX } else { self.mtu };
        let link =
            |bytes: usize, header| self.link.message(bytes as u64 + header, payload.saturating_add(header));
        VerbService {
            message: if memory == Memory::Device { self.device } else { message },
            request: link(sent, self.request_header),
            answer: link(fetched, self.response_header),
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
    /// Sends a request or an answer that reaches the NIC at `at`; yields the times at which it has left the NIC.
    #[inline]
    pub(crate) fn send(&mut self, at: MessageArrival, message: u64, bytes: MessageService) -> MessageArrival {
        let ready = self.messages.absorb(at.first, message);
        self.link.serve_message(MessageArrival::new(ready, at.last), bytes)
    }

    /// Receives a message that arrives at `at`; yields the times at which the NIC has processed it.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        at: MessageArrival,
        message: u64,
        bytes: MessageService,
    ) -> MessageArrival {
        let received = self.link.absorb_message(at, bytes);
        MessageArrival::new(self.messages.absorb(received.first, message), received.last)
    }
}
