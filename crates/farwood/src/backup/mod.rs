//! Backups: a dump has the indexes of a pool with their options and contents, from which they are created again in this
//! pool or another one. It does not depend on the format of nodes or on the fabric, so it also moves indexes to a later
//! version of Farwood, and to another structure. An image has the memory of a pool in shared memory, which it restores
//! after a reboot.
//!
//! | file | contents |
//! |---|---|
//! | `block.rs` | the container: blocks with checksums, compressed |
//! | `header.rs` | the descriptions of the pool and of each index |
//! | `parts.rs` | entries, rectangles and records in blocks |
//! | `dump.rs`, `restore.rs` | [`Dump`], [`Restore`] |
//! | `dump_snapshot.rs` | the snapshot of a pool that is dumped at one cut |
//! | `reader.rs` | [`BackupReader`]: the contents of a file without a pool |
//! | `image.rs` | [`SavedPool`], [`RestoredPool`]: the memory of a pool |
//! | `on_disk.rs` | pools in shared memory whose files are on a disk |
//! | `target.rs`, `refit.rs` | the structure of a restored index, and the lengths of its keys and values |
//!
//! `docs/formats.md` describes the file byte for byte.

mod block;
mod dump;
mod dump_snapshot;
mod error;
mod header;
mod image;
mod on_disk;
mod parts;
mod progress;
mod reader;
mod refit;
mod restore;
mod target;
mod whole_file;

pub use block::BackupContents;
pub use dump::Dump;
pub use error::BackupError;
pub use header::{BackupHeader, ColumnHeader, Consistency, EntryTypes, ImageHeader, IndexHeader};
pub use image::{ImageProgress, RestoredPool, SavedPool, check_image};
pub use progress::{BackupSummary, IndexProgress, IndexSummary};
pub use reader::{BackupReader, IndexReader};
pub use restore::Restore;
pub use target::RestoredStructure;
