//! The state of a scan: the next key, the end, and the entries that are still wanted.

use super::batch::SeenLeaves;
use super::entries::LeafImage;
use crate::error::IndexError;
use crate::key::{compare, decrement};
use crate::range::{Direction, Range};
use crate::sherman::Sherman;
use crate::sherman::node::RawNode;
use crate::sherman::position::STEPS_RIGHT_MAX;
use crate::sherman::read::NodeCopy;
use farwood_fabric::Remote;
use std::cmp::Ordering;

/// Maximum leaves of a snapshot.
pub const SNAPSHOT_LEAVES_MAX: usize = 32;

/// A scan as the caller requests it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanRequest<'a> {
    pub(super) range: Range<'a>,
    pub(super) direction: Direction,
    /// Maximum number of entries.
    pub(super) limit: usize,
}

/// A scan in progress.
pub(super) struct LeafCursor<'r> {
    pub(super) direction: Direction,
    /// The end in the direction of the scan: `to` forwards, `from` backwards.
    pub(super) end: Option<&'r [u8]>,
    /// The key that the next leaf must cover. The scan has passed all keys before it in its direction.
    pub(super) key: Vec<u8>,
    /// Entries still wanted.
    pub(super) left: usize,
    /// Number of leaves visited.
    pub(super) passed: u64,
    /// The loads of the leaves of the present batch.
    pub(super) seen: SeenLeaves,
    /// Steps to the right before the next descent from the root; doubled after each descent without progress.
    pub(super) steps_max: u32,
    /// The leaves visited, for a snapshot.
    pub(super) visited: Option<Vec<LeafImage>>,
}

impl Sherman {
    /// Prepares a scan; returns `None` where the range is empty. `key` is the buffer for the cursor's key.
    pub(super) fn cursor<'r>(
        &self,
        request: ScanRequest<'r>,
        mut key: Vec<u8>,
    ) -> Result<Option<LeafCursor<'r>>, IndexError> {
        let ScanRequest { range, direction, limit } = request;
        range.from.map_or(Ok(()), |key| self.check_key(key))?;
        range.to.map_or(Ok(()), |key| self.check_key(key))?;
        let empty = matches!((range.from, range.to), (Some(from), Some(to)) if from >= to);
        key.clear();
        let end = match direction {
            Direction::Forward => {
                key.extend_from_slice(range.from.unwrap_or_default());
                key.resize(self.layout.key_bytes, 0);
                range.to
            }
            Direction::Backward => {
                key.extend_from_slice(range.to.unwrap_or_default());
                key.resize(self.layout.key_bytes, u8::MAX);
                if range.to.is_some() && !decrement(&mut key) {
                    return Ok(None);
                }
                range.from
            }
        };
        Ok((limit > 0 && !empty).then_some(LeafCursor {
            direction,
            end,
            key,
            left: limit,
            passed: 0,
            seen: SeenLeaves::default(),
            steps_max: STEPS_RIGHT_MAX,
            visited: None,
        }))
    }
}

impl LeafCursor<'_> {
    /// Moves past a leaf; returns `false` if the scan is complete.
    pub(super) fn pass(&mut self, leaf: &NodeCopy<'_>) -> bool {
        self.passed += 1;
        match self.direction {
            Direction::Forward => match leaf.upper() {
                Some(upper) if self.end.is_none_or(|end| upper < end) => self.key.copy_from_slice(upper),
                _ => return false,
            },
            Direction::Backward => {
                if self.end.is_some_and(|end| leaf.lower() <= end) {
                    return false;
                }
                self.key.copy_from_slice(leaf.lower());
                if !decrement(&mut self.key) {
                    return false;
                }
            }
        }
        self.left > 0
    }

    /// Records a leaf for a snapshot; returns whether the snapshot has too many leaves.
    pub(super) fn record(&mut self, at: Remote<RawNode>, leaf: &NodeCopy<'_>) -> bool {
        let Some(visited) = &mut self.visited else { return false };
        visited.push(LeafImage { at, bytes: leaf.bytes().to_vec() });
        visited.len() > SNAPSHOT_LEAVES_MAX
    }

    /// Whether the scan wants all keys of a leaf that covers its key, according to the leaf's fences.
    pub(super) fn wants_all(&self, leaf: &NodeCopy<'_>) -> bool {
        self.direction == Direction::Forward
            && *self.key == *leaf.lower()
            && self.end.is_none_or(|end| leaf.upper().is_some_and(|upper| upper <= end))
    }

    /// Whether `key` lies between the cursor's key and the end.
    pub(super) fn wants(&self, key: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => {
                compare(key, &self.key) != Ordering::Less && self.end.is_none_or(|end| key < end)
            }
            Direction::Backward => {
                compare(key, &self.key) != Ordering::Greater && self.end.is_none_or(|end| key >= end)
            }
        }
    }

    /// Visits the entries of a leaf that the scan wants; `slots` are those in use, by increasing key.
    pub(super) fn visit_entries(
        &mut self,
        leaf: &NodeCopy<'_>,
        slots: &[u16],
        visit: &mut impl FnMut(&NodeCopy<'_>, u16),
    ) {
        let (direction, all) = (self.direction, self.wants_all(leaf));
        let mut take = |&slot: &u16| {
            if self.left > 0 && (all || self.wants(leaf.key(usize::from(slot)))) {
                visit(leaf, slot);
                self.left -= 1;
            }
        };
        match direction {
            Direction::Forward => slots.iter().for_each(&mut take),
            Direction::Backward => slots.iter().rev().for_each(&mut take),
        }
    }
}
