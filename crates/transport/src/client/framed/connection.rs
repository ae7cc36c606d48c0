//! One thread's connection to one memory node: bytes out, frames in, and coming back after a loss.
//!
//! A link is dialled in a thread of its own, so that whoever waits for other memory nodes goes on meanwhile.

use crate::client::dial::Dialled;
use crate::client::endpoints::Reach;
use crate::client::error::NoWay;
use crate::client::timeouts::REPLY_MAX;
use crate::stream::Stream;
use crate::wire::{FRAME_BYTES_MAX, Frame, Kind, Malformed};
use farwood_fabric::{ClientId, NodeId};
use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// After a failed dial, the memory node counts as lost for this long without another.
const REST: Duration = Duration::from_millis(50);
/// Room for what arrives, at first.
const INPUT_BYTES: usize = 64 << 10;
/// Frames that are worth a system call before all clients of the thread have put theirs.
const FRAMES_EARLY: usize = 16;
/// Turns without news after which the clock is looked at.
const QUIET_TURNS: u32 = 64;

/// Where a link stands.
#[derive(Debug)]
enum Phase {
    /// Not connected; nobody has asked, or the last dial failed.
    Down(Option<(Instant, NoWay)>),
    /// Being dialled.
    Dialling(Receiver<Result<Dialled, NoWay>>),
    /// Connected.
    Up(Box<Stream>),
}

/// What happened to a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing, or frames arrived.
    Fine,
    /// The connection broke, and is being dialled again: what was asked over it has no answer.
    Broke,
    /// It is up, after a break for that reason, or for the first time.
    Up(Option<String>),
    /// It cannot be had.
    NoWay(NoWay),
}

/// A connection to one memory node.
#[derive(Debug)]
pub(super) struct Link {
    node: NodeId,
    phase: Phase,
    /// Why the connection broke, until it is known whether it can be had again.
    broke: Option<String>,
    pub(super) out: Vec<u8>,
    sent: usize,
    pub(super) input: Input,
    /// Frames without an answer, and those of them that have not left.
    asked: usize,
    unsent: usize,
    /// Counts breaks: frames of an earlier era have no answer any more.
    pub(super) era: u64,
    heard: Instant,
    quiet: u32,
}

