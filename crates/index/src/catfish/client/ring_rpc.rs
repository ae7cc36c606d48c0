//! Fast messaging, the client's side: the client writes a request into the server's ring, and the server writes the
//! response into the client's memory (Catfish §III-A).

use super::super::head::{
    ASK, CONNECTIONS_MAX, CONSUMED, INBOX, INBOX_HEAD_BYTES, MEMORY, OPEN, OWNER, RawHead,
    SERVED_CONNECTIONS, SERVER, TERM, TICKET_BITS, closed, of_connection, word_of,
};
use super::super::wire::NotificationMode;
use super::super::wire::changes::{changes_that_fit, encode_changes, found_of};
use super::super::wire::heartbeat::utilisation;
use super::super::wire::message::{ITEM_WORDS, RESPONSE_HEAD_WORDS, Reply, Request, Status};
use super::super::wire::records::{RecordLookup, decode_records};
use super::super::wire::ring::{Received, RingReceiver, RingSender, Segment, framed, poll_interval};
use super::super::{Catfish, Change, Record, SearchSink};
use super::rpc::{ItemSink, ResponseSink, SpatialRpc};
use crate::error::IndexError;
use crate::retry::Retry;
use farwood_fabric::{
    Cas, Chain as _, Client, Fabric, LockWord, Remote, Revocation, ServerMemory, Swapped, cas, read, write,
    write_imm,
};

/// The memory from which a client reads responses. The server can write to it.
#[derive(Debug)]
pub struct Inbox<'l, L> {
    /// The memory of this process in which the inbox lies.
    pub local: &'l L,
    /// Address of the inbox in that memory; `None`: in the server's memory for the connection, which `local` then
    /// accesses. The memory remains an inbox, of this client or another, while its compute node is in the pool: a
    /// heartbeat that was in flight when the connection was closed may be written there. One connection at a time uses
    /// it, until the connection is closed.
    pub at: Option<Remote<[u8]>>,
}

impl<L> Clone for Inbox<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L> Copy for Inbox<'_, L> {}

/// Time without a response after which the client checks whether the server is alive, nanoseconds.
const SILENCE_NS: u64 = 20_000_000;
/// Time that a client waits for a response that may never arrive, nanoseconds.
const PENDING_WAIT_MAX_NS: u64 = 1_000_000_000;
/// Time between the first polls of the inbox, nanoseconds.
const POLL_NS: u64 = 200;
/// Time between two polls whether the server has opened the connection, nanoseconds.
const OPEN_POLL_NS: u64 = 100_000;
/// Number of polls after which connecting fails.
const OPEN_POLLS_MAX: u32 = 100_000;
/// Time after which connecting fails, seconds. A running server looks for new connections every half millisecond, and
/// between two requests.
const OPEN_WAIT_MAX_S: u64 = 10;
/// Time after which a client does not wait any more for the next message of a response of a running server, seconds: as
/// long as clients wait for locks.
const ANSWER_WAIT_MAX_S: u64 = 20;
const SECOND_NS: u64 = 1_000_000_000;

/// Words of a request before its kind: the responses consumed.
const REQUEST_HEAD_WORDS: usize = 1;

/// The state of a connection between two calls. Any thread of the compute node may continue it with its own client.
#[derive(Debug)]
pub struct RingConnection {
    notice: NotificationMode,
    number: usize,
    owner: ConnectionOwner,
    term: u64,
    ask: u64,
    requests: Remote<[u8]>,
    /// Offset of the inbox in the memory of this process.
    inbox: u64,
    receiver: RingReceiver,
    sender: RingSender,
    /// Position up to which this client has consumed, as last reported to the server.
    reported: u64,
    /// Whether a response is outstanding, possibly of a call that was dropped.
    outstanding: bool,
    /// Whether a request failed in flight: the client does not know whether the request arrived, and so at which
    /// position the next one begins.
    broken: bool,
    /// Whether the outstanding response may never arrive: a call was dropped while its request was in flight, or the
    /// connection is being closed.
    bounded_wait: bool,
    payload: Vec<u64>,
}

