//! Who is connected to a memory node, and who may not be any more.
//!
//! A connection may execute verbs for as long as its [`Peer`] is alive. Ending a peer takes the lock under which its
//! verbs execute: when [`Peer::end`] returns, none of them is under way and none will be.

use super::store::Store;
use super::verb_executor::Queue;
use crate::stream::Token;
use crate::wire::{ANY_NODE, Code, Formed, Hello, Welcome};
use farwood_fabric::ClientId;
use farwood_fabric::client_table::CLIENTS_MAX;
use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One connection, as others may end it.
#[derive(Debug)]
pub(super) struct Peer {
    /// Unique at this memory node.
    number: u64,
    stream: TcpStream,
    /// Held while verbs of the connection execute.
    alive: Mutex<bool>,
    /// The queue pair whose verbs a card executes.
    queue: Mutex<Option<Box<dyn Queue>>>,
}

/// The right to execute verbs of a connection.
pub(super) type Turn<'a> = MutexGuard<'a, bool>;

impl Peer {
    /// The connection's stream.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The right to execute its verbs, unless it was ended.
    pub(super) fn turn(&self) -> Option<Turn<'_>> {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        alive.then_some(alive)
    }

    /// Gives the connection its one queue pair, made by `make`; `None`: the connection was ended.
    pub(super) fn connect<T>(
        &self,
        make: impl FnOnce() -> Result<(Box<dyn Queue>, T), String>,
    ) -> Option<Result<T, String>> {
        // Held until it is listed: who ends the connection finds it.
        let _turn = self.turn()?;
        if self.queue().is_some() {
            return Some(Err("its connection has one already".to_owned()));
        }
        Some(make().map(|(queue, answer)| {
            *self.queue() = Some(queue);
            answer
        }))
    }

    fn queue(&self) -> MutexGuard<'_, Option<Box<dyn Queue>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection: when this is `Ok`, nothing of it lands any more. In words: the card goes on with its queue
    /// pair, which stays with it.
    fn end(&self) -> Result<(), String> {
        *self.alive.lock().unwrap_or_else(PoisonError::into_inner) = false;
        // Under the lock: of two who end it, neither returns before it is ended.
        let mut queue = self.queue();
        let ended = queue.as_mut().map_or(Ok(()), |queue| queue.end());
        if ended.is_ok() {
            *queue = None;
        }
        drop(queue);
        // Wakes the thread that serves it. That the other side is gone already is no failure.
        let _ = self.stream.shutdown(Shutdown::Both);
        ended
    }
}

/// A connection, and whose it is.
#[derive(Debug)]
struct Entry {
    peer: Arc<Peer>,
    client: Option<ClientId>,
    line: u64,
    /// The slot of the client table that it has claimed.
    claim: Option<u16>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    all: HashMap<u64, Entry>,
    /// Of these, connections that are over but for a queue pair that the card did not end.
    stuck: Vec<Arc<Peer>>,
}

/// A refusal, with its words.
pub(super) type Refusal = (Code, String);

/// The connections of a memory node.
#[derive(Debug)]
pub(super) struct Registry {
    entries: Mutex<Entries>,
    token: Option<Token>,
    connections_max: usize,
}

