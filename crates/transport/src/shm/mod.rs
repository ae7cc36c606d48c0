//! Shared memory as far memory: the memory nodes of a pool are files that every process of the machine maps.
//!
//! | file | contents |
//! |---|---|
//! | `sys.rs` | [`Mapping`]: READ, WRITE and the atomics on mapped words; `mmap`, `fallocate`, locks. All unsafe code |
//! | [`copying`] | why a READ copies downward and a WRITE upward: the proof, and its litmus tests |
//! | `segment.rs` | [`SegmentDir`], [`Segment`]: memory nodes as named files; create, open, list, remove |
//! | `draft.rs` | the creation of a segment: built under a temporary name, published in one step |
//! | `name.rs` | [`PoolName`], and the names of a pool's files |
//! | `ownership.rs` | the owners and permissions of a pool's files |
//! | `pages.rs` | [`Pages`]: the page size of a segment, and the available memory |
//! | `presence.rs` | [`Presence`]: the kernel's proof of which clients' processes are alive |
//! | `create.rs` | [`PoolSpec`], [`create`]: creating a pool |
//! | `anonymous.rs` | pools without a name |
//! | `nodes.rs` | the mapped memory nodes of a pool, and the execution of verbs in them |
//! | `attachment.rs` | the attachment of one process: client slot, journal buffers, end |
//! | `pool.rs`, `fabric.rs` | [`ShmPool`], [`ShmFabric`]: the pool as a fabric |
//! | `server.rs` | [`ShmServer`], [`ShmMemory`]: the server role of a memory node |
//! | `journal.rs` | the WRITEs in progress of each process, for a replay after a kill |
//! | `on_disk.rs` | pools on a disk: the last process that leaves saves them |
//! | `immediates.rs` | the queue that implements WRITE_WITH_IMM |
//! | `watch.rs` | the watch over the files of an attached pool |
//! | `error.rs` | [`ShmError`] |

mod anonymous;
mod attachment;
pub mod copying;
mod create;
mod draft;
mod error;
mod fabric;
mod immediates;
mod journal;
mod name;
mod nodes;
mod on_disk;
mod ownership;
mod pages;
mod pool;
mod presence;
mod segment;
mod server;
#[allow(unsafe_code)]
mod sys;
mod testing;
mod watch;

pub use create::{PoolSpec, create, create_by, write_identity};
pub use error::ShmError;
pub use fabric::ShmFabric;
pub use journal::JournaledWrite;
pub use name::PoolName;
pub use nodes::CAPABILITIES;
pub use on_disk::Saving;
#[cfg(feature = "tcp")]
pub(crate) use ownership::is_trusted;
pub use ownership::{FileRights, group_number};
pub use pages::Pages;
#[cfg(feature = "tcp")]
pub(crate) use pages::huge_bytes_free;
pub use pool::ShmPool;
pub use presence::Presence;
#[cfg(feature = "tcp")]
pub(crate) use segment::stored_range;
pub use segment::{Backing, Leftover, PoolFiles, Segment, SegmentDir, SegmentFile, SegmentSpec};
pub use server::{ShmMemory, ShmServer};
pub use sys::{AccessFault, Mapping};
pub(crate) use sys::{HUGE_PAGE_BYTES, monotonic_nanoseconds};
#[cfg(feature = "tcp")]
pub(crate) use sys::{effective_user, provision};
#[cfg(feature = "tcp")]
pub(crate) use watch::loss;
