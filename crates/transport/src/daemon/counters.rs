//! The counters of a memory node. Each thread has its own counters, which a reader adds up, so threads share no cache
//! line when they count.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets of the latency histogram; bucket `i` counts requests below `2^i` microseconds, the last one all
/// others.
pub const LATENCY_BUCKETS: usize = 20;

/// The counters of one thread of a memory node. Only that thread writes them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counters {
    requests: AtomicU64,
    verbs: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    accepted: AtomicU64,
    bad_frames: AtomicU64,
    refused: AtomicU64,
    latency: [AtomicU64; LATENCY_BUCKETS],
    latency_ns: AtomicU64,
}

/// The work of a batch of requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) requests: u64,
    pub(super) verbs: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

/// Adds without an atomic read-modify-write: the counter has one writer.
#[inline]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

impl Counters {
    #[inline]
    pub(super) fn done(&self, done: Done) {
        add(&self.requests, done.requests);
        add(&self.verbs, done.verbs);
        add(&self.bytes_in, done.bytes_in);
        add(&self.bytes_out, done.bytes_out);
    }

    /// Counts the latency of requests, from when their connection was served until their answers were sent.
    #[inline]
    pub(super) fn took(&self, requests: u64, time: Duration) {
        let ns = time.as_nanos() as u64;
        let bucket = (u64::BITS - (ns / 1000).leading_zeros()) as usize;
        add(&self.latency[bucket.min(LATENCY_BUCKETS - 1)], requests);
        add(&self.latency_ns, requests * ns);
    }

    pub(super) fn accepted(&self) {
        add(&self.accepted, 1);
    }

    pub(super) fn bad_frame(&self) {
        add(&self.bad_frames, 1);
    }

    pub(super) fn refused(&self) {
        add(&self.refused, 1);
    }
}

/// The counters of a memory node, and its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Frames of verbs that were executed or failed.
    pub requests: u64,
    /// Executed verbs.
    pub verbs: u64,
    /// Bytes of requests.
    pub bytes_in: u64,
    /// Bytes of replies.
    pub bytes_out: u64,
    /// Accepted connections.
    pub accepted: u64,
    /// Connections that were closed for invalid frames.
    pub bad_frames: u64,
    /// Refused connections.
    pub refused: u64,
    /// Open connections.
    pub connections: u64,
    /// Bytes of memory that are resident.
    pub resident_bytes: u64,
    /// Bytes of host and device memory.
    pub memory_bytes: u64,
    /// Checkpoints that could not be written.
    pub checkpoint_failures: u64,
    /// Bytes of the pages of a snapshot, beside the memory; 0: there is none.
    pub snapshot_bytes: u64,
    /// Requests that took less than `2^i` microseconds and at least half of that; the last bucket also counts
    /// longer ones.
    pub latency: [u64; LATENCY_BUCKETS],
    /// The total latency of all requests, nanoseconds.
    pub latency_ns: u64,
}

impl NodeCounts {
    /// Adds up the counters of all threads.
    pub(super) fn sum(threads: &[Counters]) -> Self {
        let mut all = Self::default();
        for thread in threads {
            all.requests += thread.requests.load(Relaxed);
            all.verbs += thread.verbs.load(Relaxed);
            all.bytes_in += thread.bytes_in.load(Relaxed);
            all.bytes_out += thread.bytes_out.load(Relaxed);
            all.accepted += thread.accepted.load(Relaxed);
            all.bad_frames += thread.bad_frames.load(Relaxed);
            all.refused += thread.refused.load(Relaxed);
            all.latency_ns += thread.latency_ns.load(Relaxed);
            for (sum, count) in all.latency.iter_mut().zip(&thread.latency) {
                *sum += count.load(Relaxed);
            }
        }
        all
    }

    /// Returns the time, in microseconds, below which that share of all requests was served; 0 without
    /// requests.
    pub fn latency_us_below(&self, share: f64) -> u64 {
        let wanted = (self.latency.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (at, count) in self.latency.iter().enumerate() {
            seen += count;
            if seen >= wanted && wanted > 0 {
                return 1 << at;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_counted_in_their_buckets() {
        let thread = Counters::default();
        for (micros, requests) in [(0, 1), (1, 2), (3, 4), (u64::MAX / 1_000_000, 8)] {
            thread.took(requests, Duration::from_micros(micros));
        }
        let counts = NodeCounts::sum(&[thread, Counters::default()]);
        assert_eq!((counts.latency[0], counts.latency[1], counts.latency[2]), (1, 2, 4));
        assert_eq!(counts.latency[LATENCY_BUCKETS - 1], 8);
        assert_eq!((counts.latency_us_below(0.2), counts.latency_us_below(0.4)), (2, 4));
        assert_eq!(NodeCounts::default().latency_us_below(0.5), 0);
    }
}
