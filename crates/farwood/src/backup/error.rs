//! Errors of backup files.

use std::path::PathBuf;
use std::{fmt, io};

pub(super) type BackupResult<T> = Result<T, BackupError>;

/// The reason why a backup file cannot be written or used.
#[derive(Debug)]
#[non_exhaustive]
pub enum BackupError {
    /// The file cannot be read or written.
    Io(io::Error),
    /// The file is of another kind.
    NotABackup,
    /// A later version of Farwood wrote the file.
    Version {
        /// The version of the format in the file.
        found: u32,
        /// The latest version that this program reads.
        known: u32,
    },
    /// The file ends before its last block.
    CutOff {
        /// Bytes of the file.
        at: u64,
    },
    /// A block does not have the contents that were written.
    Damaged {
        /// The offset of the block in the file.
        at: u64,
        /// The contradiction.
        why: String,
    },
    /// The file is the image of a pool, where a dump was expected, or the reverse.
    OtherContents {
        /// The contents, with their article.
        found: &'static str,
    },
    /// Another version of Farwood wrote the image of a pool.
    Layout {
        /// That version of Farwood.
        farwood: String,
        /// The version of the layout of the pool.
        found: u32,
        /// That of this program.
        known: u32,
    },
    /// Processes are attached to a pool that is to be saved.
    InUse {
        /// The pool's name.
        pool: String,
        /// Process numbers; none: a process has used the pool during the save.
        processes: Vec<u64>,
    },
    /// A pool that is to be saved in its own files has none on a disk.
    InMemory {
        /// The pool's name.
        pool: String,
        /// The directory of its files.
        directory: PathBuf,
    },
    /// The pool has no snapshots, which a dump of all indexes at one cut needs.
    NoSnapshot {
        /// The URL of the pool.
        pool: String,
    },
    /// The program has interrupted the call.
    Interrupted,
    /// The backup has no index of that name.
    NoSuchIndex {
        /// The name.
        name: String,
        /// The names of its indexes.
        has: Vec<String>,
    },
    /// A restore has failed, and indexes that it created could not be removed, because other processes use them.
    NotRemoved {
        /// The names of the indexes.
        indexes: Vec<String>,
        /// The error of the restore.
        cause: String,
    },
    /// The pool has an index of that name already.
    IndexExists {
        /// The name.
        name: String,
    },
    /// An index cannot be restored with these options.
    Options {
        /// The index.
        name: String,
        /// The reason, and the remedy.
        why: String,
    },
    /// An entry of the backup does not fit the new index.
    Unfit {
        /// The index.
        name: String,
        /// The number of the entry, from 0.
        entry: u64,
        /// The reason.
        why: String,
    },
}

impl From<io::Error> for BackupError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl BackupError {
    /// The remedy; `None`: the text contains it, or none is known.
    pub(crate) fn help(&self) -> Option<&'static str> {
        match self {
            Self::NotABackup => Some("give a file that `farwood dump` or `farwood save` has written"),
            Self::Version { .. } => Some("use a later version of Farwood"),
            Self::CutOff { .. } | Self::Damaged { .. } => Some("use another copy of the file"),
            Self::IndexExists { .. } => {
                Some("restore it under another name, or drop the index of the pool first")
            }
            Self::OtherContents { .. } => Some(
                "`farwood restore` reads both: a dump (`Restore`) into any pool, an image (`RestoredPool`) as a new \
                 pool in shared memory",
            ),
            Self::Layout { .. } => {
                Some("restore it with that version of Farwood, and move its indexes by a dump")
            }
            Self::NotRemoved { .. } => Some("end the processes that use them, and drop them"),
            Self::InUse { .. } => Some("end them first; `farwood dump` copies the indexes while they run"),
            Self::InMemory { .. } => Some(
                "name a file (`farwood save shm://POOL FILE`); or create the pool in a directory of a disk \
                 (FARWOOD_SHM_DIR)",
            ),
            Self::NoSnapshot { .. } => Some(
                "omit --consistent, and the dump has each index as it is when it is read; or end the processes that \
                 use a pool in shared memory, and copy it with `farwood save`",
            ),
            Self::Io(error) => Some(of_io(error)),
            Self::Interrupted | Self::NoSuchIndex { .. } | Self::Options { .. } | Self::Unfit { .. } => None,
        }
    }
}

/// The remedy for a file that cannot be read or written.
fn of_io(error: &io::Error) -> &'static str {
    use io::ErrorKind::{
        BrokenPipe, FileTooLarge, IsADirectory, NotADirectory, NotFound, PermissionDenied, QuotaExceeded,
        ReadOnlyFilesystem, StorageFull,
    };
    match error.kind() {
        StorageFull | QuotaExceeded => "free some space, or name a file on another file system",
        FileTooLarge => {
            "raise the limit on the size of files (`ulimit -f`), or name a file on another file system"
        }
        NotFound => "name an existing file to read, and a file in an existing directory to write",
        IsADirectory => "name a file instead of the directory",
        NotADirectory => "name a path whose parents are directories",
        PermissionDenied => "name a file that this user may use, or change its permissions",
        ReadOnlyFilesystem => "name a file on a file system that can be written",
        BrokenPipe => "the program that reads the backup has ended, and has not read all of it",
        _ => "check the file and its file system",
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotABackup => f.write_str("it is not a backup of Farwood"),
            Self::Version { found, known } => {
                write!(
                    f,
                    "it has version {found} of the format, and this program reads versions up to {known}"
                )
            }
            Self::CutOff { at } => write!(f, "it ends after {at} bytes, before the end of the backup"),
            Self::Damaged { at, why } => write!(f, "the block at offset {at} is damaged: {why}"),
            Self::InMemory { pool, directory } => {
                write!(f, "the files of the pool '{pool}' are in memory ({})", directory.display())
            }
            Self::NoSnapshot { pool } => {
                write!(f, "only a pool over TCP can be dumped at one cut, and {pool} is none")
            }
            Self::Interrupted => f.write_str("the program has interrupted it"),
            Self::OtherContents { found } => write!(f, "it is {found}"),
            Self::Layout { farwood, found, known } => write!(
                f,
                "Farwood {farwood} wrote it, whose pools have layout {found}, and this program has layout {known}"
            ),
            Self::NotRemoved { indexes, cause } => {
                write!(f, "{cause}; incomplete indexes could not be removed: {}", indexes.join(", "))
            }
            Self::InUse { pool, processes } if processes.is_empty() => {
                write!(f, "a process has used the pool '{pool}' during the save")
            }
            Self::InUse { pool, processes } => {
                let list: Vec<_> = processes.iter().map(u64::to_string).collect();
                write!(f, "processes use the pool '{pool}' ({})", list.join(", "))
            }
            Self::NoSuchIndex { name, has } if has.is_empty() => {
                write!(f, "it has no index '{name}', and no other index")
            }
            Self::NoSuchIndex { name, has } => {
                write!(f, "it has no index '{name}'; it has {}", has.join(", "))
            }
            Self::IndexExists { name } => write!(f, "the pool has an index '{name}' already"),
            Self::Options { name, why } => write!(f, "index '{name}': {why}"),
            Self::Unfit { name, entry, why } => write!(f, "index '{name}', entry {entry}: {why}"),
        }
    }
}

impl std::error::Error for BackupError {}
