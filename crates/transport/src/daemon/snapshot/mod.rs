//! A snapshot of a memory node: its memory as it was at one moment, for a dump of the whole pool.
//!
//! While a snapshot exists, the memory node copies each page before it is changed for the first time. A connection
//! that uses the snapshot sees the copy of a page if there is one, and the live page otherwise. Its own changes are
//! made in copies, so the snapshot is a memory of its own: to the indexes it is that of a pool whose clients have all
//! crashed at that moment, and what they had not finished is repaired in the copies, as after every crash.
//!
//! | file | contents |
//! |---|---|
//! | `pages.rs` | [`SnapshotPages`]: the copies, and verbs in them |
//! | `state.rs` | [`Snapshots`]: the states of a snapshot |
//!
//! # Why the snapshot is the memory of one moment
//!
//! *Preparing* sets the flag `is_present`, and then waits until every change has ended that may have begun before: it
//! takes the execution guard of each connection once (the guard is held while verbs of the connection execute), and
//! waits until the memory node's own changes have ended (`own_changes`). From then on, every change takes the mutex
//! `state` from before its first store until after its last one: a thread that takes an execution guard later sees
//! the flag, and for the memory node's own changes, the flag and the counter are accessed in one total order
//! (`SeqCst`): a thread that does not see the flag has raised the counter before the preparing thread reads it.
//!
//! So after the preparation, changes exclude each other. The snapshot is *taken* under the mutex, between two
//! changes; the memory at that moment is its content. A later change copies the pages that it touches under the same
//! mutex before it stores, so a copy never has a part of a later change. A request in the snapshot holds the mutex as
//! well while it looks for copies and reads live pages: no change happens between the look and the read. READs of
//! other connections take no mutex, because they neither change memory nor see copies. Without a snapshot, a change
//! costs one load of the flag, and one by the memory node itself (a server of a spatial index stores lines) two
//! increments, too.
//!
//! A log has a mutex of its own, under which every change executes, too (`log/appender.rs`). A change takes that one
//! first.
//!
//! # Why the snapshots of several memory nodes fit together
//!
//! The argument is that of cuts (`log/cuts.rs`), and the number in frames is the same. The dump chooses a cut *c*
//! that no memory node has entered, and tells it to all of them (`AimSnapshot`); a memory node that has entered *c*
//! or a later cut meanwhile says so, and the dump chooses a higher one for all. A memory node takes the snapshot when
//! it has entered *c* or a later cut, and at the latest before the first change after that. So
//!
//! 1. an answer with bytes that were changed after the snapshot has a cut of at least *c*: the change was made under
//!    the mutex after its thread had seen such a cut, and the thread that read the bytes loads the cut afterwards;
//! 2. a change by a request with a cut of at least *c* is not in the snapshot: its thread raises the cut first, so that
//!    the snapshot is taken at the latest before the change.
//!
//! Suppose that a change is in the snapshot of its memory node. By 2, its sender had not seen a cut of at least *c*,
//! so by 1 nothing that it had seen is after the snapshot of any memory node: all that the change depends on is in
//! the snapshots. A value that programs pass to each other by another channel than the pool is not covered, unless
//! the pool has one memory node.
//!
//! The cut is that of the log if the log begins cuts, and otherwise a number of this module, which only requests raise.

mod pages;
mod state;

pub(super) use pages::SnapshotPages;
pub use state::SnapshotMutant;
pub(super) use state::{EndedSnapshot, SnapshotChange, SnapshotMemory, Snapshots};
