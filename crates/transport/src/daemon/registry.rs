//! The connections of a memory node, and the fenced clients.
//!
//! A connection may execute verbs as long as its [`Peer`] is alive. Ending a peer takes the lock under which its verbs
//! execute: when [`Peer::end`] returns, none of them executes afterwards.

use super::attached_clients::{AttachedClients, FencedBy};
use super::event::GoneClient;
use super::store::Store;
use super::verb_executor::ExecutorQueuePair;
use crate::stream::{AcceptedTokens, NONCE_BYTES, Nonces, Proof, nonce};
use crate::wire::{ANY_NODE, Code, Formation, Hello, Welcome};
use farwood_fabric::client_table::CLIENTS_MAX;
use farwood_fabric::{Access, ClientId};
use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A handle by which other threads can end a connection.
#[derive(Debug)]
pub(super) struct Peer {
    /// Unique at this memory node.
    number: u64,
    stream: TcpStream,
    /// A lock that is held while verbs of the connection execute.
    alive: Mutex<bool>,
    /// The queue pair whose verbs a device executes.
    queue: Mutex<Option<Box<dyn ExecutorQueuePair>>>,
}

/// The right to execute verbs of a connection.
pub(super) type ExecutionGuard<'a> = MutexGuard<'a, bool>;

impl Peer {
    /// Returns the number of the connection, unique at this memory node.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the connection's stream.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Returns the right to execute its verbs, unless it was ended.
    pub(super) fn execution_guard(&self) -> Option<ExecutionGuard<'_>> {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        alive.then_some(alive)
    }

    /// Assigns the connection its only queue pair, made by `make`. `None`: the connection was ended.
    pub(super) fn connect<T>(
        &self,
        make: impl FnOnce() -> Result<(Box<dyn ExecutorQueuePair>, T), String>,
    ) -> Option<Result<T, String>> {
        // Held until the queue pair is stored: a thread that ends the connection finds it.
        let _guard = self.execution_guard()?;
        if self.queue().is_some() {
            return Some(Err("its connection has a queue pair already".to_owned()));
        }
        Some(make().map(|(queue, answer)| {
            *self.queue() = Some(queue);
            answer
        }))
    }

    fn queue(&self) -> MutexGuard<'_, Option<Box<dyn ExecutorQueuePair>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection: when this returns `Ok`, none of its verbs executes afterwards.
    ///
    /// # Errors
    /// The reason why the device cannot end the queue pair, which the connection keeps.
    fn end(&self) -> Result<(), String> {
        *self.alive.lock().unwrap_or_else(PoisonError::into_inner) = false;
        // The lock is held so that, of two threads that end the queue pair, neither returns before it has ended.
        let mut queue = self.queue();
        let ended = queue.as_mut().map_or(Ok(()), |queue| queue.end());
        if ended.is_ok() {
            *queue = None;
        }
        drop(queue);
        // Wakes the thread that serves it. A stream that is closed already is not an error.
        let _ = self.stream.shutdown(Shutdown::Both);
        ended
    }
}

/// A connection and its client.
#[derive(Debug)]
struct Entry {
    peer: Arc<Peer>,
    client: Option<ClientId>,
    connection_number: u64,
    /// The slot of the client table that it has claimed.
    claim: Option<u16>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    all: HashMap<u64, Entry>,
    /// Ended connections whose queue pair the device could not end.
    stuck: Vec<Arc<Peer>>,
    clients: AttachedClients,
}

impl Entries {
    /// Removes a connection that is over.
    fn remove(&mut self, peer: &Peer) {
        let client = self.all.remove(&peer.number).and_then(|entry| entry.client);
        let is_last = |client| self.all.values().all(|entry| entry.client != Some(client));
        if let Some(client) = client.filter(|&client| is_last(client)) {
            self.clients.disconnected(client, Instant::now());
        }
    }
}

/// A refusal: its code and the reason.
pub(super) type Refusal = (Code, String);

/// The accepted tokens, by what they permit.
#[derive(Debug, Default)]
pub(super) struct RightTokens {
    /// The tokens for everything; `None`: no token is required.
    pub(super) all: Option<AcceptedTokens>,
    /// The tokens for reading.
    pub(super) read: Option<AcceptedTokens>,
}

/// What an authenticated connection may do, and the memory node's proof to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admission {
    pub(super) access: Access,
    pub(super) proof: Proof,
}

impl Admission {
    /// The admission to a memory node that requires no token.
    pub(super) const WITHOUT_TOKEN: Self = Self { access: Access::ReadWrite, proof: [0; NONCE_BYTES] };
}

