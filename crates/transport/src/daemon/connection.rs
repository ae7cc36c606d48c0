//! One connection at the memory node: it receives frames, executes their verbs in order, and sends answers.
//!
//! The memory of a connection is bounded: it keeps at most one frame beyond its input buffer, and executes no
//! request while [`BACKLOG_BYTES`] of answers wait. So the memory node stops reading from a compute node that
//! does not read its answers.

mod controls;
mod held_answers;

use super::counters::{Counters, Done};
use super::log::{Log, LogWaits, Origin};
use super::registry::{Admission, Peer, Refusal, read_only};
use super::shared::{DRAIN_MAX, Shared};
use super::store::{FrameRecord, SnapshotFault, Store, WriteFence};
use crate::stream::{Cipher, Nonces};
use crate::wire::{
    CUT_WORD, Code, Control, FRAME_BYTES_MAX, Frame, FrameKind, GreetingError, HEADER_BYTES, Hello,
    Malformed, VERSION, WireVerb, header_words, nonce_of, put_cut, put_frame, put_text, put_words,
};
use controls::client_of;
use farwood_fabric::{Access, ClientId};
use held_answers::{AnswerKind, HeldAnswers};
use std::io::{self, ErrorKind, Read as _};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Instant;
use zerocopy::{FromBytes as _, IntoBytes as _};

/// Answers that may wait before the next request of the connection is executed, bytes.
const BACKLOG_BYTES: usize = 256 << 10;
/// Initial size of the input buffer, bytes; a power of two, so that the buffer ends at [`FRAME_BYTES_MAX`].
const INPUT_BYTES: usize = 8 << 10;
/// Size of the buffers that an idle connection keeps, bytes.
const KEPT_BYTES: usize = 256 << 10;
/// Longest frame before the connection is authenticated, bytes.
const HELLO_BYTES_MAX: usize = 2 << 10;
/// Answers that are sent together, bytes. A compute node with many requests in flight processes the first answers while
/// the memory node executes the other requests. A system call for each answer would take more time than that saves.
const BATCH_BYTES: usize = 32 << 10;
/// Maximum wrong tokens of one source within a second that are refused at once. The others are refused at the next
/// sweep, so that a source cannot try more tokens per second than its share of unauthenticated connections.
const PROMPT_REFUSALS_MAX: u64 = 3;
/// Batches of one connection before the worker serves others.
const BATCHES_MAX: usize = 16;

/// The outcome of serving a connection once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnOutcome {
    /// The connection waits for its stream.
    Blocked,
    /// The connection has more received requests.
    Ready,
    /// The connection is closed.
    Closed,
}

/// The progress of the shutdown of a connection when the memory node stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrainPhase {
    /// Received frames are executed.
    Executing,
    /// The goodbye is queued after the answers.
    GoodbyeQueued,
    /// Everything was sent; the peer reads it and closes the connection.
    Sent,
}

/// The reason why a connection ends early.
enum CloseReason {
    /// The peer closed it.
    PeerClosed,
    /// The peer sent a malformed or unexpected frame.
    Malformed(Malformed),
    /// The memory node refused it.
    Refused(Refusal),
    /// TLS failed, or the peer's certificate is not trusted.
    Untrusted(String),
}

