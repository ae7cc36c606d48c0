//! Requests and responses over an ordinary socket: the baseline for servers that answer messages, and the connection of
//! clients that do not access memory.
//!
//! ```text
//! frame, both ways: | words that follow, 4 | zero 4 | words, 8 each |      little endian
//! the client's first frame is its token, in words with its length before it; empty: no token
//! ```
//!
//! Responses arrive in the order of their requests. A client may have any number of requests under way; the server
//! answers all available requests with one write. As in the papers' servers, one thread serves one connection, so there
//! are at most 1024 of them. A client that has not sent its token within 10 s is disconnected. A server that is silent
//! for 60 s, or whose machine is unreachable for 15 s, is lost.

mod client;
mod server;

pub use client::Exchange;
pub use server::{CONNECTIONS_MAX, answer_requests, listen};

use crate::stream::Token;
use std::io;

/// Longest frame, words: a search of everything in the largest pools of tests, within the limits of memory.
const WORDS_MAX: usize = 1 << 27;
/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;
const HEAD_BYTES: usize = 8;

/// Appends a frame to `bytes`.
fn push_frame(bytes: &mut Vec<u8>, words: &[u64]) {
    bytes.extend((words.len() as u64).to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// Returns the words of the first frame of `bytes`, at most `most`, and its length; `None`: it is incomplete.
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

/// Returns a token as words.
fn token_words(token: Option<&Token>) -> Vec<u64> {
    let Some(token) = token.map(Token::bytes) else { return Vec::new() };
    let word = |part: &[u8]| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(word)
    };
    [token.len() as u64].into_iter().chain(token.chunks(8).map(word)).collect()
}

/// Returns the bytes of a token from words.
fn token_bytes(words: &[u64]) -> Vec<u8> {
    let Some((&length, words)) = words.split_first() else { return Vec::new() };
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(length as usize);
    bytes
}

#[cfg(test)]
mod tests {
    use super::server::{GREETING_MAX, TOKEN_WORDS_MAX};
    use super::*;
    use crate::runtime::{block_on, run_all};
    use std::future::Future;
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// Stops the server, also if the test panics.
    struct StopOnDrop<'a>(&'a AtomicBool);

    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    /// Runs `work` against a server that answers with the sum and the words.
    fn with_server(token: Option<&Token>, work: impl FnOnce(SocketAddr)) {
        with_server_of(CONNECTIONS_MAX, token, work);
    }

    fn with_server_of(most: usize, token: Option<&Token>, work: impl FnOnce(SocketAddr)) {
        let (listener, address) = listen("127.0.0.1:0").unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let serve = scope.spawn(|| {
                answer_requests(most, &listener, token, &stop, || {
                    |request: &[u64], response: &mut Vec<u64>| {
                        response.push(request.iter().sum());
                        response.extend(request);
                        true
                    }
                })
            });
            let stop_on_drop = StopOnDrop(&stop);
            work(address);
            drop(stop_on_drop);
            serve.join().unwrap().unwrap();
        });
    }

    #[test]
    fn many_requests_on_one_connection_get_each_its_own_answer() {
        with_server(None, |address| {
            let exchange = Exchange::open(address, None).unwrap();
            let flow = |me: u64| {
                let exchange = &exchange;
                Box::pin(async move {
                    for round in 0..200 {
                        // Now and then one that exceeds a read.
                        let length = if round % 50 == 7 { 20_000 } else { round % 9 };
                        let request = vec![me; length];
                        let mut response = Vec::new();
                        exchange.call(&request, &mut response).await.unwrap();
                        assert_eq!(response[0], me * length as u64);
                        assert_eq!(response[1..], request);
                    }
                }) as Pin<Box<dyn Future<Output = ()> + '_>>
            };
            run_all((0..8).map(flow).collect());
        });
    }

    /// Polls that often, or until it is done, and drops.
    fn drop_after(call: impl Future, polls: u64) {
        let mut call = std::pin::pin!(call);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = (0..polls).any(|_| call.as_mut().poll(&mut context).is_ready());
    }

    #[test]
    fn a_dropped_call_leaves_nothing_and_does_not_shift_responses() {
        with_server(None, |address| {
            let exchange = Exchange::open(address, None).unwrap();
            for round in 0..200 {
                // Some are dropped before they are sent, some when the response may have arrived.
                drop_after(exchange.call(&[round, 1], &mut Vec::new()), round % 4 + 1);
                let mut response = Vec::new();
                block_on(exchange.call(&[round, 5], &mut response)).unwrap();
                assert_eq!(response, [round + 5, round, 5]);
            }
            assert_eq!(exchange.unfinished(), 0, "all are accounted for");
        });
    }

    #[test]
    fn a_connection_that_ends_leaves_no_file_descriptor() {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        with_server(None, |address| {
            let before = open();
            for _ in 0..300 {
                let exchange = Exchange::open(address, None).unwrap();
                block_on(exchange.call(&[1], &mut Vec::new())).unwrap();
            }
            // Other tests of this process have files as well, and the last threads may still be running.
            assert!(open() < before + 150, "{} were open, {} are", before, open());
        });
    }

    #[test]
    fn a_silent_server_is_lost_after_the_limit() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap();
        let exchange = Exchange::open_for(address, None, Duration::from_secs(1)).unwrap();
        let start = Instant::now();
        let error = block_on(exchange.call(&[1], &mut Vec::new())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
        for _ in 0..3 {
            let again = block_on(exchange.call(&[1], &mut Vec::new())).unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::TimedOut, "it stays lost");
        }
        assert_eq!(exchange.unfinished(), 0, "and keeps nothing");
    }

    #[test]
    fn a_request_may_be_long_and_a_token_may_not() {
        with_server(None, |address| {
            let exchange = Exchange::open(address, None).unwrap();
            let (long, mut response) = (vec![1; 1 << 20], Vec::new());
            block_on(exchange.call(&long, &mut response)).unwrap();
            assert_eq!(response.len(), 1 + long.len());
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&(TOKEN_WORDS_MAX as u64 + 1).to_le_bytes()).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it is closed");
        });
    }

    #[test]
    fn a_client_that_sends_its_token_too_slowly_is_disconnected() {
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
    fn a_server_refuses_connections_beyond_its_limit() {
        with_server_of(5, None, |address| {
            let works = || {
                let exchange = Exchange::open(address, None).unwrap();
                block_on(exchange.call(&[1], &mut Vec::new())).map(|()| exchange)
            };
            let mut all: Vec<_> = (0..5).map(|_| works().unwrap()).collect();
            assert!(works().is_err());
            all.pop();
            let end = Instant::now() + Duration::from_secs(10);
            while works().is_err() {
                assert!(Instant::now() < end, "a slot is released");
            }
        });
    }

    #[test]
    fn a_client_without_the_token_gets_no_answer() {
        let (right, wrong) = ("0123456789abcdef_", "0123456789abcdef-");
        let token = Token::new(right).unwrap();
        with_server(Some(&token), |address| {
            for (shown, is_let_in) in [(Some(right), true), (Some(wrong), false), (None, false)] {
                let shown = shown.map(|text| Token::new(text).unwrap());
                let exchange = Exchange::open(address, shown.as_ref()).unwrap();
                let mut response = Vec::new();
                let answered = block_on(exchange.call(&[1, 2], &mut response));
                assert_eq!(answered.is_ok(), is_let_in);
                assert_eq!(response, if is_let_in { vec![3, 1, 2] } else { vec![] });
            }
        });
    }

    #[test]
    fn a_frame_beyond_the_limit_is_refused() {
        assert!(frame_of(&u64::MAX.to_le_bytes(), WORDS_MAX).is_err());
        assert!(frame_of(&4_u64.to_le_bytes(), 3).is_err());
        assert!(frame_of(&3_u64.to_le_bytes(), 3).unwrap().is_none());
        assert!(frame_of(&[1; 7], 3).unwrap().is_none());
    }
}
