//! Fast messaging, the server's side: one flow for each connection (Catfish §III-A, §IV-B).
//!
//! The flow of a connection receives requests from its ring, executes them, and writes the responses into the client's
//! inbox. The [`NotificationMode`] determines how the flow is notified of a request: it polls the ring, or it sleeps
//! until an immediate names the connection. No client can delay another's connection: if a client's inbox is full, or
//! the client crashed in the middle of a message, only its own flow waits.

use super::super::head::{
    ASK, CONNECTIONS_MAX, CONSUMED, HEARTBEAT, INBOX, INBOX_HEAD_BYTES, LOOKUPS, MEMORY, OFFLOADED, OPEN,
    OWNER, RING_CHUNKS, RING_CHUNKS_MAX, TERM, TICKET_BITS, closed, connection_memory, of_connection,
};
use super::super::server_stats::ServerStats;
use super::super::wire::NotificationMode;
use super::super::wire::heartbeat::{PARTS, number_and_beat, utilisation};
use super::super::wire::message::{ITEM_WORDS, RESPONSE_HEAD_WORDS, item_words};
use super::super::wire::ring::{Received, RingReceiver, RingSender, Segment, framed, poll_interval};
use super::TreeServer;
use super::answer::Outcome;
use super::heartbeat::send_heartbeats;
use super::notifier::{IDLE_CHECK_NS, IdleChecks, Notifiers, idle_pause};
use super::worker::Worker;
use crate::coverage;
use crate::error::IndexError;
use farwood_fabric::chunk_limit;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Chunk, ChunkOwner, TakenChunk};
use farwood_fabric::{
    Chain as _, Client, Fabric, FabricError, LockWord, Remote, Revocation, Server, ServerMemory as _, write,
};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;

/// The way in which a server exchanges messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceSettings {
    /// The way in which the service is notified of requests.
    pub notice: NotificationMode,
    /// Time between two polls of a ring, nanoseconds.
    pub poll_ns: u64,
    /// Time between two heartbeats, nanoseconds (Catfish §IV-A: 10 ms).
    pub heartbeat_ns: u64,
    /// Time without a request after which the server checks whether a client is alive, nanoseconds.
    pub silence_ns: u64,
    /// How often the service looks for clients and for lost notifications while there are no messages.
    pub idle_checks: IdleChecks,
    /// Processor time of a request and its response, nanoseconds, where work is accounted for.
    pub message_ns: u64,
    /// Processor time from an immediate to the flow that it wakes, nanoseconds, where work is accounted for.
    pub wake_ns: u64,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            notice: NotificationMode::Event,
            poll_ns: 200,
            heartbeat_ns: 10_000_000,
            silence_ns: 1_000_000_000,
            idle_checks: IdleChecks::Rare,
            message_ns: 0,
            wake_ns: 0,
        }
    }
}

/// A server that answers messages.
#[derive(Debug)]
pub struct Service<'t> {
    tree: &'t TreeServer,
    settings: ServiceSettings,
    notifiers: Notifiers,
    ended: AtomicBool,
    worked_ns: AtomicU64,
    pulse: AtomicU64,
    /// The connections below this number may have a flow.
    flows: AtomicUsize,
}

/// An open connection.
struct OpenConnection {
    number: usize,
    /// Offset of the ring for requests in the server's memory.
    requests: u64,
    /// The memory from which the client reads responses.
    inbox: Remote<[u8]>,
    receiver: RingReceiver,
    sender: RingSender,
    /// Lock word of the client's compute node.
    owner: u64,
    ask: u64,
}

/// The reason why the flow of a connection stops serving it.
enum Disconnect {
    /// The owner has crashed, has closed the connection, or has requested a new one; or the service has ended.
    Finished,
    /// The ring contains bytes that are not a message.
    Garbled,
    /// Another server holds the lease.
    Superseded,
}

impl<'t> Service<'t> {
    /// A service of the tree. Its flows are [`connection`](Self::connection) for each connection, and
    /// [`dispatch`](Self::dispatch) and [`heartbeats`](Self::heartbeats) once.
    pub fn new(tree: &'t TreeServer, settings: ServiceSettings) -> Self {
        Self {
            tree,
            settings,
            notifiers: Notifiers::default(),
            ended: AtomicBool::new(false),
            worked_ns: AtomicU64::new(0),
            pulse: AtomicU64::new(0),
            flows: AtomicUsize::new(0),
        }
    }

