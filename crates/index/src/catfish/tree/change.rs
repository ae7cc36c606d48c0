//! Changes of the tree.

use super::super::records::{Record, RecordId};
use super::rectangle::{Item, Rectangle};
use std::sync::Arc;

/// Maximum changes of a request. A server commits the changes of several clients together, up to this number.
pub const CHANGES_MAX: usize = 1024;

/// A change of the tree.
///
/// Items are for indexes of repeated ids, records for indexes of unique ids.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Adds an item. The tree may hold several equal items.
    Insert(Item),
    /// Removes one item that equals this one.
    Remove(Item),
    /// Gives one item that equals this one other bounds.
    Update(Item, Rectangle),
    /// Stores a record in the place of the one with its id, if there is one.
    Put(Arc<Record>),
    /// Removes the record of an id.
    Delete(RecordId),
    /// Gives the record of an id other bounds, and keeps its payload.
    Move(RecordId, Rectangle),
}

impl Change {
    /// Whether it removes an item or a record.
    pub(in crate::catfish) const fn is_removal(&self) -> bool {
        matches!(self, Self::Remove(_) | Self::Delete(_))
    }
}

/// The outcome of a change in a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::catfish) struct Applied {
    /// Whether it found the item, or a record of the id.
    pub(in crate::catfish) found: bool,
    /// Whether the draft differs from what it was before.
    pub(in crate::catfish) made: bool,
    /// The number of entries that the tree gained.
    pub(in crate::catfish) gained: i64,
}
