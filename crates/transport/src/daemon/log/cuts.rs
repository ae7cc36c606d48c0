//! Cuts: points of time at which the states of all memory nodes of a pool fit together.
//!
//! At `interval`, each memory node can lose its last changes, and others may refer to them. So a pool of several memory
//! nodes returns to a *cut*, and loses what is after it on every memory node.
//!
//! A cut is a number. Every answer has the cut of the memory node, every request the highest cut that its compute node
//! has seen (`client/known_cut.rs`). A memory node that receives a higher cut than its own appends a record of that cut
//! before it executes the request. So if a request is before the record of cut *c* on one memory node, its sender had
//! not seen *c*, and everything that it had seen is before the record of *c* on the memory node that it came from: the
//! states before *c* fit together. Each memory node also begins a cut whenever it syncs, also if no request arrives.
//! Its number is the time in milliseconds, so that the cuts of idle memory nodes advance together. Correctness does not
//! depend on the clocks: they only determine how many changes a return loses.
//!
//! A return needs a checkpoint without changes after the cut, so the checkpoint before the last one and its segments
//! stay, and a checkpoint follows the last one after [`CHECKPOINT_PAUSE_LEAST`] at the earliest.

use super::checkpoint::EarlierCheckpoint;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Between two checkpoints of a memory node in a pool with cuts.
const CHECKPOINT_PAUSE_LEAST: Duration = Duration::from_secs(10);
/// The same, in intervals of its level.
const CHECKPOINT_PAUSE_INTERVALS: u32 = 10;

/// The largest distance of the cut of a request from the clock, milliseconds: 100 years. It keeps the numbers far from
/// their end. A smaller one would stop a pool when a clock is wrong: a memory node whose clock was ahead once keeps its
/// cuts, and one without a clock begins in 1970.
const CUT_AHEAD_MAX: u64 = 100 * 366 * 24 * 3600 * 1000;

/// Milliseconds since 1970.
fn time() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    time.as_millis() as u64
}

/// The highest cut that a memory node accepts from others, and from its files.
pub(in crate::daemon) fn cut_max() -> u64 {
    time().saturating_add(CUT_AHEAD_MAX)
}

/// The part of a memory node in the cuts of its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::daemon) enum CutPhase {
    /// It has none: its pool has one memory node, or another level.
    Off = 0,
    /// It begins cuts, and keeps the checkpoint before the last one.
    Active = 1,
    /// It has lost its last changes, and keeps its files as they are until it returns to a cut.
    Lost = 2,
}

/// A checkpoint to which the log can be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BaseCheckpoint {
    /// The first record to apply.
    pub(super) first: u64,
    /// The cut at the last record that it may contain: it has no change after the next one.
    pub(super) cut: u64,
}

/// The last checkpoint, the one before, and the time since the last one.
#[derive(Debug)]
pub(super) struct BaseCheckpoints {
    pub(super) last: BaseCheckpoint,
    pub(super) before: Option<BaseCheckpoint>,
    pub(super) since: Instant,
}

impl BaseCheckpoints {
    /// The one from which a return to the oldest possible cut begins.
    pub(super) fn oldest(&self) -> BaseCheckpoint {
        self.before.unwrap_or(self.last)
    }
}

/// The cuts of a memory node.
#[derive(Debug)]
pub(super) struct Cuts {
    /// The last cut that has begun.
    number: AtomicU64,
    phase: AtomicU8,
    bases: Mutex<BaseCheckpoints>,
}

impl Cuts {
    pub(super) fn new(number: u64, last: BaseCheckpoint, before: Option<BaseCheckpoint>) -> Self {
        let bases = BaseCheckpoints { last, before, since: Instant::now() };
        Self {
            number: AtomicU64::new(number),
            phase: AtomicU8::new(CutPhase::Off as u8),
            bases: Mutex::new(bases),
        }
    }

    #[inline]
    pub(super) fn is_in(&self, phase: CutPhase) -> bool {
        self.phase.load(Ordering::Acquire) == phase as u8
    }

    pub(super) fn enter(&self, phase: CutPhase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// The cut for an answer with bytes that the caller has read.
    #[inline]
    pub(super) fn after_reads(&self) -> u64 {
        fence(Ordering::Acquire);
        self.number.load(Ordering::Relaxed)
    }

    /// Sets the cut, before the changes that follow. The caller holds the lock of the log.
    pub(super) fn set(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
        // A READ that sees a later change then sees the cut, too.
        fence(Ordering::Release);
    }

    /// A new cut: the time, or the next number if the clock is behind.
    pub(super) fn next(&self) -> u64 {
        time().max(self.number().saturating_add(1))
    }

    pub(super) fn bases(&self) -> MutexGuard<'_, BaseCheckpoints> {
        self.bases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a new checkpoint; returns the oldest one that stays.
    pub(super) fn replace_base(&self, last: BaseCheckpoint, earlier: EarlierCheckpoint) -> BaseCheckpoint {
        let mut bases = self.bases();
        let before = (earlier == EarlierCheckpoint::Keep).then_some(bases.last);
        *bases = BaseCheckpoints { last, before, since: Instant::now() };
        bases.oldest()
    }

    /// Replaces the checkpoint before the last one by the one that is on the disk.
    pub(super) fn replace_before(&self, before: Option<BaseCheckpoint>) {
        self.bases().before = before;
    }

    /// Whether a return may still need the checkpoint before the last one.
    pub(super) fn postpones_checkpoints(&self, interval: Duration) -> bool {
        let pause = CHECKPOINT_PAUSE_LEAST.max(CHECKPOINT_PAUSE_INTERVALS * interval);
        self.is_in(CutPhase::Active) && self.bases().since.elapsed() < pause
    }
}
