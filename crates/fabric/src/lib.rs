//! The interface between indexes and far memory: pointers, verbs, chains, capabilities and costs.
//!
//! Memory nodes store bytes, and clients access them with one-sided verbs. **One [`post(..)`](Client::post)`.await` is
//! one round trip**; `grep '\.post('` finds them all. The types of [`chain`] define the order of verbs. The
//! [`capability`] module lists a fabric's guarantees about the order between clients and about torn READs.
//! [`Fetched::check`] is the only way from fetched bytes to values.
//!
//! This crate depends on no transport, clock, thread or tree. Transports implement [`Fabric`].
#![forbid(unsafe_code)]

pub mod buffers;
mod byte_count;
pub mod capability;
pub mod chain;
pub mod chunk_limit;
pub mod chunks;
mod client;
pub mod client_table;
mod costs;
pub mod directory;
pub mod doorbell;
mod error;
mod fabric;
mod fetched;
mod ids;
mod little_endian;
mod lock_word;
mod pointer;
mod pool_layout;
mod printable;
mod sealed_word;
mod server;
pub mod superblock;
mod verb;

pub use byte_count::ByteCount;
pub use capability::{Capabilities, Capability};
pub use chain::{Chain, Each, Either, Parallel, Post, all, each};
pub use client::Client;
pub use costs::Costs;
pub use doorbell::{ChainFlag, Doorbell, DoorbellPool, Op, Request};
pub use error::FabricError;
pub use fabric::{Access, CpuWork, Fabric, Revocation};
pub use fetched::{Checked, Fetched, Object, Torn, Words};
pub use ids::ClientId;
pub use little_endian::{u32_at, u64_at};
pub use lock_word::LockWord;
pub use pointer::{Address, Memory, NodeId, Packed, Remote};
pub use printable::printable;
pub use sealed_word::SealedWord;
pub use server::{LINE_BYTES, LINE_WORDS, MemoryWork, Server, ServerMemory, line_bytes};
pub use superblock::PoolShape;
pub use verb::{
    Bits, Cas, Faa, FetchClass, InOrderBefore, MaskedCas, Read, Swapped, Verb, VerbClass, Write, WriteClass,
    cas, faa, masked_cas, read, read_bytes, write, write_imm,
};