impl RingConnection {
    /// Whether a response is outstanding, of a call that was dropped.
    pub fn is_waiting(&self) -> bool {
        self.outstanding
    }
}

/// A client's connection to the server of an index by two rings.
pub struct RingRpc<'t, F, L> {
    tree: &'t Catfish,
    client: &'t Client<F>,
    local: &'t L,
    ring: Box<RingConnection>,
    /// Time without a response after which the connection is given up, although the server's process is alive.
    response_limit_ns: u64,
}

impl<'t, F: Fabric, L: ServerMemory> RingRpc<'t, F, L> {
    /// Connects to the index's server. [9 RT for each 64 connections that are taken, and until the server opens it]
    ///
    /// # Errors
    /// [`IndexError::NotServed`] where there is no server; [`IndexError::NoConnection`] where it does not answer;
    /// [`IndexError::BeingChanged`] where it is a client that changes the index itself; [`IndexError::Crowded`] where
    /// all connections are taken; the errors of the fabric.
    pub async fn connect(
        tree: &'t Catfish,
        client: &'t Client<F>,
        inbox: Inbox<'t, L>,
        notice: NotificationMode,
    ) -> Result<Self, IndexError> {
        let word = async |offset| read_word(client, tree.head, offset).await;
        let term = word(TERM).await?;
        if term == 0 || word(SERVER).await? == 0 {
            return Err(IndexError::NotServed { name: tree.entry.name.clone() });
        }
        let claim = claim(tree, client).await?;
        let number = claim.number;
        let opened = open(tree, client, &inbox, (number, term)).await;
        let owner = claim.keep();
        if opened.is_err() {
            // Otherwise the connection stays taken while this compute node is in the pool.
            release(client, owner).await?;
        }
        let (ask, requests) = opened?;
        let ring_bytes = tree.layout.ring_bytes;
        let inbox_at = inbox.at.unwrap_or_else(|| requests.part(ring_bytes));
        // An inbox whose last word lies in the memory node lies there as a whole.
        inbox.local.load(inbox_at.address().offset().saturating_add(INBOX_HEAD_BYTES + ring_bytes - 8))?;
        let ring = Box::new(RingConnection {
            notice,
            number,
            owner,
            term,
            ask,
            requests,
            inbox: inbox_at.address().offset(),
            receiver: RingReceiver::new(ring_bytes),
            sender: RingSender::new(ring_bytes),
            reported: 0,
            outstanding: false,
            broken: false,
            bounded_wait: false,
            payload: Vec::new(),
        });
        Ok(Self::resume(tree, client, inbox.local, ring))
    }

    /// Continues a connection of this compute node. `local` is the memory in which its inbox lies. [0 RT]
    pub fn resume(tree: &'t Catfish, client: &'t Client<F>, local: &'t L, ring: Box<RingConnection>) -> Self {
        Self { tree, client, local, ring, response_limit_ns: u64::MAX }
    }

    /// Leaves the connection open, to be [continued](Self::resume). [0 RT]
    pub fn pause(self) -> Box<RingConnection> {
        self.ring
    }

    /// Gives the connection up if a response takes longer than `limit_ns`, even if the server's process is alive. By
    /// default, the client waits as long as that process lives.
    #[must_use]
    pub fn with_response_limit(mut self, limit_ns: u64) -> Self {
        self.response_limit_ns = limit_ns;
        self
    }

