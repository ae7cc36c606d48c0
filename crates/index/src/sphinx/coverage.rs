//! Marks on the rare paths that are Sphinx's own ([`radix::tree::MARKS`](crate::radix::tree::MARKS) has the tree's, and
//! [`crate::MARKS`] those that all indexes share).

/// The filter said that there is a node, and there is none.
pub(super) const MISLED: &str = "sphinx: the filter misled";
/// An entry led to a node of another prefix with the same print.
pub(super) const COLLIDED: &str = "sphinx: an entry of another prefix";
/// An entry led to a node that is gone.
pub(super) const ENTRY_STALE: &str = "sphinx: an entry that leads nowhere";
/// An entry that led nowhere was taken out by who followed it.
pub(super) const ENTRY_CLEARED: &str = "sphinx: an entry taken out by another";
/// An entry that was missed was entered by who missed it.
pub(super) const ENTRY_MENDED: &str = "sphinx: an entry entered by who missed it";
/// A node was not entered: its memory node is lost, or its table full.
pub(super) const NOT_ENTERED: &str = "sphinx: a node that was not entered";
/// A cached directory was out of date.
pub(super) const DIRECTORY_STALE: &str = "sphinx: a directory out of date";
/// A subtable is being split, or its split was cut off.
pub(super) const SPLIT_MET: &str = "sphinx: a split that was met";
/// A split was ended by another.
pub(super) const SPLIT_RESUMED: &str = "sphinx: a split ended by another";
/// A split was begun: the new subtable is written.
pub(super) const SPLIT_BEGUN: &str = "sphinx: a split begun";
/// Entries are in both halves.
pub(super) const SPLIT_MOVING: &str = "sphinx: entries in both halves";
/// All entries of a split are where they belong.
pub(super) const SPLIT_MOVED: &str = "sphinx: entries that have moved";
/// A subtable was split.
pub(super) const SPLIT: &str = "sphinx: a subtable split";
/// A directory twice as long is written.
pub(super) const DOUBLING: &str = "sphinx: a directory about to be doubled";
/// A directory was doubled.
pub(super) const DOUBLED: &str = "sphinx: a directory doubled";
/// An entry changed while it was moved to another subtable.
pub(super) const MOVED_LATE: &str = "sphinx: an entry that changed as it moved";
/// A node is about to be entered where a split is near: faults wait for it.
pub(super) const ENTERING: &str = "sphinx: an entry about to be entered where there is little room";
/// An entry is about to be replaced or taken out there.
pub(super) const CHANGING: &str = "sphinx: an entry about to change where there is little room";
/// An entry was entered in the wrong half of a split.
pub(super) const ENTERED_ASTRAY: &str = "sphinx: an entry in the wrong half";
/// An entry was entered twice.
pub(super) const ENTERED_TWICE: &str = "sphinx: an entry entered twice";
/// A node was gone before its entry was there.
pub(super) const ENTERED_LATE: &str = "sphinx: a node gone before it was entered";
/// A bucket cannot be split any more.
pub(super) const TABLE_FULL: &str = "sphinx: a full table";

/// All of them, by the words under which a fabric counts them.
pub const MARKS: &[&str] = &[
    MISLED,
    COLLIDED,
    ENTRY_STALE,
    ENTRY_CLEARED,
    ENTRY_MENDED,
    NOT_ENTERED,
    DIRECTORY_STALE,
    SPLIT_MET,
    SPLIT_RESUMED,
    SPLIT_BEGUN,
    SPLIT_MOVING,
    SPLIT_MOVED,
    SPLIT,
    DOUBLING,
    DOUBLED,
    ENTERING,
    CHANGING,
    MOVED_LATE,
    ENTERED_ASTRAY,
    ENTERED_TWICE,
    ENTERED_LATE,
    TABLE_FULL,
];
