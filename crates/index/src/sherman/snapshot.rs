//! Scans of one moment: the leaves of a range are read twice, and an answer is given only if nothing has changed in
//! between (double collect).
//!
//! The second reading begins when the first has ended. A leaf whose copies are the same in every byte, versions
//! included, was not written between them: each WRITE of an entry raises the entry's version, each WRITE of a whole
//! leaf that of the leaf. So at the moment between the two readings each leaf held what was found, and as each begins
//! where the last one ends, that is all that the range had at that moment. A value out of line is what its entry links
//! (`values.rs`), and the entry linked it at that moment.
//!
//! Entries under a hash have no version of their own: one that changes and changes back would pass. Trees of that kind
//! refuse.

use super::Sherman;
use super::entries::Entries;
use super::layout::Values;
use super::node::RawNode;
use super::options::Leaves;
use super::scan::Wanted;
use super::scan_values::IfGone;
use crate::consistency::Consistency;
use crate::error::IndexError;
use crate::marks;
use crate::range::{Direction, Range};
use crate::retry::Retry;
use farwood_fabric::{Client, Fabric, Fetched, Remote, all, read_bytes};

/// Leaves of a snapshot, at most.
pub const SNAPSHOT_LEAVES_MAX: usize = 32;
/// Attempts at one, before others are too busy.
const ATTEMPTS_MAX: u32 = 1_000;

/// A leaf as it was first read.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) at: Remote<RawNode>,
    pub(super) bytes: Vec<u8>,
}

impl Sherman {
    /// Whether the tree's entries tell that they were changed, as [`scan_snapshot`](Self::scan_snapshot) needs.
    pub fn can_snapshot(&self) -> bool {
        self.layout.leaves == Leaves::Sorted || self.layout.consistency == Consistency::Versions
    }

    /// As [`scan`](Self::scan), all entries as they were at one moment between the call and its answer; of ranges in at
    /// most 32 leaves. [2 RT where the leaves' parent is cached; 1 more for values out of line; all of it again each
    /// time that another client changes one of the leaves meanwhile]
    ///
    /// # Errors
    /// [`IndexError::NoSnapshot`] where the range has more leaves, or the tree's entries have no versions;
    /// [`IndexError::Exhausted`] where the leaves change all the time; those of [`scan`](Self::scan).
    pub async fn scan_snapshot<F: Fabric>(
        &self,
        client: &Client<F>,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        found: &mut Entries,
    ) -> Result<(), IndexError> {
        if !self.can_snapshot() {
            return Err(IndexError::NoSnapshot("its entries are guarded by hashes, not by versions"));
        }
        let done = self.try_snapshots(client, Wanted { range, direction, limit }, found).await;
        found.only_if(done)
    }

    async fn try_snapshots<F: Fabric>(
        &self,
        client: &Client<F>,
        wanted: Wanted<'_>,
        found: &mut Entries,
    ) -> Result<(), IndexError> {
        let mut retry = Retry::new("snapshot", ATTEMPTS_MAX);
        loop {
            found.begin_snapshot(&self.layout);
            self.collect(client, wanted, found).await?;
            let seen = found.seen.take().unwrap_or_default();
            if seen.len() > SNAPSHOT_LEAVES_MAX {
                return Err(IndexError::NoSnapshot("the range has more than 32 leaves: scan parts of it"));
            }
            if self.is_unchanged(client, &seen).await? && self.linked_values(client, found).await? {
                return Ok(());
            }
            client.fabric().mark(marks::SNAPSHOT_LATE);
            retry.again(client).await?;
        }
    }

    /// Whether all leaves still are what they were. [1 RT]
    async fn is_unchanged<F: Fabric>(&self, client: &Client<F>, seen: &[Seen]) -> Result<bool, IndexError> {
        if seen.is_empty() {
            return Ok(true);
        }
        let copies =
            client.post(all(seen.iter().map(|leaf| read_bytes(leaf.at, self.layout.node_bytes)))).await?;
        let is_same = |leaf: &Seen, copy: Fetched<RawNode>| {
            copy.check(&self.layout).is_ok_and(|copy| *copy == *leaf.bytes)
        };
        let same = seen.iter().zip(copies).all(|(leaf, copy)| is_same(leaf, copy));
        Ok(same)
    }

    /// Finds the values of what was collected; `false` where one is not there any more.
    async fn linked_values<F: Fabric>(
        &self,
        client: &Client<F>,
        found: &mut Entries,
    ) -> Result<bool, IndexError> {
        match self.layout.values {
            Values::Fixed => Ok(true),
            Values::AnyLength => self.fetch_values(client, found, 0, IfGone::GiveUp).await,
        }
    }
}