    /// Whether the server that opened the connection still serves it, or has crashed while it did. [at most 3 RT]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn is_open(&self) -> Result<bool, IndexError> {
        let word = async |offset| read_word(self.client, self.tree.head, offset).await;
        let serves = !self.ring.broken && word(TERM).await? == self.ring.term && word(SERVER).await? != 0;
        Ok(serves && !self.is_closed().await?)
    }

    /// Writes a request, whose words `encode` appends, into the server's ring. [1 RT]
    async fn send(&mut self, encode: impl FnOnce(&mut Vec<u64>)) -> Result<(), IndexError> {
        self.ring.reported = self.ring.receiver.head();
        let mut payload = std::mem::take(&mut self.ring.payload);
        payload.clear();
        payload.push(self.ring.reported);
        encode(&mut payload);
        // One request at a time: the server consumed the request before it answered it.
        let slot = self.ring.sender.reserve(payload.len(), Segment::Last);
        let Some(slot) = slot else {
            self.ring.payload = payload;
            return Err(self.garbled(self.ring.sender.consumed_to()));
        };
        let bytes = framed(slot.header, &payload);
        self.ring.payload = payload;
        // Set before the request is in flight, because a dropped call does not cancel its request.
        (self.ring.outstanding, self.ring.bounded_wait) = (true, true);
        let to = self.ring.requests.part::<u8>(slot.offset);
        let message = match self.ring.notice {
            NotificationMode::Polling => write(to, &bytes),
            NotificationMode::Event => write_imm(to, &bytes, self.ring.number as u32),
        };
        let sent = match slot.skip {
            Some((at, word)) => {
                let skip = word.to_le_bytes();
                self.client
                    .post(write(self.ring.requests.part::<u64>(at), &skip).then(message))
                    .await
                    .map(|_| ())
            }
            None => self.client.post(message).await,
        };
        (self.ring.broken, self.ring.bounded_wait) = (sent.is_err(), false);
        Ok(sent?)
    }

    /// Receives the segments of one response, and adds their elements to `found`.
    async fn receive<R: ResponseSink>(&mut self, found: &mut R) -> Result<(Status, u64), IndexError> {
        loop {
            let (offset, words, segment) = self.next_message().await?;
            let ring = self.ring.inbox + INBOX_HEAD_BYTES;
            let load = |at: usize| self.local.load(ring + offset + 8 * at as u64);
            if words < RESPONSE_HEAD_WORDS || !(words - RESPONSE_HEAD_WORDS).is_multiple_of(R::ELEMENT_WORDS)
            {
                return Err(self.garbled(words as u64));
            }
            self.ring.sender.consumed(load(0)?);
            let (status, count) = (load(1)?, load(2)?);
            for first in (RESPONSE_HEAD_WORDS..words).step_by(R::ELEMENT_WORDS) {
                let mut element = [0; ITEM_WORDS];
                let element = &mut element[..R::ELEMENT_WORDS];
                for (at, word) in element.iter_mut().enumerate() {
                    *word = load(first + at)?;
                }
                found.element(element).ok_or_else(|| self.garbled(element[0]))?;
            }
            let local = self.local;
            let clear = |at| local.store(ring + at, 0).expect("an inbox lies in its memory node");
            self.ring.receiver.consume(words, clear);
            // From here on, a dropped call has consumed this segment completely.
            self.ring.outstanding = segment == Segment::More;
            self.report_consumed().await?;
            if segment == Segment::Last {
                let status = Status::from_word(status).ok_or_else(|| self.garbled(status))?;
                return Ok((status, count));
            }
        }
    }

    fn garbled(&self, word: u64) -> IndexError {
        let at = format!("connection {}", self.ring.number);
        IndexError::Damaged { operation: "message", at, what: format!("{word:#x} is not part of a message") }
    }

    /// Reports to the server how much is consumed, if it is at least a quarter of the ring. [1 RT in that case]
    async fn report_consumed(&mut self) -> Result<(), IndexError> {
        let head = self.ring.receiver.head();
        if head - self.ring.reported > self.tree.layout.ring_bytes / 4 {
            self.ring.reported = head;
            let at = word_of(self.tree.head, of_connection(self.ring.number, CONSUMED));
            self.client.post(write(at, &head.to_le_bytes())).await?;
        }
        Ok(())
    }

    /// Waits for the next message of the inbox: its offset, its words, and whether more follow.
    async fn next_message(&mut self) -> Result<(u64, usize, Segment), IndexError> {
        let started = self.client.fabric().now();
        let mut checked = started;
        let (local, ring) = (self.local, self.ring.inbox + INBOX_HEAD_BYTES);
        loop {
            let load = |at| local.load(ring + at).expect("an inbox lies in its memory node");
            let clear = |at| local.store(ring + at, 0).expect("an inbox lies in its memory node");
            match self.ring.receiver.poll(load, clear) {
                Received::Message { offset, words, segment } => return Ok((offset, words, segment)),
                Received::Garbled(word) => return Err(self.garbled(word)),
                Received::Nothing => {}
            }
            let now = self.client.fabric().now();
            let limit = if self.ring.bounded_wait { PENDING_WAIT_MAX_NS } else { self.response_limit_ns };
            if now.saturating_sub(started) > limit {
                self.ring.broken = true;
                return Err(self.lost());
            }
            if now.saturating_sub(checked) > SILENCE_NS {
                if self.is_finished().await? {
                    return Err(self.lost());
                }
                if now.saturating_sub(started) > ANSWER_WAIT_MAX_S * SECOND_NS {
                    self.ring.broken = true;
                    let name = self.tree.entry.name.clone();
                    return Err(IndexError::NoAnswer { name, seconds: ANSWER_WAIT_MAX_S });
                }
                checked = now;
            }
            self.client.fabric().sleep(poll_interval(now.saturating_sub(started), POLL_NS)).await;
        }
    }

    fn lost(&self) -> IndexError {
        IndexError::ServerLost { name: self.tree.entry.name.clone() }
    }

    /// Whether the server will write no more into this inbox.
    async fn is_finished(&self) -> Result<bool, IndexError> {
        Ok(is_gone(self.tree, self.client, self.ring.term).await? || self.is_closed().await?)
    }

    async fn is_closed(&self) -> Result<bool, IndexError> {
        let open = read_word(self.client, self.tree.head, of_connection(self.ring.number, OPEN)).await?;
        Ok(open != self.ring.ask)
    }

    /// Closes the connection, once the outstanding response has arrived: otherwise it would be written to the inbox of
    /// the next connection. [1 RT, and the wait for the response] A connection that is dropped without being closed
    /// stays taken, with its inbox, until this compute node leaves the pool.
    ///
    /// # Errors
    /// [`IndexError::ServerLost`] where the response does not arrive within a second, or a request was lost; the
    /// errors of the fabric; [`IndexError::Damaged`]. Connection and inbox then stay taken.
    pub async fn close(mut self) -> Result<(), IndexError> {
        self.end().await
    }

    /// As [`close`](Self::close). If the future is dropped, the connection stays open. After it is complete, the
    /// connection must not be used.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub async fn end(&mut self) -> Result<(), IndexError> {
        self.ring.bounded_wait = true;
        match self.take_outstanding().await {
            Ok(()) if !self.ring.broken => {}
            Ok(()) | Err(IndexError::ServerLost { .. }) if self.is_finished().await? => {}
            Ok(()) => return Err(self.lost()),
            Err(error) => return Err(error),
        }
        release(self.client, self.ring.owner).await
    }

    /// Prepares the connection for the next request.
    async fn begin(&mut self) -> Result<(), IndexError> {
        if self.ring.broken {
            return Err(self.lost());
        }
        self.take_outstanding().await
    }

    /// Receives and discards the response of a call that was dropped.
    async fn take_outstanding(&mut self) -> Result<(), IndexError> {
        while self.ring.outstanding && !self.ring.broken {
            self.receive(&mut ()).await?;
        }
        Ok(())
    }
}

