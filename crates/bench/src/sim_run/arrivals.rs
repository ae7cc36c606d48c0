//! The times at which the operations of a client begin: when the last one has ended, or at random.
//!
//! With a rate, the operations of each client arrive as a Poisson process. A client that is behind begins the next
//! operation at once, and the latency of an operation counts from its arrival: the time for which an operation waits
//! behind others is part of its latency.

use farwood_fabric::{Client, Fabric as _};
use farwood_sim::SimFabric;

use crate::workload::random::Generator;

/// A constant that is combined with the seed for the times of arrivals.
const ARRIVAL_SEED: u64 = 0x6172_7269_7661_6C73;

/// The arrivals of one client.
pub(super) enum ClientArrivals {
    /// An operation begins when the last one has ended.
    Closed,
    /// Operations arrive at random times.
    Poisson(PoissonArrivals),
}

impl ClientArrivals {
    /// The arrivals of a client in a run whose clients together have `rate` operations per second.
    pub(super) fn new(rate: Option<u64>, clients: u64, seed: u64, client: u64) -> ClientArrivals {
        rate.map_or(ClientArrivals::Closed, |rate| {
            ClientArrivals::Poisson(PoissonArrivals {
                generator: Generator::for_client(seed ^ ARRIVAL_SEED, client),
                gap_ns_mean: 1e9 * clients as f64 / rate as f64,
                next_ns: 0.0,
            })
        })
    }

    /// Waits until the next operation begins; yields the time from which its latency counts.
    pub(super) async fn wait(&mut self, client: &Client<SimFabric>) -> u64 {
        let now = client.fabric().now();
        match self {
            ClientArrivals::Closed => now,
            ClientArrivals::Poisson(arrivals) => {
                let arrival = arrivals.draw();
                if arrival > now {
                    client.fabric().sleep(arrival - now).await;
                }
                arrival
            }
        }
    }
}

/// A Poisson process.
pub(super) struct PoissonArrivals {
    generator: Generator,
    gap_ns_mean: f64,
    next_ns: f64,
}

impl PoissonArrivals {
    /// The virtual time of the next arrival.
    fn draw(&mut self) -> u64 {
        // The distance between two arrivals is exponentially distributed. The argument of the logarithm is above 0.
        self.next_ns -= self.gap_ns_mean * (1.0 - self.generator.unit()).ln();
        self.next_ns as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64, client: u64) -> Vec<u64> {
        match ClientArrivals::new(Some(1_000_000), 4, seed, client) {
            ClientArrivals::Poisson(mut arrivals) => (0..10_000).map(|_| arrivals.draw()).collect(),
            ClientArrivals::Closed => Vec::new(),
        }
    }

    #[test]
    fn arrivals_are_random_with_the_given_rate_and_repeatable() {
        let all = drawn(1, 0);
        assert!(all.is_sorted());
        // A quarter of a million per second arrives at each of four clients: one in 4 us.
        let mean = *all.last().unwrap() as f64 / all.len() as f64;
        assert!((3_900.0..4_100.0).contains(&mean), "{mean}");
        let gaps = all.windows(2).map(|pair| (pair[1] - pair[0]) as f64);
        let variance = gaps.map(|gap| (gap - mean).powi(2)).sum::<f64>() / all.len() as f64;
        // The deviation of an exponential distribution equals its mean.
        assert!((3_800.0..4_200.0).contains(&variance.sqrt()), "{variance}");
        assert_eq!(all, drawn(1, 0));
        assert!(all != drawn(1, 1) && all != drawn(2, 0));
    }
}
