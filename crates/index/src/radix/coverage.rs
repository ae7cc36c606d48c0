//! Coverage marks of the radix tree ([`crate::MARKS`] has the marks that all indexes share).

/// A copy of a leaf or a node was torn.
pub(crate) const TORN: &str = "radix: a torn copy";
/// A cached node was read again.
pub(crate) const READ_AGAIN: &str = "radix: a cached node read again";
/// A cached copy of a node that no longer exists was dropped.
pub(crate) const STALE_COPY_DROPPED: &str = "radix: a cached copy of a removed node";
/// A slot was ambiguous although its node had just been read.
pub(crate) const AMBIGUOUS: &str = "radix: an ambiguous fresh copy";
/// A slot was repaired under the lock of its node.
pub(crate) const REPAIRED: &str = "radix: a slot repaired";
/// A reverse pointer was set by a client that needed it.
pub(crate) const REVERSE_REPAIRED: &str = "radix: a reverse pointer repaired";
/// A removal was completed by another client.
pub(crate) const REMOVAL_COMPLETED: &str = "radix: a removal completed by another client";
/// A move was undone.
pub(crate) const MOVE_UNDONE: &str = "radix: a move undone";
/// The CAS of a slot failed because another client changed it.
pub(crate) const SLOT_LOST: &str = "radix: a slot lost to another client";
/// The CAS of a slot failed because its node was about to be replaced. Only clients that swap leaves without a lock
/// freeze slots, so [`smart::MARKS`](crate::smart::MARKS) has the mark.
pub(crate) const SLOT_FROZEN: &str = "radix: a frozen slot";
/// A node changed before it was locked.
pub(crate) const CHANGED_BEFORE_LOCK: &str = "radix: a node that changed before it was locked";
/// A leaf was split.
pub(crate) const LEAF_SPLIT: &str = "radix: a leaf split";
/// A prefix was split.
pub(crate) const PREFIX_SPLIT: &str = "radix: a prefix split";
/// A node was replaced by one at least as large.
pub(crate) const NODE_GREW: &str = "radix: a node replaced by a larger one";
/// A node was replaced by a smaller one.
pub(crate) const NODE_SHRANK: &str = "radix: a node replaced by a smaller one";
/// A node was replaced by its only child, or removed.
pub(crate) const NODE_REMOVED: &str = "radix: a node removed";
/// Another client put a leaf into a node while its slots were being closed, so its replacement was built again.
pub(crate) const CHANGED_WHILE_CLOSED: &str = "radix: a node changed while its slots were closed";
/// A replacement of a node needed the lock of the parent, which stayed held.
pub(crate) const PARENT_LOCK_BUSY: &str = "radix: a replacement that would have to wait";
/// A node was closed and not replaced; the next client that inserts there replaces it.
pub(crate) const LEFT_CLOSED: &str = "radix: a node left closed";
/// A replacement was completed by another client.
pub(crate) const RESIZE_RESUMED: &str = "radix: a replacement completed by another client";
/// A value moved to another leaf.
pub(crate) const LEAF_MOVED: &str = "radix: a leaf that moved";
/// A client read one slot of a node below the root. Only Sphinx reads single slots, so
/// [`sphinx::MARKS`](crate::sphinx::MARKS) has the mark.
pub(crate) const SLOT_READ: &str = "radix: one slot read instead of a node";
/// A scan restarted after the entries that it had found.
pub(crate) const SCAN_RESTARTED: &str = "radix: a scan restarted";

/// A node grew in place.
pub(crate) const GREW_IN_PLACE: &str = "radix: a node that grew in place";
/// A node had more slots in use than the client expected, and was read again.
pub(crate) const NODE_HAS_GROWN: &str = "radix: a node read again because it had grown in place";
/// A client completed the growth of a node that another client had begun.
pub(crate) const GROWTH_COMPLETED: &str = "radix: a growth in place completed by another client";
/// A client corrected the size in the slot that points to a node.
pub(crate) const SIZE_CORRECTED: &str = "radix: a size in a slot corrected";
/// The holder of a lock swapped a slot again, because another client had changed the size in it.
pub(crate) const SIZE_CHANGED_BEFORE_SWAP: &str = "radix: a slot swapped again after its size had changed";

/// All marks, by the text under which a fabric counts them.
pub const MARKS: &[&str] = &[
    TORN,
    READ_AGAIN,
    STALE_COPY_DROPPED,
    AMBIGUOUS,
    REPAIRED,
    REVERSE_REPAIRED,
    REMOVAL_COMPLETED,
    MOVE_UNDONE,
    SLOT_LOST,
    CHANGED_BEFORE_LOCK,
    LEAF_SPLIT,
    PREFIX_SPLIT,
    NODE_GREW,
    NODE_SHRANK,
    NODE_REMOVED,
    CHANGED_WHILE_CLOSED,
    PARENT_LOCK_BUSY,
    LEFT_CLOSED,
    RESIZE_RESUMED,
    LEAF_MOVED,
    SCAN_RESTARTED,
];
