//! Coverage marks of SMART ([`radix::MARKS`](crate::radix::MARKS) has the marks of the tree, and [`crate::MARKS`] those
//! that all indexes share).

use crate::radix::SLOT_FROZEN;
use crate::radix::coverage::{
    GREW_IN_PLACE, GROWTH_COMPLETED, NODE_HAS_GROWN, SIZE_CHANGED_BEFORE_SWAP, SIZE_CORRECTED,
};

/// A client shared a READ of another client.
pub(super) const READ_SHARED: &str = "smart: a READ shared";
/// A traversal started at a cached node below the root.
pub(super) const CACHED_START: &str = "smart: a search begun at a cached node";
/// A client shared a WRITE of another client.
pub(super) const WRITE_SHARED: &str = "smart: a WRITE shared";
/// All marks, by the text under which a fabric counts them.
pub const MARKS: &[&str] = &[
    CACHED_START,
    READ_SHARED,
    WRITE_SHARED,
    SLOT_FROZEN,
    GREW_IN_PLACE,
    NODE_HAS_GROWN,
    GROWTH_COMPLETED,
    SIZE_CORRECTED,
    SIZE_CHANGED_BEFORE_SWAP,
];
