//! Changes of the tree.

use super::rectangle::{Item, Rectangle};

/// Maximum changes of a request. A server commits the changes of several clients together, up to this number.
pub const CHANGES_MAX: usize = 1024;

/// A change of the tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Adds an item. The tree may hold several equal items.
    Insert(Item),
    /// Removes one item that equals this one.
    Remove(Item),
    /// Gives one item that equals this one other bounds.
    Update(Item, Rectangle),
}

impl Change {
    /// The number of entries that the tree gains if the change finds its item.
    pub(in crate::catfish) const fn entries_gained(&self) -> i64 {
        match self {
            Self::Insert(_) => 1,
            Self::Remove(_) => -1,
            Self::Update(..) => 0,
        }
    }
}
