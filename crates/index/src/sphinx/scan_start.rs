//! The start of a scan through filter and hash table. The paper's scans start at the root.
//!
//! One doorbell reads the entries of the nodes on the path to the first key. The client estimates from their sizes how
//! many keys are below each, and starts at the deepest node that has enough. The estimate decides the round trips of a
//! scan and not its answer: a scan that needs more keys than the node has continues behind them.

use super::{Sphinx, coverage};
use crate::error::IndexError;
use crate::op::Op;
use crate::radix::inner::{InnerRef, NodeSize};
use crate::radix::prefix::PrefixHash;
use farwood_fabric::Fabric;

/// Maximum prefixes whose entries a scan reads: the longest ones.
const PREFIXES_MAX: usize = 16;
/// Estimated keys of a start, for each key that the scan wants. About half of the keys of a node are before the start.
const ESTIMATE_PER_KEY: usize = 3;

impl<F: Fabric> Op<'_, F, Sphinx> {
    /// Finds a node above `key` that probably has `count` keys from `key` on, and yields it with the length of its
    /// prefix. `None`: the scan starts at the root. [1 RT; 0 if fewer than two prefixes of the key may have a node]
    pub(super) async fn find_scan_start(
        self,
        key: &[u8],
        count: usize,
    ) -> Result<Option<(InnerRef, usize)>, IndexError> {
        let hashes: Vec<_> = PrefixHash::all(&key[..self.start_depth(key.len())]).collect();
        let longest = (1..hashes.len()).rev().filter_map(|depth| self.candidate(depth, hashes[depth]));
        let candidates: Vec<_> = longest.take(PREFIXES_MAX).collect();
        // The child of the root that is above the key takes as many round trips by the table as by the root.
        if candidates.len() < 2 {
            return Ok(None);
        }
        let positions: Vec<_> = candidates.iter().map(|candidate| candidate.position).collect();
        let buckets = self.table().read_buckets_of(&positions).await?;
        let mut keys = 1;
        for (candidate, buckets) in candidates.iter().zip(&buckets) {
            let mut entries = buckets.pairs.candidates(candidate.position.fingerprint());
            let Some(node) = entries.next().and_then(|(_, entry)| entry.node()) else { continue };
            keys *= children_expected(node.size);
            if keys >= ESTIMATE_PER_KEY * count {
                self.hit(coverage::SCAN_STARTED_BY_TABLE);
                return Ok(Some((node, candidate.depth)));
            }
        }
        Ok(None)
    }
}

/// An estimate of the children of a node.
fn children_expected(size: NodeSize) -> usize {
    match size {
        NodeSize::Four => 3,
        NodeSize::Sixteen => 9,
        NodeSize::FortyEight => 28,
        _ => 100,
    }
}
