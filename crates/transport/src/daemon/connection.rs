//! One connection at the memory node: frames in, verbs executed in their order, answers out.
//!
//! What a connection can make the memory node keep is bounded: of what arrives at most one frame is kept beyond the
//! buffer, and no request is executed while [`BACKLOG_BYTES`] of answers wait to be taken. So a compute node that
//! does not read its answers is not read from either.

use super::counters::{Counters, Done};
use super::event::NodeEvent;
use super::registry::{Peer, Refusal};
use super::shared::{FAREWELL_MAX, Shared};
use super::store::Order;
use super::verb_executor::Card;
use crate::stream::Cipher;
use crate::wire::{
    ANY_NODE, Code, Control, FRAME_BYTES_MAX, Frame, Greeting, HEADER_BYTES, Hello, Kind, Malformed, VERSION,
    WireVerb, header_words, put_text, put_words,
};
use farwood_fabric::ClientId;
use std::io::{self, ErrorKind, Read as _};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Instant;
use zerocopy::{FromBytes as _, IntoBytes as _};

/// Answers that may wait before a connection's next request is executed.
const BACKLOG_BYTES: usize = 256 << 10;
/// Room for what arrives, at first.
const INPUT_BYTES: usize = 8 << 10;
/// Room that a connection keeps when it is idle.
const KEPT_BYTES: usize = 256 << 10;
/// Bytes of the longest frame before the connection was let in.
const HELLO_BYTES_MAX: usize = 2 << 10;
/// Answers that leave together. A compute node with many requests under way works on the first of them while the rest
/// are executed; a system call for each would cost more than that gains.
const PORTION_BYTES: usize = 32 << 10;
/// Portions of one connection before others have their turn.
const PORTIONS_MAX: usize = 16;

/// What became of a connection's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It waits for its stream.
    Waits,
    /// It has more to do at once.
    Again,
    /// It is over.
    Over,
}

/// How far the end of a connection has come whose memory node stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Farewell {
    /// What has arrived is executed.
    Executing,
    /// Goodbye is said behind the answers, and they leave.
    Said,
    /// All has left; the other side takes it, and hangs up.
    Sent,
}

/// How a connection ends early.
enum End {
    /// The other side is gone.
    Gone,
    /// It sent what is no frame, or not at its turn.
    Bad(Malformed),
    /// It is not let in.
    Refused(Refusal),
    /// Its TLS is none, or not trusted.
    Untrusted(String),
}

impl From<Malformed> for End {
    fn from(malformed: Malformed) -> Self {
        Self::Bad(malformed)
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    peer: Arc<Peer>,
    cipher: Cipher,
    /// The thread that it belongs to, by number.
    worker: usize,
    /// Requests that were executed and not yet counted among the times.
    requests: u64,
    since: Instant,
    greeted: bool,
    /// Its stream has been ended by the other side: what is left in it is read to the end.
    ends: bool,
    farewell: Farewell,
    /// The last turn with requests.
    busy: Option<Instant>,
    line: u64,
    input: Vec<u8>,
    start: usize,
    end: usize,
    out: Vec<u64>,
    sent: usize,
}

impl Connection {
    /// A connection that has said nothing yet.
    pub(super) fn new(peer: Arc<Peer>, cipher: Cipher, worker: usize) -> Self {
        let (input, out) = (vec![0; INPUT_BYTES], Vec::new());
        Self {
            peer,
            cipher,
            worker,
            requests: 0,
            since: Instant::now(),
            greeted: false,
            ends: false,
            farewell: Farewell::Executing,
            busy: None,
            line: 0,
            input,
            start: 0,
            end: 0,
            out,
            sent: 0,
        }
    }

    /// How others may end it.
    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// When it arrived, if it has not been let in yet.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        (!self.greeted).then_some(self.since)
    }

    /// Does what can be done: executes what has arrived, sends what can be sent.
    pub(super) fn turn(&mut self, shared: &Shared) -> Verdict {
        match self.work(shared) {
            Ok(verdict) => verdict,
            Err(End::Gone) => Verdict::Over,
            Err(End::Bad(malformed)) => {
                self.counters(shared).bad_frame();
                let (from, why) = (self.from(), malformed.to_string());
                self.refuse(Code::Malformed, &why);
                shared.tell(|| NodeEvent::BadFrame { from, why });
                Verdict::Over
            }
            Err(End::Refused((code, why))) => {
                self.counters(shared).refused();
                self.refuse(code, &why);
                self.turned_away(shared, code, why);
                Verdict::Over
            }
            // TLS has told the other side.
            Err(End::Untrusted(why)) => {
                self.counters(shared).refused();
                self.turned_away(shared, Code::BadToken, why);
                Verdict::Over
            }
        }
    }

