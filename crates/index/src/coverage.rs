//! Coverage marks on the rare paths that races and faults lead to. A campaign of simulator seeds passes only if it has
//! reached every one of them; outside of the simulator they cost nothing.

macro_rules! coverage_marks {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub(crate) const $name: &str = $text;)*

        /// All coverage marks, by the names under which a fabric counts them.
        pub const MARKS: &[&str] = &[$($text),*];
    };
}

coverage_marks! {
    /// A READ overlapped the WRITE of a node.
    TORN_NODE = "a torn node";
    /// A lookup overlapped the WRITE of an entry.
    TORN_ENTRY = "a torn entry";
    /// A scan overlapped the WRITE of a leaf, or of an entry.
    TORN_SCAN = "a torn leaf in a scan";
    /// A leaf was split after the client learned its address.
    STEPPED_RIGHT = "a step right to a leaf";
    /// An inner node was split after the client learned its address.
    STEPPED_RIGHT_INNER = "a step right to an inner node";
    /// A leaf was split after a scan learned its address.
    STEPPED_RIGHT_SCAN = "a step right in a scan";
    /// The locked node no longer covers the key.
    LOCKED_SPLIT_NODE = "a lock on a node that was split";
    /// A traversal reached its limit of steps to the right.
    RESTARTED = "a restart from the root";
    /// A cached parent named a leaf that does not cover the key.
    STALE_PARENT = "a stale cached parent";
    /// A traversal found a leaf that no parent names, and links it.
    SIBLING_FOUND_UNLINKED = "a sibling found unlinked";
    /// The parent had the separator already.
    ALREADY_LINKED = "a sibling linked by another client";
    /// A parent could not be updated, for lack of memory, of its lock, or of its memory node.
    NOT_LINKED = "a sibling that could not be linked";
    /// The root was split after it was cached.
    CACHED_ROOT_SPLIT = "a cached root that was split";
    /// A client that needed the root above a split root added it.
    ROOT_SIBLING_LINKED = "a root added above a split root";
    /// Another client added the next root.
    ROOT_SWAP_LOST = "the race for the root lost";
    /// The tree had its next root already.
    ROOT_PRESENT = "the next root was present";
    /// A client holds the locks for a merge, and begins to write.
    MERGE_BEGUN = "a merge begun";
    /// A leaf or an inner node was merged into its left neighbour.
    MERGED = "a merge";
    /// An inner node was merged into its left neighbour.
    MERGED_INNER = "a merge of inner nodes";
    /// Another client held the lock of a neighbour, so there was no merge.
    MERGE_BUSY = "a merge that would have to wait";
    /// The tree had changed before all locks were acquired, so there was no merge.
    MERGE_LATE = "a merge that came too late";
    /// A merge failed half-way.
    MERGE_INTERRUPTED = "an interrupted merge";
    /// An interrupted merge was undone.
    MERGE_UNDONE = "a merge undone";
    /// The root has one child, and the client is about to mark it as removed.
    ROOT_SHRINKS = "a root about to be removed";
    /// The root had one child, which replaced it.
    ROOT_SHRUNK = "a root removed";
    /// A client found a marked root and swapped the root pointer.
    ROOT_SWAPPED_LATE = "a root removed by another client";
    /// A sibling had been merged before it was linked in its parent.
    SIBLING_GONE = "a sibling that was merged";
    /// The slot of a removed object serves another one.
    SLOT_REUSED = "a slot reused";
    /// Free slots were listed for other compute nodes.
    SLOTS_GIVEN = "free slots listed";
    /// Free slots of other compute nodes were taken.
    SLOTS_RECEIVED = "free slots taken";
    /// A new node in a used slot is linked, and still marked as freed.
    LINKED_MARKED = "a marked node linked";
    /// A search by READs found that the slot of a node was reused.
    OVERTAKEN = "a search that was overtaken";
    /// A response did not fit its ring before the client had consumed more.
    RING_FULL = "a ring that is full";
    /// A commit of a spatial tree contained changes of several workers.
    GROUP_COMMIT = "a commit for several workers";
    /// Another worker committed the changes of a worker.
    COMMITTED_BY_ANOTHER = "changes that another worker committed";
    /// A leaf changed between the two readings of a snapshot.
    SNAPSHOT_RETRIED = "a snapshot that was retried";
    /// An overflow value was replaced or removed after its entry was read.
    VALUE_REPLACED = "an overflow value that was replaced";
    /// The chunk of a crashed client was adopted.
    CHUNK_ADOPTED = "a chunk adopted";
    /// A lock that was handed over carried its node.
    NODE_HANDED_OVER = "a node handed over";
    /// The lock of another object was handed over, and the client released it.
    OTHER_LOCK_HANDED_OVER = "the lock of another object handed over";
    /// The holder of a lock was checked, and is alive.
    HOLDER_ALIVE = "a live lock holder";
    /// A lock was taken over from a crashed client.
    LOCK_TAKEN_OVER = "a lock taken over";
    /// Another client took the lock over first.
    TAKEOVER_LOST = "a lock takeover lost";
    /// The holder of a lock seems to be stopped.
    LONG_LOCK_WAIT = "a long wait for a lock";
    /// The wait for a lock reached its limit.
    LOCK_TIMEOUT = "a lock timeout";
    /// The post of a release failed.
    RELEASE_FAILED = "a failed release";
    /// A lock may be held or free: its memory node is lost.
    LOCK_UNCERTAIN = "an uncertain lock";
    /// An uncertain lock was freed.
    UNCERTAIN_LOCK_FREED = "an uncertain lock freed";
    /// An uncertain lock was held, and a client of this compute node acquired it.
    UNCERTAIN_LOCK_HELD = "an uncertain lock acquired";
}

#[cfg(test)]
mod tests {
    use super::MARKS;
    use std::collections::BTreeSet;

    #[test]
    fn coverage_marks_have_different_names() {
        assert_eq!(MARKS.iter().collect::<BTreeSet<_>>().len(), MARKS.len());
    }
}
