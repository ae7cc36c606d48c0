//! The wait for a lock that another compute node holds: pauses, liveness checks and the time limit.

use super::options::LockPauses;
use crate::error::IndexError;
use farwood_fabric::{ClientId, Fabric};

/// Time between two checks whether the holder of a lock is alive, nanoseconds.
const LIVENESS_CHECK_NS: u64 = 2_000_000;
/// Longest wait for a lock whose holder is alive, nanoseconds.
pub const WAIT_NS_MAX: u64 = 20_000_000_000;
/// Wait after which a client pauses between attempts, nanoseconds: the holder is stopped, not busy.
const LONG_WAIT_NS: u64 = 50_000_000;
/// Longest pause in a wait that is not long yet, nanoseconds.
const SHORT_PAUSE_NS_MAX: u64 = 20_000;
/// Longest pause between two attempts, nanoseconds.
const PAUSE_NS_MAX: u64 = 1_000_000;
/// Failed attempts between two reads of the clock.
const ATTEMPTS_PER_CLOCK_READ: u32 = 64;

/// The wait of one client for one lock.
pub(super) struct LockWait {
    attempts: u32,
    since_ns: u64,
    checked_ns: u64,
    now_ns: u64,
    pauses: LockPauses,
}

impl LockWait {
    pub(super) fn new(now_ns: u64, pauses: LockPauses) -> Self {
        Self { attempts: 0, since_ns: now_ns, checked_ns: now_ns, now_ns, pauses }
    }

    /// Counts a failed attempt; returns whether to check now that the holder is alive.
    pub(super) fn liveness_check_due(&mut self, fabric: &impl Fabric) -> bool {
        self.attempts += 1;
        if self.pauses == LockPauses::Growing {
            self.now_ns = fabric.now();
        }
        if !self.attempts.is_multiple_of(ATTEMPTS_PER_CLOCK_READ) {
            return false;
        }
        self.now_ns = fabric.now();
        if self.now_ns - self.checked_ns < LIVENESS_CHECK_NS {
            return false;
        }
        self.checked_ns = self.now_ns;
        true
    }

    /// Whether the holder is probably stopped, not busy, and the options permit pauses.
    pub(super) fn is_long(&self) -> bool {
        self.pauses != LockPauses::None && self.now_ns - self.since_ns >= LONG_WAIT_NS
    }

    /// The pause before the next attempt. In a long wait it is a hundredth of the time waited, unless the options
    /// forbid pauses.
    pub(super) fn pause_ns(&self) -> u64 {
        let waited = self.now_ns - self.since_ns;
        match self.pauses {
            LockPauses::None => 0,
            _ if self.is_long() => (waited / 100).min(PAUSE_NS_MAX),
            LockPauses::LongWait => 0,
            LockPauses::Growing => (waited / 8).min(SHORT_PAUSE_NS_MAX),
        }
    }

    /// Fails when the wait has reached [`WAIT_NS_MAX`].
    pub(super) fn check_limit(
        &self,
        operation: &'static str,
        holder: Option<ClientId>,
    ) -> Result<(), IndexError> {
        let waited = self.now_ns - self.since_ns;
        if waited < WAIT_NS_MAX {
            return Ok(());
        }
        Err(IndexError::LockHeld { operation, holder, waited_ms: waited / 1_000_000 })
    }
}