impl RightTokens {
    /// Returns the admission of the compute node that has sent `proof`. Tries all tokens, so that the duration does not
    /// depend on the one that matches.
    fn answer(&self, nonces: &Nonces, proof: &Proof) -> Option<Admission> {
        let answer = |tokens: &Option<AcceptedTokens>| tokens.as_ref()?.answer(nonces, proof);
        let [all, read] = [answer(&self.all), answer(&self.read)];
        let all = all.map(|proof| Admission { access: Access::ReadWrite, proof });
        all.or(read.map(|proof| Admission { access: Access::ReadOnly, proof }))
    }
}

/// The connections of a memory node.
#[derive(Debug)]
pub(super) struct Registry {
    entries: Mutex<Entries>,
    tokens: RightTokens,
    connections_max: usize,
    /// The time until which clients of before a restart may reconnect.
    returns_until: OnceLock<Instant>,
}

/// The refusal of what a token for reading does not permit.
pub(super) fn read_only(operation: &str) -> Refusal {
    let remedy = "open the pool read-only, or with the token for reading and writing";
    (Code::ReadOnly, format!("its token permits only reads, so it cannot {operation}: {remedy}"))
}

/// A client of before a restart reconnects at its next post, within this time.
pub(super) const RETURNS_MAX: Duration = Duration::from_secs(3);