impl From<Malformed> for CloseReason {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// A connection of a compute node to this memory node.
#[derive(Debug)]
pub(super) struct Connection {
    peer: Arc<Peer>,
    cipher: Cipher,
    /// The number of its worker thread.
    worker: usize,
    /// Executed requests that are not in the latency histogram yet.
    requests: u64,
    since: Instant,
    greeted: bool,
    /// A hello that awaits the proof of the token.
    challenged: Option<(Hello, Nonces)>,
    /// A refusal that the next sweep sends.
    delayed: Option<Refusal>,
    /// The peer has closed its direction: the rest of the stream is read to the end.
    is_peer_closed: bool,
    drain: DrainPhase,
    /// The time when requests were last executed.
    busy: Option<Instant>,
    /// The connection number in the hello.
    number: u64,
    /// Its compute node, if it has an identity.
    client: Option<ClientId>,
    /// What its token permits.
    access: Access,
    /// The snapshot in which its requests are executed.
    snapshot: Option<u64>,
    input: Vec<u8>,
    start: usize,
    end: usize,
    out: Vec<u64>,
    sent: usize,
    /// The last record that the kernel must have before the bytes of `out` leave.
    written: u64,
    /// Answers that wait for the disk.
    held: HeldAnswers,
}

impl Connection {
    /// A connection before its hello.
    pub(super) fn new(peer: Arc<Peer>, cipher: Cipher, worker: usize) -> Self {
        let (input, out) = (vec![0; INPUT_BYTES], Vec::new());
        Self {
            peer,
            cipher,
            worker,
            requests: 0,
            since: Instant::now(),
            greeted: false,
            challenged: None,
            delayed: None,
            is_peer_closed: false,
            drain: DrainPhase::Executing,
            busy: None,
            number: 0,
            client: None,
            access: Access::ReadWrite,
            snapshot: None,
            input,
            start: 0,
            end: 0,
            out,
            sent: 0,
            written: 0,
            held: HeldAnswers::default(),
        }
    }

    /// Returns the handle by which others may end it.
    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// Returns the time of its arrival if it is not authenticated yet.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        (!self.greeted).then_some(self.since)
    }

    /// Executes what has arrived and sends what the stream accepts.
    pub(super) fn turn(&mut self, shared: &Shared) -> TurnOutcome {
        match self.work(shared) {
            Ok(outcome) => outcome,
            Err(CloseReason::PeerClosed) => TurnOutcome::Closed,
            Err(CloseReason::Malformed(malformed)) => {
                self.counters(shared).bad_frame();
                let (from, why) = (self.from(), malformed.to_string());
                self.refuse(shared, Code::Malformed, &why);
                shared.log_bad_frame(from, why);
                TurnOutcome::Closed
            }
            Err(CloseReason::Refused((code, why))) => {
                self.counters(shared).refused();
                let number = shared.log_refusal(self.from(), code, why.clone());
                if code == Code::BadToken && number > PROMPT_REFUSALS_MAX {
                    self.delayed = Some((code, why));
                    return TurnOutcome::Blocked;
                }
                self.refuse(shared, code, &why);
                TurnOutcome::Closed
            }
            // TLS has sent its alert.
            Err(CloseReason::Untrusted(why)) => {
                self.counters(shared).refused();
                shared.log_refusal(self.from(), Code::BadToken, why);
                TurnOutcome::Closed
            }
        }
    }

