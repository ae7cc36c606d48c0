//! Requests and responses over an ordinary socket: what a server that answers messages is compared with, and how
//! clients without memory of their own talk to one.
//!
//! ```text
//! frame, both ways: | words that follow, 4 | zero 4 | words, 8 each |      little endian
//! the client's first frame is its token, in words with its length before it; empty: it has none
//! ```
//!
//! Responses come in the order of their requests. A client may have any number of requests on their way; the server
//! answers what has come with one write. One thread of the server looks after one connection, as servers of the papers
//! do; so there are at most 1024 of them. Who has not shown its token within 10 s is closed. A server that says nothing
//! for 60 s, or whose machine is gone for 15 s, is lost.

use super::dial::connect;
use super::token::Token;
use super::worker::keep_alive;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Most words of a frame: what a search of everything in the largest pools of tests has, and no more than memory
/// allows.
const WORDS_MAX: usize = 1 << 27;
/// Most words of a token's frame.
const TOKEN_WORDS_MAX: usize = 1 << 8;
/// Connections of a server, each with a thread.
const CONNECTIONS_MAX: usize = 1024;
/// A server that works on a large request says nothing meanwhile; one that is silent for this long is lost.
const SILENCE_MAX: Duration = Duration::from_mins(1);
/// A client shows its token within this time, or is closed.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// Looks without news after which the clock is looked at.
const QUIET_LOOKS: u32 = 64;
const HEAD_BYTES: usize = 8;
/// How long the server waits for the next connection before it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(5);
/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// A frame appended to `bytes`.
fn push_frame(bytes: &mut Vec<u8>, words: &[u64]) {
    bytes.extend((words.len() as u64).to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// The words of the first frame of `bytes`, at most `most`, and how long it is; `None`: it has not come whole.
fn frame_of(bytes: &[u8], most: usize) -> io::Result<Option<(Vec<u64>, usize)>> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
    let words = u64::from_le_bytes(*head) as usize;
    if words > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {words} words")));
    }
    let Some(body) = rest.get(..8 * words) else { return Ok(None) };
    let (body, _) = body.as_chunks();
    let words = body.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Ok(Some((words, HEAD_BYTES + 8 * body.len())))
}

/// A token in words.
fn token_words(token: Option<&Token>) -> Vec<u64> {
    let Some(token) = token.map(Token::bytes) else { return Vec::new() };
    let word = |part: &[u8]| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(word)
    };
    [token.len() as u64].into_iter().chain(token.chunks(8).map(word)).collect()
}

/// The bytes of a token that came in words.
fn token_bytes(words: &[u64]) -> Vec<u8> {
    let Some((&length, words)) = words.split_first() else { return Vec::new() };
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(length as usize);
    bytes
}

/// The client's end of a connection, for one thread's clients.
#[derive(Debug)]
pub struct Exchange {
    stream: TcpStream,
    out: Vec<u8>,
    incoming: Vec<u8>,
    /// Where reads land.
    room: Box<[u8]>,
    /// The number of the next request, and of the first in `answers`.
    next: u64,
    first: u64,
    /// Responses that nobody has taken, in the order of their requests; `None`: taken, or not wanted any more.
    answers: VecDeque<Option<Vec<u64>>>,
    /// Requests whose responses nobody wants any more, and have not come.
    unwanted: BTreeSet<u64>,
    /// Looks without news, and when the first of them was.
    quiet: u32,
    heard: Instant,
    silence_max: Duration,
}

/// A request on its way; dropped before its response was taken, that is not wanted any more.
struct Asked<'e> {
    exchange: &'e std::cell::RefCell<Exchange>,
    number: u64,
    is_answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.exchange.borrow_mut().forget(self.number);
        }
    }
}

impl Exchange {
    /// Connects.
    ///
    /// # Errors
    /// The system's; where nobody takes the connection, within 3 s for each address.
    pub fn open(address: impl ToSocketAddrs, token: Option<&Token>) -> io::Result<Self> {
        let stream = connect(address)?;
        stream.set_nonblocking(true)?;
        let mut out = Vec::new();
        push_frame(&mut out, &token_words(token));
        let (incoming, answers) = (Vec::new(), VecDeque::new());
        let room = vec![0; READ_BYTES].into_boxed_slice();
        let (unwanted, heard) = (BTreeSet::new(), Instant::now());
        let silence_max = SILENCE_MAX;
        Ok(Self {
            stream,
            out,
            incoming,
            room,
            next: 0,
            first: 0,
            answers,
            unwanted,
            quiet: 0,
            heard,
            silence_max,
        })
    }

