//! Marks on the rare paths that races and faults lead to. Runs of many seeds in the laboratory have passed only if
//! they came along every one of them; elsewhere they cost nothing.

macro_rules! marks {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub(crate) const $name: &str = $text;)*

        /// All marks, by the words under which a fabric counts them.
        pub const MARKS: &[&str] = &[$($text),*];
    };
}

marks! {
    /// A READ saw a node in the middle of a WRITE.
    TORN_NODE = "a torn node";
    /// A lookup saw an entry in the middle of a WRITE.
    TORN_ENTRY = "a torn entry";
    /// A scan saw a leaf, or an entry, in the middle of a WRITE.
    TORN_SCAN = "a torn leaf in a scan";
    /// A leaf was split since somebody said where it is.
    STEPPED_RIGHT = "a step right to a leaf";
    /// The same with an inner node.
    STEPPED_RIGHT_INNER = "a step right to an inner node";
    /// The same in a scan.
    STEPPED_RIGHT_SCAN = "a step right in a scan";
    /// The node that was locked is not the one any more that covers the key.
    LOCKED_ASTRAY = "a lock on a node that was split";
    /// So many steps right that the way starts at the root again.
    RESTARTED = "a restart from the root";
    /// What the cache said was out of date.
    CACHE_MISLED = "the cache misled";
    /// A leaf that no parent names was entered in its parent by who found it.
    ORPHAN_ADOPTED = "an orphan adopted";
    /// The separator was in the parent already.
    ADOPTED_BEFORE = "an orphan adopted by another";
    /// A parent could not be told of a node, for want of memory, of its lock, or of its memory node.
    NOT_ADOPTED = "a parent that was not told";
    /// The root was split since it was cached.
    ROOT_OUTGROWN = "the cached root was split";
    /// A split root without a parent was grown over by who needed it.
    ROOT_SETTLED = "a split root settled";
    /// Another gave the tree its next root.
    ROOT_LOST = "the race for the root lost";
    /// The tree had its next root already.
    ROOT_THERE = "the next root was there";
    /// A client has the locks for a merge, and begins to write.
    MERGE_BEGUN = "a merge begun";
    /// A leaf or an inner node was merged into its left neighbour.
    MERGED = "a merge";
    /// The same for inner nodes.
    MERGED_INNER = "a merge of inner nodes";
    /// A neighbour's lock was taken, so there was no merge.
    MERGE_BUSY = "a merge that would have to wait";
    /// The tree had changed when all was locked, so there was no merge.
    MERGE_LATE = "a merge that came too late";
    /// A merge failed half-way.
    MERGE_CUT = "a merge that was cut off";
    /// A merge that nobody ends was taken back.
    MERGE_REVIVED = "a merge taken back";
    /// The root has one child, and is to be marked.
    ROOT_SHRINKS = "a root that is to give way";
    /// The root had one child and gave way to it.
    ROOT_SHRUNK = "a root less";
    /// A root that was taken out gave way at last, by another's hand.
    ROOT_SWUNG = "a root that gave way late";
    /// A node to be entered in its parent had been merged meanwhile.
    ORPHAN_GONE = "an orphan that is gone";
    /// An emptied node's memory serves another.
    ROOM_REUSED = "a room used again";
    /// Emptied rooms were listed for other compute nodes.
    ROOMS_GIVEN = "rooms given";
    /// Rooms that others had listed were taken.
    ROOMS_RECEIVED = "rooms received";
    /// A new node in a used room is linked, and its mark is still to be taken away.
    LINKED_MARKED = "a marked node linked";
    /// A search by READs found a node's room used again.
    OVERTAKEN = "a search that was overtaken";
    /// A response did not fit its ring before the client had consumed more.
    RING_FULL = "a ring that is full";
    /// A leaf changed between the two readings of a snapshot.
    SNAPSHOT_LATE = "a snapshot that was too late";
    /// A value out of line was replaced or removed since its entry was read.
    VALUE_MOVED = "a value that moved";
    /// The chunk of a dead client was taken over.
    CHUNK_INHERITED = "a chunk of the dead";
    /// A lock that was handed over brought its node.
    NODE_HANDED_OVER = "a node with its lock";
    /// A lock's holder was asked about, and lives.
    HOLDER_LIVES = "a lock's holder lives";
    /// A lock was taken from a dead client.
    LOCK_BROKEN = "a lock taken from the dead";
    /// Another survivor took it first.
    LOCK_BROKEN_BEFORE = "a dead client's lock lost to another";
    /// A lock's holder seems to be stopped.
    LOCK_STUCK = "a long wait for a lock";
    /// It was stopped for longer than anybody waits.
    LOCK_GIVEN_UP = "a lock given up";
    /// The post of a release failed.
    RELEASE_FAILED = "a release failed";
    /// Nobody knows whether a lock is held: its memory node is lost.
    LOCK_IN_DOUBT = "a lock in doubt";
    /// A lock in doubt was given back.
    DOUBT_SETTLED = "a doubt settled";
    /// A lock in doubt turned out to be held, and was wanted.
    LEFT_OVER = "a left-over lock taken";
}

#[cfg(test)]
mod tests {
    use super::MARKS;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_marks_have_the_same_words() {
        assert_eq!(MARKS.iter().collect::<BTreeSet<_>>().len(), MARKS.len());
    }
}
