//! PCIe: the times at which the lines of a transfer are copied between the NIC and host memory.
//!
//! A WRITE is posted: acknowledged immediately, and its lines are placed upward soon after. A READ takes a PCIe round
//! trip, then its lines are sampled one by one, upward. Each direction has its own bandwidth. Device memory is on the
//! NIC.

use super::fifo::{Bandwidth, Fifo, MessageArrival};
use crate::nic_model::Pcie;

/// One NIC's bus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PcieBus {
    reads: Fifo,
    writes: Fifo,
    bandwidth: Bandwidth,
    mtu: u64,
    read_ns: u64,
    write_ns: u64,
    /// The time at which the last delayed WRITE is placed.
    placed: u64,
}

/// The times of the first and the last line of a transfer, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransferWindow {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl PcieBus {
    pub(crate) fn new(card: &Pcie, mtu: u64) -> Self {
        Self {
            reads: Fifo::default(),
            writes: Fifo::default(),
            bandwidth: Bandwidth::new(card.bytes_per_ns),
            mtu,
            read_ns: card.read_ns as u64,
            write_ns: card.write_ns as u64,
            placed: 0,
        }
    }

    /// Schedules a READ of `bytes` that is served at `now`, not before `after`, by a NIC slowed down by the factor
    /// `slow`.
    #[inline]
    pub(crate) fn read(&mut self, now: u64, after: u64, bytes: u64, slow: u64) -> TransferWindow {
        let takes = self.bandwidth.transfer(bytes) * slow;
        window(self.reads.serve((now + self.read_ns * slow).max(after), takes), takes)
    }

    /// Delays a WRITE by `late` nanoseconds, but not to a time before the earlier delayed WRITEs.
    pub(crate) fn delay(&mut self, window: TransferWindow, late: u64) -> TransferWindow {
        let from = (window.from + late).max(self.placed + 1);
        self.placed = from + (window.to - window.from);
        TransferWindow { from, to: self.placed }
    }

    /// Schedules a WRITE of `bytes` that is served at `at`, by a NIC slowed down by the factor `slow`. The NIC copies
    /// the first packets while others arrive.
    #[inline]
    pub(crate) fn write(&mut self, at: MessageArrival, bytes: u64, slow: u64) -> TransferWindow {
        let takes = self.bandwidth.message(bytes, self.mtu) * slow;
        let copied = self.writes.serve_message(at.after(self.write_ns * slow), takes);
        TransferWindow { from: copied.first - takes.first / 1000, to: copied.last }
    }
}

/// The window of a transfer that ends at `to` and takes `takes` picoseconds.
#[inline]
fn window(to: u64, takes: u64) -> TransferWindow {
    TransferWindow { from: to - takes / 1000, to }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nic_model::NicModel;

    #[test]
    fn a_write_is_placed_after_a_longer_one_before_it() {
        let card = NicModel::named("cx5-100g").unwrap();
        let mut bus = PcieBus::new(&card.pcie, 4096);
        let long = bus.write(MessageArrival { first: 1_000, last: 6_000 }, 65_536, 1);
        assert_eq!((long.from, long.to), (1_151, 6_150 + 328), "the last packet arrives at 6,000 ns");
        let short = bus.write(MessageArrival { first: 6_001, last: 6_001 }, 8, 1);
        assert!(short.from >= long.to, "{short:?} after {long:?}");
    }
}
