//! Filling the index cache of a compute node before anything counts: so many keys are read that below each inner node
//! which the cache has room for lies one of them.

use farwood_fabric::{Client, Fabric};
use farwood_index::ordered::{Ordered, System};

use crate::Result;
use crate::keys::Keys;

/// One of so many keys is read to warm an index cache of a B-link tree; its lowest inner nodes cover far more.
const KEYS_PER_GLANCE: usize = 128;
/// Bytes of a radix tree's cache for one that is read: a quarter of what the smallest node takes there, for many keys
/// share one.
const CACHE_BYTES_PER_GLANCE: usize = 32;

/// Which ranks are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Glances {
    loaded: u64,
    first: usize,
    step: usize,
}

impl Glances {
    /// What fills a cache of `cache_bytes` of an index that holds the ranks below `loaded`; no cache: nothing.
    pub(super) fn new(index: System, loaded: u64, cache_bytes: usize) -> Self {
        let step = match index {
            System::Sherman => KEYS_PER_GLANCE,
            // Its filter hears of a node where a search comes by.
            System::Sphinx => 1,
            System::Smart => {
                let reads = (cache_bytes / CACHE_BYTES_PER_GLANCE).max(1);
                (loaded as usize).div_ceil(reads).max(1)
            }
        };
        Self { loaded: if cache_bytes == 0 { 0 } else { loaded }, first: 0, step }
    }

    /// The share of number `number` of `count` clients that read at the same time.
    pub(super) fn share(self, number: usize, count: usize) -> Self {
        Self { first: self.first + number * self.step, step: count * self.step, ..self }
    }

    /// The ranks. Neighbours lie scattered among the keys.
    fn ranks(self) -> impl Iterator<Item = u64> {
        (self.first as u64..self.loaded).step_by(self.step)
    }
}

/// Reads them, until `is_over`.
pub(super) async fn glance<F: Fabric>(
    client: &Client<F>,
    index: &Ordered,
    keys: &Keys,
    glances: Glances,
    is_over: impl Fn() -> bool,
) -> Result<()> {
    let mut key = Vec::new();
    for rank in glances.ranks() {
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
    fn shares_are_the_whole() {
        for (system, cache_bytes) in [(System::Sherman, 1), (System::Smart, 3200), (System::Sphinx, 1)] {
            let all = Glances::new(system, 1000, cache_bytes);
            let mut shared: Vec<_> = (0..3).flat_map(|number| all.share(number, 3).ranks()).collect();
            shared.sort_unstable();
            assert_eq!(shared, all.ranks().collect::<Vec<_>>(), "{system}");
            assert!(!shared.is_empty());
        }
        assert_eq!(Glances::new(System::Smart, 1000, 3200).ranks().count(), 100);
        assert_eq!(Glances::new(System::Smart, 1000, 0).ranks().count(), 0);
    }
}
