//! Fast messaging, the client's side: a request is written into the server's ring, the response comes into the
//! client's own memory (Catfish §III-A).

use super::head::{
    ASK, CONNECTIONS_MAX, CONSUMED, INBOX, INBOX_HEAD_BYTES, LOOKED_AFTER, MEMORY, OPEN, OWNER, RawHead,
    SERVER, TERM, TICKET_BITS, closed, of_connection, word_of,
};
use super::message::{ITEM_WORDS, RESPONSE_HEAD_WORDS, Request, Status, item_of};
use super::ring::{Arrived, Incoming, Outgoing, Segment};
use super::service::{Notice, framed, pause_after};
use super::talk::{Reply, Talk};
use super::{Answer, Catfish, Count};
use crate::error::IndexError;
use crate::retry::Retry;
use farwood_fabric::{
    Chain as _, Client, Fabric, LocalMemory, LockWord, Remote, Revocation, Swapped, cas, read, write,
    write_imm,
};

/// Where a client reads responses: memory of its own that the server can write.
#[derive(Debug)]
pub struct Inbox<'l, L> {
    /// The memory.
    pub local: &'l L,
    /// Where in it; `None`: in the memory that the server has for the connection, which `local` is then of. It stays
    /// an inbox, of this client or another, for as long as its compute node is in the pool: a heartbeat that was on its
    /// way when the connection was closed may land there. One connection at a time has it, until it is closed.
    pub at: Option<Remote<[u8]>>,
}

impl<L> Clone for Inbox<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L> Copy for Inbox<'_, L> {}

/// How long a client waits for the server before it asks whether that lives, nanoseconds.
const SILENCE_NS: u64 = 20_000_000;
/// How long it waits for a response that may never come, nanoseconds.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Nanoseconds between two looks at the inbox, at first.
const LOOK_NS: u64 = 200;
/// Nanoseconds between two looks whether the server has opened the connection.
const OPEN_LOOK_NS: u64 = 100_000;
/// Looks for a connection, and for its being opened, before the client gives up.
const OPEN_LOOKS_MAX: u32 = 20_000;

/// A client's connection to the server of an index.
pub struct Messenger<'t, F, L> {
    tree: &'t Catfish,
    client: &'t Client<F>,
    local: &'t L,
    notice: Notice,
    number: usize,
    term: u64,
    ask: u64,
    requests: Remote<[u8]>,
    /// Offset of the inbox in `local`.
    inbox: u64,
    incoming: Incoming,
    outgoing: Outgoing,
    /// What the server knows that this client has consumed.
    told: u64,
    /// A response is still to come, perhaps of a request that nobody waits for any more.
    owed: bool,
    /// A request failed on its way: nobody knows whether it arrived, and so where the next one belongs.
    broken: bool,
    /// What is owed may never come: a call was dropped while its request was on its way, or this is being closed.
    impatient: bool,
    payload: Vec<u64>,
}

impl<'t, F: Fabric, L: LocalMemory> Messenger<'t, F, L> {
    /// Connects to the index's server. [9 RT for each 64 connections that are taken, and until the server opens it]
    ///
    /// # Errors
    /// [`IndexError::NotServed`] where there is no server, or it does not answer; [`IndexError::Crowded`] where all
    /// connections are taken; the fabric's.
    pub async fn connect(
        tree: &'t Catfish,
        client: &'t Client<F>,
        inbox: Inbox<'t, L>,
        notice: Notice,
    ) -> Result<Self, IndexError> {
        let word = async |offset| read_word(client, tree.head, offset).await;
        let term = word(TERM).await?;
        if term == 0 || word(SERVER).await? == 0 {
            return Err(IndexError::NotServed { name: tree.entry.name.clone() });
        }
        let number = claim(tree, client).await?;
        let opened = open(tree, client, &inbox, (number, term)).await;
        if opened.is_err() {
            // Or it would be taken for as long as this compute node is in the pool.
            release(tree, client, number).await?;
        }
        let (ask, requests) = opened?;
        let ring_bytes = tree.layout.ring_bytes;
        let inbox_at = inbox.at.unwrap_or_else(|| requests.part(ring_bytes));
        Ok(Self {
            tree,
            client,
            local: inbox.local,
            notice,
            number,
            term,
            ask,
            requests,
            inbox: inbox_at.address().offset(),
            incoming: Incoming::new(ring_bytes),
            outgoing: Outgoing::new(ring_bytes),
            told: 0,
            owed: false,
            broken: false,
            impatient: false,
            payload: Vec::new(),
        })
    }

