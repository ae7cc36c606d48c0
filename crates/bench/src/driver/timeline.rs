//! Counts operations and latencies in intervals of the measured phase.

use hdrhistogram::Histogram;

use crate::record::timeline::TimelineBucket;

/// Maximum intervals of a timeline.
pub const BUCKETS_MAX: usize = 1000;
/// Significant digits of the latencies: an error of 1 %.
const DIGITS: u8 = 2;
/// The longest latency that an interval distinguishes: about 18 minutes.
const LATENCY_MAX_NS: u64 = 1 << 40;

/// The length of the intervals, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineShape {
    /// Nanoseconds of an interval.
    pub bucket_ns: u64,
    /// If the phase would have more intervals, each two neighbours become one.
    pub buckets_max: usize,
}

/// The intervals of a measured phase.
pub(super) struct Timeline {
    shape: TimelineShape,
    buckets: Vec<Bucket>,
}

struct Bucket {
    latency_ns: Histogram<u64>,
    latency_max_ns: u64,
    failed: u64,
}

impl Bucket {
    fn new() -> Bucket {
        let mut latency_ns = Histogram::new_with_bounds(1, 1 << 16, DIGITS).expect("bounds are in order");
        latency_ns.auto(true);
        Bucket { latency_ns, latency_max_ns: 0, failed: 0 }
    }

    fn merge(&mut self, other: &Bucket) {
        self.latency_ns.add(&other.latency_ns).expect("the histogram grows");
        self.latency_max_ns = self.latency_max_ns.max(other.latency_max_ns);
        self.failed += other.failed;
    }
}

impl Timeline {
    pub(super) fn new(shape: TimelineShape) -> Timeline {
        Timeline { shape, buckets: Vec::new() }
    }

    /// Counts an operation that ended `since_begin` nanoseconds after the start of the phase.
    pub(super) fn record(&mut self, since_begin: u64, latency_ns: u64) {
        let bucket = self.bucket(since_begin);
        bucket.latency_ns.record(latency_ns.clamp(1, LATENCY_MAX_NS)).expect("the histogram grows");
        bucket.latency_max_ns = bucket.latency_max_ns.max(latency_ns);
    }

    /// Counts an operation that failed.
    pub(super) fn record_failed(&mut self, since_begin: u64) {
        self.bucket(since_begin).failed += 1;
    }

    /// The interval of a time. Doubles the length of the intervals while there would be too many of them.
    fn bucket(&mut self, since_begin: u64) -> &mut Bucket {
        while since_begin / self.shape.bucket_ns >= self.shape.buckets_max as u64 {
            self.shape.bucket_ns *= 2;
            let mut pairs = std::mem::take(&mut self.buckets).into_iter();
            while let Some(mut first) = pairs.next() {
                if let Some(second) = pairs.next() {
                    first.merge(&second);
                }
                self.buckets.push(first);
            }
        }
        let number = (since_begin / self.shape.bucket_ns) as usize;
        while self.buckets.len() <= number {
            self.buckets.push(Bucket::new());
        }
        &mut self.buckets[number]
    }

    /// The intervals of a phase of `length_ns`, also those without operations.
    pub(super) fn finish(&mut self, length_ns: u64) -> Vec<TimelineBucket> {
        if length_ns > 0 {
            // Creates the intervals up to the end of the phase.
            self.bucket(length_ns - 1);
        }
        let bucket_ns = self.shape.bucket_ns;
        // The last operation ends the phase: it belongs to the last interval.
        let count = length_ns.div_ceil(bucket_ns).max(1) as usize;
        let after = self.buckets.split_off(count.min(self.buckets.len()));
        if let Some(last) = self.buckets.last_mut() {
            for bucket in &after {
                last.merge(bucket);
            }
        }
        let finished = |(number, bucket): (usize, &Bucket)| {
            let from_ns = number as u64 * bucket_ns;
            let operations = bucket.latency_ns.len();
            let p99_ns = bucket.latency_ns.value_at_quantile(0.99).min(bucket.latency_max_ns);
            TimelineBucket {
                from_seconds: from_ns as f64 / 1e9,
                seconds: bucket_ns.min(length_ns.saturating_sub(from_ns)) as f64 / 1e9,
                operations,
                failed: bucket.failed,
                p99_us: (operations > 0).then_some(p99_ns as f64 / 1e3),
            }
        };
        self.buckets.iter().enumerate().map(finished).filter(|bucket| bucket.seconds > 0.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_in_the_interval_in_which_they_end() {
        let mut timeline = Timeline::new(TimelineShape { bucket_ns: 1000, buckets_max: 10 });
        for end in [0, 999, 2000, 2500] {
            timeline.record(end, 50 + end);
        }
        timeline.record_failed(2600);
        let buckets = timeline.finish(3500);
        let counts: Vec<_> = buckets.iter().map(|bucket| (bucket.operations, bucket.failed)).collect();
        assert_eq!(counts, [(2, 0), (0, 0), (2, 1), (0, 0)]);
        let p99: Vec<_> = buckets.iter().map(|bucket| bucket.p99_us).collect();
        assert_eq!(p99, [Some(1.049), None, Some(2.55), None]);
        assert_eq!((buckets[3].from_seconds, buckets[3].seconds), (3e-6, 5e-7), "the last one is shorter");
        assert!((buckets[0].mops() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_operation_that_ends_the_phase_is_in_the_last_interval() {
        let mut timeline = Timeline::new(TimelineShape { bucket_ns: 1000, buckets_max: 10 });
        timeline.record(500, 1);
        timeline.record(2000, 1);
        let buckets = timeline.finish(2000);
        let counts: Vec<_> = buckets.iter().map(|bucket| bucket.operations).collect();
        assert_eq!(counts, [1, 1]);
    }

    #[test]
    fn a_long_phase_has_longer_intervals() {
        let mut timeline = Timeline::new(TimelineShape { bucket_ns: 10, buckets_max: 4 });
        for end in 0..100 {
            timeline.record(end, 1);
        }
        let buckets = timeline.finish(100);
        let counts: Vec<_> = buckets.iter().map(|bucket| bucket.operations).collect();
        assert_eq!(counts, [40, 40, 20]);
    }
}
