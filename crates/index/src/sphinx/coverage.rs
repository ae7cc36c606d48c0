//! Coverage marks of Sphinx ([`radix::MARKS`](crate::radix::MARKS) has the marks of the tree, and [`crate::MARKS`]
//! those that all indexes share).

/// The filter knows a prefix that has no node.
pub(super) const FILTER_FALSE_POSITIVE: &str = "sphinx: a filter false positive";
/// An entry led to a node of another prefix with the same fingerprint.
pub(super) const FINGERPRINT_COLLISION: &str = "sphinx: an entry of another prefix";
/// An entry led to a node that no longer exists.
pub(super) const ENTRY_STALE: &str = "sphinx: an entry of a removed node";
/// A client removed an entry that led to a node that no longer exists.
pub(super) const ENTRY_CLEARED: &str = "sphinx: an entry cleared by another client";
/// A client found a node without an entry, and entered it.
pub(super) const ENTRY_RESTORED: &str = "sphinx: a missing entry inserted by a reader";
/// A node was not entered, because its memory node is lost or its table is full.
pub(super) const NOT_ENTERED: &str = "sphinx: a node without an entry";
/// A cached directory was stale.
pub(super) const DIRECTORY_STALE: &str = "sphinx: a stale directory";
/// A client found a subtable that is being split, or whose split was interrupted.
pub(super) const SPLIT_MET: &str = "sphinx: a client found a split in progress";
/// A scan found its start through filter and hash table.
pub(super) const SCAN_STARTED_BY_TABLE: &str = "sphinx: a scan that starts at a node of the table";
/// A client did not wait for a split, and postponed its change of the table.
pub(super) const CHANGE_POSTPONED: &str = "sphinx: a change postponed during a split";
/// A client made a change that was postponed.
pub(super) const POSTPONED_CHANGE_MADE: &str = "sphinx: a postponed change made";
/// A split was completed by another client.
pub(super) const SPLIT_RESUMED: &str = "sphinx: a split completed by another client";
/// A split was begun: the new subtable is written.
pub(super) const SPLIT_BEGUN: &str = "sphinx: a split begun";
/// Entries are in both halves of a split.
pub(super) const SPLIT_MOVING: &str = "sphinx: entries in both halves";
/// All entries of a split are in their final half.
pub(super) const SPLIT_MOVED: &str = "sphinx: entries that have moved";
/// A subtable was split.
pub(super) const SPLIT: &str = "sphinx: a subtable split";
/// A directory of twice the length is written.
pub(super) const DOUBLING: &str = "sphinx: a directory about to be doubled";
/// A directory was doubled.
pub(super) const DOUBLED: &str = "sphinx: a directory doubled";
/// An entry changed while it moved to another subtable.
pub(super) const CHANGED_WHILE_MOVED: &str = "sphinx: an entry that changed as it moved";
/// A node is about to be entered in an almost full bucket. Fault injection uses this mark.
pub(super) const ENTERING: &str = "sphinx: an entry about to be inserted into a nearly full bucket";
/// An entry in an almost full bucket is about to be replaced or removed. Fault injection uses this mark.
pub(super) const CHANGING: &str = "sphinx: an entry about to change in a nearly full bucket";
/// An entry was entered in the wrong half of a split.
pub(super) const ENTERED_IN_WRONG_HALF: &str = "sphinx: an entry in the wrong half";
/// An entry was entered twice.
pub(super) const ENTERED_TWICE: &str = "sphinx: an entry inserted twice";
/// A node was removed before its entry was written.
pub(super) const ENTERED_LATE: &str = "sphinx: a node removed before its entry was inserted";
/// A subtable cannot be split further.
pub(super) const TABLE_FULL: &str = "sphinx: a full table";

/// All marks, by the text under which a fabric counts them.
pub const MARKS: &[&str] = &[
    FILTER_FALSE_POSITIVE,
    FINGERPRINT_COLLISION,
    ENTRY_STALE,
    ENTRY_CLEARED,
    ENTRY_RESTORED,
    NOT_ENTERED,
    DIRECTORY_STALE,
    SPLIT_MET,
    SCAN_STARTED_BY_TABLE,
    CHANGE_POSTPONED,
    POSTPONED_CHANGE_MADE,
    SPLIT_RESUMED,
    SPLIT_BEGUN,
    SPLIT_MOVING,
    SPLIT_MOVED,
    SPLIT,
    DOUBLING,
    DOUBLED,
    ENTERING,
    CHANGING,
    CHANGED_WHILE_MOVED,
    ENTERED_IN_WRONG_HALF,
    ENTERED_TWICE,
    ENTERED_LATE,
    TABLE_FULL,
    crate::radix::coverage::SLOT_READ,
];
