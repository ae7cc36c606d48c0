//! Settings of the log that only tests use.

use super::Durability;
use super::files::EXTENT_BYTES;
use std::time::Duration;

/// A deliberately broken variant of the log, which a test must detect.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogMutant {
    /// At `always`, answers do not wait until their changes are on the disk.
    AnswersEarly,
    /// A restart applies records with a wrong checksum.
    ChecksumIgnored,
    /// A checkpoint takes its name before the log has the changes in the copy.
    CheckpointEarly,
    /// The cut of a request is ignored.
    CutForgotten,
}

/// Settings of the log that only tests use.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogTuning {
    /// The defect.
    pub mutant: Option<LogMutant>,
    /// Fewest bytes of a log before a checkpoint, if not the usual number.
    pub checkpoint_bytes_least: Option<u64>,
    /// The time from a checkpoint that could not be written to the next attempt, if not the usual one.
    pub attempt_pause: Option<Duration>,
    /// How long clients of before a restart count as alive, if not the usual time.
    pub returns_max: Option<Duration>,
    /// The time of a sync below which the thread that serves connections makes it, if not the usual one.
    pub short_sync: Option<Duration>,
    /// Bytes of the memory that a start allocates, if not the first chunk.
    pub allocated_bytes: Option<u64>,
}

/// The level of a log, and its settings.
#[derive(Clone, Copy, Debug)]
pub(in crate::daemon) struct LogSettings {
    pub(in crate::daemon) level: Durability,
    pub(in crate::daemon) tuning: LogTuning,
}

impl LogSettings {
    #[inline]
    pub(super) fn has(&self, mutant: LogMutant) -> bool {
        self.tuning.mutant == Some(mutant)
    }

    /// Bytes of a segment that are allocated at once: no more than a log has before a checkpoint.
    pub(super) fn extent_bytes(&self) -> u64 {
        self.tuning.checkpoint_bytes_least.map_or(EXTENT_BYTES, |bytes| bytes.clamp(1, EXTENT_BYTES))
    }
}

impl From<Durability> for LogSettings {
    fn from(level: Durability) -> Self {
        Self { level, tuning: LogTuning::default() }
    }
}
