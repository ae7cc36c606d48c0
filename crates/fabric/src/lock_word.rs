//! A lock in one 64-bit word, which names its holder.
//!
//! ```text
//!  63          48 47                         16 15          0
//! +--------------+-----------------------------+-------------+
//! |     tag      |   epoch of the holder 32    |  slot + 1   |   0: free
//! +--------------+-----------------------------+-------------+
//! ```
//!
//! The holder is a slot of the client table under an epoch. A client that was revoked and attaches again has another
//! epoch, which distinguishes its old locks from its new ones. The tag distinguishes the acquisitions of one holder
//! ([`Fabric::lock_tag`](crate::Fabric::lock_tag)), so that a CAS can free the lock of one acquisition and no other.

use crate::ids::{CLIENTS_MAX, ClientId};

/// The contents of a lock word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWord(u64);

impl LockWord {
    /// The lock is free.
    pub const FREE: Self = Self(0);

    /// The word of a lock that `client` holds.
    #[inline]
    pub const fn held_by(client: ClientId) -> Self {
        Self((client.epoch as u64) << 16 | (client.slot as u64 + 1))
    }

    /// The same holder's word with the tag `tag`.
    #[inline]
    #[must_use]
    pub const fn tagged(self, tag: u16) -> Self {
        Self(self.0 << 16 >> 16 | (tag as u64) << 48)
    }

    /// Whether the word has a tag that distinguishes it from other acquisitions of its holder.
    #[inline]
    pub const fn is_tagged(self) -> bool {
        self.0 >> 48 != 0
    }

    /// The lock word read from far memory.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word to store in far memory.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The holder; `None` if the lock is free or the word is not a lock word.
    #[inline]
    pub const fn holder(self) -> Option<ClientId> {
        let slot = self.0 as u16;
        if slot == 0 || slot as usize > CLIENTS_MAX {
            return None;
        }
        Some(ClientId { slot: slot - 1, epoch: (self.0 >> 16) as u32 })
    }
}

const _: () = assert!(CLIENTS_MAX < u16::MAX as usize, "slot + 1 fits 16 bits");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_read_back() {
        for client in [ClientId { slot: 0, epoch: 0 }, ClientId { slot: 4095, epoch: u32::MAX }] {
            let word = LockWord::held_by(client);
            assert_ne!(word, LockWord::FREE);
            assert_eq!(LockWord::from_word(word.word()).holder(), Some(client));
            for tag in [0, 1, u16::MAX] {
                let tagged = word.tagged(u16::MAX).tagged(tag);
                assert_eq!((tagged.holder(), tagged == word), (Some(client), tag == 0));
                assert_eq!(tagged.is_tagged(), tag != 0);
            }
        }
        assert_eq!(LockWord::FREE.holder(), None);
        assert_eq!(LockWord::from_word(0xFFFF).holder(), None);
    }
}
