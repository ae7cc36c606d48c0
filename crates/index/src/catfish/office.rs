//! The office of the server: only the compute node that has it changes the tree.

use super::head::{RawHead, SERVER, word_of};
use crate::error::IndexError;
use farwood_fabric::{
    Client, ClientId, Fabric, FabricError, LockWord, Remote, Revocation, Swapped, cas, read,
};
use std::sync::atomic::{AtomicBool, Ordering};

/// The office of an index's server, as a compute node that has opened the index knows it.
#[derive(Debug)]
pub(super) struct Office {
    head: Remote<RawHead>,
    /// This compute node may have the office without serving: the answer to its CAS was lost.
    in_doubt: AtomicBool,
}

impl Office {
    /// The office of the index with that head.
    pub(super) const fn of(head: Remote<RawHead>) -> Self {
        Self { head, in_doubt: AtomicBool::new(false) }
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
            match self.swap(client, found, mine).await? {
                Swapped::Won => return Ok(()),
                Swapped::Lost(word) => found = LockWord::from_word(word),
            }
            if found == mine && self.in_doubt.swap(false, Ordering::Relaxed) {
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
        let _ = self.swap(client, mine, LockWord::FREE).await?;
        Ok(())
    }

    async fn swap<F: Fabric>(
        &self,
        client: &Client<F>,
        from: LockWord,
        to: LockWord,
    ) -> Result<Swapped, FabricError> {
        let swapped = client.post(cas(word_of(self.head, SERVER), from.word(), to.word())).await;
        if swapped.is_err() {
            self.in_doubt.store(true, Ordering::Relaxed);
        }
        swapped
    }

    /// Who has it. [1 RT]
    pub(super) async fn holder<F: Fabric>(&self, client: &Client<F>) -> Result<Option<ClientId>, IndexError> {
        let word = client.post(read(word_of(self.head, SERVER))).await?;
        let Ok(word) = word.check(&()) else { unreachable!("words are whole") };
        Ok(LockWord::from_word(word.word()).holder())
    }
}