impl Registry {
    /// Nobody is connected yet.
    pub(super) fn new(token: Option<Token>, connections_max: usize) -> Self {
        Self { entries: Mutex::default(), token, connections_max }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As many connections as there may be.
    pub(super) fn connections_max(&self) -> usize {
        self.connections_max
    }

    /// Connections now.
    pub(super) fn connections(&self) -> usize {
        self.entries().all.len()
    }

    /// A connection that has not said who it is. `Err`: there are as many as may be.
    pub(super) fn arrive(&self, stream: TcpStream) -> Result<Arc<Peer>, TcpStream> {
        let mut entries = self.entries();
        if entries.all.len() >= self.connections_max {
            return Err(stream);
        }
        entries.next += 1;
        let peer =
            Arc::new(Peer { number: entries.next, stream, alive: Mutex::new(true), queue: Mutex::default() });
        let entry = Entry { peer: Arc::clone(&peer), client: None, line: 0, claim: None };
        entries.all.insert(peer.number, entry);
        Ok(peer)
    }

    /// A connection that is over. In words: the card goes on with a queue pair of it. Then it stays listed, so that
    /// nobody takes it for gone, until [`end_stuck`](Self::end_stuck) has more luck.
    pub(super) fn leave(&self, peer: &Arc<Peer>) -> Result<(), String> {
        let ended = peer.end();
        let mut entries = self.entries();
        entries.stuck.retain(|stuck| stuck.number != peer.number);
        match &ended {
            Ok(()) => drop(entries.all.remove(&peer.number)),
            Err(_) => entries.stuck.push(Arc::clone(peer)),
        }
        ended
    }

    /// Ends connections that could not be ended before.
    pub(super) fn end_stuck(&self) {
        let stuck = self.entries().stuck.clone();
        for peer in stuck {
            // Its failure was told when it was new.
            let _ = self.leave(&peer);
        }
    }

    /// Lets a connection in, or not. What it replaces is over when this returns.
    pub(super) fn welcome(&self, store: &Store, peer: &Peer, hello: &Hello) -> Result<Welcome, Refusal> {
        if self.token.as_ref().is_some_and(|token| !token.is(&hello.token)) {
            let why = if hello.token.is_empty() { "it wants a token" } else { "it has another token" };
            return Err((Code::BadToken, why.to_owned()));
        }
        let membership = store.membership();
        let whichever = hello.pool == 0 && hello.node == ANY_NODE;
        if !whichever && (hello.pool, hello.node) != (membership.pool, membership.node) {
            let why = if membership.formed == Formed::Blank {
                "its memory is fresh: it was started anew, and what the pool had there is lost; open the pool again"
            } else {
                "it belongs to another pool now; open the pool again"
            };
            return Err((Code::OtherPool, why.to_owned()));
        }
        if let Some(client) = hello.client {
            self.name(store, peer, client, hello.line)?;
        }
        Ok(Welcome {
            formed: membership.formed,
            pool: membership.pool,
            node: membership.node,
            nodes: membership.nodes,
            host_bytes: store.host_bytes(),
            device_bytes: store.device_bytes(),
            incarnation: store.incarnation(),
        })
    }

    /// Gives a connection its identity, unless that was fenced; an older connection of the same line is over.
    pub(super) fn name(
        &self,
        store: &Store,
        peer: &Peer,
        client: ClientId,
        line: u64,
    ) -> Result<(), Refusal> {
        let mut entries = self.entries();
        // Under the lock, as `fence` is: a name is given before a fence, and found by it, or refused after it.
        if store.is_fenced(client) {
            return Err((Code::Revoked, format!("client {client} was revoked")));
        }
        let old = entries.all.values().find(|entry| {
            entry.client == Some(client) && entry.line == line && entry.peer.number != peer.number
        });
        let old = old.map(|entry| Arc::clone(&entry.peer));
        if let Some(entry) = entries.all.get_mut(&peer.number) {
            (entry.client, entry.line) = (Some(client), line);
        }
        drop(entries);
        old.map_or(Ok(()), |old| self.leave(&old)).map_err(|why| not_ended(&why))
    }

    /// Claims a slot for a connection: nobody else can until it is over.
    pub(super) fn claim(&self, peer: &Peer, slot: u64) -> Result<(), Refusal> {
        let slot = u16::try_from(slot).ok().filter(|&slot| usize::from(slot) < CLIENTS_MAX);
        let slot = slot.ok_or_else(|| (Code::OutOfRange, "there is no such slot".to_owned()))?;
        let mut entries = self.entries();
        let taken = entries.all.values().any(|entry| {
            let named = entry.client.is_some_and(|client| client.slot == slot);
            entry.peer.number != peer.number && (named || entry.claim == Some(slot))
        });
        if taken {
            return Err((Code::Taken, format!("slot {slot} is a living compute node's")));
        }
        if let Some(entry) = entries.all.get_mut(&peer.number) {
            entry.claim = Some(slot);
        }
        Ok(())
    }

    /// Connections of `client`, and of who has claimed its slot.
    pub(super) fn census(&self, client: ClientId) -> u64 {
        let entries = self.entries();
        let of = |entry: &&Entry| entry.client == Some(client) || entry.claim == Some(client.slot);
        entries.all.values().filter(of).count() as u64
    }

    /// Fences `client` and whoever had its slot before it: when this is `Ok`, nothing of them lands any more.
    pub(super) fn fence(&self, store: &Store, client: ClientId) -> Result<(), Refusal> {
        if usize::from(client.slot) >= CLIENTS_MAX {
            return Err((Code::OutOfRange, "there is no such slot".to_owned()));
        }
        let entries = self.entries();
        store.fence(client);
        let fenced = |entry: &&Entry| {
            entry.client.is_some_and(|named| named.slot == client.slot && store.is_fenced(named))
        };
        let ended: Vec<_> =
            entries.all.values().filter(fenced).map(|entry| Arc::clone(&entry.peer)).collect();
        drop(entries);
        // Each stays listed until it is over: another who fences or counts meanwhile must not take it for gone.
        let mut told = Ok(());
        for peer in &ended {
            told = self.leave(peer).and(told);
        }
        told.map_err(|why| not_ended(&why))
    }
}

/// What may still land cannot be fenced, nor replaced.
fn not_ended(why: &str) -> Refusal {
    (Code::NotEnded, format!("the card does not end a queue pair: {why}; start the memory node anew"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    const CLIENT: ClientId = ClientId { slot: 3, epoch: 1 };

    /// A registry with a connection of [`CLIENT`].
    fn with_a_peer() -> (Store, Registry, Arc<Peer>) {
        let store = Store::anonymous(16 << 20, 64).unwrap();
        let registry = Registry::new(None, 8);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let peer = registry.arrive(stream).unwrap();
        registry.name(&store, &peer, CLIENT, 0).unwrap();
        (store, registry, peer)
    }

    /// Two survivors fence the same compute node at once while verbs of it execute: neither is told that it is gone
    /// before they are done.
    #[test]
    fn nobody_takes_a_peer_for_gone_whose_verbs_execute() {
        let (store, registry, peer) = with_a_peer();
        let turn = peer.turn().unwrap();
        thread::scope(|scope| {
            let fences = [(); 2].map(|()| scope.spawn(|| registry.fence(&store, CLIENT).unwrap()));
            thread::sleep(Duration::from_millis(50));
            assert!(
                fences.iter().all(|fence| !fence.is_finished()),
                "a fence was told while a verb executed"
            );
            assert_eq!(registry.census(CLIENT), 1);
            drop(turn);
        });
        assert_eq!((registry.census(CLIENT), peer.turn().is_none()), (0, true));
        assert!(registry.name(&store, &peer, CLIENT, 1).is_err(), "it does not come back");
    }

    /// A queue pair that its card ends when it is asked so many times.
    #[derive(Debug)]
    struct Stubborn(u32);

    impl Queue for Stubborn {
        fn end(&mut self) -> Result<(), String> {
            self.0 -= 1;
            if self.0 == 0 { Ok(()) } else { Err("it does not answer".to_owned()) }
        }
    }

    #[test]
    fn nobody_is_gone_whose_queue_pair_the_card_does_not_end() {
        let (store, registry, peer) = with_a_peer();
        let connect = || peer.connect(|| Ok((Box::new(Stubborn(3)) as Box<dyn Queue>, ()))).unwrap();
        assert_eq!(connect(), Ok(()));
        assert!(connect().unwrap_err().contains("has one already"));
        let (code, why) = registry.fence(&store, CLIENT).unwrap_err();
        assert!(code == Code::NotEnded && why.contains("does not answer"), "{why}");
        registry.end_stuck();
        assert_eq!((registry.census(CLIENT), registry.connections()), (1, 1), "it was tried twice");
        registry.end_stuck();
        assert_eq!((registry.census(CLIENT), registry.connections()), (0, 0));
        assert_eq!(registry.fence(&store, CLIENT), Ok(()));
    }
}
