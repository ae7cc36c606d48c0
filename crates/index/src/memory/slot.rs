//! Memory of objects that were taken out of an index, used again at once: what makes that safe.
//!
//! Pointers to an object outlive it: in the caches of compute nodes, in copies of other objects that a client is about
//! to follow, in the hands of a client that is slow. Nobody waits for them to vanish. Instead, whoever follows a
//! pointer looks whether what lies there is what was looked for, and that suffices because of five rules:
//!
//! 1. **The memory keeps its type.** A room serves objects of one kind, size and index for as long as the index
//!    exists, so that whatever lies there can be read as such an object. Values out of line
//!    ([`overflow`](super::overflow)) are such objects, too: what they are is told by the version that links them.
//! 2. **An object says what it is.** Its level and its fences tell whether it is the one that covers a key; no two
//!    objects that are linked cover the same key at the same level. An object that was taken out says so, and so does
//!    one that is not linked yet, in a room to which old pointers may lead: it is marked as freed until it is linked.
//! 3. **Versions never start over.** The object that comes into a room goes on from the version of the one that was
//!    there ([`Room::version`]), so that a copy which mixes the two is torn. Its lock stays what it was: the first
//!    WRITE of an object in a used room leaves the lock's word alone.
//! 4. **A used room is filled, and everything in it changed, under its lock**, and what is changed was read under it.
//!    The lock of a room outlives the objects in it. Values out of line have no lock: who fills such a room is the
//!    only one that may, and what they are is told by version and hash.
//! 5. **A word that is changed by CAS never has an old value again** that somebody may still expect: no room is a
//!    root's twice, and lists of rooms are taken as a whole.
//!
//! So there are no epochs, nobody's absence keeps memory from being used again, and a client that sleeps for an hour
//! with a pointer in its hand wakes up to a retry. The price is that a room never leaves its index while that exists.
//!
//! A compute node keeps the rooms that it emptied, and fills them first; when it has many, and when it leaves, it
//! lists them in the pool, where any compute node finds them that would else take a chunk. The few hundred that one
//! kept when it died are lost to the index until that is dropped.

use farwood_fabric::Remote;

/// Room for one object, that nothing links.
#[derive(Debug)]
pub struct Room<T> {
    /// Where.
    pub at: Remote<T>,
    /// The version of the object that was there, which old pointers may still lead to; `None`: there never was one.
    pub version: Option<u32>,
    /// What may lie there.
    pub kind: RoomKind,
}

/// What may lie in a room: it is never cut or joined to others, and never used for anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoomKind {
    /// How large the room is.
    pub bytes: u32,
    /// The kind of the objects, by a number of the index's own.
    pub of: u8,
}

impl<T> Room<T> {
    /// The same room for an object of another name.
    pub fn cast<U>(self) -> Room<U> {
        Room { at: self.at.part(0), version: self.version, kind: self.kind }
    }

    /// Whether old pointers may lead here.
    pub const fn is_used(&self) -> bool {
        self.version.is_some()
    }

    /// The version of the next object in this room.
    pub const fn next_version(&self) -> u32 {
        match self.version {
            Some(version) => version.wrapping_add(1),
            None => 1,
        }
    }
}
