//! The client's end of a connection.

use super::{READ_BYTES, WORDS_MAX, frame_of, push_frame, token_words};
use crate::runtime::{Crank, Turned, add_crank, is_turning};
use crate::stream::{Token, connect};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs};
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A server that works on a large request says nothing meanwhile; one that is silent for this long is lost.
const SILENCE_MAX: Duration = Duration::from_mins(1);
/// Looks without news after which the clock is looked at.
const QUIET_LOOKS: u32 = 64;

/// A connection that one thread's clients share. What several of them send before one waits goes out together, and the
/// thread's executor looks for what comes, once for all.
#[derive(Clone, Debug)]
pub struct Exchange {
    line: Rc<Line>,
}

/// The connection, and what is turned.
#[derive(Debug)]
struct Line {
    state: RefCell<State>,
}

/// What became of a request.
#[derive(Debug)]
enum Place {
    /// Its response has not come; who is to be woken then.
    Waiting(Option<Waker>),
    /// Its response has come.
    Answered(Vec<u64>),
    /// Its response has not come, and nobody wants it any more.
    Unwanted,
    /// Nothing is left to be done.
    Settled,
}

#[derive(Debug)]
struct State {
    stream: TcpStream,
    out: Vec<u8>,
    incoming: Vec<u8>,
    /// Where reads land.
    room: Box<[u8]>,
    /// Requests in their order, from the first that is not settled on, and the number of that one.
    places: VecDeque<Place>,
    first: u64,
    /// How many of them have been answered.
    answered: usize,
    /// Looks without news, and when the first of them was.
    quiet: u32,
    heard: Instant,
    silence_max: Duration,
    /// Why the connection is no good any more.
    lost: Option<(io::ErrorKind, String)>,
}

/// A request on its way; dropped before its response was taken, that is not wanted any more.
struct Asked<'e> {
    line: &'e Line,
    number: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.line.state.borrow_mut().forget(self.number);
    }
}

impl Exchange {
    /// Connects.
    ///
    /// # Errors
    /// The system's; where nobody takes the connection, within 3 s for each address.
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
        let mut out = Vec::new();
        push_frame(&mut out, &token_words(token));
        let state = State {
            stream,
            out,
            incoming: Vec::new(),
            room: vec![0; READ_BYTES].into_boxed_slice(),
            places: VecDeque::new(),
            first: 0,
            answered: 0,
            quiet: 0,
            heard: Instant::now(),
            silence_max,
            lost: None,
        };
        let line = Rc::new(Line { state: RefCell::new(state) });
        let crank: Weak<Line> = Rc::downgrade(&line);
        add_crank(crank);
        Ok(Self { line })
    }

    /// Sends a request, and appends the response. A call that is dropped is answered all the same, and its response
    /// thrown away.
    ///
    /// # Errors
    /// The system's; the connection is no good any more.
    pub async fn call(&self, request: &[u64], response: &mut Vec<u64>) -> io::Result<()> {
        let number = self.line.state.borrow_mut().push(request)?;
        let _asked = Asked { line: &self.line, number };
        let mut was_polled = false;
        let words = poll_fn(|context| {
            // The others of the thread have their turn before the first look.
            let looks = std::mem::replace(&mut was_polled, true);
            self.line.poll(number, looks, context)
        });
        response.extend(words.await?);
        Ok(())
    }

    /// Requests that are not settled.
    #[cfg(test)]
    pub(super) fn unsettled(&self) -> usize {
        self.line.state.borrow().places.len()
    }
}