impl Registry {
    /// No connections yet.
    pub(super) fn new(tokens: RightTokens, connections_max: usize) -> Self {
        Self { entries: Mutex::default(), tokens, connections_max, returns_until: OnceLock::new() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the limit of connections.
    pub(super) fn connections_max(&self) -> usize {
        self.connections_max
    }

    /// Returns the number of connections.
    pub(super) fn connections(&self) -> usize {
        self.entries().all.len()
    }

    /// Adds a connection that is not authenticated. `Err`: the limit is reached.
    pub(super) fn add(&self, stream: TcpStream) -> Result<Arc<Peer>, TcpStream> {
        let mut entries = self.entries();
        if entries.all.len() >= self.connections_max {
            return Err(stream);
        }
        entries.next += 1;
        let peer =
            Arc::new(Peer { number: entries.next, stream, alive: Mutex::new(true), queue: Mutex::default() });
        let entry = Entry { peer: Arc::clone(&peer), client: None, connection_number: 0, claim: None };
        entries.all.insert(peer.number, entry);
        Ok(peer)
    }

    /// Removes a connection that is over.
    ///
    /// # Errors
    /// The reason why the device does not end its queue pair. The connection then stays listed, so that it does not
    /// count as ended, until [`end_stuck`](Self::end_stuck) succeeds.
    pub(super) fn remove(&self, peer: &Arc<Peer>) -> Result<(), String> {
        let ended = peer.end();
        let mut entries = self.entries();
        entries.stuck.retain(|stuck| stuck.number != peer.number);
        match &ended {
            Ok(()) => entries.remove(peer),
            Err(_) => entries.stuck.push(Arc::clone(peer)),
        }
        ended
    }

    /// Ends connections that could not be ended before.
    pub(super) fn end_stuck(&self) {
        let stuck = self.entries().stuck.clone();
        for peer in stuck {
            // The first failure was logged already.
            let _ = self.remove(&peer);
        }
    }

    /// Returns the nonces of a connection that must prove its token; `None`: no token is required.
    pub(super) fn challenge(&self, hello: &Hello) -> Result<Option<Nonces>, Refusal> {
        if self.tokens.all.is_none() {
            return Ok(None);
        }
        let Some(compute_node) = hello.nonce else {
            return Err((Code::BadToken, "it requires a token".to_owned()));
        };
        let memory_node = nonce().map_err(|why| (Code::NoMemory, why))?;
        Ok(Some(Nonces { compute_node, memory_node }))
    }

    /// Returns the memory node's proof for a connection that has proven its token, and what that token permits.
    pub(super) fn prove(&self, nonces: &Nonces, proof: &Proof) -> Result<Admission, Refusal> {
        let answer = self.tokens.answer(nonces, proof);
        answer.ok_or_else(|| (Code::BadToken, "it requires another token".to_owned()))
    }

    /// Admits an authenticated connection. An older connection that it replaces has ended when this returns.
    pub(super) fn admit(
        &self,
        store: &Store,
        peer: &Peer,
        hello: &Hello,
        Admission { access, proof }: Admission,
    ) -> Result<Welcome, Refusal> {
        let membership = store.membership();
        let whichever = hello.pool == 0 && hello.node == ANY_NODE;
        if !whichever && (hello.pool, hello.node) != (membership.pool, membership.node) {
            let why = if membership.formed == Formation::Blank {
                "it was restarted with fresh memory, and the pool's data there is lost; open the pool again"
            } else {
                "it belongs to another pool now; open the pool again"
            };
            return Err((Code::WrongPool, why.to_owned()));
        }
        if let Some(client) = hello.client {
            if access == Access::ReadOnly {
                return Err(read_only("take the identity of a client"));
            }
            self.identify(store, peer, client, hello.connection_number)?;
        }
        Ok(Welcome {
            formed: membership.formed,
            log: store.log_kind(),
            pool: membership.pool,
            node: membership.node,
            nodes: membership.nodes,
            host_bytes: store.host_bytes(),
            device_bytes: store.device_bytes(),
            incarnation: store.incarnation(),
            access,
            proof,
        })
    }

    /// Gives a connection its identity, unless that client was fenced; an older connection of the same number is
    /// closed.
    pub(super) fn identify(
        &self,
        store: &Store,
        peer: &Peer,
        client: ClientId,
        connection_number: u64,
    ) -> Result<(), Refusal> {
        let mut entries = self.entries();
        // The lock is held, as in `fence`, so the identity is either assigned before a fence, which then finds it, or
        // refused after the fence.
        if store.is_fenced(client) {
            return Err((Code::Revoked, format!("client {client} was revoked")));
        }
        let old = entries.all.values().find(|entry| {
            entry.client == Some(client)
                && entry.connection_number == connection_number
                && entry.peer.number != peer.number
        });
        let old = old.map(|entry| Arc::clone(&entry.peer));
        if let Some(entry) = entries.all.get_mut(&peer.number) {
            (entry.client, entry.connection_number) = (Some(client), connection_number);
            let from = entry.peer.stream.peer_addr().ok();
            entries.clients.connected(client, from);
        }
        drop(entries);
        old.map_or(Ok(()), |old| self.remove(&old)).map_err(|why| not_ended(&why))
    }

    /// Claims a slot for a connection: no other can claim it until that connection is closed.
    pub(super) fn claim(&self, store: &Store, peer: &Peer, slot: u64) -> Result<(), Refusal> {
        let slot = u16::try_from(slot).ok().filter(|&slot| usize::from(slot) < CLIENTS_MAX);
        let slot = slot.ok_or_else(|| (Code::OutOfRange, "there is no such slot".to_owned()))?;
        let mut entries = self.entries();
        let taken = entries.all.values().any(|entry| {
            let named = entry.client.is_some_and(|client| client.slot == slot);
            entry.peer.number != peer.number && (named || entry.claim == Some(slot))
        });
        if taken || self.awaits_returns() && store.is_slot_live(slot) {
            return Err((Code::SlotTaken, format!("slot {slot} belongs to a live compute node")));
        }
        if let Some(entry) = entries.all.get_mut(&peer.number) {
            entry.claim = Some(slot);
        }
        Ok(())
    }

    /// Waits for the clients that were attached to the memory before this memory node started: until then, a client
    /// without a connection does not count as crashed.
    pub(super) fn expect_returns(&self, limit: Duration) {
        let _ = self.returns_until.set(Instant::now() + limit);
    }

    fn awaits_returns(&self) -> bool {
        self.returns_until.get().is_some_and(|&until| Instant::now() < until)
    }

    /// Returns the number of connections of `client`, and of those that have claimed its slot.
    pub(super) fn connections_of(&self, client: ClientId) -> u64 {
        // It may have been attached before the restart, and reconnect soon.
        if self.awaits_returns() {
            return 1;
        }
        let entries = self.entries();
        let of = |entry: &&Entry| entry.client == Some(client) || entry.claim == Some(client.slot);
        entries.all.values().filter(of).count() as u64
    }

    /// Fences `client` and the earlier owners of its slot: when this returns `Ok`, none of their verbs executes
    /// afterwards. Returns the revoked client if it was connected here and is not reported as lost.
    pub(super) fn fence(
        &self,
        store: &Store,
        client: ClientId,
        by: FencedBy,
    ) -> Result<Option<GoneClient>, Refusal> {
        if usize::from(client.slot) >= CLIENTS_MAX {
            return Err((Code::OutOfRange, "there is no such slot".to_owned()));
        }
        let mut entries = self.entries();
        store.fence(client).map_err(|why| (Code::OutOfRange, why))?;
        let revoked = entries.clients.fenced(client, by);
        let fenced = |entry: &&Entry| {
            entry.client.is_some_and(|named| named.slot == client.slot && store.is_fenced(named))
        };
        let ended: Vec<_> =
            entries.all.values().filter(fenced).map(|entry| Arc::clone(&entry.peer)).collect();
        drop(entries);
        // Each connection stays listed until it has ended, so that a concurrent fence or count includes it.
        let mut result = Ok(());
        for peer in &ended {
            result = self.remove(peer).and(result);
        }
        result.map(|()| revoked).map_err(|why| not_ended(&why))
    }

    /// Waits until all verbs have ended that execute at this moment. The caller has no execution guard.
    pub(super) fn await_verbs(&self) {
        let peers: Vec<_> = self.entries().all.values().map(|entry| Arc::clone(&entry.peer)).collect();
        for peer in peers {
            drop(peer.execution_guard());
        }
    }

    /// Ends all connections except `peer`: when this returns `Ok`, none of their verbs executes afterwards.
    pub(super) fn end_others(&self, peer: &Peer) -> Result<(), Refusal> {
        let is_other = |entry: &&Entry| entry.peer.number != peer.number;
        let others: Vec<_> =
            self.entries().all.values().filter(is_other).map(|entry| Arc::clone(&entry.peer)).collect();
        others.iter().try_for_each(|other| self.remove(other)).map_err(|why| not_ended(&why))
    }

    /// Returns the clients that have been lost since the last call.
    pub(super) fn take_lost(&self, now: Instant) -> Vec<GoneClient> {
        self.entries().clients.take_lost(now)
    }
}

/// The refusal if a queue pair cannot be ended: a client whose verbs may still execute cannot be fenced or replaced.
fn not_ended(why: &str) -> Refusal {
    (
        Code::QueuePairStuck,
        format!("the RDMA device does not end a queue pair: {why}; restart the memory node"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::store::MemorySizes;
    use super::*;
    use std::net::TcpListener;
    use std::thread;
    use std::time::Duration;

    const CLIENT: ClientId = ClientId { slot: 3, epoch: 1 };

    /// A registry with a connection of [`CLIENT`].
    fn with_a_peer() -> (Store, Registry, Arc<Peer>) {
        let sizes = MemorySizes { memory: 16 << 20, memory_max: 16 << 20, device: 64 };
        let store = Store::anonymous(sizes).unwrap();
        let registry = Registry::new(RightTokens::default(), 8);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let peer = registry.add(stream).unwrap();
        registry.identify(&store, &peer, CLIENT, 0).unwrap();
        (store, registry, peer)
    }

    /// Two survivors fence the same compute node at once while verbs of it execute: neither fence returns
    /// before they are done.
    #[test]
    fn a_fence_waits_for_executing_verbs() {
        let (store, registry, peer) = with_a_peer();
        let guard = peer.execution_guard().unwrap();
        thread::scope(|scope| {
            let fences =
                [(); 2].map(|()| scope.spawn(|| registry.fence(&store, CLIENT, FencedBy::Another).unwrap()));
            thread::sleep(Duration::from_millis(50));
            assert!(
                fences.iter().all(|fence| !fence.is_finished()),
                "a fence returned while a verb executed"
            );
            assert_eq!(registry.connections_of(CLIENT), 1);
            drop(guard);
        });
        assert_eq!((registry.connections_of(CLIENT), peer.execution_guard().is_none()), (0, true));
        assert!(registry.identify(&store, &peer, CLIENT, 1).is_err(), "it does not come back");
    }

    /// A queue pair that ends at the given attempt.
    #[derive(Debug)]
    struct Stubborn(u32);

    impl ExecutorQueuePair for Stubborn {
        fn end(&mut self) -> Result<(), String> {
            self.0 -= 1;
            if self.0 == 0 { Ok(()) } else { Err("it does not answer".to_owned()) }
        }
    }

    #[test]
    fn a_client_with_a_stuck_queue_pair_has_not_ended() {
        let (store, registry, peer) = with_a_peer();
        let connect =
            || peer.connect(|| Ok((Box::new(Stubborn(3)) as Box<dyn ExecutorQueuePair>, ()))).unwrap();
        assert_eq!(connect(), Ok(()));
        assert!(connect().unwrap_err().contains("has a queue pair already"));
        let (code, why) = registry.fence(&store, CLIENT, FencedBy::Another).unwrap_err();
        assert!(code == Code::QueuePairStuck && why.contains("does not answer"), "{why}");
        registry.end_stuck();
        assert_eq!((registry.connections_of(CLIENT), registry.connections()), (1, 1), "it was tried twice");
        registry.end_stuck();
        assert_eq!((registry.connections_of(CLIENT), registry.connections()), (0, 0));
        assert_eq!(registry.fence(&store, CLIENT, FencedBy::Another), Ok(None));
    }
}
