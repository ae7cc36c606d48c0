//! The structures of ordered indexes: one type of options for each.

mod btree;
mod column;
mod contradiction;
mod hashed;
mod radix;

pub use btree::BTree;
pub(crate) use column::Column;
pub(crate) use contradiction::Contradiction;
pub use hashed::Hashed;
pub use radix::Radix;

/// The structure of a new index, with its options: [`BTree`], [`Radix`] or [`Hashed`]. The trait is sealed.
pub trait Structure: sealed::Structure {}

impl<S: sealed::Structure> Structure for S {}

pub(crate) mod sealed {
    use crate::structure::{Column, Contradiction};
    use farwood_index::ordered::{OrderedConfig, OrderedDescription};

    /// Combines the options of a structure with the types of an index.
    pub trait Structure {
        /// The configuration of an index with these keys and values, or the reason why there is none.
        fn config(&self, columns: [Column; 2]) -> Result<OrderedConfig, String>;

        /// The first option that was given, and with which an existing index was not created.
        fn contradiction(&self, stored: &OrderedDescription) -> Option<Contradiction>;

        /// The budget of the cache in bytes.
        fn cache_budget(&self) -> usize;
    }
}
