//! Fast messaging, the server's side: a flow of work for each connection (Catfish §III-A, §IV-B).
//!
//! A connection's flow looks for requests in its ring, does what they ask, and writes the responses into the client's
//! inbox. How it learns of a request is the [`Notice`]: it looks again and again, or it sleeps until an immediate
//! names the connection. Nothing that a client does or fails to do holds up another's connection: a client whose
//! inbox is full, or that died in the middle of a message, has only its own flow waiting for it.

use super::answer::Done;
use super::bell::Bell;
use super::head::{
    ASK, CONNECTIONS_MAX, CONSUMED, INBOX, INBOX_HEAD_BYTES, MEMORY, OPEN, OWNER, RING_CHUNKS,
    RING_CHUNKS_MAX, TERM, TICKET_BITS, closed, connection_memory, of_connection,
};
use super::message::{ITEM_WORDS, item_words};
use super::ring::{Arrived, Incoming, Outgoing, Segment};
use super::server::TreeServer;
use super::worker::Worker;
use crate::error::IndexError;
use crate::marks;
use farwood_fabric::chunks::{self, CHUNK_BYTES, Owner};
use farwood_fabric::{
    Chain as _, Client, Fabric, FabricError, LocalMemory as _, LockWord, Remote, Revocation, Server, write,
};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

/// How a server learns of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notice {
    /// It looks, again and again (Catfish §III-A).
    Polling,
    /// Requests come with an immediate that wakes it (Catfish §IV-B, event mode).
    #[default]
    Event,
}

/// How a server talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceSettings {
    /// How it learns of requests.
    pub notice: Notice,
    /// Nanoseconds between two looks at a ring.
    pub poll_ns: u64,
    /// Nanoseconds between two heartbeats (Catfish §IV-A: 10 ms).
    pub heartbeat_ns: u64,
    /// Nanoseconds of silence after which it is asked whether a client still lives.
    pub silence_ns: u64,
    /// Nanoseconds of processor time for a request and its response, where work is accounted for.
    pub message_ns: u64,
    /// Nanoseconds of processor time from an immediate to the flow that it wakes, where work is accounted for.
    pub wake_ns: u64,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            notice: Notice::Event,
            poll_ns: 200,
            heartbeat_ns: 10_000_000,
            silence_ns: 1_000_000_000,
            message_ns: 0,
            wake_ns: 0,
        }
    }
}

/// Nanoseconds between two looks at a connection that nobody has, or whose bell should have rung.
pub(super) const IDLE_NS: u64 = 500_000;

/// A look is late by no more than this share of the time since something was there.
const LATE_SHARE: u64 = 32;
/// Nanoseconds between two looks, at most.
const PAUSE_NS_MAX: u64 = 20_000;

/// Nanoseconds until the next look at a ring in which nothing has come for `waited`: the longer it has been, the longer
/// it may take until it is noticed.
pub(super) fn pause_after(waited: u64, least: u64) -> u64 {
    (waited / LATE_SHARE).min(PAUSE_NS_MAX).max(least)
}

/// A server that answers messages.
#[derive(Debug)]
pub struct Service<'t> {
    pub(super) tree: &'t TreeServer,
    pub(super) settings: ServiceSettings,
    pub(super) bells: Box<[Bell]>,
    ended: AtomicBool,
    worked_ns: AtomicU64,
    pub(super) pulse: AtomicU64,
}

/// A connection that is open.
struct Line {
    number: usize,
    requests: u64,
    inbox: Remote<[u8]>,
    incoming: Incoming,
    outgoing: Outgoing,
    owner: u64,
    ask: u64,
}

/// Why a connection's flow ends, for now.
enum Hangup {
    /// Its owner is gone or has left, or has begun anew.
    Over,
    /// What comes over it makes no sense.
    Garbled,
    /// Another server has the office.
    Superseded,
}

