//! Features and named variants of SMART, chosen at run time.
//!
//! The variants are the steps of SMART's factor analysis, each adding one technique to the one before it:
//!
//! | variant | a new key in a free slot | an update | the leaf's lock is released | READs and WRITEs of one key |
//! |---|---|---|---|---|
//! | `art` | under the node's lock | a new leaf | – | separate |
//! | `+lock-free` | one CAS | a new leaf | – | separate |
//! | `+in-place` | one CAS | in the leaf | after the write-back | separate |
//! | `+rear-lock` | one CAS | in the leaf | with the write-back | separate |
//! | `+read-delegation` | one CAS | in the leaf | with the write-back | READs combined |
//! | `+write-combining` = `smart` | one CAS | in the leaf | with the write-back | both combined |

use crate::radix::leaf::LeafGrain;
use crate::radix::tree;
pub use crate::radix::tree::options::{Inserts, LeafLock, NodeSizing, Scans, Updates};
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
    /// The time at which the lock of a leaf is released.
    pub leaf_lock: LeafLock,
    /// Whether lookups are combined.
    pub reads: Reads,
    /// Whether changes are combined.
    pub writes: Writes,
    /// Sizes of inner nodes.
    pub node_sizing: NodeSizing,
    /// The method by which a scan reads nodes and leaves.
    pub scans: Scans,
}

impl SmartFeatures {
    /// The options of the radix tree.
    pub(super) fn tree(self, inline_bytes: usize) -> tree::TreeOptions {
        let Self { inserts, updates, leaf_lock, node_sizing, scans, .. } = self;
        tree::TreeOptions {
            inserts,
            updates,
            leaf_lock,
            node_sizing,
            scans,
            grain: LeafGrain::Words,
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
            updates: if step(Self::InPlace) { Updates::InPlace } else { Updates::OutOfPlace },
            leaf_lock: if step(Self::RearLock) { LeafLock::Rear } else { LeafLock::Apart },
            reads: if step(Self::ReadDelegation) { Reads::Delegated } else { Reads::Each },
            writes: if step(Self::WriteCombining) { Writes::Combined } else { Writes::Each },
            node_sizing: NodeSizing::Fitting,
            scans: Scans::Batched,
        }
    }
}

impl SmartFeatures {
    /// The options as pairs of names and values, for records.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let pick = |first: bool, one: &'static str, other: &'static str| if first { one } else { other };
        let pairs = [
            ("inserts", pick(self.inserts == Inserts::LockFree, "lock-free", "under the node's lock")),
            ("updates", pick(self.updates == Updates::InPlace, "in place", "out of place")),
            ("leaf_lock", pick(self.leaf_lock == LeafLock::Rear, "at the rear", "released apart")),
            ("reads", pick(self.reads == Reads::Delegated, "delegated", "each its own")),
            ("writes", pick(self.writes == Writes::Combined, "combined", "each its own")),
            ("node_sizes", self.node_sizing.name()),
            ("scans", pick(self.scans == Scans::Batched, "batched", "one by one")),
        ];
        pairs.map(|(name, value)| (name, value.to_owned())).into()
    }

    /// The variant that has these options; sizes of inner nodes and scans may differ.
    pub fn variant(&self) -> Option<SmartVariant> {
        let plain =
            |options: Self| Self { node_sizing: NodeSizing::Fitting, scans: Scans::Batched, ..options };
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
