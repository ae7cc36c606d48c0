//! The threads of a memory node: each waits until streams of its connections are ready, and serves them.

use super::connection::{Connection, TurnOutcome};
use super::counters::Counters;
use super::event::NodeEvent;
use super::log::Log;
use super::shared::{DRAIN_MAX, Shared};
use super::sync_timing::SyncTiming;
use crate::stream::{Cipher, ServerTls, is_out_of_descriptors, keep_alive};
use crate::wire::{Code, FrameKind, put_text};
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

/// A connection that is not authenticated within this time is closed.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// The share of all connections that may be unauthenticated, as a divisor.
const UNAUTHENTICATED_SHARE: usize = 4;
/// The interval between checks of unauthenticated connections.
const SWEEP: Duration = Duration::from_secs(1);

const WAKER: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);

/// The handle of a worker: its channel for new connections, and its waker.
#[derive(Clone, Debug)]
pub(super) struct WorkerHandle {
    streams: Sender<TcpStream>,
    waker: Arc<Waker>,
}

impl WorkerHandle {
    /// Wakes the worker.
    pub(super) fn wake(&self) {
        // It fails only if the worker has ended.
        let _ = self.waker.wake();
    }
}

/// One thread of a memory node.
pub(super) struct Worker {
    /// The number of the worker.
    number: usize,
    poll: Poll,
    shared: Arc<Shared>,
    incoming: Receiver<TcpStream>,
    connections: Slab<Connection>,
    /// Connections that may be unauthenticated, the oldest first.
    unauthenticated: VecDeque<usize>,
    /// The limit of unauthenticated connections.
    unauthenticated_max: usize,
    /// Connections with answers that waited for the log when they were served last.
    held: Vec<usize>,
    sync_timing: SyncTiming,
    /// The listener, of the first worker only.
    listener: Option<(TcpListener, Vec<WorkerHandle>)>,
}