impl<F: Fabric, L: ServerMemory> SpatialRpc for RingRpc<'_, F, L> {
    /// Sends a request and receives its response. [1 RT, and the server's work] Fails with [`IndexError::NoAnswer`] if
    /// the server is alive but sends nothing for 20 s; the connection is then unusable. The server executes a call that
    /// is dropped as well; the next call first waits for its response.
    async fn call(&mut self, request: &Request, found: &mut impl SearchSink) -> Result<Reply, IndexError> {
        self.begin().await?;
        self.send(|words| request.encode(words)).await?;
        let (status, count) = self.receive(&mut ItemSink(found)).await?;
        status.reply(count)
    }

    async fn apply(&mut self, changes: &[Change]) -> Result<Vec<bool>, IndexError> {
        self.begin().await?;
        self.send(|words| encode_changes(changes, words)).await?;
        let mut words = Vec::new();
        let (status, count) = self.receive(&mut words).await?;
        status.reply(count)?;
        found_of(&words, changes.len()).ok_or_else(|| self.garbled(words.len() as u64))
    }

    async fn find_records(&mut self, lookup: &RecordLookup) -> Result<Vec<Record>, IndexError> {
        self.begin().await?;
        self.send(|words| lookup.encode(words)).await?;
        let mut words = Vec::new();
        let (status, count) = self.receive(&mut words).await?;
        status.reply(count)?;
        decode_records(&words, count).ok_or_else(|| self.garbled(words.len() as u64))
    }

    fn changes_that_fit(&self, changes: &[Change]) -> usize {
        changes_that_fit(changes, self.ring.sender.payload_max() - REQUEST_HEAD_WORDS)
    }

    fn take_heartbeat(&mut self) -> Result<Option<f64>, IndexError> {
        let word = self.local.load(self.ring.inbox)?;
        if word != 0 {
            self.local.store(self.ring.inbox, 0)?;
        }
        Ok(utilisation(word))
    }
}

