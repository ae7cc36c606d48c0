//! The client side of a connection.

use super::greeting::greet_server;
use super::input::{Budget, FrameInput};
use super::{WORDS_MAX, push_frame};
use crate::client::reply_clock::ReplyClock;
use crate::fork::{ForkCount, OwnDescriptor};
use crate::runtime::{IdlePolls, PollSource, Progress, TaskTimer, add_poll_source, is_polled_by_executor};
use crate::stream::{Token, connect};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A server sends nothing while it processes a large request. A server that sends nothing for this time is lost.
const SILENCE_MAX: Duration = Duration::from_mins(1);
/// The limit of reads in one poll, so that the executor also polls the thread's other sources.
const READS_MAX: usize = 64;

/// A connection that one thread's clients share. Requests of several clients are sent together, and the thread's
/// executor polls for all responses at once.
#[derive(Clone, Debug)]
pub struct Exchange {
    connection: Rc<SharedConnection>,
}

/// The connection, as a poll source.
#[derive(Debug)]
struct SharedConnection {
    state: RefCell<ConnectionState>,
    /// The fork count of the process that connected: a forked child must not use the socket.
    forks: ForkCount,
}

/// The state of a request.
#[derive(Debug)]
enum RequestState {
    /// No response yet; the waker of the waiting future.
    Waiting(Option<Waker>),
    /// The response has arrived.
    Answered(Vec<u64>),
    /// No response yet, and the future was dropped.
    Abandoned,
    /// The response was taken or discarded.
    Done,
}

#[derive(Debug)]
struct ConnectionState {
    stream: OwnDescriptor<TcpStream>,
    out: Vec<u8>,
    sent: usize,
    input: FrameInput,
    /// Whether the first bytes of the next response have arrived.
    has_begun: bool,
    /// Requests in order, from the first that is not complete, and the number of that request.
    requests: VecDeque<RequestState>,
    first: u64,
    /// The number of them that have been answered.
    answered: usize,
    /// Polls by waiting futures since the last response.
    idle: IdlePolls,
    /// The wakers of futures whose responses have arrived. They are woken when the state is not borrowed, because a
    /// waker can run code of its executor.
    woken: Vec<Waker>,
    clock: ReplyClock,
    /// The reason why the connection is lost.
    lost: Option<(io::ErrorKind, String)>,
}

/// A request in flight; if it is dropped before its response is taken, the response is discarded.
struct PendingRequest<'e> {
    connection: &'e SharedConnection,
    number: u64,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.connection.state.borrow_mut().abandon(self.number);
    }
}

impl Exchange {
    /// Connects. If there is a token, both sides prove that they know it, within 10 s.
    ///
    /// # Errors
    /// The error of the operating system, also if no server accepts the connection within 3 s for each address; the
    /// server does not know the token.
    pub fn open(address: impl ToSocketAddrs, token: Option<&Token>) -> io::Result<Self> {
        Self::open_for(address, token, SILENCE_MAX)
    }

    pub(super) fn open_for(
        address: impl ToSocketAddrs,
        token: Option<&Token>,
        silence_max: Duration,
    ) -> io::Result<Self> {
        let stream = connect(address)?;
        stream.set_nonblocking(true)?;
        greet_server(&stream, token)?;
        let state = ConnectionState {
            stream: OwnDescriptor::new(stream),
            out: Vec::new(),
            sent: 0,
            // The largest response, with its head.
            input: FrameInput::new(Budget::new(8 * (WORDS_MAX + 1))),
            has_begun: false,
            requests: VecDeque::new(),
            first: 0,
            answered: 0,
            idle: IdlePolls::default(),
            woken: Vec::new(),
            clock: ReplyClock::new(silence_max),
            lost: None,
        };
        let connection = Rc::new(SharedConnection { state: RefCell::new(state), forks: ForkCount::now() });
        let source: Weak<SharedConnection> = Rc::downgrade(&connection);
        add_poll_source(source);
        Ok(Self { connection })
    }

