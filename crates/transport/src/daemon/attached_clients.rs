//! The compute nodes with connections at a memory node, for its log: their addresses, and whether they have left.
//!
//! A compute node that leaves the pool ends its connections and fences its own identity directly afterwards. One whose
//! connections ended, and that did not do so within [`LEAVE_MAX`], is lost. A client that is fenced by another one is
//! revoked. The log has one line for a client that is lost or revoked, and none for one that left.

use super::event::GoneClient;
use farwood_fabric::ClientId;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Time between the last connection of a compute node that leaves and its fence.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// The client that fences another one, or itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FencedBy {
    /// The client itself, which leaves the pool.
    Itself,
    /// A client that has proven that this one is gone.
    Another,
}

/// The compute nodes, by client slot.
#[derive(Debug, Default)]
pub(super) struct AttachedClients(HashMap<u16, Attached>);

#[derive(Debug)]
struct Attached {
    gone: GoneClient,
    /// When its last connection ended.
    alone_since: Option<Instant>,
    is_reported: bool,
}

impl AttachedClients {
    /// Records a connection of `client`.
    pub(super) fn connected(&mut self, client: ClientId, from: Option<SocketAddr>) {
        let new = || Attached { gone: GoneClient { client, from }, alone_since: None, is_reported: false };
        let attached = self.0.entry(client.slot).or_insert_with(new);
        if attached.gone.client != client {
            *attached = new();
        }
        attached.alone_since = None;
    }

    /// Records the end of the last connection of `client`.
    pub(super) fn disconnected(&mut self, client: ClientId, now: Instant) {
        let attached = self.0.get_mut(&client.slot).filter(|attached| attached.gone.client == client);
        if let Some(attached) = attached {
            attached.alone_since = Some(now);
        }
    }

    /// Removes a fenced client, or an earlier owner of its slot; returns the client if it was revoked, and is not
    /// reported as lost yet.
    pub(super) fn fenced(&mut self, client: ClientId, by: FencedBy) -> Option<GoneClient> {
        self.0.get(&client.slot).filter(|attached| attached.gone.client.epoch <= client.epoch)?;
        let attached = self.0.remove(&client.slot)?;
        (by == FencedBy::Another && !attached.is_reported).then_some(attached.gone)
    }

    /// The clients that have been lost since the last call.
    pub(super) fn take_lost(&mut self, now: Instant) -> Vec<GoneClient> {
        let is_lost = |since: Instant| now.saturating_duration_since(since) >= LEAVE_MAX;
        let mut lost = Vec::new();
        for attached in self.0.values_mut() {
            if !attached.is_reported && attached.alone_since.is_some_and(is_lost) {
                attached.is_reported = true;
                lost.push(attached.gone);
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId { slot: 3, epoch: 7 };

    fn gone() -> GoneClient {
        GoneClient { client: CLIENT, from: Some("10.0.0.9:5".parse().unwrap()) }
    }

    /// A client whose last connection ended now.
    fn alone() -> (AttachedClients, Instant) {
        let (mut clients, now) = (AttachedClients::default(), Instant::now());
        clients.connected(CLIENT, gone().from);
        clients.disconnected(CLIENT, now);
        (clients, now)
    }

    #[test]
    fn a_client_that_leaves_is_neither_lost_nor_revoked() {
        let (mut clients, now) = alone();
        assert_eq!(clients.take_lost(now + LEAVE_MAX / 2), []);
        assert_eq!(clients.fenced(CLIENT, FencedBy::Itself), None);
        assert_eq!(clients.take_lost(now + LEAVE_MAX), []);
    }

    #[test]
    fn a_lost_client_is_reported_once() {
        let (mut clients, now) = alone();
        assert_eq!(clients.take_lost(now + LEAVE_MAX), [gone()]);
        assert_eq!(clients.take_lost(now + LEAVE_MAX), []);
        assert_eq!(clients.fenced(CLIENT, FencedBy::Another), None, "it was reported as lost");
    }

    #[test]
    fn a_revoked_client_is_reported_once() {
        let (mut clients, now) = alone();
        let next = ClientId { epoch: 8, ..CLIENT };
        assert_eq!(clients.fenced(ClientId { epoch: 6, ..CLIENT }, FencedBy::Another), None);
        assert_eq!(clients.fenced(next, FencedBy::Another), Some(gone()), "an earlier owner of the slot");
        assert_eq!(clients.fenced(next, FencedBy::Another), None);
        assert_eq!(clients.take_lost(now + LEAVE_MAX), []);
    }

    #[test]
    fn a_client_that_connects_again_is_not_lost() {
        let (mut clients, now) = alone();
        clients.connected(CLIENT, None);
        assert_eq!(clients.take_lost(now + LEAVE_MAX), []);
        clients.disconnected(ClientId { epoch: 6, ..CLIENT }, now);
        assert_eq!(clients.take_lost(now + LEAVE_MAX), [], "another identity of the slot");
        clients.disconnected(CLIENT, now);
        assert_eq!(clients.take_lost(now + LEAVE_MAX), [gone()], "with its first address");
    }
}
