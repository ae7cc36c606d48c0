//! The choice of the leaves that a scan fetches with one doorbell.
//!
//! The scan takes as many leaves as its remaining entries are expected to fill, up to the end of its range, from the
//! cached parents in a row; a backward scan takes those of one parent. The expectation follows the loads of the leaves
//! that scans have visited. A wrong choice costs a READ or a round trip, and no entry: the scan checks that each leaf
//! begins where the previous one ended.

use super::cursor::LeafCursor;
use crate::cache::Slot;
use crate::range::Direction;
use crate::sherman::Sherman;
use crate::sherman::cached::CachedInner;
use crate::sherman::node::RawNode;
use farwood_fabric::Remote;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum leaves fetched by one doorbell.
const LEAVES_MAX: usize = 32;
/// Expected load of a leaf before a scan has visited any, in percent: the average after random insertions.
const LOAD_PERCENT: usize = 70;
/// The unit of the expected load: parts of an entry.
const PARTS: usize = 64;
/// The share of a batch in the expectation is one part in this number.
const MEMORY: usize = 8;

/// Leaves that a scan has visited, with the number of their entries.
#[derive(Clone, Copy, Default)]
pub(super) struct SeenLeaves {
    pub(super) leaves: usize,
    pub(super) entries: usize,
}

/// The expected number of entries of a leaf, in a cache line of its own: scans of all threads store it.
#[derive(Debug)]
#[repr(align(64))]
pub(in crate::sherman) struct ExpectedLoad(AtomicUsize);

impl ExpectedLoad {
    /// The expectation for leaves of `capacity` entries that no scan has visited.
    pub(in crate::sherman) fn of_capacity(capacity: usize) -> Self {
        Self(AtomicUsize::new((capacity * LOAD_PERCENT * PARTS / 100).max(PARTS)))
    }

    /// Includes the leaves of a batch. A store that another client overwrites is only a lost observation.
    pub(super) fn include(&self, seen: SeenLeaves) {
        let Some(load) = (seen.entries * PARTS).checked_div(seen.leaves) else { return };
        let before = self.0.load(Ordering::Relaxed);
        let after = (before - before / MEMORY + load / MEMORY).max(PARTS);
        if after != before {
            self.0.store(after, Ordering::Relaxed);
        }
    }

    /// The number of leaves that hold the next `entries` entries, from the middle of the first leaf on.
    fn leaves_for(&self, entries: usize) -> usize {
        let load = self.0.load(Ordering::Relaxed);
        entries.saturating_mul(PARTS).saturating_add(load / 2).div_ceil(load).clamp(1, LEAVES_MAX)
    }
}

/// The leaves of one doorbell, in the order of the scan.
#[derive(Default)]
pub(super) struct LeafBatch {
    leaves: [Option<Remote<RawNode>>; LEAVES_MAX],
    count: usize,
}

impl LeafBatch {
    /// A batch of one leaf.
    pub(super) fn of(leaf: Remote<RawNode>) -> Self {
        let mut batch = Self::default();
        batch.push(leaf);
        batch
    }

    fn push(&mut self, leaf: Remote<RawNode>) {
        self.leaves[self.count] = Some(leaf);
        self.count += 1;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Remote<RawNode>> {
        self.leaves[..self.count].iter().flatten().copied()
    }
}

impl Sherman {
    /// Returns the leaves to fetch next: children of `parent`, which covers the cursor's key, and of the cached nodes
    /// that follow it if the scan is forward.
    pub(super) fn next_leaves(
        &self,
        mut parent: Arc<Slot<CachedInner>>,
        cursor: &LeafCursor<'_>,
    ) -> LeafBatch {
        let wanted = self.expected_load.leaves_for(cursor.left);
        let mut batch = LeafBatch::default();
        let mut children = children_from(&parent, &cursor.key, cursor);
        loop {
            for at in 0..children.len().min(wanted - batch.count) {
                batch.push(parent.child(match cursor.direction {
                    Direction::Forward => children.start + at,
                    Direction::Backward => children.end - 1 - at,
                }));
            }
            let ends_here = cursor.end.is_some_and(|end| parent.covers(end));
            if batch.count == wanted || ends_here || cursor.direction == Direction::Backward {
                return batch;
            }
            let Some(upper) = parent.upper() else { return batch };
            let Some(beside) = self.cached_parent(upper) else { return batch };
            children = children_from(&beside, upper, cursor);
            parent = beside;
        }
    }
}

/// The children of `parent` from the one that covers `key` to the one that covers the scan's end, by increasing key.
fn children_from(parent: &CachedInner, key: &[u8], cursor: &LeafCursor<'_>) -> Range<usize> {
    let from = parent.child_covering(key);
    let end = cursor.end.filter(|end| parent.covers(end)).map(|end| parent.child_covering(end));
    match cursor.direction {
        Direction::Forward => from..end.map_or(parent.children(), |end| (end + 1).max(from + 1)),
        Direction::Backward => end.map_or(0, |end| end.min(from))..from + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expectation_follows_the_leaves_that_were_visited() {
        let load = ExpectedLoad::of_capacity(40);
        assert_eq!([1, 20, 100, usize::MAX].map(|entries| load.leaves_for(entries)), [1, 2, 5, LEAVES_MAX]);
        for _ in 0..1000 {
            load.include(SeenLeaves { leaves: 4, entries: 4 * 32 });
        }
        assert_eq!(load.leaves_for(100), 4, "leaves that are 80 % full");
        for _ in 0..10_000 {
            load.include(SeenLeaves { leaves: 1, entries: 0 });
            load.include(SeenLeaves::default());
        }
        assert_eq!(load.leaves_for(3), 4, "the expectation is at least one entry");
    }
}
