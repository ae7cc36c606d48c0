//! Remote pointers: a memory node and an offset.
//!
//! ```text
//!  63            48 47  46                                0
//! +----------------+---+----------------------------------+
//! | memory node 16 | D |            offset 47             |   Remote<T>
//! +----------------+---+----------------------------------+
//!   D = 1: an offset in device memory (the NIC's on-chip memory)
//!
//!  47        40 39                                        0
//! +------------+------------------------------------------+
//! |   node 8   |        offset / 8, 40 bits               |   Packed<T>
//! +------------+------------------------------------------+
//! ```
//!
//! Offset 0 of a memory node's host memory is never allocated, so no pointer is the all-zero word: a zero word in far
//! memory means "none", and `Option<Remote<T>>` takes no extra space.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU64;

/// The number of a memory node within its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u16);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The two memories of a memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// Main memory.
    Host,
    /// The NIC's on-chip memory, reached without crossing PCIe.
    Device,
}

const OFFSET_BITS: u32 = 48;
const DEVICE_BIT: u64 = 1 << (OFFSET_BITS - 1);
const OFFSET_MASK: u64 = DEVICE_BIT - 1;
/// The last aligned offset of a pointer, bytes. It is beyond the memory of every memory node.
const OFFSET_BEYOND: u64 = OFFSET_MASK & !7;

/// The target of a verb: an untyped remote pointer, as fabrics use it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(NonZeroU64);

impl Address {
    /// The address of byte `offset` of `memory` on `node`; `None` for host offset 0 and for offsets of 2^47 and
    /// above.
    #[inline]
    pub const fn new(node: NodeId, memory: Memory, offset: u64) -> Option<Self> {
        if offset > OFFSET_MASK {
            return None;
        }
        let word = match memory {
            Memory::Host if offset == 0 => return None,
            Memory::Host => (node.0 as u64) << OFFSET_BITS | offset,
            Memory::Device => (node.0 as u64) << OFFSET_BITS | DEVICE_BIT | offset,
        };
        match NonZeroU64::new(word) {
            Some(word) => Some(Self(word)),
            None => None,
        }
    }

    /// The memory node.
    #[inline]
    pub const fn node(self) -> NodeId {
        NodeId((self.0.get() >> OFFSET_BITS) as u16)
    }

    /// Host or device memory.
    #[inline]
    pub const fn memory(self) -> Memory {
        if self.0.get() & DEVICE_BIT == 0 { Memory::Host } else { Memory::Device }
    }

    /// The offset in bytes within that memory.
    #[inline]
    pub const fn offset(self) -> u64 {
        self.0.get() & OFFSET_MASK
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = if self.memory() == Memory::Device { "device+" } else { "" };
        write!(f, "{}:{device}{:#x}", self.node(), self.offset())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A typed pointer into far memory, 64 bits wide (Sherman §4.2.1: 16-bit memory server, 48-bit address).
///
/// A pointer is only a number; [`post`](crate::Client::post)ing a verb is the only access through it.
///
/// ```
/// use farwood_fabric::{Memory, NodeId, Remote};
/// let p = Remote::<u64>::new(NodeId(3), Memory::Host, 4096).unwrap();
/// assert_eq!(Remote::from_word(p.word()), Some(p));
/// assert!(Remote::<u64>::new(NodeId(3), Memory::Host, 0).is_none());
/// ```
///
/// A pointer to one kind of object is not a pointer to another:
///
/// ```compile_fail,E0308
/// use farwood_fabric::{Memory, NodeId, Remote};
/// let p = Remote::<u64>::new(NodeId(3), Memory::Host, 4096).unwrap();
/// let q: Remote<u32> = p;
/// ```
///
/// And it cannot be dereferenced:
///
/// ```compile_fail,E0614
/// use farwood_fabric::{Memory, NodeId, Remote};
/// let p = Remote::<u64>::new(NodeId(3), Memory::Host, 4096).unwrap();
/// let value = *p;
/// ```
pub struct Remote<T: ?Sized> {
    address: Address,
    of: PhantomData<fn() -> *const T>,
}

impl<T: ?Sized> Remote<T> {
    /// See [`Address::new`].
    #[inline]
    pub const fn new(node: NodeId, memory: Memory, offset: u64) -> Option<Self> {
        match Address::new(node, memory, offset) {
            Some(address) => Some(Self::at(address)),
            None => None,
        }
    }

    /// The pointer to the object at `address`.
    #[inline]
    pub const fn at(address: Address) -> Self {
        Self { address, of: PhantomData }
    }

    /// The pointer in a word of far memory; `None` if the word is zero.
    #[inline]
    pub const fn from_word(word: u64) -> Option<Self> {
        match NonZeroU64::new(word) {
            Some(word) => Some(Self::at(Address(word))),
            None => None,
        }
    }

    /// The pointer as a word of far memory; never zero.
    #[inline]
    pub const fn word(self) -> u64 {
        self.address.0.get()
    }

    /// Returns the address without its type.
    #[inline]
    pub const fn address(self) -> Address {
        self.address
    }

    /// The memory node.
    #[inline]
    pub const fn node(self) -> NodeId {
        self.address.node()
    }

    /// The pointer to the part of the object at offset `bytes`.
    ///
    /// The pointer may be a word that was read from far memory, so no sum is refused here: a sum beyond the 47-bit
    /// offset yields the last aligned address of that memory, which no memory node contains. Every fabric refuses a
    /// verb there as [`OutOfRange`](crate::FabricError::OutOfRange).
    #[inline]
    pub const fn part<U: ?Sized>(self, bytes: u64) -> Remote<U> {
        let left = OFFSET_BEYOND.saturating_sub(self.address.offset());
        let added = if bytes < left { bytes } else { left };
        Remote::at(Address(self.address.0.saturating_add(added)))
    }
}

impl<T: ?Sized> Clone for Remote<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ?Sized> Copy for Remote<T> {}
impl<T: ?Sized> PartialEq for Remote<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}
impl<T: ?Sized> Eq for Remote<T> {}
impl<T: ?Sized> Hash for Remote<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address.hash(state);
    }
}
impl<T: ?Sized> fmt::Debug for Remote<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.address, f)
    }
}
impl<T: ?Sized> fmt::Display for Remote<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.address, f)
    }
}

