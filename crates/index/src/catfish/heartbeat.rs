//! Heartbeats: how busy the server is, told to all its clients (Catfish §IV-A).
//!
//! Each client hears once in an interval, and not all at the same time. If they did, all whose turn it is to offload
//! would begin together, the server would have nothing to do for as long as their windows last, and the next
//! heartbeat would tell all of them that it is idle: no window would ever grow (decision 42).

use super::head::{ASK, CONNECTIONS_MAX, INBOX, MEMORY, OPEN, OWNER, TICKET_BITS, of_connection};
use super::service::Service;
use crate::error::IndexError;
use farwood_fabric::{Client, Fabric, LocalMemory as _, Remote, Server, write};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

/// Bits of a pulse that are its heartbeat; the rest is its number.
const BEAT_BITS: u32 = 16;
/// Parts of an interval; a connection hears in the part that its number says.
pub(super) const PARTS: usize = 16;

impl Service<'_> {
    /// The newest heartbeat, for clients to whom it is told with a response, with the number of the part of an interval
    /// in which it was made: number << 16 | heartbeat.
    pub fn pulse(&self) -> u64 {
        self.pulse.load(Ordering::Relaxed)
    }

    /// Tells every client how busy the server is, again and again, in a word of its inbox that is for nothing else, so
    /// that a full ring keeps no heartbeat back. [1 RT for each client in an interval] `busy` yields the share of
    /// processor time since it was last asked. Nobody waits for heartbeats; a client's is left out while the one before
    /// is on its way, so that a slow network has no more and more of them to carry.
    ///
    /// # Errors
    /// The fabric's.
    pub async fn heartbeats<F: Fabric, S: Server>(
        &self,
        client: &Client<F>,
        server: &S,
        mut busy: impl FnMut() -> f64,
    ) -> Result<(), IndexError> {
        let mut shares = [0.0; PARTS];
        let mut under_way: [Vec<(usize, Pin<Box<_>>)>; PARTS] = std::array::from_fn(|_| Vec::new());
        for part in (0..PARTS).cycle() {
            client.fabric().sleep((self.settings.heartbeat_ns / PARTS as u64).max(1)).await;
            if self.is_ended() {
                break;
            }
            shares[part] = busy();
            // Of the whole interval that ends now.
            let beat = super::adaptive::heartbeat(shares.iter().sum::<f64>() / PARTS as f64);
            let (number, _) = beat_of(self.pulse());
            self.pulse.store((number + 1) << BEAT_BITS | beat, Ordering::Relaxed);
            let flights = &mut under_way[part];
            drop_answered(flights).await;
            for (number, inbox) in self.inboxes(part, server)? {
                if flights.iter().all(|(other, _)| *other != number) {
                    // A client whose machine is gone is missed by its own flow.
                    let post = async move { client.post(write(inbox, &beat.to_le_bytes())).await };
                    flights.push((number, Box::pin(post)));
                }
            }
            drop_answered(flights).await;
        }
        Ok(())
    }

    /// The connections that hear in part `part` of an interval, and where their clients read it.
    fn inboxes<S: Server>(&self, part: usize, server: &S) -> Result<Vec<(usize, Remote<u64>)>, IndexError> {
        let (local, head) = (server.local(), self.tree.head_offset());
        let mut inboxes = Vec::new();
        for number in (part..CONNECTIONS_MAX).step_by(PARTS) {
            let field = |field| local.load(head + of_connection(number, field));
            let open = field(OPEN)?;
            if field(OWNER)? == 0 || open >> TICKET_BITS != self.tree.term() || field(ASK)? != open {
                continue;
            }
            let own =
                Remote::<u64>::from_word(field(MEMORY)?).map(|own| own.part(self.tree.layout.ring_bytes));
            let inbox = Remote::<u64>::from_word(field(INBOX)?).or(own);
            inboxes.extend(inbox.map(|inbox| (number, inbox)));
        }
        Ok(inboxes)
    }
}

/// Posts what is not posted yet, and drops what is answered, or lost.
async fn drop_answered<T>(flights: &mut Vec<(usize, Pin<Box<impl Future<Output = T>>>)>) {
    poll_fn(|context| {
        flights.retain_mut(|(_, post)| post.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

/// A pulse's number and heartbeat.
pub(super) const fn beat_of(pulse: u64) -> (u64, u64) {
    (pulse >> BEAT_BITS, pulse & ((1 << BEAT_BITS) - 1))
}