impl Worker {
    /// Creates worker `number`, without connections.
    pub(super) fn new(shared: Arc<Shared>, number: usize) -> io::Result<(Self, WorkerHandle)> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let (streams, incoming) = std::sync::mpsc::channel();
        let (connections, unauthenticated) = (Slab::new(), VecDeque::new());
        let unauthenticated_max =
            (shared.registry.connections_max() / UNAUTHENTICATED_SHARE / shared.counters.len()).max(1);
        let worker = Self {
            number,
            poll,
            shared,
            incoming,
            connections,
            unauthenticated,
            unauthenticated_max,
            held: Vec::new(),
            sync_timing: SyncTiming::default(),
            listener: None,
        };
        Ok((worker, WorkerHandle { streams, waker }))
    }

    /// Makes this the worker that accepts connections for all.
    pub(super) fn listen(&mut self, listener: TcpListener, handles: Vec<WorkerHandle>) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let fd = listener.as_raw_fd();
        self.poll.registry().register(&mut SourceFd(&fd), LISTENER, Interest::READABLE)?;
        self.listener = Some((listener, handles));
        Ok(())
    }

    /// Runs until the memory node stops.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let (mut again, mut busy) = (Vec::new(), Instant::now());
        let mut swept = Instant::now();
        while !self.shared.stopping.load(SeqCst) {
            let spinning =
                !again.is_empty() || self.sync_timing.is_waiting() || busy.elapsed() < self.shared.spin;
            let wait = if spinning { Some(Duration::ZERO) } else { self.sweep_in() };
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            let mut ready = std::mem::take(&mut again);
            for event in &events {
                match event.token() {
                    WAKER => {
                        self.adopt_streams(&mut ready);
                        self.take_held(&mut ready);
                    }
                    LISTENER => self.accept(),
                    Token(key) => {
                        if event.is_read_closed()
                            && let Some(connection) = self.connections.get_mut(key)
                        {
                            connection.peer_closed();
                        }
                        ready.push(key);
                    }
                }
            }
            // The thread first polls without yielding, because on a busy machine a thread that yields is not scheduled
            // again for milliseconds.
            if ready.is_empty() && spinning && busy.elapsed() > self.shared.spin / 2 {
                std::thread::yield_now();
            }
            for key in ready {
                busy = Instant::now();
                self.turn(key, busy, &mut again);
            }
            if self.held.is_empty() {
                self.sync_timing.cancel();
            } else if self.shared.store.log().is_some_and(|log| self.sync_timing.begin_sync(log)) {
                self.take_held(&mut again);
            }
            self.limit_unauthenticated();
            if swept.elapsed() > SWEEP {
                swept = Instant::now();
                self.sweep();
                self.shared.registry.end_stuck();
                self.check_executor()?;
                self.shared.store.check_file()?;
                // A connection that arrived without a free descriptor is not announced again.
                self.accept();
            }
        }
        self.drain();
        Ok(())
    }

    /// Moves the connections with answers that waited for the log to `ready`.
    fn take_held(&mut self, ready: &mut Vec<usize>) {
        ready.append(&mut self.held);
        ready.sort_unstable();
        ready.dedup();
    }

    fn turn(&mut self, key: usize, start: Instant, again: &mut Vec<usize>) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let outcome = connection.turn(&self.shared);
        let (requests, is_held) = (connection.take_requests(start), connection.is_held());
        self.sync_timing.count(connection.take_held_count());
        if requests > 0 {
            self.counters().took(requests, start.elapsed());
        }
        if is_held {
            self.held.push(key);
        }
        match outcome {
            TurnOutcome::Blocked => {}
            TurnOutcome::Ready => again.push(key),
            TurnOutcome::Closed => self.close(key),
        }
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters[self.number]
    }

    fn close(&mut self, key: usize) {
        let connection = self.connections.remove(key);
        // Its key may soon belong to another connection.
        self.unauthenticated.retain(|&pending| pending != key);
        self.held.retain(|&held| held != key);
        let fd = connection.peer().stream().as_raw_fd();
        // The operating system removes a dropped stream from the poll.
        let _ = self.poll.registry().deregister(&mut SourceFd(&fd));
        if let Err(why) = self.shared.registry.remove(connection.peer()) {
            self.shared.log(|| NodeEvent::Card(why));
        }
        self.shared.store.snapshots().end_of(connection.peer().number());
        self.shared.log_snapshot_end();
    }

    /// Returns the time until the next check of unauthenticated or unaccepted connections.
    fn sweep_in(&self) -> Option<Duration> {
        (self.listener.is_some() || !self.unauthenticated.is_empty()).then_some(SWEEP)
    }

    /// Fails if the device has failed.
    fn check_executor(&self) -> io::Result<()> {
        let failed = self.shared.executor.as_ref().and_then(|executor| executor.failed());
        failed.map_or(Ok(()), |why| {
            self.shared.log(|| NodeEvent::Card(why.clone()));
            Err(io::Error::other(format!("the RDMA device failed: {why}")))
        })
    }

    fn sweep(&mut self) {
        self.shared.log_sums(Instant::now());
        self.shared.log_lost(Instant::now());
        self.shared.log_snapshot_end();
        self.send_delayed_refusals();
        while let Some(&key) = self.unauthenticated.front() {
            match self.connections[key].waiting_since() {
                None => drop(self.unauthenticated.pop_front()),
                Some(since) if since.elapsed() > GREETING_MAX => {
                    let seconds = GREETING_MAX.as_secs();
                    let why = format!("it sent no hello within {seconds} s");
                    self.reject(key, Code::Malformed, &why);
                }
                // The other connections arrived later.
                Some(_) => break,
            }
        }
    }

    /// Refuses the connections whose refusal was delayed, and closes them.
    fn send_delayed_refusals(&mut self) {
        let delayed = |key: &usize| Some((*key, self.connections[*key].take_delayed()?));
        let delayed: Vec<_> = self.unauthenticated.iter().filter_map(delayed).collect();
        for (key, (code, why)) in delayed {
            self.connections[key].refuse(&self.shared, code, &why);
            self.close(key);
        }
    }

    /// Closes an unauthenticated connection.
    fn reject(&mut self, key: usize, code: Code, why: &str) {
        self.counters().refused();
        let connection = &mut self.connections[key];
        let from = connection.peer().stream().peer_addr().ok();
        if self.shared.tls.is_none() {
            connection.refuse(&self.shared, code, why);
        }
        self.shared.log_refusal(from, code, why.to_owned());
        self.close(key);
    }

    /// Accepts connections, and distributes them round robin.
    fn accept(&mut self) {
        let Some((listener, handles)) = self.listener.take() else { return };
        // Accepts until no connection waits. Neither an error of a peer nor the limit of descriptors ends the node or
        // its listener.
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    self.counters().accepted();
                    let handle = &handles[self.shared.next_worker.fetch_add(1, Relaxed) % handles.len()];
                    if handle.streams.send(stream).is_ok() {
                        handle.wake();
                    }
                }
                Err(error) if is_out_of_descriptors(&error) && self.evict_unauthenticated() => {}
                Err(_) => break,
            }
        }
        self.listener = Some((listener, handles));
    }

    /// Closes the oldest unauthenticated connection of this worker, if there is one.
    fn evict_unauthenticated(&mut self) -> bool {
        self.forget_authenticated();
        self.reject_oldest()
    }

    /// Removes the connections that were authenticated since from the list of unauthenticated ones.
    fn forget_authenticated(&mut self) {
        let connections = &self.connections;
        self.unauthenticated.retain(|&key| connections[key].waiting_since().is_some());
    }

    /// Closes the first connection of the list of unauthenticated ones, if there is one.
    fn reject_oldest(&mut self) -> bool {
        let Some(&oldest) = self.unauthenticated.front() else { return false };
        self.reject(oldest, Code::TooManyConnections, "too many others connected before it sent a hello");
        true
    }

    /// Adopts the connections that the accepting worker sent.
    fn adopt_streams(&mut self, ready: &mut Vec<usize>) {
        while let Ok(stream) = self.incoming.try_recv() {
            if prepare(&stream).is_err() {
                continue;
            }
            let peer = match self.shared.registry.add(stream) {
                Ok(peer) => peer,
                Err(stream) => {
                    self.reject_excess(stream);
                    continue;
                }
            };
            let Ok(cipher) = self.shared.tls.as_ref().map_or(Ok(Cipher::default()), ServerTls::cipher) else {
                // The connection has no queue pair yet.
                let _ = self.shared.registry.remove(&peer);
                continue;
            };
            let entry = self.connections.vacant_entry();
            let (key, fd) = (entry.key(), peer.stream().as_raw_fd());
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut SourceFd(&fd), Token(key), interest).is_err() {
                // The connection has no queue pair yet.
                let _ = self.shared.registry.remove(&peer);
                continue;
            }
            entry.insert(Connection::new(peer, cipher, self.number));
            self.unauthenticated.push_back(key);
            ready.push(key);
        }
    }

    /// Closes the oldest of too many unauthenticated connections, so that they do not take the slots of
    /// others.
    fn limit_unauthenticated(&mut self) {
        if self.unauthenticated.len() > self.unauthenticated_max {
            self.forget_authenticated();
        }
        while self.unauthenticated.len() > self.unauthenticated_max && self.reject_oldest() {}
    }

    /// Refuses a connection beyond the limit.
    fn reject_excess(&self, mut stream: TcpStream) {
        let why = "its limit of connections is reached";
        self.counters().refused();
        let from = stream.peer_addr().ok();
        self.shared.log_refusal(from, Code::TooManyConnections, why.to_owned());
        if self.shared.tls.is_none() {
            let mut words = Vec::new();
            put_text(&mut words, FrameKind::Refused, Code::TooManyConnections, 0, why);
            // The refusal is sent at once, or not at all.
            let _ = stream.write(&words);
        }
    }

    /// Finishes received requests, sends goodbye to all peers, and waits until they have read it.
    fn drain(&mut self) {
        self.shared.log_sums(Instant::now() + SWEEP);
        let mut left: Vec<_> = self.connections.iter_mut().map(|(_, connection)| connection).collect();
        let end = Instant::now() + DRAIN_MAX;
        loop {
            left.retain_mut(|connection| !connection.finish(&self.shared));
            if left.is_empty() || Instant::now() > end {
                break;
            }
            self.shared.store.log().map(Log::begin_sync);
            std::thread::sleep(Duration::from_millis(1));
        }
        for connection in self.connections.drain() {
            // A queue pair that the device cannot end is ended by releasing its registrations.
            let _ = self.shared.registry.remove(connection.peer());
        }
    }
}

/// Disables batching of small answers, and enables the detection of silent peers.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    keep_alive(stream)
}