    /// Sends a request, and appends the response. A dropped call is still answered, and its response
    /// discarded.
    ///
    /// # Errors
    /// The error of the operating system. The connection is lost then.
    pub async fn call(&self, request: &[u64], response: &mut Vec<u64>) -> io::Result<()> {
        self.connection.forks.check().map_err(io::Error::other)?;
        let number = self.connection.state.borrow_mut().push(request)?;
        let _pending = PendingRequest { connection: &self.connection, number };
        let (mut was_polled, mut timer) = (false, TaskTimer::default());
        let words = poll_fn(|context| {
            // The other futures of the thread run before the first exchange.
            if std::mem::replace(&mut was_polled, true) {
                self.connection.exchange(number, context);
            }
            self.connection.poll(number, &mut timer, context)
        });
        response.extend(words.await?);
        Ok(())
    }

    /// Whether both use the same connection.
    pub fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.connection, &other.connection)
    }

    /// Whether the connection was not lost and the server has not closed it. [0 RT]
    pub fn is_open(&self) -> bool {
        let state = self.connection.state.borrow();
        let closed = || matches!(state.stream.peek(&mut [0]), Ok(0));
        state.lost.is_none() && !closed() && self.connection.forks.is_current()
    }

    /// Returns the number of incomplete requests.
    #[cfg(test)]
    pub(super) fn unfinished(&self) -> usize {
        self.connection.state.borrow().requests.len()
    }
}

impl SharedConnection {
    /// Sends and receives in a poll of a request, unless the thread's executor does so between polls.
    fn exchange(&self, number: u64, context: &Context<'_>) {
        if self.forks.is_current() && !is_polled_by_executor(context) {
            // The task runs, and need not be woken if its own exchange receives the response.
            let waker = self.state.borrow_mut().wait(number, None);
            drop(waker);
            let progress = self.advance_and_wake();
            self.state.borrow_mut().count_poll(progress);
        }
    }

    /// Sends and receives without waiting, and wakes the futures whose responses have arrived.
    fn advance_and_wake(&self) -> Progress {
        let (progress, woken) = {
            let state = &mut *self.state.borrow_mut();
            (state.advance(), std::mem::take(&mut state.woken))
        };
        woken.into_iter().for_each(Waker::wake);
        progress
    }

    /// Takes the response to a request, or waits for it: until the connection is polled by the thread's executor, or,
    /// under another executor, by another future or at the next poll, which may be after a pause.
    fn poll(&self, number: u64, timer: &mut TaskTimer, context: &Context<'_>) -> Poll<io::Result<Vec<u64>>> {
        let (replaced, pause_end) = {
            let state = &mut *self.state.borrow_mut();
            if let Some(words) = state.take(number) {
                return Poll::Ready(Ok(words));
            }
            if let Err(error) = state.check().and_then(|()| self.forks.check().map_err(io::Error::other)) {
                return Poll::Ready(Err(error));
            }
            (state.wait(number, Some(context.waker().clone())), state.idle.end_of_pause())
        };
        drop(replaced);
        if !is_polled_by_executor(context) {
            match pause_end {
                None => context.waker().wake_by_ref(),
                Some(end) => timer.wake_at(end, context),
            }
        }
        Poll::Pending
    }
}

impl PollSource for SharedConnection {
    fn advance(&self) -> Progress {
        if !self.forks.is_current() {
            return Progress::default();
        }
        self.advance_and_wake()
    }
}

impl ConnectionState {
    /// Returns the error of a lost connection.
    fn check(&self) -> io::Result<()> {
        match &self.lost {
            Some((kind, what)) => Err(io::Error::new(*kind, what.clone())),
            None => Ok(()),
        }
    }

    /// Queues a request; returns its number.
    fn push(&mut self, request: &[u64]) -> io::Result<u64> {
        self.check()?;
        let was_idle = !self.awaits_response();
        push_frame(&mut self.out, request);
        if was_idle {
            self.clock.restart(self.unsent());
            self.idle.reset();
        }
        self.requests.push_back(RequestState::Waiting(None));
        Ok(self.first + self.requests.len() as u64 - 1)
    }

    /// Returns whether a response is still to come.
    fn awaits_response(&self) -> bool {
        self.lost.is_none() && self.answered < self.requests.len()
    }

    /// Counts a poll by a waiting future.
    fn count_poll(&mut self, progress: Progress) {
        if progress.answered {
            self.idle.reset();
        } else {
            self.idle.add();
        }
    }

