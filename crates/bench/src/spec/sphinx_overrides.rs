//! Options of Sphinx that differ from those of its variant.

use farwood_index::sphinx::{Eviction, LeafLocks, NodeReads, ScanStarts, SphinxFeatures, SphinxVariant};

/// Options of Sphinx; `None`: as the variant has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SphinxOverrides {
    /// The part of an inner node that a search reads.
    pub node_reads: Option<NodeReads>,
    /// The competition for the lock of a leaf.
    pub leaf_locks: Option<LeafLocks>,
    /// The node at which a scan starts.
    pub scan_starts: Option<ScanStarts>,
    /// The entry of a full filter that a new one replaces.
    pub eviction: Option<Eviction>,
}

impl SphinxOverrides {
    /// The features with the options that were chosen.
    pub fn apply(self, features: SphinxFeatures) -> SphinxFeatures {
        SphinxFeatures {
            node_reads: self.node_reads.unwrap_or(features.node_reads),
            leaf_locks: self.leaf_locks.unwrap_or(features.leaf_locks),
            scan_starts: self.scan_starts.unwrap_or(features.scan_starts),
            eviction: self.eviction.unwrap_or(features.eviction),
            ..features
        }
    }

    /// The flag of an option that was chosen and has no effect in `variant`.
    pub fn first_without_effect(self, variant: SphinxVariant) -> Option<&'static str> {
        let unused = [
            (self.scan_starts.is_some() && variant == SphinxVariant::Art, "--scan-starts"),
            (self.eviction.is_some() && variant != SphinxVariant::Filter, "--filter-eviction"),
        ];
        unused.into_iter().find(|(is_unused, _)| *is_unused).map(|(_, flag)| flag)
    }

    /// The flag of an option that was chosen.
    pub fn first_flag(self) -> Option<&'static str> {
        let chosen = [
            (self.node_reads.is_some(), "--node-reads"),
            (self.leaf_locks.is_some(), "--leaf-locks"),
            (self.scan_starts.is_some(), "--scan-starts"),
            (self.eviction.is_some(), "--filter-eviction"),
        ];
        chosen.into_iter().find(|(is_chosen, _)| *is_chosen).map(|(_, flag)| flag)
    }
}
