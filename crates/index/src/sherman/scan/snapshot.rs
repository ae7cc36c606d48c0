//! Snapshot scans: the leaves of a range are read twice, and the scan succeeds only if nothing changed between the two
//! reads (double collect).
//!
//! The second reading begins when the first has ended. A leaf whose copies are equal in every byte, versions included,
//! was not written between them: each WRITE of an entry increments the version, or the count of writes, in the entry's
//! guard, and each WRITE of a whole leaf increments the version of the leaf. Versions of one byte repeat after 128
//! writes, so two readings of such leaves must together take less time than these writes. So at the moment between the
//! two readings each leaf held the entries that were found. As each leaf begins where the previous one ends, these are
//! all entries that the range had at that moment. The link in an entry determines its overflow value (`values.rs`),
//! and the entry had that link at that moment.

use super::cursor::{SNAPSHOT_LEAVES_MAX, ScanRequest};
use super::entries::{LeafImage, ShermanEntries};
use super::values::MissingValue;
use crate::consistency::{Consistency, byte_versions};
use crate::coverage;
use crate::error::IndexError;
use crate::op::Op;
use crate::range::{Direction, Range};
use crate::retry::Retry;
use crate::sherman::Sherman;
use crate::sherman::layout::Values;
use crate::sherman::node::RawNode;
use farwood_fabric::{Client, Fabric, Fetched, all, read_bytes};

/// Attempts at a snapshot while other clients change the leaves.
const ATTEMPTS_MAX: u32 = 1_000;
/// Attempts that take too long for versions of one byte.
const SLOW_ATTEMPTS_MAX: u32 = 100;

impl Sherman {
    /// As [`scan`](Self::scan), but returns all entries as they were at one moment between the call and its answer.
    /// For ranges of at most 32 leaves. [2 RT where the leaves' parent is cached; 1 more for overflow values; all of
    /// it again each time that another client changes one of the leaves during the scan, and under byte versions each
    /// time that it takes longer than 63.5 µs]
    ///
    /// # Errors
    /// [`IndexError::NoSnapshot`] where the range has more leaves, or if READs take too long for versions of one byte;
    /// [`IndexError::Exhausted`] if the leaves change continuously; the errors of [`scan`](Self::scan).
    pub async fn scan_snapshot<F: Fabric>(
        &self,
        client: &Client<F>,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        found: &mut ShermanEntries,
    ) -> Result<(), IndexError> {
        let request = ScanRequest { range, direction, limit };
        let done = Op::new(self, client, "scan").try_snapshots(request, found).await;
        found.only_if(done)
    }
}

impl<F: Fabric> Op<'_, F, Sherman> {
    async fn try_snapshots(
        self,
        request: ScanRequest<'_>,
        found: &mut ShermanEntries,
    ) -> Result<(), IndexError> {
        let mut retry = Retry::new("snapshot", ATTEMPTS_MAX);
        let mut slow = 0;
        loop {
            let begun = self.client.fabric().now();
            found.begin_snapshot(&self.index.layout);
            self.collect(request, found).await?;
            let visited = found.visited.take().unwrap_or_default();
            if visited.len() > SNAPSHOT_LEAVES_MAX {
                return Err(IndexError::NoSnapshot("the range has more than 32 leaves: scan parts of it"));
            }
            if self.is_unchanged(&visited).await? {
                if !self.proves_no_write(begun) {
                    slow += 1;
                } else if self.linked_values(found).await? {
                    return Ok(());
                }
            }
            if slow == SLOW_ATTEMPTS_MAX {
                return Err(IndexError::NoSnapshot(
                    "READs take too long for versions of one byte: create the index with checksums",
                ));
            }
            self.hit(coverage::SNAPSHOT_RETRIED);
            retry.again(self.client).await?;
        }
    }

    /// Whether equal guards in two readings since `begun` prove that no entry was written between them.
    fn proves_no_write(self, begun: u64) -> bool {
        self.index.layout.consistency != Consistency::ByteVersions
            || self.client.fabric().now().checked_sub(begun).is_some_and(|took| took < byte_versions::WRAP_NS)
    }

    /// Whether all leaves are equal to their images. [1 RT]
    async fn is_unchanged(self, visited: &[LeafImage]) -> Result<bool, IndexError> {
        if visited.is_empty() {
            return Ok(true);
        }
        let layout = &self.index.layout;
        let reads = visited.iter().map(|leaf| read_bytes(leaf.at, layout.node_bytes));
        let copies = self.client.post(all(reads)).await?;
        let is_same = |leaf: &LeafImage, copy: Fetched<RawNode>| {
            copy.check(layout).is_ok_and(|copy| *copy == *leaf.bytes)
        };
        let same = visited.iter().zip(copies).all(|(leaf, copy)| is_same(leaf, copy));
        Ok(same)
    }

    /// Fetches the values of the entries in `found`; returns `false` if one no longer exists.
    async fn linked_values(self, found: &mut ShermanEntries) -> Result<bool, IndexError> {
        match self.index.layout.values {
            Values::Fixed => Ok(true),
            Values::AnyLength => self.fetch_values(found, 0, MissingValue::GiveUp).await,
        }
    }
}
