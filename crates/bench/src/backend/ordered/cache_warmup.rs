//! Filling the index cache of a compute node before the measured phase: the compute node reads enough keys that each
//! inner node that fits in the cache lies on the path to one of them.

use farwood_fabric::{Client, Fabric};
use farwood_index::ordered::{Ordered, System};

use crate::Result;
use crate::workload::keys::Keys;

/// One of this number of keys is read to fill the cache of a B-link tree, whose lowest inner nodes cover far more keys.
const KEYS_PER_READ: usize = 128;
/// Bytes of a radix tree's cache for each key that is read: a quarter of the smallest cached node, because many keys
/// share a node.
const CACHE_BYTES_PER_READ: usize = 32;

/// The ranks of the keys that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WarmUpRanks {
    loaded: u64,
    first: usize,
    step: usize,
}

impl WarmUpRanks {
    /// The ranks that fill a cache of `cache_bytes` of an index with the ranks below `loaded`; none without a cache.
    pub(crate) fn new(index: System, loaded: u64, cache_bytes: usize) -> Self {
        let step = match index {
            System::Sherman => KEYS_PER_READ,
            // A search adds the nodes on its path to the filter.
            System::Sphinx => 1,
            System::Smart => {
                let reads = (cache_bytes / CACHE_BYTES_PER_READ).max(1);
                (loaded as usize).div_ceil(reads).max(1)
            }
        };
        Self { loaded: if cache_bytes == 0 { 0 } else { loaded }, first: 0, step }
    }

    /// The ranks that client `number` reads if `count` clients read at the same time.
    pub(crate) fn share(self, number: usize, count: usize) -> Self {
        Self { first: self.first + number * self.step, step: count * self.step, ..self }
    }

    /// The ranks. The keys of neighbouring ranks are spread over the tree.
    fn ranks(self) -> impl Iterator<Item = u64> {
        (self.first as u64..self.loaded).step_by(self.step)
    }
}

/// Reads the keys of `ranks` until all are read or `is_over` returns true.
pub(crate) async fn warm_cache<F: Fabric>(
    client: &Client<F>,
    index: &Ordered,
    keys: &Keys,
    ranks: WarmUpRanks,
    is_over: impl Fn() -> bool,
) -> Result<()> {
    let mut key = Vec::new();
    for rank in ranks.ranks() {
        if is_over() {
            break;
        }
        keys.write_key(rank, &mut key);
        index.get(client, &key).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_all_clients_cover_all_ranks() {
        for (system, cache_bytes) in [(System::Sherman, 1), (System::Smart, 3200), (System::Sphinx, 1)] {
            let all = WarmUpRanks::new(system, 1000, cache_bytes);
            let mut shared: Vec<_> = (0..3).flat_map(|number| all.share(number, 3).ranks()).collect();
            shared.sort_unstable();
            assert_eq!(shared, all.ranks().collect::<Vec<_>>(), "{system}");
            assert!(!shared.is_empty());
        }
        assert_eq!(WarmUpRanks::new(System::Smart, 1000, 3200).ranks().count(), 100);
        assert_eq!(WarmUpRanks::new(System::Smart, 1000, 0).ranks().count(), 0);
    }
}
