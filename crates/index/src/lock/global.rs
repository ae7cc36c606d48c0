//! The global lock table: the word that locks a node, and the verbs that acquire and release it.
//!
//! ```text
//! device memory (or 256 KiB of the superblock's chunk): one lock per word, or four in each
//! +-----------------------+      +-------+-------+-------+-------+
//! |     lock word 64      |  or  |  16   |  16   |  16   |  16   |   0: free; else slot + 1 of the holder
//! +-----------------------+      +-------+-------+-------+-------+
//! ```
//!
//! The lock of a node is on the node's own memory node, at a hash of its address (Sherman Figure 6, line 5); in
//! variants that model trees before Sherman, it is the last word of the node.

use super::{LockMemory, LockOptions, LockWidth, Release};
use farwood_fabric::superblock::{HOST_LOCKS_BYTES, HOST_LOCKS_OFFSET};
use farwood_fabric::{
    Bits, ClientId, Either, Faa, LockWord, MaskedCas, Memory, NodeId, PoolShape, Remote, Write, cas, faa,
    masked_cas, write,
};

/// Bytes of a line; addresses in one line share a lock.
pub(crate) const BYTES_PER_LOCK: u64 = 64;
/// Bytes of a lock inside its node.
pub const LOCK_BYTES: usize = 8;
const PACKED_BITS: u32 = 16;
const PACKED_MASK: u64 = (1 << PACKED_BITS) - 1;
const LOCKS_PER_WORD: u64 = 4;

/// One lock of a global table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalLock {
    word: Remote<u64>,
    width: LockWidth,
    /// The first bit of a packed lock in its word.
    shift: u32,
    /// The number of the lock in the table of its memory node.
    index: u64,
}

/// The verb that releases a lock.
pub type Unlock = Either<Write<'static>, Either<Faa, MaskedCas>>;

/// The verb that tries to acquire a lock.
pub type TryTake = Either<farwood_fabric::Cas, MaskedCas>;

impl GlobalLock {
    /// The number of locks in the table of each memory node.
    pub fn count(options: LockOptions, shape: &PoolShape) -> u64 {
        let words = Self::table_bytes(options, shape) as u64 / 8;
        match options.width {
            LockWidth::Word => words,
            LockWidth::Packed => words * LOCKS_PER_WORD,
        }
    }

    /// Bytes of each memory node's table; locks inside nodes are numbered as those of a table in host memory.
    pub fn table_bytes(options: LockOptions, shape: &PoolShape) -> usize {
        let bytes = match options.memory {
            LockMemory::Host | LockMemory::Node => HOST_LOCKS_BYTES,
            LockMemory::Device => shape.device_bytes,
        };
        bytes as usize
    }

    /// Returns the lock of the node at `node`, one of `count`.
    #[inline]
    pub fn of<T: ?Sized>(options: LockOptions, count: u64, node: Remote<T>) -> Self {
        // Nodes have consecutive addresses: a multiplicative hash of the address spreads them over the table. The high
        // half of a product replaces the remainder that the paper uses.
        let hash = (node.address().offset() / BYTES_PER_LOCK).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let index = ((u128::from(hash) * u128::from(count)) >> 64) as u64;
        Self::at(options, node.node(), index)
    }

    /// Returns lock number `index` of memory node `node`.
    #[inline]
    pub fn at(options: LockOptions, node: NodeId, index: u64) -> Self {
        let (word, shift) = match options.width {
            LockWidth::Word => (index, 0),
            LockWidth::Packed => (index / LOCKS_PER_WORD, (index % LOCKS_PER_WORD) as u32 * PACKED_BITS),
        };
        let word = match options.memory {
            LockMemory::Device => Remote::new(node, Memory::Device, 8 * word),
            LockMemory::Host | LockMemory::Node => {
                Remote::new(node, Memory::Host, HOST_LOCKS_OFFSET + 8 * word)
            }
        };
        let Some(word) = word else { unreachable!("the table lies within its memory") };
        Self { word, width: options.width, shift, index }
    }

    /// Returns the lock at `word`, inside its node. Local tables use the same number for it.
    #[inline]
    #[must_use]
    pub fn in_node(self, word: Remote<u64>) -> Self {
        Self { word, shift: 0, ..self }
    }

    /// The memory node.
    pub fn node(&self) -> NodeId {
        self.word.node()
    }

    /// The number of the lock in the table of its memory node.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The word that holds the lock.
    pub fn word(&self) -> Remote<u64> {
        self.word
    }

    /// The bits of a packed lock whose holder's word would be `mine`: slot + 1.
    fn packed_bits(&self, mine: LockWord) -> u64 {
        (mine.word() & PACKED_MASK) << self.shift
    }

    fn packed_mask(&self) -> u64 {
        PACKED_MASK << self.shift
    }

    /// Acquires the lock if it is free (Figure 6, line 18).
    #[inline]
    pub fn try_take(&self, mine: LockWord) -> TryTake {
        match self.width {
            LockWidth::Word => Either::One(cas(self.word, LockWord::FREE.word(), mine.word())),
            LockWidth::Packed => {
                let mask = self.packed_mask();
                Either::Other(masked_cas(
                    self.word,
                    Bits { mask, value: 0 },
                    Bits { mask, value: self.packed_bits(mine) },
                ))
            }
        }
    }

    /// Takes the lock over from a revoked holder.
    pub fn take_from(&self, holder: LockWord, mine: LockWord) -> farwood_fabric::Cas {
        cas(self.word, holder.word(), mine.word())
    }

    /// Frees the lock if its word is `holder`.
    pub fn free_from(&self, holder: LockWord) -> farwood_fabric::Cas {
        cas(self.word, holder.word(), LockWord::FREE.word())
    }

    /// The holder that a lock word names; a packed lock does not identify the client to revoke.
    pub fn holder(&self, found: u64) -> Option<ClientId> {
        match self.width {
            LockWidth::Word => LockWord::from_word(found).holder(),
            LockWidth::Packed => None,
        }
    }

    /// Whether the lock word is neither free nor one that a client stores.
    pub(crate) fn is_damaged(&self, found: u64) -> bool {
        let free = found == LockWord::FREE.word();
        self.width == LockWidth::Word && !free && LockWord::from_word(found).holder().is_none()
    }

    /// Whether the word of the lock names another compute node than `me`.
    pub(crate) fn is_foreign(&self, found: u64, me: ClientId) -> bool {
        let mine = LockWord::held_by(me);
        let (held, mine) = match self.width {
            LockWidth::Word => (LockWord::from_word(found).tagged(0).word(), mine.word()),
            LockWidth::Packed => (found & self.packed_mask(), self.packed_bits(mine)),
        };
        held != 0 && held != mine
    }

    /// Releases the lock, whose word is `mine` (Figure 6, line 31). A packed lock is released by masked CAS and not, as
    /// in the paper, by a 2-byte WRITE, which an atomic on a neighbouring lock in the same word may overwrite.
    #[inline]
    pub fn release(&self, how: Release, mine: LockWord) -> Unlock {
        const FREE: &[u8] = &LockWord::FREE.word().to_le_bytes();
        match (self.width, how) {
            (LockWidth::Word, Release::Write) => Either::One(write(self.word, FREE)),
            (LockWidth::Word, Release::Faa) => {
                Either::Other(Either::One(faa(self.word, mine.word().wrapping_neg())))
            }
            (LockWidth::Packed, _) => {
                let mask = self.packed_mask();
                Either::Other(Either::Other(masked_cas(
                    self.word,
                    Bits { mask, value: self.packed_bits(mine) },
                    Bits { mask, value: 0 },
                )))
            }
        }
    }
}
