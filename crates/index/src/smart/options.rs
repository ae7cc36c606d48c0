//! What makes one variant of the tree differ from another, as values chosen at run time.
//!
//! The variants are the steps of SMART's factor analysis, each adding one technique to the one before it:
//!
//! | variant | a new key in a free slot | an update | the leaf's lock comes free | READs, WRITEs of one key |
//! |---|---|---|---|---|
//! | `art` | under the node's lock | a new leaf | – | each its own |
//! | `+lock-free` | one CAS | a new leaf | – | each its own |
//! | `+in-place` | one CAS | in the leaf | after the write-back | each its own |
//! | `+rear-lock` | one CAS | in the leaf | with the write-back | each its own |
//! | `+read-delegation` | one CAS | in the leaf | with the write-back | READs shared |
//! | `+write-combining` = `smart` | one CAS | in the leaf | with the write-back | both shared |

use crate::radix::leaf::Grain;
use crate::radix::tree;
pub use crate::radix::tree::options::{Inserts, LeafLock, Rooms, Scans, Updates};
use crate::variant::named;

/// Who reads what several clients of a compute node want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Each for itself.
    Each,
    /// One for those that came before it posts.
    Delegated,
}

/// Who writes what several clients of a compute node want to be written to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Each for itself.
    Each,
    /// The last one for those that came before it.
    Combined,
}

/// One point in the space of variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How a new key comes into a slot.
    pub inserts: Inserts,
    /// How a value is replaced.
    pub updates: Updates,
    /// When the lock of a leaf comes free.
    pub leaf_lock: LeafLock,
    /// Who reads what several want.
    pub reads: Reads,
    /// Who writes what several want.
    pub writes: Writes,
    /// How large inner nodes are.
    pub rooms: Rooms,
    /// How a scan reads.
    pub scans: Scans,
}

impl Options {
    /// What of it concerns the tree alone.
    pub(super) fn tree(self, inline_bytes: usize) -> tree::Options {
        let Self { inserts, updates, leaf_lock, rooms, scans, .. } = self;
        tree::Options { inserts, updates, leaf_lock, rooms, scans, grain: Grain::Words, inline_bytes }
    }
}

/// The named variants, in the paper's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the module's table says what each is")]
pub enum Variant {
    Art,
    LockFree,
    InPlace,
    RearLock,
    ReadDelegation,
    WriteCombining,
}

impl Variant {
    /// What users get who ask for nothing else.
    pub const RECOMMENDED: Self = Self::WriteCombining;

    /// All variants with the names that people use.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Art, "art"),
        (Self::LockFree, "+lock-free"),
        (Self::InPlace, "+in-place"),
        (Self::RearLock, "+rear-lock"),
        (Self::ReadDelegation, "+read-delegation"),
        (Self::WriteCombining, "smart"),
    ];

    /// The options that the name stands for.
    pub fn options(self) -> Options {
        let step = |variant: Self| self as u8 >= variant as u8;
        Options {
            inserts: if step(Self::LockFree) { Inserts::LockFree } else { Inserts::Locked },
            updates: if step(Self::InPlace) { Updates::InPlace } else { Updates::OutOfPlace },
            leaf_lock: if step(Self::RearLock) { LeafLock::Rear } else { LeafLock::Apart },
            reads: if step(Self::ReadDelegation) { Reads::Delegated } else { Reads::Each },
            writes: if step(Self::WriteCombining) { Writes::Combined } else { Writes::Each },
            rooms: Rooms::Fitting,
            scans: Scans::Batched,
        }
    }
}

impl Options {
    /// The options as pairs of names and values, for records.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let pick = |first: bool, one: &'static str, other: &'static str| if first { one } else { other };
        let pairs = [
            ("inserts", pick(self.inserts == Inserts::LockFree, "lock-free", "under the node's lock")),
            ("updates", pick(self.updates == Updates::InPlace, "in place", "out of place")),
            ("leaf_lock", pick(self.leaf_lock == LeafLock::Rear, "at the rear", "released apart")),
            ("reads", pick(self.reads == Reads::Delegated, "delegated", "each its own")),
            ("writes", pick(self.writes == Writes::Combined, "combined", "each its own")),
            ("rooms", pick(self.rooms == Rooms::Preallocated, "256 slots", "fitting")),
            ("scans", pick(self.scans == Scans::Batched, "batched", "one by one")),
        ];
        pairs.map(|(name, value)| (name, value.to_owned())).into()
    }

    /// The variant that has these options, whatever the rooms and however scans read.
    pub fn variant(&self) -> Option<Variant> {
        let plain = |options: Self| Self { rooms: Rooms::Fitting, scans: Scans::Batched, ..options };
        Variant::ALL.iter().map(|(variant, _)| *variant).find(|variant| variant.options() == plain(*self))
    }
}

named!(Variant, "+write-combining" is "smart");

impl Default for Options {
    fn default() -> Self {
        Variant::RECOMMENDED.options()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variant_has_a_name_and_differs_from_the_one_before() {
        for pair in Variant::ALL.windows(2) {
            assert_ne!(pair[0].0.options(), pair[1].0.options());
        }
        for (variant, name) in Variant::ALL {
            assert_eq!(name.parse(), Ok(variant));
        }
        assert!("smartest".parse::<Variant>().unwrap_err().contains("art, +lock-free"));
    }
}
