//! Range scans: the leaves of a range fetched in parallel, each checked against the end of the previous one
//! (Sherman §4.4, "Range query").
//!
//! A scan is not atomic: it reads each leaf at another moment. But it never misses a key that is present throughout: it
//! takes the leaves in the order of their fences, and the next one must begin where the previous one ended. A leaf that
//! was split after its parent was cached ends before the end in the cached parent: the scan then reads the parent
//! again.
//!
//! Keys have a fixed length, so the largest key below another is that key minus one: a backward scan looks for the leaf
//! that covers the key before the lower fence of the previous leaf.

mod batch;
mod cursor;
mod entries;
mod leaves;
mod snapshot;
mod values;

pub(super) use batch::ExpectedLoad;
pub use cursor::SNAPSHOT_LEAVES_MAX;
pub use entries::ShermanEntries;

use super::Sherman;
use super::layout::Values;
use crate::error::IndexError;
use crate::op::Op;
use crate::range::{Direction, Range};
use cursor::ScanRequest;
use farwood_fabric::{Client, Fabric};

impl Sherman {
    /// Finds up to `limit` entries of `range`, in `direction`, and stores them in `found` in place of its content.
    /// [1 RT for up to 32 leaves whose parent is cached; 1 more per parent, torn leaf, and leaf split since]
    ///
    /// # Errors
    /// [`IndexError::WrongLength`]; [`IndexError::Damaged`] where a leaf stays torn; the fabric's errors.
    pub async fn scan<F: Fabric>(
        &self,
        client: &Client<F>,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
        found: &mut ShermanEntries,
    ) -> Result<(), IndexError> {
        let op = Op::new(self, client, "scan");
        found.begin(&self.layout);
        let request = ScanRequest { range, direction, limit };
        let done = match self.layout.values {
            Values::Fixed => op.collect(request, found).await,
            Values::AnyLength => op.scan_any_length(request, found).await,
        };
        found.only_if(done)
    }

    /// Counts the entries of the tree. Like a scan, the count is not atomic. [1 RT per 32 leaves, and per parent]
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub async fn count<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        Op::new(self, client, "scan").count_entries().await
    }
}