impl<'t> Service<'t> {
    /// A service of the tree. Its flows are [`connection`](Self::connection) for each connection, and
    /// [`dispatch`](Self::dispatch) and [`heartbeats`](Self::heartbeats) once.
    pub fn new(tree: &'t TreeServer, settings: ServiceSettings) -> Self {
        let bells = (0..CONNECTIONS_MAX).map(|_| Bell::default()).collect();
        Self {
            tree,
            settings,
            bells,
            ended: AtomicBool::new(false),
            worked_ns: AtomicU64::new(0),
            pulse: AtomicU64::new(0),
        }
    }

    /// Lets all flows come to their ends.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.bells.iter().for_each(Bell::ring);
    }

    /// Whether the service has come to its end.
    pub fn has_ended(&self) -> bool {
        self.is_ended()
    }

    /// Nanoseconds that flows have spent on answers, all together.
    pub fn worked_ns(&self) -> u64 {
        self.worked_ns.load(Ordering::Relaxed)
    }

    /// Counts work for clients that have other connections than rings.
    pub fn note_work(&self, nanoseconds: u64) {
        self.worked_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Serves connection `number` until the service ends. `client` is this flow's own.
    ///
    /// # Errors
    /// [`IndexError::Served`] where another server has come; a full pool; the fabric's.
    pub async fn connection<F: Fabric, S: Server>(
        &self,
        number: usize,
        client: &Client<F>,
        server: &S,
    ) -> Result<(), IndexError> {
        let worker = self.tree.worker(client, server);
        while !self.is_ended() {
            let Some(mut line) = self.accept(number, &worker).await? else {
                self.wait(number, client, IDLE_NS).await;
                continue;
            };
            match self.talk(&mut line, &worker).await {
                Ok(Hangup::Over) => {}
                Ok(Hangup::Superseded) => {
                    let by = client.fabric().identity();
                    return Err(IndexError::Served { by });
                }
                // What comes makes no sense; or the inbox cannot be reached, and what it has got is not whole.
                Ok(Hangup::Garbled) | Err(IndexError::Fabric(FabricError::NodeLost { .. })) => {
                    self.hang_up(&line, &worker)?;
                }
                Err(error) => {
                    self.hang_up(&line, &worker)?;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Opens the connection if a client asks for it in this term; frees one whose owner is gone.
    async fn accept<F: Fabric, S: Server>(
        &self,
        number: usize,
        worker: &Worker<'_, F, S>,
    ) -> Result<Option<Line>, IndexError> {
        let (tree, local) = (self.tree, worker.server.local());
        let field = |field| tree.head_offset() + of_connection(number, field);
        let owner = local.load(field(OWNER))?;
        if owner == 0 {
            return Ok(None);
        }
        let (ask, open) = (local.load(field(ASK))?, local.load(field(OPEN))?);
        if ask >> TICKET_BITS != tree.term() || open == ask || open == closed(ask) {
            self.free_if_gone(number, worker, owner).await?;
            return Ok(None);
        }
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
        let (incoming, outgoing) = (Incoming::new(ring_bytes), Outgoing::new(ring_bytes));
        Ok(Some(Line { number, requests, inbox, incoming, outgoing, owner, ask }))
    }

    /// The connection's own memory: the same in every term.
    async fn memory<F: Fabric, S: Server>(
        &self,
        number: usize,
        worker: &Worker<'_, F, S>,
    ) -> Result<Remote<[u8]>, IndexError> {
        let tree = self.tree;
        let bytes = connection_memory(tree.layout.ring_bytes);
        let per_chunk = (CHUNK_BYTES / bytes) as usize;
        let (chunk, place) = (number / per_chunk, number % per_chunk);
        let chunk_word = |chunk: usize| tree.head_offset() + RING_CHUNKS + 8 * chunk as u64;
        assert!(chunk < RING_CHUNKS_MAX, "a chunk holds a connection at least");
        let _guard = tree.write_lock().await;
        for missing in 0..=chunk {
            if worker.server.local().load(chunk_word(missing))? == 0 {
                let owner = Owner { client: worker.client.fabric().identity(), entry: tree.slot() };
                let taken = chunks::take(worker.client, tree.layout.node, owner, CHUNK_BYTES).await?;
                let Some((taken, _)) = taken else {
                    let chunks = worker.client.fabric().shape().chunks();
                    return Err(FabricError::PoolFull { chunks, chunk_bytes: CHUNK_BYTES }.into());
                };
                worker.server.local().store(chunk_word(missing), taken.start().address().offset())?;
            }
        }
        let start = worker.server.local().load(chunk_word(chunk))?;
        let at = Remote::new(tree.layout.node, farwood_fabric::Memory::Host, start + place as u64 * bytes);
        Ok(at.expect("a chunk lies within its memory node"))
    }

    /// Answers requests until the connection is over.
    async fn talk<F: Fabric, S: Server>(
        &self,
        line: &mut Line,
        worker: &Worker<'_, F, S>,
    ) -> Result<Hangup, IndexError> {
        let local = worker.server.local();
        let mut heard = worker.client.fabric().now();
        let mut words = Vec::new();
        loop {
            if let Some(hangup) = self.is_over(line, worker)? {
                return Ok(hangup);
            }
            let load = |at| local.load(line.requests + at).expect("a ring lies in its memory node");
            let clear = |at| local.store(line.requests + at, 0).expect("a ring lies in its memory node");
            match line.incoming.look(load, clear) {
                Arrived::Nothing => {}
                Arrived::Garbled(_) => return Ok(Hangup::Garbled),
                Arrived::Message { offset, words: count, .. } => {
                    words.clear();
                    words.extend((0..count as u64).map(|at| load(offset + 8 * at)));
                    let keep = self.tree.is_broken(crate::sabotage::Sabotage::ConsumedStays);
                    line.incoming.consume(count, |at| {
                        if !keep {
                            clear(at);
                        }
                    });
                    let begun = worker.client.fabric().now();
                    if let Some(&consumed) = words.first() {
                        line.outgoing.consumed(consumed);
                    }
                    worker.server.compute(self.settings.message_ns).await;
                    let done = worker.carry_out(words.get(1..).unwrap_or_default()).await?;
                    self.respond(line, worker, &done).await?;
                    heard = worker.client.fabric().now();
                    self.worked_ns.fetch_add(heard.saturating_sub(begun), Ordering::Relaxed);
                    continue;
                }
            }
            let silent = worker.client.fabric().now().saturating_sub(heard);
            if silent > self.settings.silence_ns {
                self.free_if_gone(line.number, worker, line.owner).await?;
                heard = worker.client.fabric().now();
            }
            self.look_again(line.number, worker, silent).await;
        }
    }

    /// Lets time pass before the next look at a ring in which nothing has come for so long.
    async fn look_again<F: Fabric, S: Server>(&self, number: usize, worker: &Worker<'_, F, S>, silent: u64) {
        match self.settings.notice {
            Notice::Polling => {
                worker.server.look_on(pause_after(silent, self.settings.poll_ns)).await;
            }
            Notice::Event => {
                if self.wait(number, worker.client, IDLE_NS).await {
                    worker.server.compute(self.settings.wake_ns).await;
                }
            }
        }
    }

    /// Does `work`; a thread that polls keeps its core meanwhile.
    async fn attending<S: Server, T>(&self, server: &S, work: impl Future<Output = T>) -> T {
        if self.settings.notice == Notice::Event {
            return work.await;
        }
        let (mut work, mut done) = (std::pin::pin!(work), None);
        loop {
            let mut look = std::pin::pin!(server.look_on(self.settings.poll_ns));
            poll_fn(|context| {
                if done.is_none()
                    && let Poll::Ready(output) = work.as_mut().poll(context)
                {
                    done = Some(output);
                }
                look.as_mut().poll(context)
            })
            .await;
            if let Some(output) = done {
                return output;
            }
        }
    }

    fn is_over<F: Fabric, S: Server>(
        &self,
        line: &Line,
        worker: &Worker<'_, F, S>,
    ) -> Result<Option<Hangup>, IndexError> {
        let (local, head) = (worker.server.local(), self.tree.head_offset());
        let field = |field| local.load(head + of_connection(line.number, field));
        if local.load(head + TERM)? != self.tree.term() {
            return Ok(Some(Hangup::Superseded));
        }
        let over = self.is_ended() || field(OWNER)? != line.owner || field(ASK)? != line.ask;
        Ok(over.then_some(Hangup::Over))
    }

    /// Closes a connection over which no sense comes or goes. Its client finds out when it looks why nothing comes, and
    /// has to ask anew. (It may have asked already: its word is left alone.)
    fn hang_up<F: Fabric, S: Server>(
        &self,
        line: &Line,
        worker: &Worker<'_, F, S>,
    ) -> Result<(), IndexError> {
        let open = self.tree.head_offset() + of_connection(line.number, OPEN);
        Ok(worker.server.local().store(open, closed(line.ask))?)
    }

    /// Frees a connection whose owner is gone: nothing of it can land any more.
    async fn free_if_gone<F: Fabric, S: Server>(
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
        line: &mut Line,
        worker: &Worker<'_, F, S>,
        done: &Done,
    ) -> Result<(), IndexError> {
        let Done { status, count, items } = done;
        let room = line.outgoing.payload_max() - super::message::RESPONSE_HEAD_WORDS;
        let mut segments = items.chunks((room / ITEM_WORDS).max(1));
        let mut next = segments.next().unwrap_or_default();
        loop {
            let after = segments.next();
            let segment = if after.is_some() { Segment::More } else { Segment::Last };
            let mut payload = vec![line.incoming.head(), status.word(), *count];
            payload.extend(next.iter().flat_map(item_words));
            if !self.send(line, worker, &payload, segment).await? {
                return Ok(());
            }
            match after {
                Some(after) => next = after,
                None => return Ok(()),
            }
        }
    }

    /// Sends a message, once there is room; `false`: the connection ended before there was.
    async fn send<F: Fabric, S: Server>(
        &self,
        line: &mut Line,
        worker: &Worker<'_, F, S>,
        payload: &[u64],
        segment: Segment,
    ) -> Result<bool, IndexError> {
        let local = worker.server.local();
        let consumed_at = self.tree.head_offset() + of_connection(line.number, CONSUMED);
        let mut waited = worker.client.fabric().now();
        let place = loop {
            line.outgoing.consumed(local.load(consumed_at)?);
            if let Some(place) = line.outgoing.place(payload.len(), segment) {
                break place;
            }
            worker.client.fabric().mark(marks::RING_FULL);
            worker.client.fabric().sleep(self.settings.poll_ns).await;
            if worker.client.fabric().now().saturating_sub(waited) > self.settings.silence_ns {
                self.free_if_gone(line.number, worker, line.owner).await?;
                waited = worker.client.fabric().now();
            }
            if self.is_over(line, worker)?.is_some() {
                return Ok(false);
            }
        };
        let ring: Remote<[u8]> = line.inbox.part(INBOX_HEAD_BYTES);
        let bytes = framed(place.header, payload);
        let message = write(ring.part::<u8>(place.offset), &bytes);
        match place.skip {
            Some((at, word)) => {
                let skip = word.to_le_bytes();
                let post = worker.client.post(write(ring.part::<u64>(at), &skip).then(message));
                self.attending(worker.server, post).await?;
            }
            None => self.attending(worker.server, worker.client.post(message)).await?,
        }
        Ok(true)
    }
}

/// The bytes of a message.
pub(super) fn framed(header: u64, payload: &[u64]) -> Vec<u8> {
    let words = [header].into_iter().chain(payload.iter().copied()).chain([header]);
    words.flat_map(u64::to_le_bytes).collect()
}
