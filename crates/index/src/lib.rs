//! Tree indexes for far memory, generic over the fabric.
//!
//! Systems: [`sherman`], a B-link tree; [`smart`] and [`sphinx`], radix trees on the common [`radix`]; [`catfish`], an
//! R*-tree with a server. [`ordered`] selects one of the ordered systems at run time.
#![forbid(unsafe_code)]

// Copies of nodes on the compute node: an ordered cache, and the filter of Sphinx.
pub mod cache;
// Catfish: an R*-tree, changed by its server and searched by messages or READs.
pub mod catfish;
// Combining the concurrent requests of a compute node for one key.
pub mod combine;
#[cfg(test)]
mod combine_tests;
// Detection of torn copies by readers that hold no lock: version numbers, or a hash.
pub mod consistency;
mod coverage;
mod error;
mod key;
mod lifecycle;
// Node locks: a global table at each memory node, a local one at each compute node.
pub mod lock;
// Chunks, slots, free lists and overflow values.
pub mod memory;
mod modify;
mod op;
// An ordered index whose system is chosen at run time.
pub mod ordered;
mod outcome;
mod params;
mod queue;
// The radix tree that SMART and Sphinx share.
pub mod radix;
mod range;
// Deliberate faults, which tests must detect.
#[doc(hidden)]
pub mod mutant;
// Bounded retries.
pub mod retry;
// Sherman: a B-link tree, written by its clients.
pub mod sherman;
// SMART: a radix tree with a node cache.
pub mod smart;
// Sphinx: a radix tree with hash tables and little cache.
pub mod sphinx;
mod sync;
mod variant;

// The names of the counters of rare paths, which tests must reach.
pub use coverage::MARKS;
pub use error::IndexError;
pub use key::successor;
pub use lifecycle::{check_index_name, drop_index};
pub use modify::{Accept, Decide, Decision};
pub use outcome::{InsertOutcome, PutOutcome, RemoveOutcome, UpdateOutcome};
