//! Marks on the rare paths of this tree ([`crate::MARKS`] has those that it shares).

/// A leaf or a node was read in the middle of a WRITE.
pub(crate) const TORN: &str = "radix: a torn copy";
/// A cached copy was read again.
pub(crate) const RENEWED: &str = "radix: a cached node read again";
/// A cached copy was of a node that is gone.
pub(crate) const FORGOTTEN: &str = "radix: a cached node that is gone";
/// What was read just now was unclear.
pub(crate) const UNCLEAR: &str = "radix: unclear, though just read";
/// A slot was settled under its node's lock.
pub(crate) const SETTLED: &str = "radix: a slot settled";
/// A reverse pointer was set by who needed it.
pub(crate) const REVERSE_SET: &str = "radix: a reverse pointer settled";
/// A removal was ended by another.
pub(crate) const REMOVAL_ENDED: &str = "radix: a removal ended by another";
/// A move was taken back.
pub(crate) const MOVE_REVERTED: &str = "radix: a move taken back";
/// A CAS on a slot was lost to another client.
pub(crate) const SLOT_LOST: &str = "radix: a slot lost to another";
/// What was locked had changed before.
pub(crate) const LOCKED_LATE: &str = "radix: a node that changed before it was locked";
/// A leaf was split.
pub(crate) const LEAF_SPLIT: &str = "radix: a leaf split";
/// A prefix was split.
pub(crate) const PREFIX_SPLIT: &str = "radix: a prefix split";
/// A node was replaced by a larger one, or one of its size.
pub(crate) const GREW: &str = "radix: a node replaced by a larger";
/// A node was replaced by a smaller one.
pub(crate) const SHRANK: &str = "radix: a node replaced by a smaller";
/// A node gave way to its only child, or to none.
pub(crate) const COLLAPSED: &str = "radix: a node that gave way";
/// The lock of a node whose child was to be replaced was busy for long.
pub(crate) const REBUILD_BUSY: &str = "radix: a replacement that would have to wait";
/// A node was closed for a replacement that did not come about: the next who wants room there replaces it.
pub(crate) const LEFT_CLOSED: &str = "radix: a node left closed";
/// A replacement was ended by another.
pub(crate) const REBUILD_RESUMED: &str = "radix: a replacement ended by another";
/// A value outgrew its leaf.
pub(crate) const MOVED: &str = "radix: a leaf that moved";
/// A scan began again behind what it had found.
pub(crate) const SCAN_AGAIN: &str = "radix: a scan begun again";

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
    LEFT_CLOSED,
    REBUILD_RESUMED,
    MOVED,
    SCAN_AGAIN,
];