    /// Sends and receives without waiting.
    fn advance(&mut self) -> Progress {
        if !self.awaits_response() {
            return Progress::default();
        }
        let before = self.answered;
        let stepped = self.step();
        let mut answered = self.answered > before;
        if let Err(error) = stepped {
            self.lost = Some((error.kind(), error.to_string()));
            self.woken.extend(self.requests.iter_mut().filter_map(RequestState::take_waker));
            self.out.clear();
            self.sent = 0;
            answered = true;
        }
        self.pop_done();
        let mut open = self.requests.iter().skip(self.answered);
        Progress {
            answered,
            awaited: open.any(|request_state| matches!(request_state, RequestState::Waiting(_))),
        }
    }

    /// Returns the queued bytes that were not sent yet.
    fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    fn step(&mut self) -> io::Result<()> {
        self.send()?;
        self.receive()?;
        if self.clock.is_over() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        while self.unsent() > 0 {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        for _ in 0..READS_MAX {
            let space = self.input.space(WORDS_MAX)?;
            let wanted = space.len();
            match self.stream.read(space) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(came) => {
                    self.input.received(came);
                    self.take_responses()?;
                    if came < wanted {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Assigns the complete responses, and restarts the clock at the beginning and the end of each.
    fn take_responses(&mut self) -> io::Result<()> {
        while let Some(words) = self.input.next(WORDS_MAX)?.map(<[u64]>::to_vec) {
            self.answer(words)?;
            self.has_begun = false;
            self.clock.restart(self.unsent());
        }
        if let (Some(words), false) = (self.input.announced(WORDS_MAX)?, self.has_begun) {
            self.has_begun = true;
            self.clock.restart(self.unsent() + 8 * words);
        }
        Ok(())
    }

    /// Assigns the next response.
    fn answer(&mut self, words: Vec<u64>) -> io::Result<()> {
        let Some(request_state) = self.requests.get_mut(self.answered) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a response without a request"));
        };
        self.woken.extend(request_state.take_waker());
        *request_state = match request_state {
            RequestState::Abandoned => RequestState::Done,
            _ => RequestState::Answered(words),
        };
        self.answered += 1;
        Ok(())
    }

    fn pop_done(&mut self) {
        while matches!(self.requests.front(), Some(RequestState::Done)) {
            self.requests.pop_front();
            // After a loss, unanswered requests are complete as well.
            self.answered = self.answered.saturating_sub(1);
            self.first += 1;
        }
    }

    fn request_state(&mut self, number: u64) -> Option<&mut RequestState> {
        // A complete request may have been removed.
        let at = number.checked_sub(self.first)?;
        self.requests.get_mut(at as usize)
    }

    /// Takes the response to a request, if it has arrived.
    fn take(&mut self, number: u64) -> Option<Vec<u64>> {
        let request_state = self.request_state(number)?;
        let words = match request_state {
            RequestState::Answered(words) => std::mem::take(words),
            RequestState::Waiting(_) | RequestState::Abandoned | RequestState::Done => return None,
        };
        *request_state = RequestState::Done;
        self.pop_done();
        Some(words)
    }

    /// Sets the waker of a request. Returns the one that it replaces: a waker is dropped outside of the borrow.
    fn wait(&mut self, number: u64, waker: Option<Waker>) -> Option<Waker> {
        match self.request_state(number) {
            Some(RequestState::Waiting(waiting)) => std::mem::replace(waiting, waker),
            _ => None,
        }
    }

    /// Discards the response to a request, unless it was taken.
    fn abandon(&mut self, number: u64) {
        let is_lost = self.lost.is_some();
        let Some(request_state) = self.request_state(number) else { return };
        *request_state = match request_state {
            RequestState::Waiting(_) | RequestState::Abandoned if !is_lost => RequestState::Abandoned,
            _ => RequestState::Done,
        };
        self.pop_done();
    }
}

impl RequestState {
    fn take_waker(&mut self) -> Option<Waker> {
        match self {
            Self::Waiting(waker) => waker.take(),
            Self::Answered(_) | Self::Abandoned | Self::Done => None,
        }
    }
}
