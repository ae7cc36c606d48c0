//! The NIC's cache of requests in flight: requests beyond its capacity are fetched from host memory again.
//!
//! With `n` requests in flight and a capacity of `c`, a request misses with probability `(n - c) / n`. A miss adds
//! service time and latency. Every request is charged the expected value instead of drawing misses: the mean is the
//! same, and no random number is needed.

use crate::nic_model::Outstanding;

/// The number of requests in flight of one NIC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InFlight(u64);

/// The expected cost of a miss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Penalty {
    /// Service time at the message engine, picoseconds.
    pub(crate) service: u64,
    /// Latency, nanoseconds.
    pub(crate) latency: u64,
}

impl InFlight {
    /// Counts a posted request, also while it waits for the window.
    #[inline]
    pub(crate) fn add(&mut self) {
        self.0 += 1;
    }

    /// The penalty of a request that is sent now.
    #[inline]
    pub(crate) fn penalty(self, card: &Outstanding) -> Penalty {
        let Some(over) = self.0.checked_sub(card.requests).filter(|over| *over > 0) else {
            return Penalty::default();
        };
        let share = over as f64 / self.0 as f64;
        Penalty {
            service: (share * card.miss_service_ns * 1000.0) as u64,
            latency: (share * card.miss_ns) as u64,
        }
    }

    /// Counts an answer.
    #[inline]
    pub(crate) fn remove(&mut self) {
        self.0 -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_misses_grows_with_the_requests_beyond_the_capacity() {
        let card = Outstanding { requests: 10, miss_ns: 400.0, miss_service_ns: 14.0 };
        let mut in_flight = InFlight::default();
        for _ in 0..10 {
            in_flight.add();
            assert_eq!(in_flight.penalty(&card), Penalty::default());
        }
        (0..10).for_each(|_| in_flight.add());
        assert_eq!(in_flight.penalty(&card), Penalty { service: 7000, latency: 200 });
        (0..10).for_each(|_| in_flight.remove());
        assert_eq!(in_flight.penalty(&card), Penalty::default());
    }
}
