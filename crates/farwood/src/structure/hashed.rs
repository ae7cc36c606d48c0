//! Radix trees with hash tables (Sphinx).

use super::Column;
use super::contradiction::{Contradiction, compare, other_system, show_variant};
use super::sealed::Structure;
use farwood_index::ordered::{OrderedConfig, OrderedDescription, System};
use farwood_index::sphinx::{NodeReads, ScanStarts, SphinxConfig, SphinxFeatures, SphinxVariant};

/// A radix tree whose inner nodes are found through a hash table (Sphinx): keys and values as in
/// [`Radix`](crate::Radix), with a cache of less than two bytes for each inner node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Hashed {
    variant: SphinxFeatures,
    filter_bytes: usize,
}

impl Default for Hashed {
    fn default() -> Self {
        Self::new()
    }
}

impl Hashed {
    /// The default budget of a filter in bytes: 2 MiB, enough for the inner nodes of about 20 million integers or 3
    /// million names.
    pub const FILTER_BYTES: usize = System::Sphinx.cache_bytes_default();

    /// The default options: Sphinx, and a search reads one slot of a node that has a slot for each byte, and a
    /// scan starts at a node in the filter.
    pub fn new() -> Self {
        Self { variant: SphinxFeatures::default(), filter_bytes: Self::FILTER_BYTES }
    }

    /// The preset of the paper's Sphinx: a search reads whole nodes, and a scan starts at the root.
    pub fn sphinx() -> Self {
        let features = SphinxVariant::RECOMMENDED.features();
        let (node_reads, scan_starts) = (NodeReads::Whole, ScanStarts::Root);
        Self::new().variant(SphinxFeatures { node_reads, scan_starts, ..features })
    }

    /// Sets the variant of the tree: `SphinxVariant::Art.features()` and others are the paper's baselines.
    pub fn variant(self, variant: SphinxFeatures) -> Self {
        Self { variant, ..self }
    }

    /// Sets the budget of this process's filter in bytes: less than two for each inner node. The default is
    /// [`FILTER_BYTES`](Self::FILTER_BYTES).
    pub fn filter_bytes(self, bytes: usize) -> Self {
        Self { filter_bytes: bytes, ..self }
    }
}

impl Structure for Hashed {
    fn config(&self, columns: [Column; 2]) -> Result<OrderedConfig, String> {
        let kinds = columns.map(|column| column.kind.number());
        Ok(OrderedConfig::Sphinx(SphinxConfig { options: self.variant, kinds }))
    }

    fn contradiction(&self, stored: &OrderedDescription) -> Option<Contradiction> {
        let OrderedDescription::Sphinx(stored) = stored else {
            return Some(other_system(System::Sphinx, stored));
        };
        compare(
            "variant",
            [self.variant, stored.options, Self::new().variant],
            |features: &SphinxFeatures| {
                show_variant(features.variant().map(SphinxVariant::name), features.describe())
            },
        )
    }

    fn cache_budget(&self) -> usize {
        self.filter_bytes
    }
}