    /// Puts a request into what goes out next; yields its number.
    fn push(&mut self, request: &[u64]) -> u64 {
        if self.first + self.answers.len() as u64 == self.next {
            // Nothing was asked: it had nothing to say.
            self.quiet = 0;
        }
        push_frame(&mut self.out, request);
        self.next += 1;
        self.next - 1
    }

    /// Sends what can be sent, and takes what has come.
    fn step(&mut self) -> io::Result<()> {
        self.quiet += 1;
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(sent) => {
                    self.out.drain(..sent);
                    self.quiet = 0;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        loop {
            match self.stream.read(&mut self.room) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(came) => {
                    self.incoming.extend(&self.room[..came]);
                    self.quiet = 0;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let mut at = 0;
        while let Some((words, bytes)) = frame_of(&self.incoming[at..], WORDS_MAX)? {
            let number = self.first + self.answers.len() as u64;
            self.answers.push_back((!self.unwanted.remove(&number)).then_some(words));
            at += bytes;
        }
        self.incoming.drain(..at);
        self.pass_taken();
        self.check_silence()
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

    /// Passes the responses that nobody waits for.
    fn pass_taken(&mut self) {
        while self.answers.front().is_some_and(Option::is_none) {
            self.answers.pop_front();
            self.first += 1;
        }
    }

    /// The response to a request is not wanted any more.
    fn forget(&mut self, number: u64) {
        match self.answers.get_mut((number - self.first) as usize) {
            Some(answer) => *answer = None,
            None => drop(self.unwanted.insert(number)),
        }
        self.pass_taken();
    }

    /// The response to a request, if it has come.
    fn take(&mut self, number: u64) -> Option<Vec<u64>> {
        let words = self.answers.get_mut((number - self.first) as usize)?.take();
        self.pass_taken();
        words
    }

    /// Sends a request over `exchange`, which other clients of the thread may use meanwhile, and appends the response.
    /// What several clients send before one of them waits goes out together. A call that is dropped is answered all the
    /// same, and its response thrown away.
    ///
    /// # Errors
    /// The system's; the connection is no good any more.
    pub async fn call(
        exchange: &std::cell::RefCell<Self>,
        request: &[u64],
        response: &mut Vec<u64>,
    ) -> io::Result<()> {
        let number = exchange.borrow_mut().push(request);
        let mut asked = Asked { exchange, number, is_answered: false };
        let mut sent = false;
        let words = poll_fn(|context| {
            let mut exchange = exchange.borrow_mut();
            // The others of the thread have their turn before the first look.
            if std::mem::replace(&mut sent, true)
                && exchange.answers.get((number - exchange.first) as usize).is_none()
                && let Err(error) = exchange.step()
            {
                return Poll::Ready(Err(error));
            }
            let Some(words) = exchange.take(number) else {
                context.waker().wake_by_ref();
                return Poll::Pending;
            };
            Poll::Ready(Ok(words))
        })
        .await?;
        asked.is_answered = true;
        response.extend(words);
        Ok(())
    }
}

/// Answers requests on all connections that `listener` accepts, until `stop` is set. `make` makes what answers those
/// of one connection, on a thread of its own; that yields `false` where the connection is to end.
///
/// Where a connection cannot be accepted (it is gone already, or there are no more file descriptors), the next is
/// waited for.
///
/// # Errors
/// The system's, of the listener itself.
pub fn answer_requests<H>(
    listener: &TcpListener,
    token: Option<&Token>,
    stop: &AtomicBool,
    make: impl Fn() -> H + Sync,
) -> io::Result<()>
where
    H: FnMut(&[u64], &mut Vec<u64>) -> bool,
{
    answer_at_most(CONNECTIONS_MAX, listener, token, stop, make)
}

/// The same, on `most` connections at a time.
fn answer_at_most<H>(
    most: usize,
    listener: &TcpListener,
    token: Option<&Token>,
    stop: &AtomicBool,
    make: impl Fn() -> H + Sync,
) -> io::Result<()>
where
    H: FnMut(&[u64], &mut Vec<u64>) -> bool,
{
    listener.set_nonblocking(true)?;
    let open = Open { most, streams: Mutex::default() };
    std::thread::scope(|scope| {
        for number in 0.. {
            if stop.load(Ordering::Acquire) {
                break;
            }
            match listener.accept().and_then(|(stream, _)| open.hold(number, &stream).map(|()| stream)) {
                Ok(stream) => {
                    let (make, open) = (&make, &open);
                    scope.spawn(move || {
                        // The connection's end is the client's to notice.
                        let _ = attend(&stream, token, make());
                        let _ = stream.shutdown(Shutdown::Both);
                        open.streams().remove(&number);
                    });
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
        for stream in open.streams().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    Ok(())
}

/// The connections that are open, so that they can be ended.
#[derive(Debug)]
struct Open {
    /// As many there may be.
    most: usize,
    streams: Mutex<BTreeMap<u64, TcpStream>>,
}

impl Open {
    fn streams(&self) -> MutexGuard<'_, BTreeMap<u64, TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a stream where there are as many as may be.
    fn hold(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        let mut streams = self.streams();
        if streams.len() >= self.most {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        streams.insert(number, stream);
        Ok(())
    }
}

/// Answers what comes over one connection.
fn attend(
    mut stream: &TcpStream,
    token: Option<&Token>,
    mut answer: impl FnMut(&[u64], &mut Vec<u64>) -> bool,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    keep_alive(stream)?;
    let end = Instant::now() + GREETING_MAX;
    let (mut incoming, mut out, mut response) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = vec![0; READ_BYTES];
    let mut is_known = false;
    loop {
        if !is_known {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            stream.set_read_timeout(Some(left))?;
        }
        let came = stream.read(&mut bytes)?;
        if came == 0 {
            return Ok(());
        }
        incoming.extend(&bytes[..came]);
        let mut at = 0;
        let most = |is_known: bool| if is_known { WORDS_MAX } else { TOKEN_WORDS_MAX };
        while let Some((request, bytes)) = frame_of(&incoming[at..], most(is_known))? {
            at += bytes;
            if !is_known {
                is_known = token.is_none_or(|token| token.is(&token_bytes(&request)));
                if !is_known {
                    return Ok(());
                }
                stream.set_read_timeout(None)?;
                continue;
            }
            response.clear();
            if !answer(&request, &mut response) {
                return Ok(());
            }
            push_frame(&mut out, &response);
            if out.len() > READ_BYTES {
                stream.write_all(&out)?;
                out.clear();
            }
        }
        incoming.drain(..at);
        stream.write_all(&out)?;
        out.clear();
    }
}

/// Where a listener listens.
///
/// # Errors
/// The system's.
pub fn listen(address: impl ToSocketAddrs) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{block_on, run_all};
    use std::cell::RefCell;
    use std::future::Future;
    use std::pin::Pin;

    /// Stops the server, also where the test panics.
    struct Stops<'a>(&'a AtomicBool);

    impl Drop for Stops<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    /// Lets `work` talk to a server that answers with the sum and the words.
    fn with_server(token: Option<&Token>, work: impl FnOnce(SocketAddr)) {
        with_server_of(CONNECTIONS_MAX, token, work);
    }

    fn with_server_of(most: usize, token: Option<&Token>, work: impl FnOnce(SocketAddr)) {
        let (listener, address) = listen("127.0.0.1:0").unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let serve = scope.spawn(|| {
                answer_at_most(most, &listener, token, &stop, || {
                    |request: &[u64], response: &mut Vec<u64>| {
                        response.push(request.iter().sum());
                        response.extend(request);
                        true
                    }
                })
            });
            let stops = Stops(&stop);
            work(address);
            drop(stops);
            serve.join().unwrap().unwrap();
        });
    }

    #[test]
    fn many_requests_on_one_connection_get_each_its_own_answer() {
        with_server(None, |address| {
            let exchange = RefCell::new(Exchange::open(address, None).unwrap());
            let flow = |me: u64| {
                let exchange = &exchange;
                Box::pin(async move {
                    for round in 0..200 {
                        // Now and then one that does not fit into a read.
                        let length = if round % 50 == 7 { 20_000 } else { round % 9 };
                        let request = vec![me; length];
                        let mut response = Vec::new();
                        Exchange::call(exchange, &request, &mut response).await.unwrap();
                        assert_eq!(response[0], me * length as u64);
                        assert_eq!(response[1..], request);
                    }
                }) as Pin<Box<dyn Future<Output = ()> + '_>>
            };
            run_all((0..8).map(flow).collect());
        });
    }

    /// Polls so often, or until it is done, and drops.
    fn drop_after(call: impl Future, polls: u64) {
        let mut call = std::pin::pin!(call);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = (0..polls).any(|_| call.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_call_that_is_dropped_leaves_nothing_and_misleads_nobody() {
        with_server(None, |address| {
            let exchange = RefCell::new(Exchange::open(address, None).unwrap());
            for round in 0..200 {
                // Some are dropped before they are sent, some when the response may have come.
                drop_after(Exchange::call(&exchange, &[round, 1], &mut Vec::new()), round % 4 + 1);
                let mut response = Vec::new();
                block_on(Exchange::call(&exchange, &[round, 5], &mut response)).unwrap();
                assert_eq!(response, [round + 5, round, 5]);
            }
            let Exchange { answers, unwanted, next, first, .. } = &*exchange.borrow();
            assert_eq!((answers.len(), unwanted.len(), next - first), (0, 0, 0), "all are accounted for");
        });
    }

    #[test]
    fn a_connection_that_ends_leaves_no_file_descriptor() {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        with_server(None, |address| {
            let before = open();
            for _ in 0..300 {
                let exchange = RefCell::new(Exchange::open(address, None).unwrap());
                block_on(Exchange::call(&exchange, &[1], &mut Vec::new())).unwrap();
            }
            // Other tests of this process have files as well, and the last threads may still be on their way.
            assert!(open() < before + 150, "{} were open, {} are", before, open());
        });
    }

    #[test]
    fn a_server_that_says_nothing_is_lost_in_time() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut exchange = Exchange::open(silent.local_addr().unwrap(), None).unwrap();
        exchange.silence_max = Duration::from_secs(1);
        let (exchange, start) = (RefCell::new(exchange), Instant::now());
        let error = block_on(Exchange::call(&exchange, &[1], &mut Vec::new())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    }

    #[test]
    fn a_load_is_one_request_however_long_and_a_token_is_short() {
        with_server(None, |address| {
            let exchange = RefCell::new(Exchange::open(address, None).unwrap());
            let (long, mut response) = (vec![1; 1 << 20], Vec::new());
            block_on(Exchange::call(&exchange, &long, &mut response)).unwrap();
            assert_eq!(response.len(), 1 + long.len());
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&(TOKEN_WORDS_MAX as u64 + 1).to_le_bytes()).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it is closed");
        });
    }

    #[test]
    fn who_drips_its_token_is_closed_as_well() {
        with_server(None, |address| {
            let mut stream = TcpStream::connect(address).unwrap();
            for _ in 0..3 {
                stream.write_all(&[0]).unwrap();
                std::thread::sleep(Duration::from_secs(2));
            }
            stream.set_read_timeout(Some(GREETING_MAX)).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it is closed");
        });
    }

    #[test]
    fn a_server_takes_so_many_connections_and_no_more() {
        with_server_of(5, None, |address| {
            let works = || {
                let exchange = RefCell::new(Exchange::open(address, None).unwrap());
                block_on(Exchange::call(&exchange, &[1], &mut Vec::new())).map(|()| exchange)
            };
            let mut all: Vec<_> = (0..5).map(|_| works().unwrap()).collect();
            assert!(works().is_err());
            all.pop();
            let end = Instant::now() + Duration::from_secs(10);
            while works().is_err() {
                assert!(Instant::now() < end, "a place comes free");
            }
        });
    }

    #[test]
    fn who_has_not_the_token_gets_no_answer() {
        let (right, wrong) = ("0123456789abcdef_", "0123456789abcdef-");
        let token = Token::new(right).unwrap();
        with_server(Some(&token), |address| {
            for (shown, is_let_in) in [(Some(right), true), (Some(wrong), false), (None, false)] {
                let shown = shown.map(|text| Token::new(text).unwrap());
                let exchange = RefCell::new(Exchange::open(address, shown.as_ref()).unwrap());
                let mut response = Vec::new();
                let answered = block_on(Exchange::call(&exchange, &[1, 2], &mut response));
                assert_eq!(answered.is_ok(), is_let_in);
                assert_eq!(response, if is_let_in { vec![3, 1, 2] } else { vec![] });
            }
        });
    }

    #[test]
    fn a_frame_without_end_is_refused() {
        assert!(frame_of(&u64::MAX.to_le_bytes(), WORDS_MAX).is_err());
        assert!(frame_of(&4_u64.to_le_bytes(), 3).is_err());
        assert!(frame_of(&3_u64.to_le_bytes(), 3).unwrap().is_none());
        assert!(frame_of(&[1; 7], 3).unwrap().is_none());
    }
}
