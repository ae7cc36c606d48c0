//! A draft of changes of both trees.

use super::super::records::draft::RecordDraft;
use super::super::records::node::StoredRecordNodes;
use super::super::records::{Record, RecordId};
use super::super::tree::change::{Applied, Change};
use super::super::tree::draft::{Draft, StoredNodes, Underfull};
use super::super::tree::rectangle::{Item, Rectangle};
use crate::error::IndexError;

/// The drafts of the R*-tree and, in an index with records, of the tree by id.
pub(super) struct TreeDraft<'s, S, R> {
    pub(super) tree: Draft<'s, S>,
    pub(super) records: Option<RecordDraft<'s, R>>,
}

impl<S: StoredNodes, R: StoredRecordNodes> TreeDraft<'_, S, R> {
    /// Makes a change, after those that the draft has. `underfull` applies to removals from the R*-tree.
    ///
    /// # Errors
    /// As [`StoredNodes::load`]; [`IndexError::BadId`]. The draft then holds a part of the change, and must not be
    /// committed.
    pub(super) fn apply(&mut self, change: &Change, underfull: Underfull) -> Result<Applied, IndexError> {
        let outcome =
            |found: bool, gained: i64| Applied { found, made: found, gained: i64::from(found) * gained };
        match change {
            Change::Insert(item) => self.tree.insert(item).map(|()| outcome(true, 1)),
            Change::Remove(item) => self.tree.remove(item, underfull).map(|found| outcome(found, -1)),
            Change::Update(item, bounds) => self.tree.update(item, *bounds).map(|found| outcome(found, 0)),
            Change::Put(record) => self.put(record),
            Change::Delete(id) => self.delete(id, underfull).map(|found| outcome(found, -1)),
            Change::Move(id, bounds) => self.set_bounds(id, *bounds).map(|found| outcome(found, 0)),
        }
    }

    /// The number of times that a change has visited a node that the draft had copied or added before.
    pub(super) fn visits(&self) -> u64 {
        self.tree.visits() + self.records.as_ref().map_or(0, RecordDraft::visits)
    }

    fn put(&mut self, record: &Record) -> Result<Applied, IndexError> {
        let new = Item { bounds: record.bounds, id: record.id.word() };
        let replaced = with_records(&mut self.records)?.put(record)?;
        match &replaced {
            None => self.tree.insert(&new)?,
            // The tree by id and the R*-tree have the same bits, also of zeros.
            Some(old) if old.bounds.edges().map(f64::to_bits) == new.bounds.edges().map(f64::to_bits) => {}
            Some(old) => self.move_item(&Item { bounds: old.bounds, id: new.id }, new.bounds)?,
        }
        let found = replaced.is_some();
        Ok(Applied { found, made: true, gained: i64::from(!found) })
    }

    fn delete(&mut self, id: &RecordId, underfull: Underfull) -> Result<bool, IndexError> {
        let Some(old) = with_records(&mut self.records)?.remove(id)? else { return Ok(false) };
        let item = Item { bounds: old.bounds, id: id.word() };
        if !self.tree.remove(&item, underfull)? {
            return Err(contradiction(&item));
        }
        Ok(true)
    }

    fn set_bounds(&mut self, id: &RecordId, bounds: Rectangle) -> Result<bool, IndexError> {
        let Some(old) = with_records(&mut self.records)?.set_bounds(id, bounds)? else { return Ok(false) };
        self.move_item(&Item { bounds: old, id: id.word() }, bounds)?;
        Ok(true)
    }

    fn move_item(&mut self, item: &Item, bounds: Rectangle) -> Result<(), IndexError> {
        if self.tree.update(item, bounds)? { Ok(()) } else { Err(contradiction(item)) }
    }
}

fn with_records<'r, 's, R>(
    records: &'r mut Option<RecordDraft<'s, R>>,
) -> Result<&'r mut RecordDraft<'s, R>, IndexError> {
    records.as_mut().ok_or_else(|| IndexError::BadId("the index has rectangles without records".to_owned()))
}

/// The error where a record has no item.
fn contradiction(item: &Item) -> IndexError {
    IndexError::Damaged {
        operation: "change",
        at: "the tree".to_owned(),
        what: format!("the record of {} has bounds {}, at which the tree has no item", item.id, item.bounds),
    }
}
