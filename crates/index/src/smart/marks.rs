//! Marks on the rare paths of this index ([`crate::MARKS`] has those that it shares).

/// A leaf or a node was read in the middle of a WRITE.
pub(super) const TORN: &str = "smart: a torn copy";
/// A cached copy was read again.
pub(super) const RENEWED: &str = "smart: a cached node read again";
/// A cached copy was of a node that is gone.
pub(super) const FORGOTTEN: &str = "smart: a cached node that is gone";
/// What was read just now was unclear.
pub(super) const UNCLEAR: &str = "smart: unclear, though just read";
/// A slot was settled under its node's lock.
pub(super) const SETTLED: &str = "smart: a slot settled";
/// A reverse pointer was set by who needed it.
pub(super) const REVERSE_SET: &str = "smart: a reverse pointer settled";
/// A removal was ended by another.
pub(super) const REMOVAL_ENDED: &str = "smart: a removal ended by another";
/// A move was taken back.
pub(super) const MOVE_REVERTED: &str = "smart: a move taken back";
/// A CAS on a slot was lost to another client.
pub(super) const SLOT_LOST: &str = "smart: a slot lost to another";
/// What was locked had changed before.
pub(super) const LOCKED_LATE: &str = "smart: a node that changed before it was locked";
/// A leaf was split.
pub(super) const LEAF_SPLIT: &str = "smart: a leaf split";
/// A prefix was split.
pub(super) const PREFIX_SPLIT: &str = "smart: a prefix split";
/// A node was replaced by a larger one, or one of its size.
pub(super) const GREW: &str = "smart: a node replaced by a larger";
/// A node was replaced by a smaller one.
pub(super) const SHRANK: &str = "smart: a node replaced by a smaller";
/// A node gave way to its only child, or to none.
pub(super) const COLLAPSED: &str = "smart: a node that gave way";
/// The lock of a node that was to be replaced was busy.
pub(super) const REBUILD_BUSY: &str = "smart: a replacement that would have to wait";
/// A replacement was ended by another.
pub(super) const REBUILD_RESUMED: &str = "smart: a replacement ended by another";
/// A value outgrew its leaf.
pub(super) const MOVED: &str = "smart: a leaf that moved";
/// A READ was another client's, too.
pub(super) const READ_SHARED: &str = "smart: a READ shared";
/// A WRITE was another client's, too.
pub(super) const WRITE_SHARED: &str = "smart: a WRITE shared";
/// A scan began again behind what it had found.
pub(super) const SCAN_AGAIN: &str = "smart: a scan begun again";

/// All of them, by the words under which a fabric counts them.
pub const MARKS: &[&str] = &[
    TORN,
    RENEWED,
    FORGOTTEN,
    UNCLEAR,
    SETTLED,
    REVERSE_SET,
    REMOVAL_ENDED,
    MOVE_REVERTED,
    SLOT_LOST,
    LOCKED_LATE,
    LEAF_SPLIT,
    PREFIX_SPLIT,
    GREW,
    SHRANK,
    COLLAPSED,
    REBUILD_BUSY,
    REBUILD_RESUMED,
    MOVED,
    READ_SHARED,
    WRITE_SHARED,
    SCAN_AGAIN,
];
