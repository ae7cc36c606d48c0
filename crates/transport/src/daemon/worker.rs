//! The threads of a memory node: each waits for its connections' streams to be ready and gives them their turns.

use super::connection::{Connection, Verdict};
use super::counters::Counters;
use super::event::NodeEvent;
use super::shared::{FAREWELL_MAX, Shared};
use crate::stream::{Cipher, ServerTls, keep_alive};
use crate::wire::{Code, Kind, put_text};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// A connection says who it is within this time, or is closed.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// The part of all connections that may be of those who have not said it yet.
const NEWCOMERS_SHARE: usize = 4;
/// How often those who have not said it yet are looked at.
const SWEEP: Duration = Duration::from_secs(1);

const WAKER: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);

/// Where a worker takes connections from, and how it is woken.
#[derive(Clone, Debug)]
pub(super) struct Door {
    streams: Sender<TcpStream>,
    waker: Arc<Waker>,
}

impl Door {
    /// Makes the worker look up.
    pub(super) fn knock(&self) {
        // It fails only where the worker is gone.
        let _ = self.waker.wake();
    }
}

/// One thread of a memory node.
pub(super) struct Worker {
    /// Among the memory node's threads.
    number: usize,
    poll: Poll,
    shared: Arc<Shared>,
    incoming: Receiver<TcpStream>,
    connections: Slab<Connection>,
    /// Those that may not have said yet who they are, the oldest first.
    newcomers: VecDeque<usize>,
    /// As many of them are kept.
    newcomers_max: usize,
    /// The first worker's.
    listener: Option<(TcpListener, Vec<Door>)>,
}

