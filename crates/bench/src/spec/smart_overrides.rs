//! Options of SMART that differ from those of its variant.

use farwood_index::smart::{Allocation, CachePolicy, NodeSizing, SmartFeatures};

/// Options of SMART; `None`: as the variant has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmartOverrides {
    /// The sizes of inner nodes.
    pub node_sizing: Option<NodeSizing>,
    /// Unit of the allocated memory.
    pub allocation: Option<Allocation>,
    /// The copies that a full node cache evicts.
    pub cache_policy: Option<CachePolicy>,
}

impl SmartOverrides {
    /// The features with the options that were chosen.
    pub fn apply(self, features: SmartFeatures) -> SmartFeatures {
        SmartFeatures {
            node_sizing: self.node_sizing.unwrap_or(features.node_sizing),
            allocation: self.allocation.unwrap_or(features.allocation),
            cache_policy: self.cache_policy.unwrap_or(features.cache_policy),
            ..features
        }
    }

    /// The flag of an option that was chosen.
    pub fn first_flag(self) -> Option<&'static str> {
        let chosen = [
            (self.node_sizing.is_some(), "--node-sizes"),
            (self.allocation.is_some(), "--round-allocations"),
            (self.cache_policy.is_some(), "--cache-policy"),
        ];
        chosen.into_iter().find(|(is_chosen, _)| *is_chosen).map(|(_, flag)| flag)
    }
}
