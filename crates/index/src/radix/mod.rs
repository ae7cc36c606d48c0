//! The radix tree that SMART and Sphinx share.
//!
//! [`mod@format`] is pure: keys, slots, inner nodes and leaves as bytes of remote memory. Keys are byte strings of any
//! length; one key may be a prefix of another, because every inner node has a slot for the key that ends at it.
//! [`heap`] allocates slots for them. [`cache`] keeps copies of inner nodes. [`tree`] finds and changes keys, [`scan`]
//! reads ranges of them.

pub mod cache;
pub(crate) mod coverage;
pub mod format;
pub mod heap;
pub mod scan;
pub mod tree;

pub use coverage::MARKS;
pub(crate) use coverage::SLOT_FROZEN;
pub use format::{inner, key, leaf, prefix, reverse, slot};
