//! Cost counters of operations.

use std::ops::AddAssign;

/// The costs of one operation, or the sum of several.
///
/// Round trips are awaited posts. An operation with concurrent posts reports its longest dependent chain. Detached
/// posts count as verbs and bytes only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Awaited posts.
    pub round_trips: u64,
    /// READ verbs.
    pub reads: u64,
    /// WRITE verbs.
    pub writes: u64,
    /// CAS verbs.
    pub cas: u64,
    /// Masked CAS verbs.
    pub masked_cas: u64,
    /// FAA verbs.
    pub faa: u64,
    /// WRITE_WITH_IMM verbs.
    pub write_imm: u64,
    /// Payload bytes fetched by READs, without the 8-byte answers of atomics.
    pub bytes_read: u64,
    /// Payload bytes of WRITEs.
    pub bytes_written: u64,
    /// Atomics whose comparison failed.
    pub cas_failures: u64,
    /// READs repeated because the copy was torn.
    pub torn: u64,
    /// Attempts at a remote lock that was held.
    pub lock: u64,
    /// Steps to a sibling, and restarts, because a node no longer covered the key.
    pub moved: u64,
    /// Hits of the index cache.
    pub cache_hits: u64,
    /// Misses of the index cache.
    pub cache_misses: u64,
    /// Locks handed over by a client of the same compute node.
    pub handed_over: u64,
}

impl Costs {
    /// All verbs.
    pub fn verbs(&self) -> u64 {
        self.reads + self.writes + self.cas + self.masked_cas + self.faa + self.write_imm
    }

    /// The costs since an earlier value of the same counters; 0 for a counter that was reset in between.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            round_trips: self.round_trips.saturating_sub(earlier.round_trips),
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            cas: self.cas.saturating_sub(earlier.cas),
            masked_cas: self.masked_cas.saturating_sub(earlier.masked_cas),
            faa: self.faa.saturating_sub(earlier.faa),
            write_imm: self.write_imm.saturating_sub(earlier.write_imm),
            bytes_read: self.bytes_read.saturating_sub(earlier.bytes_read),
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            cas_failures: self.cas_failures.saturating_sub(earlier.cas_failures),
            torn: self.torn.saturating_sub(earlier.torn),
            lock: self.lock.saturating_sub(earlier.lock),
            moved: self.moved.saturating_sub(earlier.moved),
            cache_hits: self.cache_hits.saturating_sub(earlier.cache_hits),
            cache_misses: self.cache_misses.saturating_sub(earlier.cache_misses),
            handed_over: self.handed_over.saturating_sub(earlier.handed_over),
        }
    }
}

impl AddAssign for Costs {
    fn add_assign(&mut self, other: Self) {
        self.round_trips += other.round_trips;
        self.reads += other.reads;
        self.writes += other.writes;
        self.cas += other.cas;
        self.masked_cas += other.masked_cas;
        self.faa += other.faa;
        self.write_imm += other.write_imm;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.cas_failures += other.cas_failures;
        self.torn += other.torn;
        self.lock += other.lock;
        self.moved += other.moved;
        self.cache_hits += other.cache_hits;
        self.cache_misses += other.cache_misses;
        self.handed_over += other.handed_over;
    }
}
