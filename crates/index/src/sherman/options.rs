//! The differences between the variants of the tree, as values chosen at run time.
//!
//! The variants are the steps of Sherman's Figure 10, each adding one technique to the one before it:
//!
//! | variant | leaves | locks in | release | write-back | local locks |
//! |---|---|---|---|---|---|
//! | `fg` | sorted, node hash | the node | FAA | alone | none |
//! | `fg+` | sorted, node hash | the node | WRITE | alone | none |
//! | `+combine` | sorted, node hash | the node | WRITE | with the unlock | none |
//! | `+on-chip` | sorted, node hash | device memory | WRITE | with the unlock | none |
//! | `+local` | sorted, node hash | device memory | WRITE | with the unlock | spinning |
//! | `+queue` | sorted, node hash | device memory | WRITE | with the unlock | first come, first served |
//! | `+hierarchical` | sorted, node hash | device memory | WRITE | with the unlock | and handed over |
//! | `+two-level` = `sherman` | unsorted, two-level | device memory | WRITE | with the unlock | and handed over |
//!
//! Beyond the paper, `+lock-read` acquires a node's lock and reads the node in one doorbell, where the fabric executes
//! an atomic and a READ after it in order: an update is two round trips. A lock that is handed over carries the leaf,
//! as its last holder wrote it: then an update is one round trip. The number of consecutive hand-overs is greater than
//! in the paper. A client that has waited for a lock for 50 ms pauses between attempts; in the paper's variants it
//! tries again at once.

use crate::lock::{LocalLocks, LockMemory, LockOptions, LockPauses, LockWidth, Release};
use crate::variant::named;

/// The layout of leaves, and the unit of their write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// Sorted; every change writes the whole node back under one hash (FG).
    Sorted,
    /// Unsorted; a change of one entry writes that entry back under its own guard (Sherman §4.4).
    TwoLevel,
}

/// Whether the write-back and the release of the lock share a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBack {
    /// The client posts the release after the answer to the write-back.
    Alone,
    /// One doorbell contains both, in order (Sherman §4.5).
    Combined,
}

/// Whether the lock of a node and the READ of the node share a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRead {
    /// The client posts the READ after the answer to the lock.
    Apart,
    /// One doorbell contains both if the fabric executes an atomic and a READ after it in order; otherwise the client
    /// posts one after the other. A lock that is handed over carries the node.
    Together,
}

/// The options of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShermanFeatures {
    /// Layout of leaves. Fixed when the tree is created.
    pub leaves: Leaves,
    /// The locks of nodes. Memory and width are fixed when the tree is created.
    pub lock: LockOptions,
    /// Whether write-back and unlock share a doorbell.
    pub write_back: WriteBack,
    /// Whether the lock and the first READ of the node share a doorbell.
    pub lock_read: LockRead,
}

/// The named variants, in the paper's order, and one that the paper does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the table in the module docs describes each variant")]
pub enum ShermanVariant {
    Fg,
    FgPlus,
    Combine,
    OnChip,
    Local,
    Queue,
    Hierarchical,
    Sherman,
    LockRead,
}

impl ShermanVariant {
    /// The default variant: the fastest one that is safe on every fabric.
    pub const RECOMMENDED: Self = Self::LockRead;