    async fn send(&mut self, request: &Request) -> Result<(), IndexError> {
        self.told = self.incoming.head();
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        payload.push(self.told);
        request.encode(&mut payload);
        // One request at a time: what came before it was consumed before it was answered.
        let place = self.outgoing.place(payload.len(), Segment::Last);
        let place = place.expect("a ring that is empty has room for a request");
        let bytes = framed(place.header, &payload);
        self.payload = payload;
        // Before it is on its way: whoever drops this call takes nothing back.
        (self.owed, self.impatient) = (true, true);
        let to = self.requests.part::<u8>(place.offset);
        let message = match self.notice {
            Notice::Polling => write(to, &bytes),
            Notice::Event => write_imm(to, &bytes, self.number as u32),
        };
        let sent = match place.skip {
            Some((at, word)) => {
                let skip = word.to_le_bytes();
                self.client.post(write(self.requests.part::<u64>(at), &skip).then(message)).await.map(|_| ())
            }
            None => self.client.post(message).await,
        };
        (self.broken, self.impatient) = (sent.is_err(), false);
        Ok(sent?)
    }

    /// Takes the segments of one response.
    async fn receive(&mut self, found: &mut impl Answer) -> Result<(Status, u64), IndexError> {
        loop {
            let (offset, words, segment) = self.arrival().await?;
            let ring = self.inbox + INBOX_HEAD_BYTES;
            let load = |at: usize| self.local.load(ring + offset + 8 * at as u64);
            if words < RESPONSE_HEAD_WORDS || !(words - RESPONSE_HEAD_WORDS).is_multiple_of(ITEM_WORDS) {
                return Err(self.garbled(words as u64));
            }
            self.outgoing.consumed(load(0)?);
            let (status, count) = (load(1)?, load(2)?);
            for first in (RESPONSE_HEAD_WORDS..words).step_by(ITEM_WORDS) {
                let mut item = [0; ITEM_WORDS];
                for (at, word) in item.iter_mut().enumerate() {
                    *word = load(first + at)?;
                }
                found.item(item_of(&item).ok_or_else(|| self.garbled(item[0]))?);
            }
            let local = self.local;
            let clear = |at| local.store(ring + at, 0).expect("an inbox lies in its memory node");
            self.incoming.consume(words, clear);
            // Whoever drops this call from here on has had all of the response.
            self.owed = segment == Segment::More;
            self.tell().await?;
            if segment == Segment::Last {
                let status = Status::from_word(status).ok_or_else(|| self.garbled(status))?;
                return Ok((status, count));
            }
        }
    }

    fn garbled(&self, word: u64) -> IndexError {
        let at = format!("connection {}", self.number);
        IndexError::Damaged { operation: "message", at, what: format!("{word:#x} is no message") }
    }

    /// Tells the server what is consumed, when that is half of the ring. [0 RT]
    async fn tell(&mut self) -> Result<(), IndexError> {
        let head = self.incoming.head();
        if head - self.told > self.tree.layout.ring_bytes / 4 {
            self.told = head;
            let at = word_of(self.tree.head, of_connection(self.number, CONSUMED));
            self.client.post(write(at, &head.to_le_bytes())).await?;
        }
        Ok(())
    }

    /// Waits for the next message of the inbox.
    async fn arrival(&mut self) -> Result<(u64, usize, Segment), IndexError> {
        let begun = self.client.fabric().now();
        let mut since = begun;
        let (local, ring) = (self.local, self.inbox + INBOX_HEAD_BYTES);
        loop {
            let load = |at| local.load(ring + at).expect("an inbox lies in its memory node");
            let clear = |at| local.store(ring + at, 0).expect("an inbox lies in its memory node");
            match self.incoming.look(load, clear) {
                Arrived::Message { offset, words, segment } => return Ok((offset, words, segment)),
                Arrived::Garbled(word) => return Err(self.garbled(word)),
                Arrived::Nothing => {}
            }
            let now = self.client.fabric().now();
            if self.impatient && now.saturating_sub(begun) > PATIENCE_NS {
                self.broken = true;
                return Err(self.lost());
            }
            if now.saturating_sub(since) > SILENCE_NS {
                if self.is_over().await? {
                    return Err(self.lost());
                }
                since = now;
            }
            self.client.fabric().sleep(pause_after(now.saturating_sub(begun), LOOK_NS)).await;
        }
    }

    fn lost(&self) -> IndexError {
        IndexError::ServerLost { name: self.tree.entry.name.clone() }
    }

    /// Whether the server will write nothing here any more.
    async fn is_over(&self) -> Result<bool, IndexError> {
        Ok(is_gone(self.tree, self.client, self.term).await? || self.is_closed().await?)
    }

    async fn is_closed(&self) -> Result<bool, IndexError> {
        let open = read_word(self.client, self.tree.head, of_connection(self.number, OPEN)).await?;
        Ok(open != self.ask)
    }

