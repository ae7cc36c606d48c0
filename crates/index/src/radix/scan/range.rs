//! Range scans, prefix scans and counts.
//!
//! A scan is not atomic: it sees each leaf at another moment. But it never misses a key that is present throughout. For
//! each inner node that it reads, the reverse pointer confirms that the node is linked in the slot that led to it; so
//! all keys that are below the slot are below the node. The same holds for a leaf and its key. Each slot without a
//! child carries the generation of the node. If something is ambiguous, the scan restarts after the entries that it has
//! found.
//!
//! A scan starts at the root, or at a lower node to which cached copies lead ([`start`](super::start)), or at children
//! of a copy, each of which proves by itself that it is linked.

use super::cursor::{ScanCursor, Values, prefix_end};
use super::entries::RadixEntries;
use super::items::AmbiguousSlot;
use super::start::{CachedChildren, ScanStart};
use crate::error::IndexError;
use crate::op::Op;
use crate::radix::coverage;
use crate::radix::key::check_key;
use crate::radix::tree::traversal::Traversal;
use crate::radix::tree::{Direction, Policy, RadixTree, Range};
use farwood_fabric::{Client, Fabric};

/// Restarts without progress before the ambiguous slot is repaired.
const RESTARTS_PER_REPAIR: u32 = 4;

impl<P: Policy> RadixTree<P> {
    /// Reads up to `limit` entries of `range` into `entries`, in the order of `direction`. [1 RT for the node at which
    /// it starts: the deepest node to which cached copies lead and that has enough children, otherwise the root; 0 if a
    /// copy of it names the children without a gap, for up to 256 entries; 2 if a copy was stale, 3 if its children
    /// were. Then 1 for each 64 nodes or leaves, nodes first: 1 for each level of the nodes ahead, and 1 for each 64
    /// leaves; and 1 for each overflow value. If the scan needs more than is below that node, or those children, the
    /// same again for the keys after them]
    ///
    /// # Errors
    /// [`IndexError::BadSizes`]; the fabric's errors.
    pub async fn scan<F: Fabric>(
        &self,
        client: &Client<F>,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        entries: &mut RadixEntries,
    ) -> Result<(), IndexError> {
        entries.clear();
        range.from.map_or(Ok(()), check_key)?;
        range.to.map_or(Ok(()), check_key)?;
        let (from, to) = (range.from.map(<[u8]>::to_vec), range.to.map(<[u8]>::to_vec));
        let mut sink = |key: &[u8], value: &[u8]| entries.push(key, value);
        let cursor = ScanCursor { direction, from, to, left: limit, values: Values::Read, sink: &mut sink };
        Op::new(self, client, "scan").run_scan(cursor).await
    }

    /// Reads up to `limit` entries whose keys begin with `prefix` into `entries`, in the order of `direction`.
    /// [as [`scan`](Self::scan)]
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub async fn scan_prefix<F: Fabric>(
        &self,
        client: &Client<F>,
        prefix: &[u8],
        direction: Direction,
        limit: usize,
        entries: &mut RadixEntries,
    ) -> Result<(), IndexError> {
        let to = prefix_end(prefix);
        let range = Range { from: Some(prefix), to: to.as_deref() };
        self.scan(client, range, direction, limit, entries).await
    }

    /// Counts the keys. [as a [`scan`](Self::scan) of all keys]
    ///
    /// # Errors
    /// The fabric's errors.
    pub async fn count<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        let mut count = 0;
        let mut sink = |_: &[u8], _: &[u8]| count += 1;
        let (direction, left) = (Direction::Forward, usize::MAX);
        let cursor =
            ScanCursor { direction, from: None, to: None, left, values: Values::Skip, sink: &mut sink };
        Op::new(self, client, "scan").run_scan(cursor).await?;
        Ok(count)
    }
}

impl<F: Fabric, P: Policy> Op<'_, F, RadixTree<P>> {
    /// Visits the entries of a scan, and restarts it when something is ambiguous.
    async fn run_scan(self, mut cursor: ScanCursor<'_>) -> Result<(), IndexError> {
        let pool = &self.index.scratch;
        let mut traversal = Traversal::new(pool, self.name, &[]);
        let (mut tries, mut left) = (0, cursor.left);
        while !cursor.is_done() {
            let cached_children = CachedChildren::after(tries);
            let Some(slot) = self.scan_until_ambiguous(&mut cursor, cached_children).await? else { break };
            self.hit(coverage::SCAN_RESTARTED);
            self.client.note(|costs| costs.moved += 1);
            if cursor.left < left {
                (tries, left) = (0, cursor.left);
                traversal = Traversal::new(pool, self.name, &[]);
            }
            tries += 1;
            traversal.retry(self.client).await?;
            if u32::is_multiple_of(tries, RESTARTS_PER_REPAIR) && self.client.may_write() {
                self.repair(&slot.node, slot.number, &[]).await?;
            }
        }
        Ok(())
    }

    /// Visits the keys below one node after the other. `None`: the scan is complete.
    async fn scan_until_ambiguous(
        self,
        cursor: &mut ScanCursor<'_>,
        cached_children: CachedChildren,
    ) -> Result<Option<AmbiguousSlot>, IndexError> {
        loop {
            let ScanStart { prefix, items } = self.start_scan(cursor, cached_children).await?;
            if let Some(ambiguous) = self.scan_items(cursor, items).await? {
                return Ok(Some(ambiguous));
            }
            if cursor.left == 0 || !cursor.skip_prefix(&prefix) {
                return Ok(None);
            }
        }
    }
}