    /// All variants with their names.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Fg, "fg"),
        (Self::FgPlus, "fg+"),
        (Self::Combine, "+combine"),
        (Self::OnChip, "+on-chip"),
        (Self::Local, "+local"),
        (Self::Queue, "+queue"),
        (Self::Hierarchical, "+hierarchical"),
        (Self::Sherman, "sherman"),
        (Self::LockRead, "+lock-read"),
    ];

    /// The options of the variant.
    pub fn features(self) -> ShermanFeatures {
        let step = |variant: Self| self as u8 >= variant as u8;
        let pick = |variant, before: LocalLocks, after| if step(variant) { after } else { before };
        let local = pick(Self::Local, LocalLocks::None, LocalLocks::Spinning);
        let local = pick(Self::Queue, local, LocalLocks::Queued { hand_over_max: 0 });
        let local = pick(Self::Hierarchical, local, LocalLocks::Queued { hand_over_max: HAND_OVER_MAX });
        let local = pick(Self::LockRead, local, LocalLocks::Queued { hand_over_max: LONG_HAND_OVER_MAX });
        ShermanFeatures {
            leaves: if step(Self::Sherman) { Leaves::TwoLevel } else { Leaves::Sorted },
            lock: LockOptions {
                memory: if step(Self::OnChip) { LockMemory::Device } else { LockMemory::Node },
                width: LockWidth::Word,
                release: if step(Self::FgPlus) { Release::Write } else { Release::Faa },
                local,
                pauses: if step(Self::LockRead) { LockPauses::LongWait } else { LockPauses::None },
            },
            write_back: if step(Self::Combine) { WriteBack::Combined } else { WriteBack::Alone },
            lock_read: if step(Self::LockRead) { LockRead::Together } else { LockRead::Apart },
        }
    }
}

/// Maximum consecutive hand-overs of a lock within a compute node (Sherman §4.3).
pub const HAND_OVER_MAX: u8 = 4;
/// The maximum in `+lock-read`, which the paper does not have: every acquisition after a release costs one more round
/// trip, and a client of another compute node waits for at most this number of WRITEs.
pub const LONG_HAND_OVER_MAX: u8 = 16;

named!(ShermanVariant, "+two-level" is "sherman");

impl Default for ShermanFeatures {
    fn default() -> Self {
        ShermanVariant::Sherman.features()
    }
}

impl ShermanFeatures {
    /// The options as pairs of names and values, for records.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let local = match self.lock.local {
            LocalLocks::None => "none".to_owned(),
            LocalLocks::Spinning => "spinning".to_owned(),
            LocalLocks::Queued { hand_over_max: 0 } => "queued".to_owned(),
            LocalLocks::Queued { hand_over_max } => {
                format!("queued, handed over at most {hand_over_max} times")
            }
        };
        let leaves = match self.leaves {
            Leaves::Sorted => "sorted",
            Leaves::TwoLevel => "two-level",
        };
        let lock_read = match self.lock_read {
            LockRead::Apart => "apart",
            LockRead::Together => "in one doorbell",
        };
        let write_back = match self.write_back {
            WriteBack::Alone => "alone",
            WriteBack::Combined => "combined with the unlock",
        };
        vec![
            ("leaves", leaves.to_owned()),
            ("lock_memory", self.lock.memory.name().to_owned()),
            ("lock_width", self.lock.width.name().to_owned()),
            ("release", self.lock.release.name().to_owned()),
            ("write_back", write_back.to_owned()),
            ("local_locks", local),
            ("lock_pauses", self.lock.pauses.name().to_owned()),
            ("lock_read", lock_read.to_owned()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for (variant, name) in ShermanVariant::ALL {
            assert_eq!(name.parse(), Ok(variant));
            assert_eq!(variant.to_string(), name);
        }
        assert_eq!("+two-level".parse(), Ok(ShermanVariant::Sherman));
        assert!("btree".parse::<ShermanVariant>().unwrap_err().contains("+hierarchical"));
    }

    #[test]
    fn each_variant_adds_one_technique() {
        let mut before = ShermanVariant::Fg.features();
        for (variant, name) in &ShermanVariant::ALL[1..] {
            let mut after = variant.features();
            if *variant == ShermanVariant::LockRead {
                // The last variant also changes a number of an earlier one.
                assert_eq!(after.lock.local, LocalLocks::Queued { hand_over_max: LONG_HAND_OVER_MAX });
                after.lock.local = before.lock.local;
                assert_eq!(after.lock.pauses, LockPauses::LongWait);
            }
            let changed = [
                before.leaves != after.leaves,
                before.lock.memory != after.lock.memory,
                before.lock.release != after.lock.release,
                before.lock.local != after.lock.local,
                before.write_back != after.write_back,
                before.lock_read != after.lock_read,
            ];
            assert_eq!(changed.iter().filter(|&&changed| changed).count(), 1, "{name}");
            before = after;
        }
        assert_eq!(ShermanVariant::Sherman.features(), ShermanFeatures::default());
    }
}
