//! One thread's connection to one memory node: it sends bytes, receives frames, and reconnects after a loss.
//!
//! Each connection is opened by a separate thread, so that clients that wait for other memory nodes continue.

use crate::client::dial::AcceptedConnection;
use crate::client::endpoints::Endpoints;
use crate::client::error::ConnectError;
use crate::client::reply_clock::ReplyClock;
use crate::client::timeouts::REPLY_MAX;
use crate::stream::Stream;
use crate::wire::{FRAME_BYTES_MAX, Frame, FrameKind, HEADER_BYTES, Malformed};
use farwood_fabric::{ClientId, NodeId};
use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// After a failed dial, the memory node counts as lost for this long without another attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Initial size of the input buffer, bytes.
const INPUT_BYTES: usize = 64 << 10;
/// Queued frames that are worth a system call before all clients of the thread have queued theirs.
const FRAMES_EARLY: usize = 16;

/// The state of a connection.
#[derive(Debug)]
enum Phase {
    /// Not connected: unused so far, or the last dial failed.
    Down(Option<(Instant, ConnectError)>),
    /// Dialling.
    Connecting(Receiver<Result<AcceptedConnection, ConnectError>>),
    /// Connected.
    Connected(Box<Stream>),
}

/// The event on a connection during a poll.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConnectionEvent {
    /// No change, or frames arrived.
    Unchanged,
    /// The connection broke, and is being dialled again: its pending frames have no answer.
    Broken,
    /// The connection is established, after a break for that reason, or for the first time.
    Connected(Option<String>),
    /// The connection could not be established.
    Failed(ConnectError),
}

/// A connection to one memory node.
#[derive(Debug)]
pub(super) struct FrameConnection {
    node: NodeId,
    phase: Phase,
    /// The reason why the connection broke, until the redial succeeds or fails.
    broken_why: Option<String>,
    pub(super) out: Vec<u8>,
    sent: usize,
    pub(super) input: Input,
    /// Frames without an answer, and those of them that were not sent yet.
    pending: usize,
    unsent: usize,
    /// Counts breaks: frames of an earlier generation have no answer.
    pub(super) generation: u64,
    clock: ReplyClock,
    /// Whether the first bytes of the next frame have arrived.
    has_begun: bool,
}