    /// Tells the log; the counter has risen before the other side was told.
    fn turned_away(&self, shared: &Shared, code: Code, why: String) {
        shared.tell(|| NodeEvent::Refused { from: self.from(), code, why });
    }

    fn counters<'s>(&self, shared: &'s Shared) -> &'s Counters {
        &shared.counters[self.worker]
    }

    fn from(&self) -> Option<SocketAddr> {
        self.peer.stream().peer_addr().ok()
    }

    /// Requests that were executed since this was asked last, in a turn that began at `start`.
    #[inline]
    pub(super) fn take_requests(&mut self, start: Instant) -> u64 {
        let requests = std::mem::take(&mut self.requests);
        if requests > 0 {
            self.busy = Some(start);
        }
        requests
    }

    fn work(&mut self, shared: &Shared) -> Result<Verdict, End> {
        let mut may_have_more = true;
        for _ in 0..PORTIONS_MAX {
            self.execute_portion(shared)?;
            if self.flush()? && self.waiting_bytes() >= BACKLOG_BYTES {
                // It goes on when the stream takes more.
                return Ok(Verdict::Waits);
            }
            if self.has_frame()? {
                continue;
            }
            if !may_have_more {
                self.give_back();
                return Ok(Verdict::Waits);
            }
            may_have_more = self.fill()?;
        }
        Ok(Verdict::Again)
    }

    fn waiting_bytes(&self) -> usize {
        8 * self.out.len() - self.sent
    }

    fn has_frame(&self) -> Result<bool, Malformed> {
        Ok(Frame::first(&self.input[self.start..self.end])?.is_some())
    }

    /// The other side sends no more than what has come.
    pub(super) fn ends(&mut self) {
        self.ends = true;
    }

    /// Reads once. False: there was no more than that.
    fn fill(&mut self) -> Result<bool, End> {
        self.make_room()?;
        let room = &mut self.input[self.end..];
        let wanted = room.len();
        match self.cipher.read(self.peer.stream(), room) {
            Ok(0) => Err(End::Gone),
            Ok(bytes) => {
                self.end += bytes;
                // The end of a stream is told once, perhaps together with its last bytes.
                Ok(bytes == wanted || self.ends || self.cipher.is_on())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(broken(&error)),
        }
    }

    /// Makes room for the rest of the frame that has begun, and a little more than that.
    fn make_room(&mut self) -> Result<(), Malformed> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let announced = Frame::announced(&self.input[self.start..self.end]);
        let most = if self.greeted { FRAME_BYTES_MAX } else { HELLO_BYTES_MAX };
        if announced > most {
            return Err(Malformed::Length(announced as u32));
        }
        let full = self.end == self.input.len();
        if self.start > 0 && (full || self.start + announced > self.input.len()) {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if announced > self.input.len() {
            self.input.resize(announced.next_power_of_two(), 0);
        } else if full && self.end == self.input.len() && self.input.len() < KEPT_BYTES {
            self.input.resize(2 * self.input.len(), 0);
        }
        Ok(())
    }

    /// An idle connection keeps no large buffers.
    fn give_back(&mut self) {
        if self.start == self.end && self.input.len() > KEPT_BYTES {
            (self.start, self.end) = (0, 0);
            self.input.truncate(KEPT_BYTES);
            self.input.shrink_to_fit();
        }
        if self.out.is_empty() && 8 * self.out.capacity() > KEPT_BYTES {
            self.out = Vec::new();
        }
    }

    /// Sends what waits. True: the stream takes no more for now.
    fn flush(&mut self) -> Result<bool, End> {
        while self.waiting_bytes() > 0 {
            match self.cipher.write(self.peer.stream(), &self.out.as_bytes()[self.sent..]) {
                Ok(0) => return Err(End::Gone),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Gone),
            }
        }
        self.out.clear();
        self.sent = 0;
        match self.cipher.flush(self.peer.stream()) {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(_) => Err(End::Gone),
        }
    }

    /// Executes frames that have arrived, until their answers are a portion or too many answers wait.
    fn execute_portion(&mut self, shared: &Shared) -> Result<(), End> {
        let enough = BACKLOG_BYTES.min(self.waiting_bytes() + PORTION_BYTES);
        let peer = Arc::clone(&self.peer);
        let (mut turn, mut order, mut done) = (None, Order::default(), Done::default());
        while self.waiting_bytes() < enough {
            let input = std::mem::take(&mut self.input);
            let frame = Frame::first(&input[self.start..self.end]);
            let executed = match frame {
                Ok(Some(frame)) if frame.kind == Kind::Request && shared.card.is_some() => {
                    let why = "a card executes its verbs: open the pool as rdma://".to_owned();
                    Err(End::Refused((Code::OtherFabric, why)))
                }
                Ok(Some(frame)) if frame.kind == Kind::Request && self.greeted => {
                    if turn.is_none() {
                        turn = peer.turn();
                    }
                    // Its identity was fenced, or its line goes on elsewhere.
                    if turn.is_none() {
                        Err(End::Gone)
                    } else {
                        self.request(shared, &frame, &mut order, &mut done)
                    }
                }
                Ok(Some(frame)) => {
                    // A control may end connections, this one among them: their turns are waited for.
                    turn = None;
                    order.before_answers();
                    self.other(shared, &frame)
                }
                Ok(None) => Ok(0),
                Err(malformed) => Err(malformed.into()),
            };
            self.input = input;
            match executed? {
                0 => break,
                bytes => self.start += bytes,
            }
        }
        order.before_answers();
        if done.requests > 0 {
            self.requests += done.requests;
            self.counters(shared).done(done);
        }
        Ok(())
    }

    /// Executes what has arrived, as far as its answers may wait. True: that was all.
    fn execute_rest(&mut self, shared: &Shared) -> Result<bool, End> {
        for _ in 0..PORTIONS_MAX {
            while self.has_frame()? && self.waiting_bytes() < BACKLOG_BYTES {
                self.execute_portion(shared)?;
            }
            if self.waiting_bytes() >= BACKLOG_BYTES {
                if self.flush()? {
                    return Ok(false);
                }
            } else if !self.fill()? && !self.has_frame()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Executes one request; yields its length.
    #[inline]
    fn request(
        &mut self,
        shared: &Shared,
        frame: &Frame<'_>,
        order: &mut Order,
        done: &mut Done,
    ) -> Result<usize, End> {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_BYTES / 8]);
        let (mut executed, mut failed) = (0, None);
        for verb in frame.verbs() {
            let room = FRAME_BYTES_MAX - 8 * (self.out.len() - start);
            let fits = |verb: &WireVerb<'_>| verb.op.answer_bytes() <= room;
            let verb = match verb.and_then(|verb| if fits(&verb) { Ok(verb) } else { Err(Malformed::Verb) }) {
                Ok(verb) => verb,
                Err(malformed) => {
                    // The answers before it leave, its own does not.
                    self.out.truncate(start);
                    return Err(malformed.into());
                }
            };
            let answered = self.out.len();
            if let Err(code) = shared.store.execute(&verb, order, &mut self.out) {
                self.out.truncate(answered);
                failed = Some(code);
                break;
            }
            executed += 1;
        }
        let bytes = 8 * (self.out.len() - start);
        let header = match failed {
            None => header_words(bytes, Kind::Reply, 0, 0, frame.tag),
            Some(code) => header_words(bytes, Kind::Failed, code as u8, executed, frame.tag),
        };
        self.out[start..start + header.len()].copy_from_slice(&header);
        done.requests += 1;
        done.verbs += u64::from(executed);
        done.bytes_in += frame.bytes() as u64;
        done.bytes_out += bytes as u64;
        Ok(frame.bytes())
    }

    /// Anything but a request; yields its length.
    fn other(&mut self, shared: &Shared, frame: &Frame<'_>) -> Result<usize, End> {
        match frame.kind {
            Kind::Hello if !self.greeted => {
                let hello = Hello::read(frame).map_err(|greeting| match greeting {
                    Greeting::Malformed(malformed) => End::Bad(malformed),
                    Greeting::Version(version) => {
                        let why = format!("it speaks version {VERSION} of the wire, and not {version}");
                        End::Refused((Code::BadVersion, why))
                    }
                })?;
                let welcome =
                    shared.registry.welcome(&shared.store, &self.peer, &hello).map_err(End::Refused)?;
                (self.greeted, self.line) = (true, hello.line);
                let mut bytes = Vec::new();
                welcome.put(&mut bytes);
                self.say(&bytes);
            }
            Kind::Control if self.greeted => {
                let mut bytes = Vec::new();
                match self.control(shared, frame)? {
                    Ok(words) => put_words(&mut bytes, Kind::Answer, 0, frame.tag, words),
                    Err((code, why)) => put_text(&mut bytes, Kind::Answer, code, frame.tag, &why),
                }
                self.say(&bytes);
            }
            kind => return Err(Malformed::Turn(kind).into()),
        }
        Ok(frame.bytes())
    }

    fn control(&self, shared: &Shared, frame: &Frame<'_>) -> Result<Result<[u64; 4], Refusal>, Malformed> {
        let control = Control::from_byte(frame.code).ok_or(Malformed::Control(frame.code))?;
        let words = frame.words()?;
        let [a, b, c, _] = words;
        let client = ClientId { slot: u16::try_from(a).unwrap_or(ANY_NODE), epoch: b as u32 };
        let (store, registry) = (&shared.store, &shared.registry);
        let in_words = |why| (Code::OtherPool, why);
        let done = match control {
            Control::Claim => registry.claim(&self.peer, a).map(|()| [0; 4]),
            Control::Name => registry.name(store, &self.peer, client, self.line).map(|()| [0; 4]),
            Control::Census => Ok([registry.census(client), 0, 0, 0]),
            Control::Fence => registry.fence(store, client).map(|()| {
                shared.tell(|| NodeEvent::Gone(client));
                [0; 4]
            }),
            Control::Form => store.form(a, b as u16, c as u16).map(|()| [0; 4]).map_err(in_words),
            Control::Whole => store.whole().map(|()| [0; 4]).map_err(in_words),
            Control::Provision => store.provision(a, b).map(|()| [0; 4]),
            Control::Region => card(shared).map(Card::region),
            Control::Queue => card(shared).and_then(|card| self.connect(card, words)),
            Control::Stat => {
                shared.stat(a).ok_or_else(|| (Code::OutOfRange, "there is no such page".to_owned()))
            }
        };
        if let Err((Code::NotEnded, why)) = &done {
            shared.tell(|| NodeEvent::Card(why.clone()));
        }
        Ok(done)
    }

    /// Has the card make a queue pair for this connection.
    fn connect(&self, card: &dyn Card, other: [u64; 4]) -> Result<[u64; 4], Refusal> {
        let made = self.peer.connect(|| card.connect(other));
        let made = made.unwrap_or_else(|| Err("its connection was ended".to_owned()));
        made.map_err(|why| (Code::NoQueue, why))
    }

    fn say(&mut self, bytes: &[u8]) {
        let words = bytes.chunks_exact(8);
        self.out.extend(words.map(|word| u64::read_from_bytes(word).expect("frames are made of words")));
    }

    /// Says why the connection ends, if the other side takes it at once.
    pub(super) fn refuse(&mut self, code: Code, why: &str) {
        let mut bytes = Vec::new();
        put_text(&mut bytes, Kind::Refused, code, 0, why);
        self.say(&bytes);
        let _ = self.flush();
    }

    /// Goes on with the end of the connection: executes what has arrived, says goodbye behind it, sends that, and waits
    /// until the other side has hung up. To close a stream with something unread in it would throw away what was sent.
    /// True: it is over.
    pub(super) fn finish(&mut self, shared: &Shared) -> bool {
        if self.farewell == Farewell::Executing {
            let executed = self.execute_rest(shared);
            match executed {
                Ok(true) => self.say_goodbye(),
                // What was executed is answered.
                Err(_) => self.farewell = Farewell::Said,
                Ok(false) => {}
            }
        }
        match self.flush() {
            Ok(true) => return false,
            Ok(false) => {}
            Err(_) => return true,
        }
        if self.farewell == Farewell::Said {
            self.farewell = Farewell::Sent;
            // The other side reads to the end, and knows then.
            let _ = self.peer.stream().shutdown(Shutdown::Write);
        }
        self.farewell == Farewell::Sent && (!self.was_busy() || self.has_hung_up())
    }

    /// Whether the other side may still be reading answers.
    fn was_busy(&self) -> bool {
        self.requests > 0 || self.busy.is_some_and(|at| at.elapsed() < FAREWELL_MAX)
    }

    fn say_goodbye(&mut self) {
        let mut bytes = Vec::new();
        put_text(&mut bytes, Kind::Goodbye, Code::Stopping, 0, "the memory node was stopped");
        self.say(&bytes);
        self.farewell = Farewell::Said;
    }

    /// Throws away what still arrives. True: the other side sends no more.
    fn has_hung_up(&mut self) -> bool {
        for _ in 0..PORTIONS_MAX {
            match self.peer.stream().read(&mut self.input) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
        false
    }
}

/// The card that executes the memory node's verbs.
fn card(shared: &Shared) -> Result<&dyn Card, Refusal> {
    let why = || (Code::OtherFabric, "no card executes its verbs: open the pool as tcp://".to_owned());
    shared.card.as_deref().ok_or_else(why)
}

/// What an error of the stream means.
fn broken(error: &io::Error) -> End {
    if error.kind() == ErrorKind::InvalidData { End::Untrusted(error.to_string()) } else { End::Gone }
}