impl Line {
    /// Takes the response to a request, or waits for it: until the thread's executor has turned this line, or, where it
    /// does not do that, until the next look.
    fn poll(&self, number: u64, looks: bool, context: &Context<'_>) -> Poll<io::Result<Vec<u64>>> {
        let state = &mut *self.state.borrow_mut();
        let is_turned = is_turning(context);
        if looks && !is_turned {
            state.turn();
        }
        if let Some(words) = state.take(number) {
            return Poll::Ready(Ok(words));
        }
        if let Err(error) = state.check() {
            return Poll::Ready(Err(error));
        }
        if is_turned {
            state.wait(number, context.waker());
        } else {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Crank for Line {
    fn crank(&self) -> Turned {
        self.state.borrow_mut().turn()
    }
}

impl State {
    /// Why the connection is no good any more, if it is not.
    fn check(&self) -> io::Result<()> {
        match &self.lost {
            Some((kind, what)) => Err(io::Error::new(*kind, what.clone())),
            None => Ok(()),
        }
    }

    /// Puts a request into what goes out next; yields its number.
    fn push(&mut self, request: &[u64]) -> io::Result<u64> {
        self.check()?;
        if !self.is_owed() {
            // Nothing was asked: it had nothing to say.
            self.quiet = 0;
        }
        push_frame(&mut self.out, request);
        self.places.push_back(Place::Waiting(None));
        Ok(self.first + self.places.len() as u64 - 1)
    }

    /// Whether a response is still to come.
    fn is_owed(&self) -> bool {
        self.lost.is_none() && self.answered < self.places.len()
    }

    /// Sends what can be sent, takes what has come, and wakes those for whom it is.
    fn turn(&mut self) -> Turned {
        if !self.is_owed() {
            return Turned::default();
        }
        let before = self.answered;
        let stepped = self.step();
        let mut answered = self.answered > before;
        if let Err(error) = stepped {
            self.lost = Some((error.kind(), error.to_string()));
            self.places.iter_mut().for_each(Place::wake);
            self.out.clear();
            answered = true;
        }
        self.pass_settled();
        let mut open = self.places.iter().skip(self.answered);
        Turned { answered, waited_for: open.any(|place| matches!(place, Place::Waiting(_))) }
    }

    fn step(&mut self) -> io::Result<()> {
        self.quiet = self.quiet.saturating_add(1);
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    self.out.drain(..sent);
                    self.quiet = 0;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        loop {
            match self.stream.read(&mut self.room) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(came) => {
                    self.incoming.extend(&self.room[..came]);
                    self.quiet = 0;
                    if came < self.room.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let mut at = 0;
        while let Some((words, bytes)) = frame_of(&self.incoming[at..], WORDS_MAX)? {
            self.answer(words)?;
            at += bytes;
        }
        self.incoming.drain(..at);
        self.check_silence()
    }

    /// The next response has come.
    fn answer(&mut self, words: Vec<u64>) -> io::Result<()> {
        let Some(place) = self.places.get_mut(self.answered) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a response that nobody asked for"));
        };
        place.wake();
        *place = match place {
            Place::Unwanted => Place::Settled,
            _ => Place::Answered(words),
        };
        self.answered += 1;
        Ok(())
    }

    /// Tells time now and then while nothing comes.
    fn check_silence(&mut self) -> io::Result<()> {
        if self.quiet == 1 {
            self.heard = Instant::now();
        }
        if self.quiet > 0 && self.quiet.is_multiple_of(QUIET_LOOKS) && self.heard.elapsed() > self.silence_max
        {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    fn pass_settled(&mut self) {
        while matches!(self.places.front(), Some(Place::Settled)) {
            self.places.pop_front();
            // Where the connection is lost, what was never answered is settled, too.
            self.answered = self.answered.saturating_sub(1);
            self.first += 1;
        }
    }

    fn place(&mut self, number: u64) -> Option<&mut Place> {
        // One that is settled may have been passed.
        let at = number.checked_sub(self.first)?;
        self.places.get_mut(at as usize)
    }

    /// The response to a request, if it has come.
    fn take(&mut self, number: u64) -> Option<Vec<u64>> {
        let place = self.place(number)?;
        let words = match place {
            Place::Answered(words) => std::mem::take(words),
            Place::Waiting(_) | Place::Unwanted | Place::Settled => return None,
        };
        *place = Place::Settled;
        self.pass_settled();
        Some(words)
    }

    fn wait(&mut self, number: u64, waker: &Waker) {
        if let Some(Place::Waiting(waiting)) = self.place(number) {
            *waiting = Some(waker.clone());
        }
    }

    /// The response to a request is not wanted any more, if it was not taken.
    fn forget(&mut self, number: u64) {
        let is_lost = self.lost.is_some();
        let Some(place) = self.place(number) else { return };
        *place = match place {
            Place::Waiting(_) | Place::Unwanted if !is_lost => Place::Unwanted,
            _ => Place::Settled,
        };
        self.pass_settled();
    }
}

impl Place {
    fn wake(&mut self) {
        if let Self::Waiting(waker) = self
            && let Some(waker) = waker.take()
        {
            waker.wake();
        }
    }
}