impl FrameConnection {
    /// A connection to memory node `node`, not established yet.
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            node,
            phase: Phase::Down(None),
            broken_why: None,
            out: Vec::new(),
            sent: 0,
            input: Input::default(),
            pending: 0,
            unsent: 0,
            generation: 0,
            clock: ReplyClock::new(REPLY_MAX),
            has_begun: false,
        }
    }

    /// Prepares for a frame: connects if necessary.
    pub(super) fn prepare(
        &mut self,
        endpoints: &Arc<Endpoints>,
        client: Option<ClientId>,
        number: u64,
    ) -> Result<(), ConnectError> {
        match &self.phase {
            Phase::Down(Some((since, why))) if since.elapsed() < RETRY_PAUSE => Err(why.clone()),
            Phase::Down(_) => {
                self.dial(endpoints, client, number);
                Ok(())
            }
            Phase::Connecting(_) | Phase::Connected(_) => Ok(()),
        }
    }

    /// Counts a frame that was put into `out`.
    #[inline]
    pub(super) fn frame_queued(&mut self) {
        if self.pending == 0 {
            self.restart_clock(0);
        }
        self.pending += 1;
        self.unsent += 1;
    }

    /// Sends the queued frames early if they are half of the pending ones, so that the memory node and the
    /// thread's other clients work at the same time.
    #[inline]
    pub(super) fn send_early(&mut self) {
        if self.unsent >= FRAMES_EARLY && 2 * self.unsent >= self.pending && self.sent == 0 {
            // The next poll reports an error.
            let _ = self.flush();
        }
    }

    /// Counts an answered frame. False: none was pending.
    #[inline]
    pub(super) fn answered(&mut self) -> bool {
        self.has_begun = false;
        self.restart_clock(0);
        self.pending = self.pending.wrapping_sub(1);
        self.pending != usize::MAX
    }

    fn dial(&mut self, endpoints: &Arc<Endpoints>, client: Option<ClientId>, number: u64) {
        let (sender, receiver) = channel();
        let (endpoints, node) = (Arc::clone(endpoints), self.node);
        let connect = move || {
            // The receiver may have been dropped.
            let _ = sender.send(endpoints.dial(node, client, number));
        };
        self.phase = match std::thread::Builder::new().name("farwood-dial".to_owned()).spawn(connect) {
            Ok(_) => Phase::Connecting(receiver),
            Err(error) => Phase::Down(Some((Instant::now(), ConnectError::Lost(error.to_string())))),
        };
    }

    /// Leaks the channel to a dialling thread, which a forked child does not have: dropping the channel would wait for
    /// a message that the thread was sending at the fork.
    pub(super) fn leak_dial(&mut self) {
        std::mem::forget(std::mem::replace(&mut self.phase, Phase::Down(None)));
    }

    /// Sends and receives without waiting.
    pub(super) fn advance(
        &mut self,
        endpoints: &Arc<Endpoints>,
        client: Option<ClientId>,
        number: u64,
    ) -> ConnectionEvent {
        let exchanged = match &mut self.phase {
            Phase::Down(None) => return ConnectionEvent::Unchanged,
            Phase::Down(Some((_, why))) => return ConnectionEvent::Failed(why.clone()),
            Phase::Connecting(receiver) => {
                return match receiver.try_recv() {
                    Ok(dialled) => self.dialled(dialled),
                    Err(TryRecvError::Empty) => ConnectionEvent::Unchanged,
                    Err(TryRecvError::Disconnected) => {
                        self.dialled(Err(ConnectError::Lost("the connecting thread ended".to_owned())))
                    }
                };
            }
            Phase::Connected(_) => self.exchange(),
        };
        match exchanged {
            Ok(()) => ConnectionEvent::Unchanged,
            Err(why) => {
                self.reset(why);
                self.dial(endpoints, client, number);
                ConnectionEvent::Broken
            }
        }
    }

    fn dialled(&mut self, dialled: Result<AcceptedConnection, ConnectError>) -> ConnectionEvent {
        match dialled {
            Ok(dialled) => {
                self.phase = Phase::Connected(Box::new(dialled.stream));
                self.restart_clock(0);
                // The next poll reports an error.
                let _ = self.flush();
                ConnectionEvent::Connected(self.broken_why.take())
            }
            Err(why) => {
                self.reset(String::new());
                self.broken_why = None;
                self.phase = Phase::Down(Some((Instant::now(), why.clone())));
                ConnectionEvent::Failed(why)
            }
        }
    }

    /// Discards all pending frames.
    fn reset(&mut self, why: String) {
        self.out.clear();
        self.input.clear();
        self.has_begun = false;
        (self.sent, self.pending, self.unsent, self.generation) = (0, 0, 0, self.generation + 1);
        (self.phase, self.broken_why) = (Phase::Down(None), Some(why));
    }

    fn exchange(&mut self) -> Result<(), String> {
        // A frame that is sent only now cannot have an answer yet.
        let answered = self.pending > self.unsent;
        self.flush()?;
        // A partly sent buffer may hold whole requests: read their answers, or the peer stops reading.
        if answered || self.sent > 0 { self.fill() } else { Ok(()) }
    }

    /// Sends the queued bytes, as far as the stream accepts them.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        let Phase::Connected(stream) = &mut self.phase else { return Ok(()) };
        while self.sent < self.out.len() {
            match stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err("it accepts no more bytes".to_owned()),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        self.out.clear();
        (self.sent, self.unsent) = (0, 0);
        match stream.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    /// Reads what has arrived, and checks the clock.
    fn fill(&mut self) -> Result<(), String> {
        let Phase::Connected(stream) = &mut self.phase else { return Ok(()) };
        if self.input.fill(stream)?
            && !self.has_begun
            && let Some(missing) = self.input.missing()
        {
            self.has_begun = true;
            self.restart_clock(missing);
        }
        if self.clock.is_over() {
            return Err(format!("it has not answered completely for {} s", REPLY_MAX.as_secs()));
        }
        Ok(())
    }

    /// Restarts the clock for the transfer of the queued bytes and of `more` bytes.
    #[inline]
    fn restart_clock(&mut self, more: usize) {
        self.clock.restart(self.out.len() - self.sent + more);
    }

    /// Closes the connection, and connects again.
    pub(super) fn break_off(
        &mut self,
        why: String,
        endpoints: &Arc<Endpoints>,
        client: Option<ClientId>,
        number: u64,
    ) {
        self.reset(why);
        self.dial(endpoints, client, number);
    }

    /// Returns whether there is nothing to wait for.
    pub(super) fn is_idle(&self) -> bool {
        self.pending == 0 && self.out.is_empty() && self.broken_why.is_none()
    }
}

/// Received bytes that are not decoded yet.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Reads all that is available, up to the size of the buffer. False: nothing was available.
    fn fill(&mut self, stream: &mut Stream) -> Result<bool, String> {
        let before = self.end - self.start;
        loop {
            self.make_space()?;
            let space = &mut self.bytes[self.end..];
            let needed = space.len();
            match stream.read(space) {
                Ok(0) => return Err("it closed the connection".to_owned()),
                Ok(bytes) => {
                    self.end += bytes;
                    if bytes < needed || self.end - self.start >= FRAME_BYTES_MAX {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(self.end - self.start > before);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Returns the bytes that the first frame lacks, once its header has arrived.
    fn missing(&self) -> Option<usize> {
        let received = &self.bytes[self.start..self.end];
        let missing = Frame::announced(received).saturating_sub(received.len());
        (received.len() >= HEADER_BYTES).then_some(missing)
    }

    /// Makes space for the rest of the incomplete frame.
    fn make_space(&mut self) -> Result<(), String> {
        if self.start == self.end {
            self.clear();
        }
        let announced = Frame::announced(&self.bytes[self.start..self.end]);
        if announced > FRAME_BYTES_MAX {
            return Err(Malformed::Length(announced as u32).to_string());
        }
        if self.start > 0 && (self.end == self.bytes.len() || self.start + announced > self.bytes.len()) {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let needed = announced.max(self.end + 1).max(INPUT_BYTES).next_power_of_two();
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
        Ok(())
    }

    /// Returns the next whole frame. Malformed bytes, and frames that end the connection, are errors.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Frame<'_>>, String> {
        match Frame::first(&self.bytes[self.start..self.end]) {
            Ok(Some(frame)) if matches!(frame.kind, FrameKind::Goodbye | FrameKind::Refused) => {
                Err(frame.text())
            }
            Ok(Some(frame)) => {
                self.start += frame.bytes();
                Ok(Some(frame))
            }
            Ok(None) => Ok(None),
            Err(malformed) => Err(malformed.to_string()),
        }
    }
}
