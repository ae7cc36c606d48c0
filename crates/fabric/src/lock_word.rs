//! A lock in one 64-bit word: who holds it, under which identity.
//!
//! ```text
//!  63          48 47                         16 15          0
//! +--------------+-----------------------------+-------------+
//! |      0       |   epoch of the holder 32    |  slot + 1   |   0: free
//! +--------------+-----------------------------+-------------+
//! ```
//!
//! The holder is a slot of the client table under an epoch; a client that was revoked and came back has another
//! epoch, so its old locks are told from its new ones.

use crate::ids::{CLIENTS_MAX, ClientId};

/// The contents of a lock's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWord(u64);

impl LockWord {
    /// Nobody holds the lock.
    pub const FREE: Self = Self(0);

    /// `client` holds the lock.
    #[inline]
    pub const fn held_by(client: ClientId) -> Self {
        Self((client.epoch as u64) << 16 | (client.slot as u64 + 1))
    }

    /// The word as read from far memory.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word to be put in far memory.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Who holds the lock; `None` where it is free, or where the word is no lock word at all.
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
        }
        assert_eq!(LockWord::FREE.holder(), None);
        assert_eq!(LockWord::from_word(0xFFFF).holder(), None);
    }
}
