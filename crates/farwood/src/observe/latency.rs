//! Histograms of durations, with buckets whose width grows with the duration.
//!
//! A power of two of nanoseconds has four buckets of equal width, so a bucket is at most a quarter as wide as its lower
//! bound.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of each power of two.
const PARTS: u64 = 4;
/// The power of two of [`PARTS`].
const PARTS_BITS: u32 = PARTS.trailing_zeros();
/// The last power of two, 2^40 ns, is 18 minutes. Longer durations are in the last bucket.
const POWER_MAX: u32 = 40;
/// Buckets of a histogram: one for each duration below [`PARTS`], and [`PARTS`] for each power of two.
const BUCKETS: usize = ((POWER_MAX - PARTS_BITS + 2) as u64 * PARTS) as usize;

/// The bucket of a duration in nanoseconds.
fn bucket_of(nanoseconds: u64) -> usize {
    if nanoseconds < PARTS {
        return nanoseconds as usize;
    }
    let power = nanoseconds.ilog2();
    let part = (nanoseconds >> (power - PARTS_BITS)) & (PARTS - 1);
    let bucket = u64::from(power - PARTS_BITS + 1) * PARTS + part;
    (bucket as usize).min(BUCKETS - 1)
}

/// The shortest duration in nanoseconds that is longer than those of a bucket.
fn end_of(bucket: usize) -> u64 {
    let next = bucket as u64 + 1;
    if next < PARTS {
        return next;
    }
    let (power, part) = ((next / PARTS) as u32 - 1 + PARTS_BITS, next % PARTS);
    (PARTS + part) << (power - PARTS_BITS)
}

/// Adds to a counter that no other thread changes.
#[inline]
pub(super) fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

/// A histogram that one thread at a time changes.
pub(super) struct LatencyCounters {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl LatencyCounters {
    pub(super) fn new() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum: AtomicU64::new(0) }
    }

    pub(super) fn add(&self, duration: Duration) {
        let nanoseconds = duration.as_nanos() as u64;
        add(&self.buckets[bucket_of(nanoseconds)], 1);
        add(&self.sum, nanoseconds);
    }
}

/// The durations of the calls that were measured, in a histogram.
#[derive(Clone, PartialEq, Eq)]
pub struct Latencies {
    buckets: Vec<u64>,
    sum: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], sum: 0 }
    }
}

impl Latencies {
    pub(super) fn add(&mut self, counters: &LatencyCounters) {
        for (count, more) in self.buckets.iter_mut().zip(&counters.buckets) {
            *count += more.load(Ordering::Relaxed);
        }
        self.sum += counters.sum.load(Ordering::Relaxed);
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        let both = self.buckets.iter().zip(&earlier.buckets);
        Self {
            buckets: both.map(|(now, before)| now.saturating_sub(*before)).collect(),
            sum: self.sum.saturating_sub(earlier.sum),
        }
    }

    /// The number of calls that were measured.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of their durations.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum)
    }

    /// Their mean duration; `None`: no call was measured.
    pub fn mean(&self) -> Option<Duration> {
        self.sum.checked_div(self.count()).map(Duration::from_nanos)
    }

    /// The duration that the share `quantile` of the calls, from 0 to 1, did not exceed: the upper bound of its bucket,
    /// which is at most a quarter too long. `None`: no call was measured.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let rank = ((self.count() as f64 * quantile).ceil() as u64).max(1);
        let mut passed = 0;
        self.buckets().find_map(|(end, count)| {
            passed += count;
            (passed >= rank).then_some(end)
        })
    }

    /// The buckets that are not empty, in increasing order: the upper bound of the durations, and the number of calls.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let counted = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, count)| (Duration::from_nanos(end_of(bucket)), *count))
    }
}

impl std::fmt::Debug for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Latencies")
            .field("sum", &self.sum())
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_begins_where_the_one_before_ends() {
        for bucket in 0..BUCKETS - 1 {
            let end = end_of(bucket);
            assert_eq!((bucket_of(end - 1), bucket_of(end)), (bucket, bucket + 1), "{end} ns");
            assert!(bucket < 4 || end_of(bucket + 1) <= end + end / 4, "{end} ns");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_the_upper_bounds_of_buckets() {
        let counters = LatencyCounters::new();
        (0..99).for_each(|_| counters.add(Duration::from_nanos(100)));
        counters.add(Duration::from_micros(10));
        let mut latencies = Latencies::default();
        assert_eq!((latencies.quantile(0.5), latencies.mean()), (None, None));
        latencies.add(&counters);
        assert_eq!((latencies.count(), latencies.sum()), (100, Duration::from_nanos(19_900)));
        assert_eq!(latencies.quantile(0.99), Some(Duration::from_nanos(112)));
        assert_eq!(latencies.quantile(1.0), Some(Duration::from_nanos(10_240)));
        let same = latencies.since(&Latencies::default());
        assert_eq!((same.count(), latencies.since(&same).count()), (100, 0));
    }
}
