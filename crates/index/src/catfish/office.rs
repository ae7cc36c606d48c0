//! The office of the server: only the compute node that has it changes the tree.

use super::head::{RawHead, SERVER, word_of};
use crate::error::IndexError;
use farwood_fabric::{
    Client, ClientId, Fabric, FabricError, LockWord, Remote, Revocation, Swapped, cas, read,
};
use std::sync::atomic::{AtomicU8, Ordering};

/// What a compute node knows of its own part in the office.
mod part {
    /// It does not have it.
    pub(super) const OUT: u8 = 0;
    /// It serves.
    pub(super) const IN: u8 = 1;
    /// It may have it without serving: the answer to its CAS was lost.
    pub(super) const IN_DOUBT: u8 = 2;
}

/// The office of an index's server, as a compute node that has opened the index knows it. Another handle of the same
/// compute node knows nothing of this one's doubt.
#[derive(Debug)]
pub(super) struct Office {
    head: Remote<RawHead>,
    part: AtomicU8,
}

/// A CAS that was not answered: whoever thought to be `from` does not know any more.
struct Unanswered<'o> {
    office: &'o Office,
    from: u8,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.office.turn(self.from, part::IN_DOUBT);
    }
}

impl Office {
    /// The office of the index with that head.
    pub(super) const fn of(head: Remote<RawHead>) -> Self {
        Self { head, part: AtomicU8::new(part::OUT) }
    }

    /// Enters this compute node as the server of the index, in place of one that is gone. [1 RT; 2, and what it takes
    /// to revoke it, where another was]
    ///
    /// # Errors
    /// [`IndexError::Served`] where another serves it and lives; the fabric's.
    pub(super) async fn take<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        let mine = LockWord::held_by(client.fabric().identity());
        let mut found = LockWord::FREE;
        loop {
            match self.swap(client, (found, mine), part::OUT).await? {
                Swapped::Won => {
                    self.part.store(part::IN, Ordering::Relaxed);
                    return Ok(());
                }
                Swapped::Lost(word) => found = LockWord::from_word(word),
            }
            if found == mine && self.turn(part::IN_DOUBT, part::IN) {
                return Ok(());
            }
            let Some(holder) = found.holder() else { continue };
            if client.fabric().revoke(holder).await? == Revocation::Alive {
                return Err(IndexError::Served { by: holder });
            }
        }
    }

    /// Leaves the office, so that another may serve the index. [1 RT]
    ///
    /// # Errors
    /// The fabric's.
    pub(super) async fn leave<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        let mine = LockWord::held_by(client.fabric().identity());
        let _ = self.swap(client, (mine, LockWord::FREE), part::IN).await?;
        self.part.store(part::OUT, Ordering::Relaxed);
        Ok(())
    }

    async fn swap<F: Fabric>(
        &self,
        client: &Client<F>,
        (found, next): (LockWord, LockWord),
        from: u8,
    ) -> Result<Swapped, FabricError> {
        let unanswered = Unanswered { office: self, from };
        let swapped = client.post(cas(word_of(self.head, SERVER), found.word(), next.word())).await?;
        std::mem::forget(unanswered);
        Ok(swapped)
    }

    /// Goes from one part to another, if it has that one.
    fn turn(&self, from: u8, to: u8) -> bool {
        self.part.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Who has it. [1 RT]
    pub(super) async fn holder<F: Fabric>(&self, client: &Client<F>) -> Result<Option<ClientId>, IndexError> {
        let word = client.post(read(word_of(self.head, SERVER))).await?;
        let Ok(word) = word.check(&()) else { unreachable!("words are whole") };
        Ok(LockWord::from_word(word.word()).holder())
    }
}
