//! Fetching and visiting the leaves of a scan.

use super::batch::LeafBatch;
use super::cursor::{LeafCursor, ScanRequest};
use super::entries::ShermanEntries;
use crate::coverage;
use crate::error::IndexError;
use crate::mutant::Mutant;
use crate::op::Op;
use crate::range::{Direction, Range};
use crate::retry::Retry;
use crate::sherman::Sherman;
use crate::sherman::node::RawNode;
use crate::sherman::position::{KeyPosition, RightSteps, locate};
use crate::sherman::read::{NodeCopy, TORN_TRIES_MAX};
use farwood_fabric::{Fabric, Fetched, Remote, Torn, all, read_bytes};

/// The end of one batch of leaves.
enum BatchEnd {
    /// The scan is complete.
    Done,
    /// The scan has visited all leaves of the batch and continues.
    More,
    /// A pointer of the parent was stale: the scan descends again from its cursor.
    Stale,
}

impl<'a, F: Fabric> Op<'a, F, Sherman> {
    /// Appends the requested entries to `found`, with the value fields of their leaf entries.
    pub(super) async fn collect(
        self,
        request: ScanRequest<'_>,
        found: &mut ShermanEntries,
    ) -> Result<(), IndexError> {
        let mut slots = std::mem::take(&mut found.slots);
        let key = std::mem::take(&mut found.cursor);
        if let Some(mut cursor) = self.index.cursor(request, key)? {
            cursor.visited = found.visited.take();
            self.visit_range(&mut cursor, &mut slots, |leaf, slot| {
                found.push(leaf.key_and_value(usize::from(slot)));
            })
            .await?;
            (found.cursor, found.visited) = (cursor.key, cursor.visited);
        }
        found.slots = slots;
        Ok(())
    }

    /// Counts the entries of the tree.
    pub(super) async fn count_entries(self) -> Result<u64, IndexError> {
        let mut count = 0;
        let all = ScanRequest { range: Range::default(), direction: Direction::Forward, limit: usize::MAX };
        if let Some(mut cursor) = self.index.cursor(all, Vec::new())? {
            self.visit_range(&mut cursor, &mut Vec::new(), |_, _| count += 1).await?;
        }
        Ok(count)
    }

    /// Visits the entries from the cursor to its end.
    async fn visit_range(
        self,
        cursor: &mut LeafCursor<'_>,
        slots: &mut Vec<u16>,
        mut visit: impl FnMut(&NodeCopy<'_>, u16),
    ) -> Result<(), IndexError> {
        let mut restarts = self.named("scan").restarts();
        loop {
            let before = cursor.passed;
            let end = if let Some(parent) = self.parent_for(&cursor.key).await? {
                let leaves = self.index.next_leaves(parent, cursor);
                self.visit_leaves(&leaves, cursor, slots, &mut visit).await?
            } else {
                let root = self.top().await?.root;
                self.visit_leaves(&LeafBatch::of(root), cursor, slots, &mut visit).await?
            };
            self.index.expected_load.include(std::mem::take(&mut cursor.seen));
            match end {
                BatchEnd::Done => return Ok(()),
                BatchEnd::More => {}
                BatchEnd::Stale => {
                    self.invalidate_path(&cursor.key);
                    if cursor.passed == before {
                        cursor.steps_max = cursor.steps_max.saturating_mul(2);
                        restarts.again(self.client).await?;
                    }
                }
            }
        }
    }

    /// Fetches `leaves` in one doorbell and visits them as long as each begins where the previous one ended.
    async fn visit_leaves(
        self,
        leaves: &LeafBatch,
        cursor: &mut LeafCursor<'_>,
        slots: &mut Vec<u16>,
        visit: &mut impl FnMut(&NodeCopy<'_>, u16),
    ) -> Result<BatchEnd, IndexError> {
        let layout = &self.index.layout;
        let reads = leaves.iter().map(|at| read_bytes(at, layout.node_bytes));
        let copies = self.client.post(all(reads)).await?;
        for (at, copy) in leaves.iter().zip(copies) {
            let mut next = Some((at, Some(copy)));
            let mut left = None;
            let mut steps = RightSteps::default();
            while let Some((at, copy)) = next.take() {
                let Some(leaf) = self.whole_leaf(at, copy, slots).await? else {
                    return Ok(BatchEnd::Stale);
                };
                let blind = layout.mutant == Some(Mutant::ScanBlind);
                let position = locate(&leaf, 0, &cursor.key);
                match if blind { KeyPosition::Here } else { position } {
                    KeyPosition::Here => {
                        cursor.seen.leaves += 1;
                        cursor.seen.entries += slots.len();
                        cursor.visit_entries(&leaf, slots, visit);
                        if cursor.record(at, &leaf) || !cursor.pass(&leaf) {
                            return Ok(BatchEnd::Done);
                        }
                    }
                    KeyPosition::Right(sibling) => {
                        self.hit(coverage::STEPPED_RIGHT_SCAN);
                        self.invalidate_parent(&cursor.key);
                        if !steps.may_step_from(at, cursor.steps_max) {
                            return Ok(BatchEnd::Stale);
                        }
                        (left, next) = (Some(at), Some((sibling, None)));
                    }
                    KeyPosition::Stale => {
                        if let Some(left) = left.filter(|_| leaf.freed()) {
                            self.undo_merge(left, at).await?;
                        }
                        return Ok(BatchEnd::Stale);
                    }
                }
            }
        }
        Ok(BatchEnd::More)
    }

    /// Returns a copy of the leaf at `at` in which no entry is torn, and the slots in use by increasing key in `slots`;
    /// `None` if the node is not a leaf. [0 RT; 1 without a `copy`; 1 for each torn copy]
    async fn whole_leaf(
        self,
        at: Remote<RawNode>,
        mut copy: Option<Fetched<RawNode>>,
        slots: &mut Vec<u16>,
    ) -> Result<Option<NodeCopy<'a>>, IndexError> {
        let layout = &self.index.layout;
        let mut retry = Retry::new("scan", TORN_TRIES_MAX);
        loop {
            let checked = match copy.take() {
                Some(copy) => copy.check(layout),
                None => self.client.post(read_bytes(at, layout.node_bytes)).await?.check(layout),
            };
            match checked.map(|copy| self.decode(at, copy)) {
                Ok(Err(damage)) => return Err(damage),
                Ok(Ok(leaf)) if leaf.level() != 0 => return Ok(None),
                Ok(Ok(leaf)) => {
                    if leaf.sorted_slots(slots) != Err(Torn) {
                        return Ok(Some(leaf));
                    }
                }
                Err(Torn) => {}
            }
            self.hit(coverage::TORN_SCAN);
            self.wait_for_writer(&mut retry, at).await?;
        }
    }
}
