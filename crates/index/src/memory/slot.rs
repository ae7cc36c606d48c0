//! Slots: the memory of removed objects, reused at once, and the rules that make reuse safe.
//!
//! Pointers to an object outlive it: in the caches of compute nodes, in copies of other objects that a client is about
//! to follow, in the variables of a slow client. No client waits until all these pointers are dropped. Instead, a
//! client that follows a pointer checks that the slot holds the expected object. That suffices because of five rules:
//!
//! 1. **The memory keeps its type.** A slot serves objects of one kind, size and index for as long as the index exists,
//!    so its bytes can always be read as such an object. Overflow values ([`overflow`](super::overflow)) are such
//!    objects, too: the version in the link identifies them. In a full pool, a client divides slots of overflow values,
//!    and stores other overflow values, or nodes, in the parts. That is safe because clients only read overflow values:
//!    a client with a stale link changes nothing, and the version, length and hash in the link match no node.
//! 2. **An object identifies itself.** Its level and its fences tell whether it covers a key; no two linked objects
//!    cover the same key at the same level. A removed object is marked as freed. A new object in a slot to which stale
//!    pointers may lead is marked as freed as well, until it is linked.
//! 3. **Versions never start over.** An object in a reused slot continues from the version of the previous one
//!    ([`MemorySlot::version`]), so a copy that mixes the two is torn. The lock keeps its state: the first WRITE of an
//!    object in a used slot leaves the lock word alone.
//! 4. **A used slot is filled, and its object changed, under its lock**, from a copy that was read under the lock. The
//!    lock of a slot outlives its objects. Slots of overflow values have no lock: only the client that allocated such a
//!    slot writes it, and version and hash identify the value.
//! 5. **A word that is changed by CAS never has an old value again** that a client may still expect: no slot holds a
//!    root twice, and lists of free slots are taken as a whole.
//!
//! So no epochs are needed, and an idle client does not delay the reuse of memory: a client that follows a pointer
//! after an hour detects by a check that the pointer is stale, and retries. In return, a slot belongs to its index as
//! long as the index exists.
//!
//! A compute node keeps its free slots and reuses them first. When it has many, and when it leaves, it lists them in
//! the pool. Every compute node searches these lists before it takes a chunk. The few hundred slots that a crashed
//! compute node kept are lost until the index is dropped.

use farwood_fabric::Remote;

/// Memory for one object that no pointer of the index leads to.
#[derive(Debug)]
pub struct MemorySlot<T> {
    /// The address of the slot.
    pub at: Remote<T>,
    /// The version of the previous object, to which stale pointers may lead; `None`: the slot never held one.
    pub version: Option<u32>,
    /// Whether all bytes of the slot are zero.
    pub is_zero: bool,
    /// The kind of its objects.
    pub kind: SlotKind,
}

/// The kind of the objects in a slot. Slots are never joined. Only slots of overflow values are divided or used for
/// another kind ([`divide`](super::overflow::divide)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotKind {
    /// The size of the slot.
    pub bytes: u32,
    /// The kind of the objects, a number that the index chooses.
    pub of: u8,
}

impl<T> MemorySlot<T> {
    /// Casts the slot to another object type.
    pub fn cast<U>(self) -> MemorySlot<U> {
        MemorySlot { at: self.at.part(0), version: self.version, is_zero: self.is_zero, kind: self.kind }
    }

    /// Whether stale pointers may lead to the slot.
    pub const fn is_used(&self) -> bool {
        self.version.is_some()
    }

    /// The version of the next object in this slot.
    pub const fn next_version(&self) -> u32 {
        match self.version {
            Some(version) => version.wrapping_add(1),
            None => 1,
        }
    }
}