impl Worker {
    /// A worker without connections: which of the memory node's threads.
    pub(super) fn new(shared: Arc<Shared>, number: usize) -> io::Result<(Self, Door)> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (streams, incoming) = std::sync::mpsc::channel();
        let (connections, newcomers) = (Slab::new(), VecDeque::new());
        let newcomers_max =
            (shared.registry.connections_max() / NEWCOMERS_SHARE / shared.counters.len()).max(1);
        let worker =
            Self { number, poll, shared, incoming, connections, newcomers, newcomers_max, listener: None };
        Ok((worker, Door { streams, waker }))
    }

    /// Makes this the worker that accepts, for all of them.
    pub(super) fn listen(&mut self, listener: TcpListener, doors: Vec<Door>) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let fd = listener.as_raw_fd();
        self.poll.registry().register(&mut SourceFd(&fd), LISTENER, Interest::READABLE)?;
        self.listener = Some((listener, doors));
        Ok(())
    }

    /// Works until the memory node stops.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let (mut again, mut busy) = (Vec::new(), Instant::now());
        let mut swept = Instant::now();
        while !self.shared.stopping.load(SeqCst) {
            let spinning = !again.is_empty() || busy.elapsed() < self.shared.spin;
            let wait = if spinning { Some(Duration::ZERO) } else { self.sweep_in() };
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            let mut ready = std::mem::take(&mut again);
            for event in &events {
                match event.token() {
                    WAKER => self.take_in(&mut ready),
                    LISTENER => self.accept(),
                    Token(key) => {
                        if event.is_read_closed()
                            && let Some(connection) = self.connections.get_mut(key)
                        {
                            connection.ends();
                        }
                        ready.push(key);
                    }
                }
            }
            // At first it only looks: who gives way on a busy machine is not back for milliseconds.
            if ready.is_empty() && spinning && busy.elapsed() > self.shared.spin / 2 {
                std::thread::yield_now();
            }
            for key in ready {
                busy = Instant::now();
                self.turn(key, busy, &mut again);
            }
            self.limit_newcomers();
            if swept.elapsed() > SWEEP {
                swept = Instant::now();
                self.sweep();
                self.shared.registry.end_stuck();
                self.look_at_card()?;
                // Who came when there was no descriptor left is not announced again.
                self.accept();
            }
        }
        self.farewell();
        Ok(())
    }

    fn turn(&mut self, key: usize, start: Instant, again: &mut Vec<usize>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let verdict = connection.turn(&self.shared);
        let requests = connection.take_requests(start);
        if requests > 0 {
            self.counters().took(requests, start.elapsed());
        }
        match verdict {
            Verdict::Waits => {}
            Verdict::Again => again.push(key),
            Verdict::Over => self.close(key),
        }
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters[self.number]
    }

    fn close(&mut self, key: usize) {
        let connection = self.connections.remove(key);
        // Its number may soon be another's.
        self.newcomers.retain(|&newcomer| newcomer != key);
        let fd = connection.peer().stream().as_raw_fd();
        // A stream that is dropped leaves the poll by itself.
        let _ = self.poll.registry().deregister(&mut SourceFd(&fd));
        if let Err(why) = self.shared.registry.leave(connection.peer()) {
            self.shared.tell(|| NodeEvent::Card(why));
        }
    }

    /// When somebody has to be looked at who has not said who it is, or who could not be accepted.
    fn sweep_in(&self) -> Option<Duration> {
        (self.listener.is_some() || !self.newcomers.is_empty()).then_some(SWEEP)
    }

    /// A memory node whose card does not work is none.
    fn look_at_card(&self) -> io::Result<()> {
        let failed = self.shared.card.as_ref().and_then(|card| card.failed());
        failed.map_or(Ok(()), |why| {
            self.shared.tell(|| NodeEvent::Card(why.clone()));
            Err(io::Error::other(format!("the card failed: {why}")))
        })
    }

    fn sweep(&mut self) {
        while let Some(&key) = self.newcomers.front() {
            match self.connections[key].waiting_since() {
                None => drop(self.newcomers.pop_front()),
                Some(since) if since.elapsed() > GREETING_MAX => {
                    let seconds = GREETING_MAX.as_secs();
                    let why = format!("it did not say who it is within {seconds} s");
                    self.show_out(key, Code::Malformed, &why);
                }
                // The others came later.
                Some(_) => break,
            }
        }
    }

    /// Closes the connection of one who has not said who it is.
    fn show_out(&mut self, key: usize, code: Code, why: &str) {
        self.counters().refused();
        let connection = &mut self.connections[key];
        let from = connection.peer().stream().peer_addr().ok();
        if self.shared.tls.is_none() {
            connection.refuse(code, why);
        }
        self.shared.tell(|| NodeEvent::Refused { from, code, why: why.to_owned() });
        self.close(key);
    }

    /// Accepts, and hands connections to the workers in turn.
    fn accept(&mut self) {
        let Some((listener, doors)) = &self.listener else { return };
        // Until there is none. What a caller did wrong, or a limit on descriptors, ends neither node nor listener.
        while let Ok((stream, _)) = listener.accept() {
            self.counters().accepted();
            let door = &doors[self.shared.next_worker.fetch_add(1, Relaxed) % doors.len()];
            if door.streams.send(stream).is_ok() {
                door.knock();
            }
        }
    }

    /// Takes in the connections that were handed over.
    fn take_in(&mut self, ready: &mut Vec<usize>) {
        while let Ok(stream) = self.incoming.try_recv() {
            if prepare(&stream).is_err() {
                continue;
            }
            let peer = match self.shared.registry.arrive(stream) {
                Ok(peer) => peer,
                Err(stream) => {
                    self.turn_away(stream);
                    continue;
                }
            };
            let Ok(cipher) = self.shared.tls.as_ref().map_or(Ok(Cipher::default()), ServerTls::cipher) else {
                // It has no queue pair yet.
                let _ = self.shared.registry.leave(&peer);
                continue;
            };
            let entry = self.connections.vacant_entry();
            let (key, fd) = (entry.key(), peer.stream().as_raw_fd());
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut SourceFd(&fd), Token(key), interest).is_err() {
                // It has no queue pair yet.
                let _ = self.shared.registry.leave(&peer);
                continue;
            }
            entry.insert(Connection::new(peer, cipher, self.number));
            self.newcomers.push_back(key);
            ready.push(key);
        }
    }

    /// Who says nothing takes no place from those who do: of too many the oldest goes.
    fn limit_newcomers(&mut self) {
        if self.newcomers.len() <= self.newcomers_max {
            return;
        }
        let connections = &self.connections;
        self.newcomers.retain(|&key| connections[key].waiting_since().is_some());
        while self.newcomers.len() > self.newcomers_max {
            let why = "too many others came before it said who it is";
            self.show_out(self.newcomers[0], Code::Crowded, why);
        }
    }

    /// There are as many connections as may be.
    fn turn_away(&self, mut stream: TcpStream) {
        let why = "it has as many connections as it takes";
        self.counters().refused();
        let from = stream.peer_addr().ok();
        self.shared.tell(|| NodeEvent::Refused { from, code: Code::Crowded, why: why.to_owned() });
        if self.shared.tls.is_none() {
            let mut words = Vec::new();
            put_text(&mut words, Kind::Refused, Code::Crowded, 0, why);
            // It goes at once, or the other side does without.
            let _ = stream.write(&words);
        }
    }

    /// Finishes what was accepted, tells everybody, and waits a little until it was taken.
    fn farewell(&mut self) {
        let mut left: Vec<_> = self.connections.iter_mut().map(|(_, connection)| connection).collect();
        let end = Instant::now() + FAREWELL_MAX;
        loop {
            left.retain_mut(|connection| !connection.finish(&self.shared));
            if left.is_empty() || Instant::now() > end {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        for connection in self.connections.drain() {
            // What the card does not end ends with its registrations.
            let _ = self.shared.registry.leave(connection.peer());
        }
    }
}

/// Small answers leave at once; and who is silent for too long is gone.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    keep_alive(stream)
}