async fn read_word<F: Fabric>(
    client: &Client<F>,
    head: Remote<RawHead>,
    offset: u64,
) -> Result<u64, IndexError> {
    let word = client.post(read(word_of(head, offset))).await?;
    Ok(word.whole_word())
}

/// Asks the server of `term` to open connection `number`; yields the connection request (term and ticket), and the
/// address of the ring for requests.
async fn open<F: Fabric, L: ServerMemory>(
    tree: &Catfish,
    client: &Client<F>,
    inbox: &Inbox<'_, L>,
    (number, term): (usize, u64),
) -> Result<(u64, Remote<[u8]>), IndexError> {
    let word = async |offset| read_word(client, tree.head, offset).await;
    let field = |field| word_of(tree.head, of_connection(number, field));
    let not_served = || IndexError::NotServed { name: tree.entry.name.clone() };
    let at = inbox.at.map_or(0, Remote::word).to_le_bytes();
    if let Some(at) = inbox.at {
        // Clears what an earlier connection left. The server writes here only after it has opened this connection.
        let bytes = INBOX_HEAD_BYTES + tree.layout.ring_bytes;
        let first = at.address().offset();
        for offset in (first..first + bytes).step_by(8) {
            inbox.local.store(offset, 0)?;
        }
    }
    let mut polls = Retry::new("connect", OPEN_POLLS_MAX);
    let until = client.fabric().now().saturating_add(OPEN_WAIT_MAX_S * SECOND_NS);
    let ask = 'asked: loop {
        let ticket = (word(of_connection(number, ASK)).await? as u32).wrapping_add(1);
        let ask = term << TICKET_BITS | u64::from(ticket);
        client.post(write(field(INBOX), &at).then(write(field(ASK), &ask.to_le_bytes()))).await?;
        loop {
            match word(of_connection(number, OPEN)).await? {
                open if open == ask => break 'asked ask,
                // The server opened it and closed it again before this poll.
                open if open == closed(ask) => break,
                _ => {}
            }
            client.fabric().sleep(OPEN_POLL_NS).await;
            let is_exhausted = polls.again(client).await.is_err();
            if is_gone(tree, client, term).await? {
                return Err(not_served());
            }
            if is_exhausted || client.fabric().now() > until {
                return Err(unanswered(tree, client).await?);
            }
        }
        if polls.again(client).await.is_err() {
            return Err(unanswered(tree, client).await?);
        }
    };
    let own = word(of_connection(number, MEMORY)).await?;
    Ok((ask, Remote::<[u8]>::from_word(own).ok_or_else(not_served)?))
}