/// The 48-bit form of a pointer to an 8-byte-aligned object in host memory, for words of far memory that hold other
/// bits as well (radix slots, hash entries).
///
/// A pool is created within its limits, [`Packed::NODES_MAX`] memory nodes of [`Packed::BYTES_MAX`] bytes, so packing
/// a pointer of a pool always succeeds.
pub struct Packed<T: ?Sized> {
    bits: u64,
    of: PhantomData<fn() -> *const T>,
}

impl<T: ?Sized> Packed<T> {
    /// Bits of a packed pointer.
    pub const BITS: u32 = 48;
    /// Largest number of memory nodes.
    pub const NODES_MAX: u32 = 1 << 8;
    /// Largest host memory of a node, bytes.
    pub const BYTES_MAX: u64 = 8 << 40;

    /// Packs a pointer that this client allocated, unpacked, or [accepted](Self::accepts).
    ///
    /// # Panics
    /// If the pointer is to device memory, unaligned, or outside the limits: no pool contains such an object.
    #[inline]
    pub fn pack(pointer: Remote<T>) -> Self {
        assert!(
            Self::accepts(pointer),
            "objects of a pool are within the limits of packed pointers: {pointer}"
        );
        Self { bits: (u64::from(pointer.node().0) << 40) | (pointer.address().offset() / 8), of: PhantomData }
    }

    /// Whether the pointer can be packed. A pointer from a word of far memory may be one that cannot.
    #[inline]
    pub fn accepts(pointer: Remote<T>) -> bool {
        let (node, offset) = (pointer.node().0, pointer.address().offset());
        pointer.address().memory() == Memory::Host
            && u32::from(node) < Self::NODES_MAX
            && (1..Self::BYTES_MAX).contains(&offset)
            && offset.is_multiple_of(8)
    }

    /// The pointer in the low 48 bits of a word; `None` if they are zero.
    #[inline]
    pub const fn unpack(word: u64) -> Option<Remote<T>> {
        let bits = word & ((1 << Self::BITS) - 1);
        Remote::new(NodeId((bits >> 40) as u16), Memory::Host, (bits & ((1 << 40) - 1)) * 8)
    }

    /// Returns the 48 bits of the packed pointer.
    #[inline]
    pub const fn bits(&self) -> u64 {
        self.bits
    }
}

impl<T: ?Sized> fmt::Debug for Packed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({:#x})", self.bits)
    }
}

const _: () = assert!(size_of::<Option<Remote<u64>>>() == 8);
const _: () = assert!(OFFSET_BEYOND > crate::pool_layout::HOST_BYTES_MAX, "no memory node has the offset");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_read_back_from_its_word() {
        for node in [0, 1, 255, u16::MAX] {
            for memory in [Memory::Host, Memory::Device] {
                for offset in [8, 4096, OFFSET_MASK & !7] {
                    let p = Remote::<u64>::new(NodeId(node), memory, offset).unwrap();
                    let q = Remote::<u64>::from_word(p.word()).unwrap();
                    assert_eq!(
                        (q.node().0, q.address().memory(), q.address().offset()),
                        (node, memory, offset)
                    );
                }
            }
        }
    }

    #[test]
    fn a_part_of_any_word_of_far_memory_is_a_pointer() {
        for word in [64, 1 << 63, DEVICE_BIT, 0xFFFF_FFFF_FFFF, u64::MAX, OFFSET_MASK, OFFSET_BEYOND] {
            let p = Remote::<u64>::from_word(word).unwrap();
            assert_eq!(p.part::<u64>(0).address().node(), p.node());
            for bytes in [0, 8, 1 << 40, u64::MAX] {
                let part = p.part::<u64>(bytes).address();
                assert_eq!((part.node(), part.memory()), (p.node(), p.address().memory()));
                let sum = p.address().offset().saturating_add(bytes);
                assert!(part.offset() == sum || part.offset() >= OFFSET_BEYOND, "{p} + {bytes}: {part}");
            }
        }
    }

    #[test]
    fn no_pointer_is_the_zero_word() {
        assert!(Remote::<u64>::new(NodeId(0), Memory::Host, 0).is_none());
        assert!(Remote::<u64>::new(NodeId(9), Memory::Host, 0).is_none());
        assert!(Remote::<u64>::new(NodeId(0), Memory::Host, OFFSET_MASK + 1).is_none());
        assert_ne!(Remote::<u64>::new(NodeId(0), Memory::Device, 0).unwrap().word(), 0);
    }

    #[test]
    fn a_packed_pointer_is_read_back_at_the_limits() {
        let far = Packed::<u64>::BYTES_MAX - 8;
        for (node, offset) in [(0, 8), (255, far), (1, 64)] {
            let p = Remote::<u64>::new(NodeId(node), Memory::Host, offset).unwrap();
            let packed = Packed::pack(p);
            assert!(packed.bits() < 1 << Packed::<u64>::BITS);
            assert_eq!(Packed::unpack(packed.bits() | 0xABCD << 48), Some(p));
        }
    }

    #[test]
    #[should_panic(expected = "packed pointers")]
    fn device_memory_cannot_be_packed() {
        let _ = Packed::pack(Remote::<u64>::new(NodeId(0), Memory::Device, 8).unwrap());
    }
}
