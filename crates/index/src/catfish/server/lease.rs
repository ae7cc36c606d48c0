//! The lease of the server: the right of one compute node to change the tree.

use crate::catfish::head::{RawHead, SERVER, word_of};
use crate::error::IndexError;
use farwood_fabric::{
    Client, ClientId, Fabric, FabricError, LockWord, Remote, Revocation, Swapped, cas, read,
};
use std::sync::atomic::{AtomicU8, Ordering};

/// The state of the lease, as known to the compute node.
mod state {
    /// The compute node does not hold the lease.
    pub(super) const NONE: u8 = 0;
    /// The compute node holds the lease, and serves.
    pub(super) const HELD: u8 = 1;
    /// The compute node may hold the lease without serving: the answer to its CAS was lost.
    pub(super) const UNCERTAIN: u8 = 2;
}

/// The lease of an index's server, as a compute node that has opened the index knows it. Two handles of one compute
/// node do not share this state.
#[derive(Debug)]
pub(in crate::catfish) struct ServerLease {
    head: Remote<RawHead>,
    state: AtomicU8,
}

/// A CAS in flight. If it is dropped unanswered, a lease in the state `from` becomes uncertain.
struct InFlightCas<'l> {
    lease: &'l ServerLease,
    from: u8,
}

impl Drop for InFlightCas<'_> {
    fn drop(&mut self) {
        self.lease.change_state(self.from, state::UNCERTAIN);
    }
}

impl ServerLease {
    /// The lease of the index with that head, not held.
    pub(in crate::catfish) const fn new(head: Remote<RawHead>) -> Self {
        Self { head, state: AtomicU8::new(state::NONE) }
    }

    /// Acquires the lease for this compute node, also from a compute node that has crashed. [1 RT; 2, and the cost of
    /// revoking, where another compute node held it]
    ///
    /// # Errors
    /// [`IndexError::Served`] where a live compute node holds it; the errors of the fabric.
    pub(super) async fn acquire<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        let mine = LockWord::held_by(client.fabric().identity());
        let mut found = LockWord::FREE;
        loop {
            match self.swap(client, (found, mine), state::NONE).await? {
                Swapped::Won => {
                    self.state.store(state::HELD, Ordering::Relaxed);
                    return Ok(());
                }
                Swapped::Lost(word) => found = LockWord::from_word(word),
            }
            if found == mine && self.change_state(state::UNCERTAIN, state::HELD) {
                return Ok(());
            }
            let Some(holder) = found.holder() else { continue };
            if client.fabric().revoke(holder).await? == Revocation::Alive {
                return Err(IndexError::Served { by: holder });
            }
        }
    }

    /// Releases the lease. [1 RT]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub(super) async fn release<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        let mine = LockWord::held_by(client.fabric().identity());
        let _ = self.swap(client, (mine, LockWord::FREE), state::HELD).await?;
        self.state.store(state::NONE, Ordering::Relaxed);
        Ok(())
    }

    async fn swap<F: Fabric>(
        &self,
        client: &Client<F>,
        (found, next): (LockWord, LockWord),
        from: u8,
    ) -> Result<Swapped, FabricError> {
        let in_flight = InFlightCas { lease: self, from };
        let swapped = client.post(cas(word_of(self.head, SERVER), found.word(), next.word())).await?;
        std::mem::forget(in_flight);
        Ok(swapped)
    }

    /// Changes the state from `from` to `to`; yields whether it was `from`.
    fn change_state(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The compute node that holds the lease. [1 RT]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub(in crate::catfish) async fn holder<F: Fabric>(
        &self,
        client: &Client<F>,
    ) -> Result<Option<ClientId>, IndexError> {
        let word = client.post(read(word_of(self.head, SERVER))).await?;
        Ok(LockWord::from_word(word.whole_word()).holder())
    }
}