impl Link {
    /// A link to memory node `node`, not connected yet.
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            node,
            phase: Phase::Down(None),
            broke: None,
            out: Vec::new(),
            sent: 0,
            input: Input::default(),
            asked: 0,
            unsent: 0,
            era: 0,
            heard: Instant::now(),
            quiet: 0,
        }
    }

    /// Gets ready to take a frame: connects if need be.
    pub(super) fn prepare(
        &mut self,
        reach: &Arc<Reach>,
        client: Option<ClientId>,
        line: u64,
    ) -> Result<(), NoWay> {
        match &self.phase {
            Phase::Down(Some((since, why))) if since.elapsed() < REST => Err(why.clone()),
            Phase::Down(_) => {
                self.dial(reach, client, line);
                Ok(())
            }
            Phase::Dialling(_) | Phase::Up(_) => Ok(()),
        }
    }

    /// Notes that a frame was put into `out`.
    #[inline]
    pub(super) fn asks(&mut self) {
        if self.asked == 0 {
            self.quiet = 0;
        }
        self.asked += 1;
        self.unsent += 1;
    }

    /// Sends what waits where that is half of what is under way: so the memory node has something to do while the
    /// thread's other clients go on, and they while it does.
    #[inline]
    pub(super) fn send_early(&mut self) {
        if self.unsent >= FRAMES_EARLY && 2 * self.unsent >= self.asked && self.sent == 0 {
            // What goes wrong shows at the next turn.
            let _ = self.flush();
        }
    }

    /// Notes that a frame was answered. False: none was asked.
    #[inline]
    pub(super) fn answered(&mut self) -> bool {
        self.asked = self.asked.wrapping_sub(1);
        self.asked != usize::MAX
    }

    fn dial(&mut self, reach: &Arc<Reach>, client: Option<ClientId>, line: u64) {
        let (sender, receiver) = channel();
        let (reach, node) = (Arc::clone(reach), self.node);
        let job = move || {
            let dialled = reach.dial(node, client, line).and_then(|dialled| {
                dialled.stream.tcp.set_nonblocking(true).map_err(|error| NoWay::Lost(error.to_string()))?;
                Ok(dialled)
            });
            // Nobody may wait for it any more.
            let _ = sender.send(dialled);
        };
        self.phase = match std::thread::Builder::new().name("farwood-dial".to_owned()).spawn(job) {
            Ok(_) => Phase::Dialling(receiver),
            Err(error) => Phase::Down(Some((Instant::now(), NoWay::Lost(error.to_string())))),
        };
    }

    /// Sends and receives what can be, without waiting.
    pub(super) fn turn(&mut self, reach: &Arc<Reach>, client: Option<ClientId>, line: u64) -> News {
        let exchanged = match &mut self.phase {
            Phase::Down(None) => return News::Fine,
            Phase::Down(Some((_, why))) => return News::NoWay(why.clone()),
            Phase::Dialling(receiver) => {
                return match receiver.try_recv() {
                    Ok(dialled) => self.dialled(dialled),
                    Err(TryRecvError::Empty) => News::Fine,
                    Err(TryRecvError::Disconnected) => {
                        self.dialled(Err(NoWay::Lost("the thread that connects is gone".to_owned())))
                    }
                };
            }
            Phase::Up(_) => self.exchange(),
        };
        match exchanged {
            Ok(()) => News::Fine,
            Err(why) => {
                self.give_up(why);
                self.dial(reach, client, line);
                News::Broke
            }
        }
    }

    fn dialled(&mut self, dialled: Result<Dialled, NoWay>) -> News {
        match dialled {
            Ok(dialled) => {
                self.phase = Phase::Up(Box::new(dialled.stream));
                self.quiet = 0;
                // What goes wrong shows at the next turn.
                let _ = self.flush();
                News::Up(self.broke.take())
            }
            Err(why) => {
                self.give_up(String::new());
                self.broke = None;
                self.phase = Phase::Down(Some((Instant::now(), why.clone())));
                News::NoWay(why)
            }
        }
    }

    /// What was on its way is lost.
    fn give_up(&mut self, why: String) {
        self.out.clear();
        self.input.clear();
        (self.sent, self.asked, self.unsent, self.era) = (0, 0, 0, self.era + 1);
        (self.phase, self.broke) = (Phase::Down(None), Some(why));
    }

    fn exchange(&mut self) -> Result<(), String> {
        // Nothing can have been answered that leaves only now.
        let answered = self.asked > self.unsent;
        self.flush()?;
        // What has left in part may hold whole requests: their answers are taken, or the other side stops to read.
        if answered || self.sent > 0 { self.fill() } else { Ok(()) }
    }

    /// Sends what waits, as far as the stream takes it.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        let Phase::Up(stream) = &mut self.phase else { return Ok(()) };
        while self.sent < self.out.len() {
            match stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err("it takes nothing more".to_owned()),
                Ok(bytes) => {
                    if self.sent > 0 {
                        // What was stuck moves: a slow network is not a lost memory node.
                        self.quiet = 0;
                    }
                    self.sent += bytes;
                }
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

    /// Reads what has arrived; tells time now and then if nothing has.
    fn fill(&mut self) -> Result<(), String> {
        let Phase::Up(stream) = &mut self.phase else { return Ok(()) };
        if self.input.fill(stream)? {
            self.quiet = 0;
            return Ok(());
        }
        self.quiet += 1;
        if self.quiet == 1 {
            self.heard = Instant::now();
        }
        if self.quiet.is_multiple_of(QUIET_TURNS) && self.heard.elapsed() > REPLY_MAX {
            return Err(format!("it has not answered for {} s", REPLY_MAX.as_secs()));
        }
        Ok(())
    }

    /// Breaks the link, and dials again.
    pub(super) fn break_off(&mut self, why: String, reach: &Arc<Reach>, client: Option<ClientId>, line: u64) {
        self.give_up(why);
        self.dial(reach, client, line);
    }

    /// Whether there is anything to wait for.
    pub(super) fn is_idle(&self) -> bool {
        self.asked == 0 && self.out.is_empty() && self.broke.is_none()
    }
}

/// What has arrived and was not looked at.
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

    /// Reads as much as there is, or as there is room for. False: there was nothing.
    fn fill(&mut self, stream: &mut Stream) -> Result<bool, String> {
        let before = self.end - self.start;
        loop {
            self.make_room()?;
            let room = &mut self.bytes[self.end..];
            let wanted = room.len();
            match stream.read(room) {
                Ok(0) => return Err("it closed the connection".to_owned()),
                Ok(bytes) => {
                    self.end += bytes;
                    if bytes < wanted || self.end - self.start >= FRAME_BYTES_MAX {
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

    /// Makes room for the rest of the frame that has begun.
    fn make_room(&mut self) -> Result<(), String> {
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
        let wanted = announced.max(self.end + 1).max(INPUT_BYTES).next_power_of_two();
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        Ok(())
    }

    /// The next frame, if it has arrived as a whole. What is none, or ends the connection, is an error.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Frame<'_>>, String> {
        match Frame::first(&self.bytes[self.start..self.end]) {
            Ok(Some(frame)) if matches!(frame.kind, Kind::Goodbye | Kind::Refused) => Err(frame.text()),
            Ok(Some(frame)) => {
                self.start += frame.bytes();
                Ok(Some(frame))
            }
            Ok(None) => Ok(None),
            Err(malformed) => Err(malformed.to_string()),
        }
    }
}
