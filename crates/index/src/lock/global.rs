//! The global lock table: which word locks a node, and the verbs that take and release it.
//!
//! ```text
//! device memory (or 256 KiB of the superblock's chunk): one lock per word, or four in each
//! +-----------------------+      +-------+-------+-------+-------+
//! |     lock word 64      |  or  |  16   |  16   |  16   |  16   |   0: free; else slot + 1 of the holder
//! +-----------------------+      +-------+-------+-------+-------+
//! ```
//!
//! A node's lock is on the node's own memory node, at a hash of its address (Sherman Figure 6, line 5); or, as in trees
//! before Sherman, in the node, its last word.

use super::{LockMemory, LockOptions, LockWidth, Release};
use farwood_fabric::superblock::{HOST_LOCKS_BYTES, HOST_LOCKS_OFFSET};
use farwood_fabric::{
    Bits, ClientId, Either, Faa, LockWord, MaskedCas, Memory, NodeId, PoolShape, Remote, Write, cas, faa,
    masked_cas, write,
};

/// Addresses in one line of so many bytes have one lock.
pub(crate) const BYTES_PER_LOCK: u64 = 64;
/// Bytes of a lock that lies in its node.
pub const LOCK_BYTES: usize = 8;
const LANE_BITS: u32 = 16;
const LANES: u64 = 4;

/// One lock of a global table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalLock {
    word: Remote<u64>,
    width: LockWidth,
    /// Which of the word's lanes, for packed locks.
    lane: u32,
    /// Number of the lock in its node's table.
    index: u64,
}

/// The verb that releases a lock.
pub type Unlock = Either<Write<'static>, Either<Faa, MaskedCas>>;

/// The verb that tries to take a lock.
pub type TryTake = Either<farwood_fabric::Cas, MaskedCas>;

impl GlobalLock {
    /// Locks of each memory node's table.
    pub fn count(options: LockOptions, shape: &PoolShape) -> u64 {
        let words = Self::table_bytes(options, shape) as u64 / 8;
        match options.width {
            LockWidth::Word => words,
            LockWidth::Packed => words * LANES,
        }
    }

    /// Bytes of each memory node's table; locks in nodes have the numbers of one in host memory.
    pub fn table_bytes(options: LockOptions, shape: &PoolShape) -> usize {
        let bytes = match options.memory {
            LockMemory::Host | LockMemory::Node => HOST_LOCKS_BYTES,
            LockMemory::Device => shape.device_bytes,
        };
        bytes as usize
    }

    /// The lock of the node at `node`, one of `count`.
    #[inline]
    pub fn of<T: ?Sized>(options: LockOptions, count: u64, node: Remote<T>) -> Self {
        // Nodes are carved one after the other: a multiplicative hash of the address spreads them over the
        // table, and the high half of a product takes the place of the paper's remainder.
        let hash = (node.address().offset() / BYTES_PER_LOCK).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let index = ((u128::from(hash) * u128::from(count)) >> 64) as u64;
        Self::at(options, node.node(), index)
    }

    /// Lock number `index` of memory node `node`.
    #[inline]
    pub fn at(options: LockOptions, node: NodeId, index: u64) -> Self {
        let (word, lane) = match options.width {
            LockWidth::Word => (index, 0),
            LockWidth::Packed => (index / LANES, (index % LANES) as u32 * LANE_BITS),
        };
        let word = match options.memory {
            LockMemory::Device => Remote::new(node, Memory::Device, 8 * word),
            LockMemory::Host | LockMemory::Node => {
                Remote::new(node, Memory::Host, HOST_LOCKS_OFFSET + 8 * word)
            }
        };
        let Some(word) = word else { unreachable!("the table lies within its memory") };
        Self { word, width: options.width, lane, index }
    }

    /// The same lock, but in its node, at `word`; the number stays, for local tables.
    #[inline]
    #[must_use]
    pub fn in_node(self, word: Remote<u64>) -> Self {
        Self { word, lane: 0, ..self }
    }

    /// The memory node.
    pub fn node(&self) -> NodeId {
        self.word.node()
    }

    /// Number of the lock in its node's table.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The word that holds the lock.
    pub fn word(&self) -> Remote<u64> {
        self.word
    }

    /// The bits of one's own lock: slot + 1 in the lane.
    fn lane_of(&self, client: ClientId) -> u64 {
        (u64::from(client.slot) + 1) << self.lane
    }

    fn lane_mask(&self) -> u64 {
        0xFFFF << self.lane
    }

    /// Takes the lock if it is free (Figure 6, line 18).
    #[inline]
    pub fn try_take(&self, me: ClientId) -> TryTake {
        match self.width {
            LockWidth::Word => {
                Either::One(cas(self.word, LockWord::FREE.word(), LockWord::held_by(me).word()))
            }
            LockWidth::Packed => {
                let mask = self.lane_mask();
                Either::Other(masked_cas(
                    self.word,
                    Bits { mask, value: 0 },
                    Bits { mask, value: self.lane_of(me) },
                ))
            }
        }
    }

    /// Takes the lock from a holder that was revoked.
    pub fn take_from(&self, holder: LockWord, me: ClientId) -> farwood_fabric::Cas {
        cas(self.word, holder.word(), LockWord::held_by(me).word())
    }

    /// Frees the lock if `holder` has it.
    pub fn free_from(&self, holder: LockWord) -> farwood_fabric::Cas {
        cas(self.word, holder.word(), LockWord::FREE.word())
    }

    /// Who holds the lock, by the word that was found; packed locks do not tell whom to revoke.
    pub fn holder(&self, found: u64) -> Option<ClientId> {
        match self.width {
            LockWidth::Word => LockWord::from_word(found).holder(),
            LockWidth::Packed => None,
        }
    }

    /// Releases one's own lock (Figure 6, line 31). A packed lock is released by masked CAS and not, as in the
    /// paper, by a 2-byte WRITE, which a neighbour's atomic on the same word may swallow.
    #[inline]
    pub fn release(&self, how: Release, me: ClientId) -> Unlock {
        const FREE: &[u8] = &LockWord::FREE.word().to_le_bytes();
        match (self.width, how) {
            (LockWidth::Word, Release::Write) => Either::One(write(self.word, FREE)),
            (LockWidth::Word, Release::Faa) => {
                Either::Other(Either::One(faa(self.word, LockWord::held_by(me).word().wrapping_neg())))
            }
            (LockWidth::Packed, _) => {
                let mask = self.lane_mask();
                Either::Other(Either::Other(masked_cas(
                    self.word,
                    Bits { mask, value: self.lane_of(me) },
                    Bits { mask, value: 0 },
                )))
            }
        }
    }
}
