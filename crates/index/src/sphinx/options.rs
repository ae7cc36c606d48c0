//! Features and named variants of Sphinx, chosen at run time.
//!
//! | variant | a traversal starts | of 256 slots a search reads | a scan |
//! |---|---|---|---|
//! | `art` | at the root | all | starts at the root, reads one node or leaf after the other |
//! | `+hash-table` | at the deepest node in the hash table | all | starts at the root, reads many per doorbell |
//! | `+filter` = `sphinx` | at the deepest node in the filter | one | starts at a node in the filter, reads many |
//!
//! The paper's Sphinx reads all slots ([`NodeReads::Whole`]), and its scans start at the root ([`ScanStarts::Root`]).

use super::table::layout::GROUPS_LOG2_MAX;
pub use crate::cache::filter::Eviction;
use crate::radix::leaf::{ENTRY_BYTES_MAX, LeafGrain};
use crate::radix::tree;
use crate::radix::tree::options::LeafLock;
use crate::radix::tree::options::{Allocation, CachePolicy, Inserts, NodeSizing, Updates};
pub use crate::radix::tree::options::{NodeReads, Scans};
use crate::variant::named;

/// The method by which a traversal finds its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraversalStart {
    /// It starts at the root.
    Root,
    /// It starts at a node that the hash table leads to. The client looks up all prefixes.
    Table,
    /// It starts at a node that the hash table leads to. The client looks up the prefixes that the filter contains.
    Filter,
}

/// The method by which the clients of a compute node compete for the lock of a leaf, which is its last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafLocks {
    /// They wait in a queue, and the first one competes with other compute nodes.
    Queued,
    /// They wait in a queue. A client may hand the lock over to the next one, at most 8 times in a row; then the
    /// write-back does not release it.
    HandedOver,
    /// Each client competes with all others, as in the paper.
    Contended,
}

impl LeafLocks {
    /// The name in records and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::HandedOver => "handed-over",
            Self::Contended => "contended",
        }
    }

    /// The lock of the radix tree.
    fn tree(self) -> LeafLock {
        match self {
            Self::Queued => LeafLock::Rear,
            Self::HandedOver => LeafLock::RearHandedOver,
            Self::Contended => LeafLock::RearContended,
        }
    }
}

/// The node at which a scan starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanStarts {
    /// The root, as in the paper.
    Root,
    /// The deepest node that probably has enough keys, to which filter and hash table lead.
    Table,
}

impl ScanStarts {
    /// The name in records and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Table => "table",
        }
    }
}

/// Number of groups of a subtable, as a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups(u8);

impl Groups {
    /// 64: subtables of 1344 entries, 12 KiB.
    pub const DEFAULT: Self = Self(6);

    /// 2 to the power of `log2` groups; `None` if that is above 2048.
    pub const fn new(log2: u8) -> Option<Self> {
        if log2 <= GROUPS_LOG2_MAX { Some(Self(log2)) } else { None }
    }

    /// Returns the base-2 logarithm of the number.
    pub const fn log2(self) -> u8 {
        self.0
    }
}

/// The features of a Sphinx tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SphinxFeatures {
    /// The method by which a traversal finds its start.
    pub begins: TraversalStart,
    /// The method by which a scan reads nodes and leaves.
    pub scans: Scans,
    /// The part of an inner node that a search reads.
    pub node_reads: NodeReads,
    /// The method by which the clients of a compute node compete for the lock of a leaf.
    pub leaf_locks: LeafLocks,
    /// The node at which a scan starts.
    pub scan_starts: ScanStarts,
    /// The entry of a full filter that a new one replaces.
    pub eviction: Eviction,
    /// Size of subtables.
    pub groups: Groups,
}

impl SphinxFeatures {
    /// The options of the radix tree.
    pub(super) fn tree(self) -> tree::TreeOptions {
        tree::TreeOptions {
            inserts: Inserts::LockFree,
            updates: Updates::InPlace,
            leaf_lock: self.leaf_locks.tree(),
            node_sizing: NodeSizing::Fitting,
            node_reads: self.node_reads,
            scans: self.scans,
            grain: LeafGrain::Lines,
            allocation: Allocation::Words,
            // The client caches no nodes.
            cache_policy: CachePolicy::RecentlyUsed,
            inline_bytes: ENTRY_BYTES_MAX,
        }
    }

    /// The options as pairs of names and values, for records.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let begins = match self.begins {
            TraversalStart::Root => "at the root",
            TraversalStart::Table => "by the hash table",
            TraversalStart::Filter => "by the filter",
        };
        let scans = if self.scans == Scans::Batched { "batched" } else { "one by one" };
        vec![
            ("searches", begins.to_owned()),
            ("scans", scans.to_owned()),
            ("leaf_locks", self.leaf_locks.name().to_owned()),
            ("node_reads", self.node_reads.name().to_owned()),
            ("scan_starts", self.scan_starts.name().to_owned()),
            ("filter_eviction", self.eviction.name().to_owned()),
            ("subtable_groups", (1_u32 << self.groups.log2()).to_string()),
        ]
    }

    /// The variant that has these options; the size of subtables may differ.
    pub fn variant(&self) -> Option<SphinxVariant> {
        let plain = Self { groups: Groups::DEFAULT, ..*self };
        SphinxVariant::ALL.iter().map(|(variant, _)| *variant).find(|variant| variant.features() == plain)
    }

    /// Whether the tree has hash tables.
    pub(super) fn has_tables(self) -> bool {
        self.begins != TraversalStart::Root
    }
}

/// Named variants, in the order of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table in the module docs describes each variant")]
pub enum SphinxVariant {
    Art,
    HashTable,
    Filter,
}

impl SphinxVariant {
    /// The default variant.
    pub const RECOMMENDED: Self = Self::Filter;

    /// All variants, with their names.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Art, "art"), (Self::HashTable, "+hash-table"), (Self::Filter, "sphinx")];

    /// The options of the variant.
    pub fn features(self) -> SphinxFeatures {
        let (begins, scans) = match self {
            Self::Art => (TraversalStart::Root, Scans::OneByOne),
            Self::HashTable => (TraversalStart::Table, Scans::Batched),
            Self::Filter => (TraversalStart::Filter, Scans::Batched),
        };
        let (node_reads, scan_starts) = match self {
            Self::Art | Self::HashTable => (NodeReads::Whole, ScanStarts::Root),
            Self::Filter => (NodeReads::OneSlot, ScanStarts::Table),
        };
        let (leaf_locks, eviction) = (LeafLocks::Queued, Eviction::SecondChance);
        let groups = Groups::DEFAULT;
        SphinxFeatures { begins, scans, node_reads, leaf_locks, scan_starts, eviction, groups }
    }
}

named!(SphinxVariant, "+filter" is "sphinx");

impl Default for SphinxFeatures {
    fn default() -> Self {
        SphinxVariant::RECOMMENDED.features()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_names_and_differ() {
        for pair in SphinxVariant::ALL.windows(2) {
            assert_ne!(pair[0].0.features(), pair[1].0.features());
        }
        for (variant, name) in SphinxVariant::ALL {
            assert_eq!(name.parse(), Ok(variant));
        }
        assert_eq!("+filter".parse(), Ok(SphinxVariant::Filter));
        assert!(
            "sphynx".parse::<SphinxVariant>().unwrap_err().contains("art, +hash-table, +filter = sphinx")
        );
        assert_eq!(Groups::new(GROUPS_LOG2_MAX + 1), None);
    }
}
