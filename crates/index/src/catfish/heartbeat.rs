//! Heartbeats: how busy the server is, told to all its clients (Catfish §IV-A).

use super::head::{ASK, CONNECTIONS_MAX, INBOX, MEMORY, OPEN, OWNER, TICKET_BITS, of_connection};
use super::service::Service;
use crate::error::IndexError;
use farwood_fabric::{Client, Fabric, FabricError, LocalMemory as _, Remote, Server, write};
use std::sync::atomic::Ordering;

/// Bits of a pulse that are its heartbeat; the rest is its number.
const BEAT_BITS: u32 = 16;

impl Service<'_> {
    /// The newest heartbeat, with its number, for clients to whom it is told with a response: number << 16 | heartbeat.
    pub fn pulse(&self) -> u64 {
        self.pulse.load(Ordering::Relaxed)
    }

    /// Tells every client how busy the server is, again and again, in a word of its inbox that is for nothing else, so
    /// that a full ring keeps no heartbeat back. `busy` yields the share of processor time since it was last asked.
    ///
    /// # Errors
    /// The fabric's.
    pub async fn heartbeats<F: Fabric, S: Server>(
        &self,
        client: &Client<F>,
        server: &S,
        mut busy: impl FnMut() -> f64,
    ) -> Result<(), IndexError> {
        let (local, head) = (server.local(), self.tree.head_offset());
        while !self.is_ended() {
            client.fabric().sleep(self.settings.heartbeat_ns).await;
            let beat = super::adaptive::heartbeat(busy());
            let (number, _) = beat_of(self.pulse());
            self.pulse.store((number + 1) << BEAT_BITS | beat, Ordering::Relaxed);
            let word = beat.to_le_bytes();
            for number in 0..CONNECTIONS_MAX {
                let field = |field| local.load(head + of_connection(number, field));
                let open = field(OPEN)?;
                if field(OWNER)? == 0 || open >> TICKET_BITS != self.tree.term() || field(ASK)? != open {
                    continue;
                }
                let own =
                    Remote::<u64>::from_word(field(MEMORY)?).map(|own| own.part(self.tree.layout.ring_bytes));
                let inbox = Remote::<u64>::from_word(field(INBOX)?).or(own);
                if let Some(inbox) = inbox {
                    match client.post(write(inbox, &word)).await {
                        // Its client will be missed by its own flow.
                        Ok(()) | Err(FabricError::NodeLost { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Ok(())
    }
}

/// A pulse's number and heartbeat.
pub(super) const fn beat_of(pulse: u64) -> (u64, u64) {
    (pulse >> BEAT_BITS, pulse & ((1 << BEAT_BITS) - 1))
}
