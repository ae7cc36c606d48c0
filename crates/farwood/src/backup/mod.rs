//! Backups: the indexes of a pool in a file, with their options, from which they are created again in this pool or
//! another one. The format does not depend on the version of the nodes or on the fabric, so a backup is also the way to a
//! later version of Farwood, and to another structure.
//!
//! | file | contents |
//! |---|---|
//! | `block.rs` | the container: blocks with checksums, compressed |
//! | `header.rs` | the descriptions of the pool and of each index |
//! | `parts.rs` | entries, rectangles and records in blocks |
//! | `dump.rs`, `restore.rs` | [`Dump`], [`Restore`] |
//! | `reader.rs` | [`BackupReader`]: the contents of a file without a pool |
//! | `target.rs`, `refit.rs` | the structure of a restored index, and the lengths of its keys and values |
//!
//! `docs/formats.md` describes the file byte for byte.

mod block;
mod dump;
mod error;
mod header;
mod parts;
mod progress;
mod reader;
mod refit;
mod restore;
mod target;
mod whole_file;

pub use dump::Dump;
pub use error::BackupError;
pub use header::{BackupHeader, ColumnHeader, Consistency, EntryTypes, IndexHeader};
pub use progress::{BackupSummary, IndexProgress, IndexSummary};
pub use reader::{BackupReader, IndexReader};
pub use restore::Restore;
pub use target::RestoredStructure;
