//! Replaces a node by its children that are in the range of a scan.

use super::cursor::{Overlap, ScanBounds, ScanCursor};
use super::items::{PendingChild, ScanItem, ScanParent};
use crate::error::IndexError;
use crate::radix::inner::{NodeSize, slot_of_all, step_of};
use crate::radix::slot::{Child, NodeSlot};
use crate::radix::tree::damage::damaged_slot;
use crate::radix::tree::options::NodeSizing;
use crate::radix::tree::{Direction, Policy, RadixTree};
use std::rc::Rc;

impl<P: Policy> RadixTree<P> {
    /// Minimum number of keys below a slot, if nodes are no larger than their children need; 0 if the slot has no valid
    /// child. A scan uses it to estimate how many objects to read at once.
    pub(super) fn keys_behind(&self, slot: NodeSlot) -> usize {
        match slot.child() {
            Child::Inner(node) if self.options.node_sizing != NodeSizing::Preallocated => {
                node.size.keys_min()
            }
            Child::Inner(_) => NodeSize::Four.keys_min(),
            Child::Leaf(_) => 1,
            Child::Free | Child::Vacant | Child::Closed | Child::Damaged => 0,
        }
    }

    /// Appends the children of a node from slot `from` on to `found`, in the order of the scan: the children that
    /// overlap with the range, until they have `wanted` keys. The children after these stay one item. Yields a lower
    /// bound of the number of their keys.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if a slot holds an invalid word.
    pub(super) fn expand(
        &self,
        parent: &Rc<ScanParent>,
        from: u16,
        cursor: &ScanCursor<'_>,
        wanted: usize,
        found: &mut Vec<ScanItem>,
    ) -> Result<usize, IndexError> {
        let start = found.len();
        let size = parent.header.size();
        let is_sorted = size == NodeSize::All;
        let (mut bounds, mut keys) = (ScanBounds::of(parent.partial_prefix.as_deref(), cursor), 0);
        let last = size.slots() as u16;
        let first = if is_sorted { bounds.first_of_all(cursor.direction) } else { from };
        let mut numbers = match cursor.direction {
            Direction::Forward => from.max(first)..=last,
            Direction::Backward => 0..=from.min(first),
        };
        let mut next = || match cursor.direction {
            Direction::Forward => numbers.next(),
            Direction::Backward => numbers.next_back(),
        };
        while let Some(number) = next() {
            if is_sorted && keys >= wanted {
                found.push(ScanItem::Rest(Rc::clone(parent), number));
                break;
            }
            let slot = parent.slot(usize::from(number));
            if !slot.is_occupied() {
                continue;
            }
            let (keys_here, step) = (self.keys_behind(slot), step_of(usize::from(number), slot));
            if keys_here == 0 || is_sorted && slot_of_all(step) != usize::from(number) {
                return Err(damaged_slot("scan", parent.at, usize::from(number)));
            }
            let overlap = bounds.overlap(step, cursor);
            if overlap == Overlap::None {
                continue;
            }
            keys += keys_here;
            found.push(ScanItem::Child(PendingChild { parent: Rc::clone(parent), number, slot, overlap }));
        }
        if !is_sorted {
            found[start..].sort_unstable_by_key(|item| item.child().map(PendingChild::step));
            if cursor.direction == Direction::Backward {
                found[start..].reverse();
            }
        }
        Ok(keys)
    }
}
