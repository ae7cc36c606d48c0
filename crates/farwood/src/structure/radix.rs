//! Radix trees (SMART).

use super::Column;
use super::contradiction::{Contradiction, compare, other_system, show_variant};
use super::sealed::Structure;
use farwood_index::ordered::{OrderedConfig, OrderedDescription, System};
use farwood_index::smart::{NodeSizing, SmartConfig, SmartFeatures, SmartVariant};

/// A radix tree (SMART): keys of any length up to 4 KiB, values of any length up to 16 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Radix {
    variant: SmartFeatures,
    cache_bytes: usize,
}

impl Default for Radix {
    fn default() -> Self {
        Self::new()
    }
}

impl Radix {
    /// The default budget of a cache of inner nodes in bytes.
    pub const CACHE_BYTES: usize = System::Smart.cache_bytes_default();

    /// The default options: SMART with inner nodes of fitting sizes.
    pub fn new() -> Self {
        Self { variant: SmartFeatures::default(), cache_bytes: Self::CACHE_BYTES }
    }

    /// The preset of the paper's SMART: each inner node has memory for 256 slots, of which clients read those in use,
    /// and grows in place.
    pub fn smart() -> Self {
        let variant =
            SmartFeatures { node_sizing: NodeSizing::Typed, ..SmartVariant::RECOMMENDED.features() };
        Self::new().variant(variant)
    }

    /// Sets the variant of the tree: `SmartVariant::Art.features()` and others are the paper's baselines.
    pub fn variant(self, variant: SmartFeatures) -> Self {
        Self { variant, ..self }
    }

    /// Sets the budget of this process's cache of inner nodes in bytes, at most 1 TiB; 0 disables the cache. The
    /// default is [`CACHE_BYTES`](Self::CACHE_BYTES).
    pub fn cache_bytes(self, bytes: usize) -> Self {
        Self { cache_bytes: bytes, ..self }
    }
}

impl Structure for Radix {
    fn config(&self, columns: [Column; 2]) -> Result<OrderedConfig, String> {
        let kinds = columns.map(|column| column.kind.number());
        Ok(OrderedConfig::Smart(SmartConfig { options: self.variant, kinds, ..SmartConfig::default() }))
    }

    fn contradiction(&self, stored: &OrderedDescription) -> Option<Contradiction> {
        let OrderedDescription::Smart(stored) = stored else {
            return Some(other_system(System::Smart, stored));
        };
        compare("variant", [self.variant, stored.options, Self::new().variant], |features: &SmartFeatures| {
            show_variant(features.variant().map(SmartVariant::name), features.describe())
        })
    }

    fn cache_budget(&self) -> usize {
        self.cache_bytes
    }
}
