//! Features and named variants of SMART, chosen at run time.
//!
//! The variants are the steps of SMART's factor analysis, each adding one technique to the one before it:
//!
//! | variant | a new key in a free slot | an update | the leaf's lock | hand-overs | READs and WRITEs of one key |
//! |---|---|---|---|---:|---|
//! | `art` | under the node's lock | a new leaf, one CAS | – | – | separate |
//! | `+lock-free` | one CAS | a new leaf, one CAS | – | – | separate |
//! | `+in-place` | one CAS | in the leaf | in device memory | 8 | separate |
//! | `+rear-lock` | one CAS | in the leaf | in the last word, released by the write-back | 8 | separate |
//! | `+read-delegation` | one CAS | in the leaf | as before | 8 | READs combined |
//! | `+write-combining` = `smart` | one CAS | in the leaf | as before | 0 | both combined |
//!
//! The locks of the steps are those of SMART's published artifact (decision 73). A compute node hands a lock over to
//! its own clients, until write combining leaves none that waits.

use crate::radix::leaf::LeafGrain;
use crate::radix::tree;
use crate::radix::tree::options::NodeReads;
pub use crate::radix::tree::options::{
    Allocation, CachePolicy, Inserts, LeafLock, NodeSizing, Scans, Updates,
};
use crate::variant::named;

/// Whether clients of a compute node combine lookups of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Each client executes its own READ.
    Each,
    /// One client executes a READ for all clients that arrived before its post.
    Delegated,
}

/// Whether clients of a compute node combine changes of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Each client executes its own WRITE.
    Each,
    /// The last client to arrive executes a WRITE for all that arrived before it.
    Combined,
}

/// The features of a SMART tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmartFeatures {
    /// The method by which a new key is put into a slot.
    pub inserts: Inserts,
    /// The method by which a value is replaced.
    pub updates: Updates,
    /// The memory of a leaf's lock, and the time at which it is released.
    pub leaf_lock: LeafLock,
    /// Whether lookups are combined.
    pub reads: Reads,
    /// Whether changes are combined.
    pub writes: Writes,
    /// Sizes of inner nodes.
    pub node_sizing: NodeSizing,
    /// The method by which a scan reads nodes and leaves.
    pub scans: Scans,
    /// Unit of the allocated memory.
    pub allocation: Allocation,
    /// The copies that a full node cache evicts.
    pub cache_policy: CachePolicy,
}

impl SmartFeatures {
    /// The options of the radix tree.
    pub(super) fn tree(self, inline_bytes: usize) -> tree::TreeOptions {
        let Self { inserts, updates, leaf_lock, node_sizing, scans, allocation, cache_policy, .. } = self;
        tree::TreeOptions {
            inserts,
            updates,
            leaf_lock,
            node_sizing,
            // The client caches the nodes that it reads.
            node_reads: NodeReads::Whole,
            scans,
            grain: LeafGrain::Words,
            allocation,
            cache_policy,
            inline_bytes,
        }
    }
}

/// Named variants, in the order of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table in the module docs describes each variant")]
pub enum SmartVariant {
    Art,
    LockFree,
    InPlace,
    RearLock,
    ReadDelegation,
    WriteCombining,
}

impl SmartVariant {
    /// The default variant.
    pub const RECOMMENDED: Self = Self::WriteCombining;

    /// All variants, with their names.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Art, "art"),
        (Self::LockFree, "+lock-free"),
        (Self::InPlace, "+in-place"),
        (Self::RearLock, "+rear-lock"),
        (Self::ReadDelegation, "+read-delegation"),
        (Self::WriteCombining, "smart"),
    ];

    /// The options of the variant.
    pub fn features(self) -> SmartFeatures {
        let step = |variant: Self| self as u8 >= variant as u8;
        SmartFeatures {
            inserts: if step(Self::LockFree) { Inserts::LockFree } else { Inserts::Locked },
            updates: if step(Self::InPlace) { Updates::InPlace } else { Updates::Swapped },
            leaf_lock: match self {
                Self::Art | Self::LockFree => LeafLock::Apart,
                Self::InPlace => LeafLock::Table,
                Self::RearLock | Self::ReadDelegation => LeafLock::RearHandedOver,
                Self::WriteCombining => LeafLock::Rear,
            },
            reads: if step(Self::ReadDelegation) { Reads::Delegated } else { Reads::Each },
            writes: if step(Self::WriteCombining) { Writes::Combined } else { Writes::Each },
            node_sizing: NodeSizing::Fitting,
            scans: Scans::Batched,
            allocation: Allocation::Words,
            cache_policy: CachePolicy::RecentlyUsed,
        }
    }
}

impl SmartFeatures {
    /// The options as pairs of names and values, for records.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let pick = |first: bool, one: &'static str, other: &'static str| if first { one } else { other };
        let updates = match self.updates {
            Updates::OutOfPlace => "out of place",
            Updates::InPlace => "in place",
            Updates::Swapped => "out of place, without a lock",
        };
        let allocation = match self.allocation {
            Allocation::Words => "words",
            Allocation::Steps256 => "steps of 256 bytes",
        };
        let pairs = [
            ("inserts", pick(self.inserts == Inserts::LockFree, "lock-free", "under the node's lock")),
            ("updates", updates),
            ("leaf_lock", self.leaf_lock.name()),
            ("reads", pick(self.reads == Reads::Delegated, "delegated", "each its own")),
            ("writes", pick(self.writes == Writes::Combined, "combined", "each its own")),
            ("node_sizes", self.node_sizing.name()),
            ("scans", pick(self.scans == Scans::Batched, "batched", "one by one")),
            ("allocation", allocation),
            ("cache_policy", self.cache_policy.name()),
        ];
        pairs.map(|(name, value)| (name, value.to_owned())).into()
    }

    /// The variant that has these options; sizes of inner nodes, scans, allocation and cache may differ.
    pub fn variant(&self) -> Option<SmartVariant> {
        let plain = |options: Self| Self {
            node_sizing: NodeSizing::Fitting,
            scans: Scans::Batched,
            allocation: Allocation::Words,
            cache_policy: CachePolicy::RecentlyUsed,
            ..options
        };
        SmartVariant::ALL
            .iter()
            .map(|(variant, _)| *variant)
            .find(|variant| variant.features() == plain(*self))
    }
}

named!(SmartVariant, "+write-combining" is "smart");

impl Default for SmartFeatures {
    fn default() -> Self {
        SmartVariant::RECOMMENDED.features()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_names_and_differ() {
        for pair in SmartVariant::ALL.windows(2) {
            assert_ne!(pair[0].0.features(), pair[1].0.features());
        }
        for (variant, name) in SmartVariant::ALL {
            assert_eq!(name.parse(), Ok(variant));
        }
        assert!("smartest".parse::<SmartVariant>().unwrap_err().contains("art, +lock-free"));
    }
}
