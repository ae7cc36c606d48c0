//! PCIe: when the lines of a transfer are copied between the NIC and its machine's memory.
//!
//! A WRITE is posted: acknowledged at once, its lines placed upward a little later. A READ takes a PCIe round trip, and
//! then its lines are sampled one by one, upward. Each direction has its bandwidth. Device memory lies on the card.

use super::fifo::{Fifo, transfer};
use crate::card::Pcie;

/// One NIC's bus.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bus {
    reads: Fifo,
    writes: Fifo,
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
    /// A READ of `bytes` that is served at `now`, but not before `after`.
    #[inline]
    pub(crate) fn read(&mut self, card: &Pcie, now: u64, after: u64, bytes: u64) -> Window {
        let ready = (now + card.read_ns as u64).max(after);
        window(self.reads.serve(ready, transfer(bytes, card.bytes_per_ns)), card, bytes)
    }

    /// Lets a WRITE linger: it is placed `late` nanoseconds later, but behind those before it.
    pub(crate) fn linger(&mut self, window: Window, late: u64) -> Window {
        let from = (window.from + late).max(self.placed + 1);
        self.placed = from + (window.to - window.from);
        Window { from, to: self.placed }
    }

    /// A WRITE of `bytes` that is served at `now`.
    #[inline]
    pub(crate) fn write(&mut self, card: &Pcie, now: u64, bytes: u64) -> Window {
        let ready = now + card.write_ns as u64;
        window(self.writes.serve(ready, transfer(bytes, card.bytes_per_ns)), card, bytes)
    }
}

fn window(to: u64, card: &Pcie, bytes: u64) -> Window {
    Window { from: to - transfer(bytes, card.bytes_per_ns) / 1000, to }
}
