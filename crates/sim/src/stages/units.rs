//! Processing units of a memory node's NIC: each queue pair is served by one of them, first come, first served.
//!
//! READs and WRITEs pass immediately. An atomic occupies its unit until it releases its slot, and every later request
//! of the unit waits (head-of-line blocking).

use crate::queue::Key;
use crate::random::RandomStream;
use std::collections::VecDeque;

/// One unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessingUnit {
    /// The atomic that occupies it.
    pub(crate) atomic: Option<Key>,
    /// Requests that wait for the atomic.
    pub(crate) waiting: VecDeque<Key>,
}

/// The unit that serves the queue pair of `client` with the NIC numbered `nic`: a hash, seeded by the world's seed.
///
/// The units of two queue pairs are independent, also those of one client with two NICs.
pub(crate) fn unit_of(seed: u64, client: Key, nic: usize, units: u32) -> usize {
    RandomStream::new(seed, &format!("queue pair of client {client} and NIC {nic}")).below(u64::from(units))
        as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_pairs_have_units_that_depend_on_seed_client_and_nic_only() {
        let of =
            |seed, nic| -> Vec<usize> { (0..1600).map(|client| unit_of(seed, client, nic, 16)).collect() };
        assert_eq!(of(1, 0), of(1, 0));
        assert_ne!(of(1, 0), of(2, 0));
        assert_ne!(of(1, 0), of(1, 1));
        for unit in 0..16 {
            let count = of(1, 0).iter().filter(|&&other| other == unit).count();
            assert!((60..140).contains(&count), "unit {unit} has {count} of 1,600 queue pairs");
            let even = of(1, 0).iter().step_by(2).filter(|&&other| other == unit).count();
            assert!(even > 0 && even < count, "clients of even and of odd number share unit {unit}");
        }
    }
}