    /// Ends the service: all flows return.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.notifiers.notify_all();
    }

    /// Whether the service has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Nanoseconds that all flows together have spent on answers to requests in rings.
    pub fn worked_ns(&self) -> u64 {
        self.worked_ns.load(Ordering::Relaxed)
    }

    /// Adds the time of an answer.
    fn note_work(&self, nanoseconds: u64) {
        self.worked_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// The newest heartbeat with its number, for clients that receive it with a response.
    pub fn pulse(&self) -> u64 {
        self.pulse.load(Ordering::Relaxed)
    }

    /// Receives immediates, and wakes the flows of the connections that they name. It never ends, and is dropped with
    /// the other flows.
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn dispatch<S: Server>(&self, server: &S) -> Result<(), IndexError> {
        self.notifiers.dispatch(server).await
    }

    /// As [`dispatch`](Self::dispatch), until the service ends. Also looks for clients that request a connection, so
    /// that the flows of idle connections need not do so often.
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn dispatch_until_end<F: Fabric, S: Server>(
        &self,
        server: &S,
        client: &Client<F>,
    ) -> Result<(), IndexError> {
        let checks = self.settings.idle_checks;
        let check = || {
            if checks == IdleChecks::Rare {
                self.notify_asked(server)?;
            }
            Ok(self.has_ended())
        };
        self.notifiers.dispatch_until(server, client, checks, check).await
    }

    /// Notifies the flows of connections that clients request.
    fn notify_asked<S: Server>(&self, server: &S) -> Result<(), IndexError> {
        for number in 0..self.flows.load(Ordering::Relaxed) {
            if self.is_asked(number, server)? {
                self.notifiers.notify(number);
            }
        }
        Ok(())
    }

    /// Whether a client requests the connection in this term.
    fn is_asked<S: Server>(&self, number: usize, server: &S) -> Result<bool, IndexError> {
        let field = |field| server.local().load(self.tree.head_offset() + of_connection(number, field));
        if field(OWNER)? == 0 {
            return Ok(false);
        }
        let (ask, open) = (field(ASK)?, field(OPEN)?);
        Ok(ask >> TICKET_BITS == self.tree.term() && open != ask && open != closed(ask))
    }

    /// Sends heartbeats to all clients until the service ends. [1 RT for each client in an interval] `busy` yields the
    /// share of processor time since its last call.
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn heartbeats<F: Fabric, S: Server>(
        &self,
        client: &Client<F>,
        server: &S,
        busy: impl FnMut() -> f64,
    ) -> Result<(), IndexError> {
        let inboxes = |part| {
            if self.has_ended() {
                return Ok(None);
            }
            self.publish_statistics(server)?;
            self.inboxes(part, server).map(Some)
        };
        let timing = (self.settings.heartbeat_ns, self.settings.idle_checks);
        send_heartbeats(client, timing, &self.pulse, inboxes, busy).await
    }

    /// The statistics of this server. [0 RT]
    pub fn stats(&self) -> ServerStats {
        let (by_message, offloaded) = self.tree.lookups.executed_and_offloaded();
        let heartbeat = number_and_beat(self.pulse()).1;
        ServerStats { utilisation: utilisation(heartbeat).unwrap_or_default(), by_message, offloaded }
    }

    /// Stores the newest heartbeat and the numbers of lookups in the head. [0 RT]
    fn publish_statistics<S: Server>(&self, server: &S) -> Result<(), IndexError> {
        let (executed, offloaded) = self.tree.lookups.executed_and_offloaded();
        let heartbeat = number_and_beat(self.pulse()).1;
        for (offset, word) in [(HEARTBEAT, heartbeat), (LOOKUPS, executed), (OFFLOADED, offloaded)] {
            server.local().store(self.tree.head_offset() + offset, word)?;
        }
        Ok(())
    }

    /// The connections that get their heartbeat in part `part` of an interval, with the addresses of their inboxes.
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

    /// Serves connection `number` until the service ends. `client` is used by this flow only.
    ///
    /// # Errors
    /// [`IndexError::Served`] where another server holds the lease; a full pool; the errors of the fabric.
    pub async fn connection<F: Fabric, S: Server>(
        &self,
        number: usize,
        client: &Client<F>,
        server: &S,
    ) -> Result<(), IndexError> {
        let worker = self.tree.worker(client, server);
        self.flows.fetch_max(number + 1, Ordering::Relaxed);
        let mut active = client.fabric().now();
        while !self.has_ended() {
            let Some(mut connection) = self.accept(number, &worker).await? else {
                let now = client.fabric().now();
                self.notifiers.wait(number, client, self.pause(now, now.saturating_sub(active))).await;
                continue;
            };
            match self.serve_requests(&mut connection, &worker).await {
                Ok(Disconnect::Finished) => {}
                Ok(Disconnect::Superseded) => {
                    let by = client.fabric().identity();
                    return Err(IndexError::Served { by });
                }
                // In the second case the inbox cannot be reached, and may hold a part of a message.
                Ok(Disconnect::Garbled) | Err(IndexError::Fabric(FabricError::NodeLost { .. })) => {
                    self.disconnect(&connection, &worker)?;
                }
                Err(error) => {
                    self.disconnect(&connection, &worker)?;
                    return Err(error);
                }
            }
            active = client.fabric().now();
        }
        Ok(())
    }

    /// Nanoseconds until the next check of a connection that has been idle for `idle` nanoseconds. A service that polls
    /// has no dispatcher, which would look for new clients.
    fn pause(&self, now: u64, idle: u64) -> u64 {
        match (self.settings.notice, self.settings.idle_checks) {
            (NotificationMode::Event, IdleChecks::Rare) => idle_pause(now, idle),
            (NotificationMode::Polling, _) | (_, IdleChecks::Frequent) => IDLE_CHECK_NS,
        }
    }

    /// Opens the connection if a client requests it in this term; frees a connection whose owner has crashed.
    async fn accept<F: Fabric, S: Server>(
        &self,
        number: usize,
        worker: &Worker<'_, F, S>,
    ) -> Result<Option<OpenConnection>, IndexError> {
        let (tree, local) = (self.tree, worker.server.local());
        let field = |field| tree.head_offset() + of_connection(number, field);
        let owner = local.load(field(OWNER))?;
        if owner == 0 {
            return Ok(None);
        }
        if !self.is_asked(number, worker.server)? {
            self.free_if_crashed(number, worker, owner).await?;
            return Ok(None);
        }
        let ask = local.load(field(ASK))?;
        let own = self.memory(number, worker).await?;
        let (ring_bytes, inbox) = (tree.layout.ring_bytes, local.load(field(INBOX))?);
        let requests = own.address().offset();
        let own_inbox = requests + ring_bytes;
        for offset in (requests..own_inbox + INBOX_HEAD_BYTES + ring_bytes).step_by(8) {
            local.store(offset, 0)?;
        }
        local.store(field(CONSUMED), 0)?;
        local.store(field(MEMORY), own.word())?;
        local.store(field(OPEN), ask)?;
        let inbox = Remote::from_word(inbox).unwrap_or_else(|| own.part(ring_bytes));
        let (receiver, sender) = (RingReceiver::new(ring_bytes), RingSender::new(ring_bytes));
        Ok(Some(OpenConnection { number, requests, inbox, receiver, sender, owner, ask }))
    }

    /// The memory of a connection, the same in every term. [0 RT; a new chunk as in [`chunks::take`]]
    async fn memory<F: Fabric, S: Server>(
        &self,
        number: usize,
        worker: &Worker<'_, F, S>,
    ) -> Result<Remote<[u8]>, IndexError> {
        let tree = self.tree;
        let bytes = connection_memory(tree.layout.ring_bytes);
        let per_chunk = (CHUNK_BYTES / bytes) as usize;
        let (chunk, position) = (number / per_chunk, number % per_chunk);
        let chunk_word = |chunk: usize| tree.head_offset() + RING_CHUNKS + 8 * chunk as u64;
        assert!(chunk < RING_CHUNKS_MAX, "a chunk holds at least one connection");
        let _guard = tree.writer.lock().await;
        for missing in 0..=chunk {
            if worker.server.local().load(chunk_word(missing))? == 0 {
                let owner = ChunkOwner { client: worker.client.fabric().identity(), entry: tree.slot() };
                let taken = chunks::take(worker.client, tree.layout.node, owner, CHUNK_BYTES).await?;
                let Some(TakenChunk { chunk: taken, .. }) = taken else {
                    return Err(chunk_limit::pool_full(worker.client, [tree.layout.node]).await.into());
                };
                worker.server.local().store(chunk_word(missing), taken.start().address().offset())?;
            }
        }
        let start = worker.server.local().load(chunk_word(chunk))?;
        let chunks = 1..worker.client.fabric().shape().chunks();
        if !start.is_multiple_of(CHUNK_BYTES) || !chunks.contains(&(start / CHUNK_BYTES)) {
            return Err(tree.damaged(format!("its chunk {chunk} of rings is at {start:#x}")));
        }
        let chunk = Chunk { node: tree.layout.node, number: start / CHUNK_BYTES };
        Ok(chunk.start().part(position as u64 * bytes))
    }

    /// Answers requests until the connection must be closed.
    async fn serve_requests<F: Fabric, S: Server>(
        &self,
        connection: &mut OpenConnection,
        worker: &Worker<'_, F, S>,
    ) -> Result<Disconnect, IndexError> {
        let local = worker.server.local();
        let mut active = worker.client.fabric().now();
        let mut words = Vec::new();
        loop {
            if let Some(disconnect) = self.check_connection(connection, worker)? {
                return Ok(disconnect);
            }
            let load = |at| local.load(connection.requests + at).expect("a ring lies in its memory node");
            let clear =
                |at| local.store(connection.requests + at, 0).expect("a ring lies in its memory node");
            match connection.receiver.poll(load, clear) {
                Received::Nothing => {}
                Received::Garbled(_) => return Ok(Disconnect::Garbled),
                Received::Message { offset, words: count, .. } => {
                    words.clear();
                    words.extend((0..count as u64).map(|at| load(offset + 8 * at)));
                    let keep = self.tree.is_broken(crate::mutant::Mutant::ConsumedStays);
                    connection.receiver.consume(count, |at| {
                        if !keep {
                            clear(at);
                        }
                    });
                    let started = worker.client.fabric().now();
                    if let Some(&consumed) = words.first() {
                        connection.sender.consumed(consumed);
                    }
                    worker.server.compute(self.settings.message_ns).await;
                    let outcome = worker.execute(words.get(1..).unwrap_or_default()).await?;
                    self.respond(connection, worker, &outcome).await?;
                    active = worker.client.fabric().now();
                    self.note_work(active.saturating_sub(started));
                    continue;
                }
            }
            let silent = worker.client.fabric().now().saturating_sub(active);
            if silent > self.settings.silence_ns {
                self.free_if_crashed(connection.number, worker, connection.owner).await?;
                active = worker.client.fabric().now();
            }
            self.wait_for_request(connection.number, worker, silent).await;
        }
    }

    /// Waits until the next poll of a ring in which no request has arrived for `silent` nanoseconds.
    async fn wait_for_request<F: Fabric, S: Server>(
        &self,
        number: usize,
        worker: &Worker<'_, F, S>,
        silent: u64,
    ) {
        match self.settings.notice {
            NotificationMode::Polling => {
                worker.server.busy_wait(poll_interval(silent, self.settings.poll_ns)).await;
            }
            NotificationMode::Event => {
                let pause = self.pause(worker.client.fabric().now(), silent);
                if self.notifiers.wait(number, worker.client, pause).await {
                    worker.server.compute(self.settings.wake_ns).await;
                }
            }
        }
    }

    /// Awaits `work`. A thread that polls keeps its core busy while it waits.
    async fn poll_during<S: Server, T>(&self, server: &S, work: impl Future<Output = T>) -> T {
        if self.settings.notice == NotificationMode::Event {
            return work.await;
        }
        let (mut work, mut done) = (std::pin::pin!(work), None);
        loop {
            let mut polling = std::pin::pin!(server.busy_wait(self.settings.poll_ns));
            poll_fn(|context| {
                if done.is_none()
                    && let Poll::Ready(output) = work.as_mut().poll(context)
                {
                    done = Some(output);
                }
                polling.as_mut().poll(context)
            })
            .await;
            if let Some(output) = done {
                return output;
            }
        }
    }

    /// Returns why the connection must be closed; `None` if it need not.
    fn check_connection<F: Fabric, S: Server>(
        &self,
        connection: &OpenConnection,
        worker: &Worker<'_, F, S>,
    ) -> Result<Option<Disconnect>, IndexError> {
        let (local, head) = (worker.server.local(), self.tree.head_offset());
        let field = |field| local.load(head + of_connection(connection.number, field));
        if local.load(head + TERM)? != self.tree.term() {
            return Ok(Some(Disconnect::Superseded));
        }
        let finished = self.has_ended() || field(OWNER)? != connection.owner || field(ASK)? != connection.ask;
        Ok(finished.then_some(Disconnect::Finished))
    }

    /// Closes a connection on which an error occurred. Its client detects this when it checks why no response arrives,
    /// and must request a new connection. (It may have done so already, so its word is not changed.)
    fn disconnect<F: Fabric, S: Server>(
        &self,
        connection: &OpenConnection,
        worker: &Worker<'_, F, S>,
    ) -> Result<(), IndexError> {
        let open = self.tree.head_offset() + of_connection(connection.number, OPEN);
        Ok(worker.server.local().store(open, closed(connection.ask))?)
    }

    /// Frees a connection whose owner has crashed. No further WRITE of the owner can arrive.
    async fn free_if_crashed<F: Fabric, S: Server>(
        &self,
        number: usize,
        worker: &Worker<'_, F, S>,
        owner: u64,
    ) -> Result<(), IndexError> {
        let local = worker.server.local();
        let field = |field| self.tree.head_offset() + of_connection(number, field);
        let Some(client) = LockWord::from_word(owner).holder() else { return Ok(()) };
        if worker.client.fabric().revoke(client).await? == Revocation::Gone
            && local.load(field(OWNER))? == owner
        {
            local.store(field(ASK), 0)?;
            local.store(field(OPEN), 0)?;
            local.store(field(INBOX), 0)?;
            local.store(field(OWNER), 0)?;
        }
        Ok(())
    }

    /// Sends a response, in as many segments as it needs.
    async fn respond<F: Fabric, S: Server>(
        &self,
        connection: &mut OpenConnection,
        worker: &Worker<'_, F, S>,
        outcome: &Outcome,
    ) -> Result<(), IndexError> {
        let Outcome { status, count, items, found } = outcome;
        let words_max = connection.sender.payload_max() - RESPONSE_HEAD_WORDS;
        // An item is not divided between two segments.
        let segment_words = (words_max / ITEM_WORDS).max(1) * ITEM_WORDS;
        let mut words = items.iter().flat_map(item_words).chain(found.iter().copied()).peekable();
        loop {
            let mut payload = vec![connection.receiver.head(), status.word(), *count];
            payload.extend(words.by_ref().take(segment_words));
            let segment = if words.peek().is_some() { Segment::More } else { Segment::Last };
            if !self.send(connection, worker, &payload, segment).await? || segment == Segment::Last {
                return Ok(());
            }
        }
    }

    /// Writes a message into the client's inbox, once the ring has space; `false`: the connection was disconnected
    /// first. [1 RT]
    async fn send<F: Fabric, S: Server>(
        &self,
        connection: &mut OpenConnection,
        worker: &Worker<'_, F, S>,
        payload: &[u64],
        segment: Segment,
    ) -> Result<bool, IndexError> {
        let local = worker.server.local();
        let consumed_at = self.tree.head_offset() + of_connection(connection.number, CONSUMED);
        let mut checked = worker.client.fabric().now();
        let slot = loop {
            connection.sender.consumed(local.load(consumed_at)?);
            if let Some(slot) = connection.sender.reserve(payload.len(), segment) {
                break slot;
            }
            worker.client.fabric().record_coverage(coverage::RING_FULL);
            worker.client.fabric().sleep(self.settings.poll_ns).await;
            if worker.client.fabric().now().saturating_sub(checked) > self.settings.silence_ns {
                self.free_if_crashed(connection.number, worker, connection.owner).await?;
                checked = worker.client.fabric().now();
            }
            if self.check_connection(connection, worker)?.is_some() {
                return Ok(false);
            }
        };
        let ring: Remote<[u8]> = connection.inbox.part(INBOX_HEAD_BYTES);
        let bytes = framed(slot.header, payload);
        let message = write(ring.part::<u8>(slot.offset), &bytes);
        match slot.skip {
            Some((at, word)) => {
                let skip = word.to_le_bytes();
                let post = worker.client.post(write(ring.part::<u64>(at), &skip).then(message));
                self.poll_during(worker.server, post).await?;
            }
            None => self.poll_during(worker.server, worker.client.post(message)).await?,
        }
        Ok(true)
    }
}