    fn counters<'s>(&self, shared: &'s Shared) -> &'s Counters {
        &shared.counters[self.worker]
    }

    fn from(&self) -> Option<SocketAddr> {
        self.peer.stream().peer_addr().ok()
    }

    /// Takes the number of executed requests, of a call that began at `start`.
    #[inline]
    pub(super) fn take_requests(&mut self, start: Instant) -> u64 {
        let requests = std::mem::take(&mut self.requests);
        if requests > 0 {
            self.busy = Some(start);
        }
        requests
    }

    /// Takes the refusal that was delayed because its source failed often.
    pub(super) fn take_delayed(&mut self) -> Option<Refusal> {
        self.delayed.take()
    }

    fn work(&mut self, shared: &Shared) -> Result<TurnOutcome, CloseReason> {
        if self.delayed.is_some() {
            return Ok(TurnOutcome::Blocked);
        }
        let mut may_have_more = true;
        for _ in 0..BATCHES_MAX {
            self.execute_batch(shared)?;
            if self.flush(shared)? && self.waiting_bytes() >= BACKLOG_BYTES {
                // The connection continues when the stream accepts more.
                return Ok(TurnOutcome::Blocked);
            }
            if self.has_frame()? {
                continue;
            }
            if !may_have_more {
                self.shrink_buffers();
                return Ok(TurnOutcome::Blocked);
            }
            may_have_more = self.fill()?;
        }
        Ok(TurnOutcome::Ready)
    }

    /// Takes the number of answers that had to wait for the log.
    #[inline]
    pub(super) fn take_held_count(&mut self) -> u64 {
        self.held.take_count()
    }

    /// Whether answers wait for the log.
    pub(super) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Lets the answer from word `start` of `out` on wait for the log. An answer that need not wait overtakes others.
    #[inline]
    fn hold(&mut self, log: &Log, start: usize, waits: LogWaits, kind: AnswerKind) {
        if log.is_durable(waits.durable) && !self.held.has_control() {
            self.written = self.written.max(waits.written);
        } else {
            self.held.push(&mut self.out, start, waits, kind);
        }
    }

    /// Moves the answers that may leave to `out`.
    fn release(&mut self, log: &Log) {
        while let Some(written) = self.held.pop(&mut self.out, |record| log.is_durable(record)) {
            self.written = self.written.max(written);
        }
    }

    fn waiting_bytes(&self) -> usize {
        8 * (self.out.len() + self.held.words()) - self.sent
    }

    fn has_frame(&self) -> Result<bool, Malformed> {
        Ok(Frame::first(&self.input[self.start..self.end])?.is_some())
    }

    /// Records that the peer sends no more.
    pub(super) fn peer_closed(&mut self) {
        self.is_peer_closed = true;
    }

    /// Reads once. False: no more was available.
    fn fill(&mut self) -> Result<bool, CloseReason> {
        self.make_space()?;
        let space = &mut self.input[self.end..];
        let wanted = space.len();
        match self.cipher.read(self.peer.stream(), space) {
            Ok(0) => Err(CloseReason::PeerClosed),
            Ok(bytes) => {
                self.end += bytes;
                // The end of a stream is reported once, sometimes together with its last bytes.
                Ok(bytes == wanted || self.is_peer_closed || self.cipher.is_on())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(broken(&error)),
        }
    }

    /// Makes space for more of the incomplete frame. The buffer doubles when it is full: an announced length alone
    /// takes no memory.
    fn make_space(&mut self) -> Result<(), Malformed> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let announced = Frame::announced(&self.input[self.start..self.end]);
        let most = if self.greeted { FRAME_BYTES_MAX } else { HELLO_BYTES_MAX };
        if announced > most {
            return Err(Malformed::Length(announced as u32));
        }
        if self.start > 0 && (self.end == self.input.len() || self.start + announced > self.input.len()) {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let is_short = announced > self.input.len() || self.input.len() < KEPT_BYTES;
        if self.end == self.input.len() && is_short {
            self.input.resize(2 * self.input.len(), 0);
        }
        Ok(())
    }

    /// Shrinks the buffers of an idle connection.
    fn shrink_buffers(&mut self) {
        if self.start == self.end && self.input.len() > KEPT_BYTES {
            (self.start, self.end) = (0, 0);
            self.input.truncate(KEPT_BYTES);
            self.input.shrink_to_fit();
        }
        if self.out.is_empty() && 8 * self.out.capacity() > KEPT_BYTES {
            self.out = Vec::new();
        }
        self.held.shrink(KEPT_BYTES);
    }

    /// Sends the queued bytes, except answers that wait for the log. True: some bytes wait for the stream or the log.
    fn flush(&mut self, shared: &Shared) -> Result<bool, CloseReason> {
        let log = shared.store.log();
        if let Some(log) = log {
            self.release(log);
            // If the log has failed, the memory node ends.
            log.before_answers(LogWaits { durable: self.held.last_durable(), written: self.written })
                .map_err(|_| CloseReason::PeerClosed)?;
        }
        let end = 8 * self.out.len();
        while self.sent < end {
            match self.cipher.write(self.peer.stream(), &self.out.as_bytes()[self.sent..end]) {
                Ok(0) => return Err(CloseReason::PeerClosed),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(CloseReason::PeerClosed),
            }
        }
        self.out.clear();
        self.sent = 0;
        match self.cipher.flush(self.peer.stream()) {
            Ok(()) => Ok(self.is_held()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(_) => Err(CloseReason::PeerClosed),
        }
    }

    /// Executes received frames until a batch of answers, or the backlog limit, is reached.
    fn execute_batch(&mut self, shared: &Shared) -> Result<(), CloseReason> {
        let enough = BACKLOG_BYTES.min(self.waiting_bytes() + BATCH_BYTES);
        let peer = Arc::clone(&self.peer);
        let (mut guard, mut write_fence, mut done) = (None, WriteFence::default(), Done::default());
        while self.waiting_bytes() < enough {
            let input = std::mem::take(&mut self.input);
            let frame = Frame::first(&input[self.start..self.end]);
            let executed = match frame {
                Ok(Some(frame)) if frame.kind == FrameKind::Request && shared.executor.is_some() => {
                    let why = "an RDMA device executes its verbs: open the pool as rdma://".to_owned();
                    Err(CloseReason::Refused((Code::WrongTransport, why)))
                }
                Ok(Some(frame)) if frame.kind == FrameKind::Request && self.greeted => {
                    if guard.is_none() {
                        guard = peer.execution_guard();
                    }
                    // The client was fenced, or reconnected elsewhere.
                    if guard.is_none() {
                        Err(CloseReason::PeerClosed)
                    } else if !shared.store.is_open() {
                        let why = "its pool must return to a cut: open the pool again".to_owned();
                        Err(CloseReason::Refused((Code::WrongPool, why)))
                    } else {
                        self.request(shared, &frame, &mut write_fence, &mut done)
                    }
                }
                Ok(Some(frame)) => {
                    // A control may end connections, also this one, and waits for their guards.
                    guard = None;
                    write_fence.flush();
                    let start = self.out.len();
                    let handled = self.handle_frame(shared, &frame);
                    // A fence, or the pool that it joined.
                    if let Some(log) = shared.store.log().filter(|_| self.out.len() > start) {
                        self.hold(log, start, log.all(), AnswerKind::Control);
                    }
                    handled
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
        write_fence.flush();
        if done.requests > 0 {
            self.requests += done.requests;
            self.counters(shared).done(done);
        }
        Ok(())
    }

    /// Executes the remaining frames, as far as their answers may wait. True: all are executed.
    fn execute_rest(&mut self, shared: &Shared) -> Result<bool, CloseReason> {
        for _ in 0..BATCHES_MAX {
            while self.has_frame()? && self.waiting_bytes() < BACKLOG_BYTES {
                self.execute_batch(shared)?;
            }
            if self.waiting_bytes() >= BACKLOG_BYTES {
                if self.flush(shared)? {
                    return Ok(false);
                }
            } else if !self.fill()? && !self.has_frame()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Executes one request; returns its length.
    #[inline]
    fn request(
        &mut self,
        shared: &Shared,
        frame: &Frame<'_>,
        write_fence: &mut WriteFence,
        done: &mut Done,
    ) -> Result<usize, CloseReason> {
        if self.access == Access::ReadOnly {
            refuse_changes(frame)?;
        }
        if self.access == Access::ReadWrite {
            shared.store.enter_cut(frame.cut)?;
        }
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_BYTES / 8]);
        let (mut executed, mut failed, mut record) = (0, None, FrameRecord::default());
        for verb in frame.verbs() {
            let space = FRAME_BYTES_MAX - 8 * (self.out.len() - start);
            let fits = |verb: &WireVerb<'_>| verb.op.answer_bytes() <= space;
            let verb = match verb.and_then(|verb| if fits(&verb) { Ok(verb) } else { Err(Malformed::Verb) }) {
                Ok(verb) => verb,
                Err(malformed) => {
                    // The answers to earlier frames are sent, but not the answer to this frame.
                    self.out.truncate(start);
                    return Err(malformed.into());
                }
            };
            let answered = self.out.len();
            let done = match self.snapshot {
                None => shared.store.execute(&verb, write_fence, &mut record, &mut self.out),
                Some(snapshot) => in_snapshot(&shared.store, snapshot, &verb, &mut self.out)
                    .inspect_err(|_| self.out.truncate(start))?,
            };
            if let Err(code) = done {
                self.out.truncate(answered);
                failed = Some(code);
                break;
            }
            executed += 1;
        }
        let bytes = 8 * (self.out.len() - start);
        let mut header = match failed {
            None => header_words(bytes, FrameKind::Reply, 0, 0, frame.tag),
            Some(code) => header_words(bytes, FrameKind::Failed, code as u8, executed, frame.tag),
        };
        header[CUT_WORD] = shared.store.cut_after_reads().to_le();
        self.out[start..start + header.len()].copy_from_slice(&header);
        if let Some(log) = shared.store.log() {
            let waits = record.end(Origin { client: self.client, connection: self.number, tag: frame.tag });
            self.hold(log, start, waits, AnswerKind::Verbs);
        }
        done.requests += 1;
        done.verbs += u64::from(executed);
        done.bytes_in += frame.bytes() as u64;
        done.bytes_out += bytes as u64;
        Ok(frame.bytes())
    }

    /// Handles any frame except a request; returns its length.
    fn handle_frame(&mut self, shared: &Shared, frame: &Frame<'_>) -> Result<usize, CloseReason> {
        match frame.kind {
            FrameKind::Hello if !self.greeted && self.challenged.is_none() => {
                let hello = Hello::read(frame).map_err(|greeting| match greeting {
                    GreetingError::Malformed(malformed) => CloseReason::Malformed(malformed),
                    GreetingError::Version(version) => {
                        let why = format!(
                            "it speaks version {VERSION} of the protocol, not {version}; use the same version on both \
                             sides"
                        );
                        CloseReason::Refused((Code::BadVersion, why))
                    }
                })?;
                match shared.registry.challenge(&hello).map_err(CloseReason::Refused)? {
                    None => self.admit(shared, &hello, Admission::WITHOUT_TOKEN)?,
                    Some(nonces) => {
                        let mut bytes = Vec::new();
                        put_frame(&mut bytes, FrameKind::Challenge, 0, 0, 0, &nonces.memory_node);
                        self.queue_bytes(&bytes);
                        self.challenged = Some((hello, nonces));
                    }
                }
            }
            FrameKind::Proof if self.challenged.is_some() => {
                let (hello, nonces) = self.challenged.take().expect("the guard holds");
                let admission =
                    shared.registry.prove(&nonces, &nonce_of(frame)?).map_err(CloseReason::Refused)?;
                self.admit(shared, &hello, admission)?;
            }
            FrameKind::Control if self.greeted => {
                let mut bytes = Vec::new();
                if self.access == Access::ReadWrite {
                    shared.store.enter_cut(frame.cut)?;
                }
                let handled = self.control(shared, frame)?;
                match Control::from_byte(frame.code).filter(|_| handled.is_ok()) {
                    Some(Control::Identify) => self.client = client_of(frame.words()?).ok(),
                    Some(Control::UseSnapshot) => self.snapshot = Some(frame.words()?[0]),
                    _ => {}
                }
                match handled {
                    Ok(words) => put_words(&mut bytes, FrameKind::Answer, 0, frame.tag, words),
                    Err((code, why)) => put_text(&mut bytes, FrameKind::Answer, code, frame.tag, &why),
                }
                put_cut(&mut bytes, shared.store.cut_after_reads());
                self.queue_bytes(&bytes);
            }
            kind => return Err(Malformed::UnexpectedFrame(kind).into()),
        }
        Ok(frame.bytes())
    }

    /// Welcomes an authenticated compute node.
    fn admit(&mut self, shared: &Shared, hello: &Hello, admission: Admission) -> Result<(), CloseReason> {
        let admitted = shared.registry.admit(&shared.store, &self.peer, hello, admission);
        let welcome = admitted.map_err(CloseReason::Refused)?;
        (self.greeted, self.number, self.client) = (true, hello.connection_number, hello.client);
        self.access = admission.access;
        let mut bytes = Vec::new();
        welcome.put(&mut bytes);
        self.queue_bytes(&bytes);
        Ok(())
    }

    fn queue_bytes(&mut self, bytes: &[u8]) {
        let words = bytes.chunks_exact(8);
        self.out.extend(words.map(|word| u64::read_from_bytes(word).expect("frames are made of words")));
    }

    /// Queues the last frame, behind all answers.
    fn queue_last(&mut self, bytes: &[u8]) {
        let start = self.out.len();
        self.queue_bytes(bytes);
        if self.is_held() {
            self.held.push(&mut self.out, start, LogWaits::default(), AnswerKind::Control);
        }
    }

    /// Sends the reason of a refusal, if the stream accepts it at once.
    pub(super) fn refuse(&mut self, shared: &Shared, code: Code, why: &str) {
        let mut bytes = Vec::new();
        put_text(&mut bytes, FrameKind::Refused, code, 0, why);
        self.queue_last(&bytes);
        let _ = self.flush(shared);
    }

    /// Continues the shutdown of the connection: executes what has arrived, queues a goodbye, sends it, and
    /// waits until the peer closes. Closing a stream with unread input would discard what was sent. True: it
    /// is complete.
    pub(super) fn finish(&mut self, shared: &Shared) -> bool {
        if self.drain == DrainPhase::Executing {
            let executed = self.execute_rest(shared);
            match executed {
                Ok(true) => self.queue_goodbye(),
                // The answers to executed requests are still sent.
                Err(_) => self.drain = DrainPhase::GoodbyeQueued,
                Ok(false) => {}
            }
        }
        match self.flush(shared) {
            Ok(true) => return false,
            Ok(false) => {}
            Err(_) => return true,
        }
        if self.drain == DrainPhase::GoodbyeQueued {
            self.drain = DrainPhase::Sent;
            // The peer reads to the end, and then closes.
            let _ = self.peer.stream().shutdown(Shutdown::Write);
        }
        self.drain == DrainPhase::Sent && (!self.was_busy() || self.is_closed_by_peer())
    }

    /// Returns whether the peer may still be reading answers.
    fn was_busy(&self) -> bool {
        self.requests > 0 || self.busy.is_some_and(|at| at.elapsed() < DRAIN_MAX)
    }

    fn queue_goodbye(&mut self) {
        let mut bytes = Vec::new();
        put_text(&mut bytes, FrameKind::Goodbye, Code::Stopping, 0, "the memory node was stopped");
        self.queue_last(&bytes);
        self.drain = DrainPhase::GoodbyeQueued;
    }

    /// Discards further input. True: the peer sends no more.
    fn is_closed_by_peer(&mut self) -> bool {
        for _ in 0..BATCHES_MAX {
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

/// Refuses a request of a client that may only read, before any verb of it executes, if one of them is not a READ.
fn refuse_changes(frame: &Frame<'_>) -> Result<(), CloseReason> {
    for verb in frame.verbs() {
        // The execution of the request reports a malformed verb.
        let name = verb.ok().and_then(|verb| verb.op.changes());
        if let Some(name) = name {
            return Err(CloseReason::Refused(read_only(&format!("execute a {name}"))));
        }
    }
    Ok(())
}

/// Executes a verb in a snapshot; the inner error is that of the verb.
fn in_snapshot(
    store: &Store,
    snapshot: u64,
    verb: &WireVerb<'_>,
    out: &mut Vec<u64>,
) -> Result<Result<(), Code>, CloseReason> {
    match store.execute_in_snapshot(snapshot, verb, out) {
        Ok(()) => Ok(Ok(())),
        Err(SnapshotFault::Verb(code)) => Ok(Err(code)),
        Err(SnapshotFault::Ended(code, why)) => Err(CloseReason::Refused((code, why))),
    }
}

/// Classifies an error of the stream.
fn broken(error: &io::Error) -> CloseReason {
    if error.kind() == ErrorKind::InvalidData {
        CloseReason::Untrusted(error.to_string())
    } else {
        CloseReason::PeerClosed
    }
}

#[cfg(test)]
mod tests {
    use super::super::registry::{Registry, RightTokens};
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn an_announced_length_takes_no_memory() {
        let registry = Registry::new(RightTokens::default(), 1);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = registry.add(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        let mut connection = Connection::new(peer, Cipher::default(), 0);
        connection.greeted = true;
        let announced = FRAME_BYTES_MAX as u32;
        connection.input[..4].copy_from_slice(&announced.to_le_bytes());
        connection.end = HEADER_BYTES;
        connection.make_space().unwrap();
        assert_eq!(connection.input.len(), INPUT_BYTES, "16 bytes have arrived");
        // It doubles while the frame arrives.
        while connection.end < FRAME_BYTES_MAX {
            connection.end = connection.input.len();
            connection.make_space().unwrap();
            assert!(connection.input.len() <= (2 * connection.end).min(FRAME_BYTES_MAX));
        }
        assert_eq!(connection.input.len(), FRAME_BYTES_MAX);
    }
}
