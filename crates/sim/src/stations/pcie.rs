//! PCIe: when the lines of a transfer are copied between the NIC and its machine's memory.
//!
//! A WRITE is posted: acknowledged at once, its lines placed upward a little later. A READ takes a PCIe round trip, and
//! then its lines are sampled one by one, upward. Each direction has its bandwidth. Device memory lies on the card.

use super::fifo::{Bandwidth, Fifo};
use crate::card::Pcie;

/// One NIC's bus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bus {
    reads: Fifo,
    writes: Fifo,
    bandwidth: Bandwidth,
    read_ns: u64,
    write_ns: u64,
    /// When the last WRITE is placed that lingered.
    placed: u64,
}

/// When a transfer's lines are copied, nanoseconds: the first, and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Bus {
    pub(crate) fn new(card: &Pcie) -> Self {
        Self {
            reads: Fifo::default(),
            writes: Fifo::default(),
            bandwidth: Bandwidth::new(card.bytes_per_ns),
            read_ns: card.read_ns as u64,
            write_ns: card.write_ns as u64,
            placed: 0,
        }
    }

    /// A READ of `bytes` that is served at `now`, but not before `after`.
    #[inline]
    pub(crate) fn read(&mut self, now: u64, after: u64, bytes: u64) -> Window {
        let takes = self.bandwidth.transfer(bytes);
        window(self.reads.serve((now + self.read_ns).max(after), takes), takes)
    }

    /// Lets a WRITE linger: it is placed `late` nanoseconds later, but behind those before it.
    pub(crate) fn linger(&mut self, window: Window, late: u64) -> Window {
        let from = (window.from + late).max(self.placed + 1);
        self.placed = from + (window.to - window.from);
        Window { from, to: self.placed }
    }

    /// A WRITE of `bytes` that is served at `now`.
    #[inline]
    pub(crate) fn write(&mut self, now: u64, bytes: u64) -> Window {
        let takes = self.bandwidth.transfer(bytes);
        window(self.writes.serve(now + self.write_ns, takes), takes)
    }
}

/// The window of a transfer that ends at `to` and takes so many picoseconds.
#[inline]
fn window(to: u64, takes: u64) -> Window {
    Window { from: to - takes / 1000, to }
}