/// The error where a live server does not open a connection. [2 RT]
async fn unanswered<F: Fabric>(tree: &Catfish, client: &Client<F>) -> Result<IndexError, IndexError> {
    let name = tree.entry.name.clone();
    let Some(by) = tree.served_by(client).await? else { return Ok(IndexError::NotServed { name }) };
    // A client that changes the index itself opens no connections.
    if read_word(client, tree.head, SERVED_CONNECTIONS).await? == 0 {
        return Ok(IndexError::BeingChanged { name, by });
    }
    Ok(IndexError::NoConnection { name, by, seconds: OPEN_WAIT_MAX_S })
}

/// The word of a connection that names its owner.
#[derive(Clone, Copy, Debug)]
struct ConnectionOwner {
    at: Remote<u64>,
    /// Its content while the client owns the connection.
    mine: LockWord,
}

impl ConnectionOwner {
    fn take(self) -> Cas {
        cas(self.at, LockWord::FREE.word(), self.mine.word())
    }

    fn free(self) -> Cas {
        cas(self.at, self.mine.word(), LockWord::FREE.word())
    }
}

/// A connection that a client has taken, or is about to take, and that is not open yet.
struct Claim<'t, F: Fabric> {
    client: &'t Client<F>,
    number: usize,
    owner: ConnectionOwner,
}

impl<F: Fabric> Claim<'_, F> {
    /// Leaves the connection to the caller.
    fn keep(self) -> ConnectionOwner {
        let owner = self.owner;
        std::mem::forget(self);
        owner
    }
}

impl<F: Fabric> Drop for Claim<'_, F> {
    /// Frees the connection of a cancelled [`RingRpc::connect`], after the verbs that it has posted.
    fn drop(&mut self) {
        self.client.post_detached(self.owner.free());
    }
}

/// Releases a connection. [1 RT]
async fn release<F: Fabric>(client: &Client<F>, owner: ConnectionOwner) -> Result<(), IndexError> {
    let _ = client.post(owner.free()).await?;
    Ok(())
}

/// Takes a connection that has no owner. [1 RT for each connection that is tried, and 1]
async fn claim<'t, F: Fabric>(tree: &Catfish, client: &'t Client<F>) -> Result<Claim<'t, F>, IndexError> {
    let mine = LockWord::held_by(client.fabric().identity()).tagged(client.fabric().lock_tag());
    let served = read_word(client, tree.head, SERVED_CONNECTIONS).await? as usize;
    let count = if served == 0 { CONNECTIONS_MAX } else { served.min(CONNECTIONS_MAX) };
    let first = usize::from(client.fabric().identity().slot) % count;
    for step in 0..count {
        let number = (first + step) % count;
        let owner = of_connection(number, OWNER);
        if read_word(client, tree.head, owner).await? != LockWord::FREE.word() {
            continue;
        }
        let owner = ConnectionOwner { at: word_of(tree.head, owner), mine };
        let claim = Claim { client, number, owner };
        let taken = client.post(owner.take()).await;
        if let Ok(Swapped::Won) = taken {
            return Ok(claim);
        }
        let _ = claim.keep();
        let _ = taken?;
    }
    Err(IndexError::Crowded { name: tree.entry().name.clone(), connections: count })
}

/// Whether the server of `term` has ended or crashed.
async fn is_gone<F: Fabric>(tree: &Catfish, client: &Client<F>, term: u64) -> Result<bool, IndexError> {
    if read_word(client, tree.head, TERM).await? != term {
        return Ok(true);
    }
    let server = LockWord::from_word(read_word(client, tree.head, SERVER).await?);
    match server.holder() {
        None => Ok(true),
        Some(holder) => Ok(client.fabric().revoke(holder).await? == Revocation::Gone),
    }
}

impl<F, L> std::fmt::Debug for RingRpc<'_, F, L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingRpc").field("number", &self.ring.number).finish_non_exhaustive()
    }
}