    /// Leaves the connection to others, once the responses that are owed have come: they would land in the inbox of
    /// the next connection. [1 RT, and what is owed] A connection that is only dropped stays taken, and so does its
    /// inbox, until this compute node leaves the pool.
    ///
    /// # Errors
    /// [`IndexError::ServerLost`] where what is owed does not come within a second, or a request was lost: connection
    /// and inbox stay taken. The fabric's, and [`IndexError::Damaged`], after which they do as well.
    pub async fn close(mut self) -> Result<(), IndexError> {
        self.impatient = true;
        match self.take_owed().await {
            Ok(()) if !self.broken => {}
            Ok(()) | Err(IndexError::ServerLost { .. }) if self.is_over().await? => {}
            Ok(()) => return Err(self.lost()),
            Err(error) => return Err(error),
        }
        release(self.tree, self.client, self.number).await
    }

    /// Takes the responses that nobody waits for any more.
    async fn take_owed(&mut self) -> Result<(), IndexError> {
        while self.owed && !self.broken {
            self.receive(&mut Count::default()).await?;
        }
        Ok(())
    }
}

impl<F: Fabric, L: LocalMemory> Talk for Messenger<'_, F, L> {
    /// Sends a request and takes its response. [1 RT, and the server's work] A call that is dropped is done all the
    /// same; the next one waits for its response first.
    async fn call(&mut self, request: &Request, found: &mut impl Answer) -> Result<Reply, IndexError> {
        if self.broken {
            return Err(self.lost());
        }
        self.take_owed().await?;
        self.send(request).await?;
        let (status, count) = self.receive(found).await?;
        status.reply(count)
    }

    fn take_heartbeat(&mut self) -> Result<Option<f64>, IndexError> {
        let word = self.local.load(self.inbox)?;
        if word != 0 {
            self.local.store(self.inbox, 0)?;
        }
        Ok(super::adaptive::utilisation(word))
    }
}

async fn read_word<F: Fabric>(
    client: &Client<F>,
    head: Remote<RawHead>,
    offset: u64,
) -> Result<u64, IndexError> {
    let word = client.post(read(word_of(head, offset))).await?;
    let Ok(word) = word.check(&()) else { unreachable!("words are whole") };
    Ok(word.word())
}

/// Asks the server of `term` to open connection `number`; yields what was asked, and where requests go.
async fn open<F: Fabric, L: LocalMemory>(
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
        // What an earlier connection left; the server writes here only when it has opened this one.
        let bytes = INBOX_HEAD_BYTES + tree.layout.ring_bytes;
        let first = at.address().offset();
        for offset in (first..first + bytes).step_by(8) {
            inbox.local.store(offset, 0)?;
        }
    }
    let mut looks = Retry::new("connect", OPEN_LOOKS_MAX);
    let ask = 'asked: loop {
        let ticket = (word(of_connection(number, ASK)).await? as u32).wrapping_add(1);
        let ask = term << TICKET_BITS | u64::from(ticket);
        client.post(write(field(INBOX), &at).then(write(field(ASK), &ask.to_le_bytes()))).await?;
        loop {
            match word(of_connection(number, OPEN)).await? {
                open if open == ask => break 'asked ask,
                // It was opened and hung up before this client looked.
                open if open == closed(ask) => break,
                _ => {}
            }
            client.fabric().sleep(OPEN_LOOK_NS).await;
            if looks.again(client).await.is_err() || is_gone(tree, client, term).await? {
                return Err(not_served());
            }
        }
        looks.again(client).await.map_err(|_| not_served())?;
    };
    let own = word(of_connection(number, MEMORY)).await?;
    Ok((ask, Remote::<[u8]>::from_word(own).ok_or_else(not_served)?))
}

/// Leaves a connection to others. [1 RT]
async fn release<F: Fabric>(tree: &Catfish, client: &Client<F>, number: usize) -> Result<(), IndexError> {
    let mine = LockWord::held_by(client.fabric().identity()).word();
    let owner = word_of(tree.head, of_connection(number, OWNER));
    let _ = client.post(cas(owner, mine, 0)).await?;
    Ok(())
}

/// Takes a connection that nobody has.
async fn claim<F: Fabric>(tree: &Catfish, client: &Client<F>) -> Result<usize, IndexError> {
    let mine = LockWord::held_by(client.fabric().identity()).word();
    let looked_after = read_word(client, tree.head, LOOKED_AFTER).await? as usize;
    let count = if looked_after == 0 { CONNECTIONS_MAX } else { looked_after.min(CONNECTIONS_MAX) };
    let first = usize::from(client.fabric().identity().slot) % count;
    for step in 0..count {
        let number = (first + step) % count;
        let owner = of_connection(number, OWNER);
        if read_word(client, tree.head, owner).await? == 0
            && client.post(cas(word_of(tree.head, owner), 0, mine)).await? == Swapped::Won
        {
            return Ok(number);
        }
    }
    Err(IndexError::Crowded { name: tree.entry().name.clone(), connections: count })
}

/// Whether the server of `term` is gone.
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

impl<F, L> std::fmt::Debug for Messenger<'_, F, L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Messenger").field("number", &self.number).finish_non_exhaustive()
    }
}
