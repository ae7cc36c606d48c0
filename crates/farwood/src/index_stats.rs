//! The state of an index in this process.

use crate::entry::{IndexLayout, named};
use crate::tree::Tree;
use farwood_index::ordered::describe;

/// The state of an index in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexStats {
    /// The URL of the index.
    pub url: String,
    /// The types and options with which it was created.
    pub layout: IndexLayout,
    /// Bytes that the index cache of this process uses.
    pub cache_bytes: usize,
    /// Bytes that the index cache of this process may use at most.
    pub cache_bytes_max: usize,
    /// Number of locks that were held by operations when these were cancelled.
    pub locks_dropped: u64,
}

impl IndexStats {
    pub(crate) fn of(tree: &Tree) -> Self {
        let index = tree.ordered();
        let (cache_bytes, cache_bytes_max) = index.cache_bytes();
        let Ok(description) = describe(index.entry()) else {
            unreachable!("the entry was read when the index was opened")
        };
        Self {
            url: tree.url(),
            layout: named(description.into(), tree.types()),
            cache_bytes,
            cache_bytes_max,
            locks_dropped: index.locks_dropped(),
        }
    }
}
