//! Node locks: a global lock table at each memory node, a local one at each compute node (Sherman §4.3, HOCL).
//!
//! [`NodeLocks`] belongs to a compute node and is shared by its clients. Acquiring a lock yields a [`HeldLock`], a
//! linear value: [`HeldLock::release`] consumes it and yields a *verb*, so that the unlock shares the doorbell of the
//! write-back, and a [`PendingRelease`] that the caller completes after the answer to that doorbell. Only then does the
//! next client of the compute node get the local lock: it may use another queue pair, where its READ could overtake the
//! write-back.
//!
//! Several nodes may share one lock word, so a client never waits for a lock while it holds one.

mod acquire;
mod global;
mod held;
mod local;
mod options;
mod sweep;
mod uncertain;
mod wait;

pub use acquire::{NodeLocks, TryLock};
pub(crate) use global::BYTES_PER_LOCK;
pub use global::{GlobalLock, LOCK_BYTES, TryTake, Unlock};
pub use held::{HeldLock, PendingRelease, WriteBackLock};
pub use local::{GrantedLock, LocalTables};
pub use options::{LocalLocks, LockMemory, LockOptions, LockPauses, LockWidth, Release};
pub(crate) use sweep::{becomes_free, held_words, is_any_held, stay_held, sweep};
pub use wait::WAIT_NS_MAX;
