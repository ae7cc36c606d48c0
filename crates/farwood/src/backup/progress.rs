//! Figures of a dump or a restore, and the question whether it is to end.

use super::error::{BackupError, BackupResult};
use crate::patience::Interrupt;

/// Asks the program whether the call is to end.
pub(super) fn unless_interrupted(interrupt: Option<&Interrupt>) -> BackupResult<()> {
    match interrupt {
        Some(interrupt) if interrupt() => Err(BackupError::Interrupted),
        _ => Ok(()),
    }
}

/// The progress of a dump or a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexProgress<'a> {
    /// The index that is written or read.
    pub index: &'a str,
    /// Its entries, rectangles or records so far.
    pub entries: u64,
    /// Bytes of the file so far.
    pub bytes: u64,
}

/// The contents of a backup that was written or read to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupSummary {
    /// The indexes, in the order of the file.
    pub indexes: Vec<IndexSummary>,
    /// Bytes of the file.
    pub bytes: u64,
}

/// An index of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexSummary {
    /// The name.
    pub name: String,
    /// Entries, rectangles or records.
    pub entries: u64,
}
