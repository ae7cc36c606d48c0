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
    /// Prefixes without a node for which a filter made the client search.
    pub misled: u64,
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

    /// The costs after `earlier`, a value that the same counters had before; 0 for a counter that is less than in
    /// `earlier`, because it was reset.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        self.zip(earlier, u64::saturating_sub)
    }

    /// Combines each counter with the same counter of `other`.
    fn zip(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            round_trips: combine(self.round_trips, other.round_trips),
            reads: combine(self.reads, other.reads),
            writes: combine(self.writes, other.writes),
            cas: combine(self.cas, other.cas),
            masked_cas: combine(self.masked_cas, other.masked_cas),
            faa: combine(self.faa, other.faa),
            write_imm: combine(self.write_imm, other.write_imm),
            bytes_read: combine(self.bytes_read, other.bytes_read),
            bytes_written: combine(self.bytes_written, other.bytes_written),
            cas_failures: combine(self.cas_failures, other.cas_failures),
            torn: combine(self.torn, other.torn),
            lock: combine(self.lock, other.lock),
            moved: combine(self.moved, other.moved),
            misled: combine(self.misled, other.misled),
            cache_hits: combine(self.cache_hits, other.cache_hits),
            cache_misses: combine(self.cache_misses, other.cache_misses),
            handed_over: combine(self.handed_over, other.handed_over),
        }
    }
}

impl AddAssign for Costs {
    fn add_assign(&mut self, other: Self) {
        *self = self.zip(other, |one, other| one + other);
    }
}
