//! The write-ahead log of a memory node: the effects of executed verbs, from which a restarted memory node restores its
//! memory as it was.
//!
//! A memory node with a log has its memory in anonymous pages. The file of `--file` is a *checkpoint*, a copy of the
//! memory, and the *segments* of the log beside it have the changes since then. A restart loads the checkpoint and
//! applies the log.
//!
//! | file | contents |
//! |---|---|
//! | `record.rs` | the format of a record: who changed which bytes |
//! | `appender.rs` | [`Log`]: appends records in the order of the changes, writes and syncs them |
//! | `granules.rs` | the last change of each block: whether a READ has seen bytes that are not durable |
//! | `files.rs` | the names of the files, the head of a segment, the lock |
//! | `checkpoint.rs` | writing and reading a copy of the memory |
//! | `recovery.rs`, `segment_reader.rs` | the restart |
//! | `tuning.rs` | settings and defects for tests |
//! | `cuts.rs`, `returning.rs` | the states to which several memory nodes return together |
//!
//! # Why a prefix of the log is a state that existed
//!
//! A frame that changes memory executes under the lock of the log, and its record is appended there. So the order of
//! records is the order in which each word changed. Effects are absolute bytes (an atomic is recorded as the new word),
//! so a record can be applied again.
//!
//! A checkpoint is copied while the memory changes. It begins with a new segment: changes before it are in memory when
//! the copy begins, and changes after it are in the log and are applied to the copy. The copy may also have changes
//! that are in the log and not yet durable, so the checkpoint takes its name after the log is durable up to the end of
//! the copy, and it records that position: a log that ends before it is damaged.
//!
//! # How an unsynced tail and damage are distinguished
//!
//! A machine failure may keep any of the pages that were not synced. Each record has the number of the last record that
//! was durable when it was written. If an intact record says that a damaged one before it was durable, the file is
//! damaged. Otherwise the damaged record was not durable, nobody relies on it, and the log ends before it: its client
//! had no answer, or is refused since.

mod appender;
mod checkpoint;
mod cuts;
mod files;
mod granules;
mod record;
mod recovery;
mod returning;
mod segment_reader;
mod tuning;

pub use appender::FrozenLog;
pub(super) use appender::{Log, LogObserver, LogWaits, Recorder};
pub(super) use checkpoint::{is_checkpoint, memory_bytes};
pub(super) use cuts::{CutPhase, cut_max};
pub(super) use record::Origin;
pub use recovery::LogReport;
pub(super) use recovery::open;
pub(super) use returning::CutSpan;
pub(super) use tuning::LogSettings;
pub use tuning::{LogMutant, LogTuning};

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// When the changes of a memory node with a file are on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it has stopped in order. After a crash its file must be accepted by hand.
    #[default]
    Orderly,
    /// At most this long after their answers: a power failure loses the last changes. A kill of the process loses
    /// nothing. A pool of several memory nodes returns to a state that existed.
    Interval(Duration),
    /// Before their answers: neither a kill nor a power failure loses an answered change. Locks in device memory are an
    /// exception if the pool has one memory node: after a power failure they are free, and clients open the pool again.
    Always,
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "give orderly, interval=SECONDS or always";
        match text {
            "orderly" => Ok(Self::Orderly),
            "always" => Ok(Self::Always),
            _ => {
                let seconds = text.strip_prefix("interval=").ok_or(EXPECTED)?.parse::<f64>();
                let seconds = seconds.ok().filter(|seconds| (0.001..=3600.0).contains(seconds));
                let seconds = seconds.ok_or("give interval=SECONDS with 0.001 to 3600 seconds")?;
                Ok(Self::Interval(Duration::from_secs_f64(seconds)))
            }
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Orderly => f.write_str("orderly"),
            Self::Interval(interval) => write!(f, "interval={}", interval.as_secs_f64()),
            Self::Always => f.write_str("always"),
        }
    }
}

#[cfg(test)]
mod tests;
