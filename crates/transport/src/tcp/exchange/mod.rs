//! Requests and responses over an ordinary socket: the baseline for servers that answer messages, and the connection of
//! clients that do not access memory.
//!
//! ```text
//! frame, in both directions: | words that follow, 4 | zero 4 | words, 8 each |      little endian
//! ```
//!
//! The client's first frame is empty, or a nonce of 4 words. The server answers a nonce with its own, the client
//! answers with its proof that it knows the token, and the server with its own proof (`stream/token.rs`). A server
//! that requires no token answers a nonce with an empty frame, and the client then ends the connection.
//!
//! Responses arrive in the order of their requests. A client may have any number of requests in flight; the server
//! answers all available requests with one write. As in the papers' servers, one thread serves one connection, so there
//! are at most 1024 of them. A greeting that takes longer than 10 s ends the connection. A server is lost if it is
//! silent for 60 s, sends a response at less than 100 KiB/s, or its machine is unreachable for 15 s.
//!
//! Both sides allocate memory as bytes arrive. The incomplete requests of all connections of a server share a budget;
//! the server closes the connection that exceeds it.

mod client;
mod greeting;
mod input;
mod server;

pub use client::Exchange;
pub use server::{CONNECTIONS_MAX, SocketSettings, answer_requests, listen};

use zerocopy::IntoBytes as _;

/// Longest frame, words: enough for the response to a search for all items in the largest test pools.
const WORDS_MAX: usize = 1 << 27;
/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;
const HEAD_BYTES: usize = 8;

/// Appends a frame to `bytes`.
fn push_frame(bytes: &mut Vec<u8>, words: &[u64]) {
    bytes.extend((words.len() as u64).to_le_bytes());
    if cfg!(target_endian = "little") {
        bytes.extend_from_slice(words.as_bytes());
    } else {
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{block_on, run_all};
    use crate::stream::Token;
    use std::future::Future;
    use std::io::{self, Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::task::{Context, Wake, Waker};
    use std::thread::{self, ThreadId};
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
                let tokens = token.map(|token| token.clone().into());
                let settings = SocketSettings {
                    connections_max: most,
                    tokens: tokens.as_ref(),
                    request_bytes_max: 16 << 20,
                };
                answer_requests(&settings, &listener, &stop, || {
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
    fn each_of_many_requests_on_one_connection_gets_its_own_answer() {
        with_server(None, |address| {
            let exchange = Exchange::open(address, None).unwrap();
            let flow = |me: u64| {
                let exchange = &exchange;
                Box::pin(async move {
                    for round in 0..200 {
                        // Every 50th request exceeds one read.
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

    /// Polls a future that number of times, or until it is complete, and drops it.
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
            assert_eq!(exchange.unfinished(), 0, "every request is complete");
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

    /// Counts its wake-ups by the thread that polls.
    struct OwnWakes {
        thread: ThreadId,
        count: AtomicU32,
    }

    impl Wake for OwnWakes {
        fn wake(self: Arc<Self>) {
            let is_own = thread::current().id() == self.thread;
            self.count.fetch_add(u32::from(is_own), Ordering::SeqCst);
        }
    }

    #[test]
    fn a_call_of_another_executor_does_not_keep_waking_its_task() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = Exchange::open(silent.local_addr().unwrap(), None).unwrap();
        let wakes = Arc::new(OwnWakes { thread: thread::current().id(), count: AtomicU32::new(0) });
        let waker = Waker::from(Arc::clone(&wakes));
        let mut response = Vec::new();
        let mut call = pin!(connection.call(&[1], &mut response));
        for _ in 0..10_000 {
            assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        // Afterwards the timer thread wakes it, unless another test sets a timer at the same moment.
        let count = wakes.count.load(Ordering::SeqCst);
        assert!((2_000..6_000).contains(&count), "{count}");
    }

    #[test]
    fn a_request_may_be_long_and_a_greeting_may_not() {
        with_server(None, |address| {
            let exchange = Exchange::open(address, None).unwrap();
            let (long, mut response) = (vec![1; 1 << 20], Vec::new());
            block_on(exchange.call(&long, &mut response)).unwrap();
            assert_eq!(response.len(), 1 + long.len());
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&1000_u64.to_le_bytes()).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it is closed");
        });
    }

    #[test]
    fn a_client_that_greets_too_slowly_is_disconnected() {
        with_server(None, |address| {
            let mut stream = TcpStream::connect(address).unwrap();
            for _ in 0..3 {
                stream.write_all(&[0]).unwrap();
                std::thread::sleep(Duration::from_secs(2));
            }
            // The limit of 10 s ends in 4 s; one that began again with the last byte would end in 8 s.
            stream.set_read_timeout(Some(Duration::from_secs(6))).unwrap();
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
    fn silent_connections_exclude_no_client() {
        with_server_of(8, None, |address| {
            let mut silent: Vec<_> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
            let exchange = Exchange::open(address, None).unwrap();
            block_on(exchange.call(&[1], &mut Vec::new())).unwrap();
            silent.extend((0..50).map(|_| TcpStream::connect(address).unwrap()));
            block_on(exchange.call(&[1], &mut Vec::new())).unwrap();
        });
    }

    #[test]
    fn a_client_without_the_token_gets_no_connection() {
        let (right, wrong) = ("0123456789abcdef_", "0123456789abcdef-");
        let token = Token::new(right).unwrap();
        with_server(Some(&token), |address| {
            for (shown, is_accepted) in [(Some(right), true), (Some(wrong), false)] {
                let shown = shown.map(|text| Token::new(text).unwrap());
                let exchange = Exchange::open(address, shown.as_ref());
                assert_eq!(exchange.is_ok(), is_accepted, "{shown:?}");
                let exchange = match exchange {
                    Ok(exchange) => exchange,
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                        continue;
                    }
                };
                let mut response = Vec::new();
                block_on(exchange.call(&[1, 2], &mut response)).unwrap();
                assert_eq!(response, [3, 1, 2]);
            }
            let exchange = Exchange::open(address, None).unwrap();
            assert!(block_on(exchange.call(&[1, 2], &mut Vec::new())).is_err());
        });
    }

    /// A process that listens at the port of a server that has ended gets neither the token nor a request.
    #[test]
    fn a_server_that_does_not_prove_the_token_gets_no_request() {
        let token = Token::new("0123456789abcdef_").unwrap();
        with_server(None, |address| {
            let error = Exchange::open(address, Some(&token)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        });
        let liar = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = liar.local_addr().unwrap();
        let listens = std::thread::spawn(move || {
            let (mut stream, _) = liar.accept().unwrap();
            let mut received = vec![0; 40];
            stream.read_exact(&mut received).unwrap();
            // Its nonce, and in place of its proof the nonce again.
            for _ in 0..2 {
                stream.write_all(&[&4_u64.to_le_bytes()[..], &[7; 32]].concat()).unwrap();
            }
            stream.read_to_end(&mut received).unwrap();
            received
        });
        let error = Exchange::open(address, Some(&token)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let received = listens.join().unwrap();
        assert_eq!(received.len(), 80, "a nonce and a proof");
        assert!(!received.windows(8).any(|part| part == b"01234567"), "the token is not sent");
    }

    /// Clients that announce large requests and send most of them together hold no more than the budget, and do not
    /// end the others.
    #[test]
    fn requests_beyond_the_budget_end_their_connections_only() {
        with_server(None, |address| {
            let exchange = Exchange::open(address, None).unwrap();
            let mut streams: Vec<_> = (0..6).map(|_| TcpStream::connect(address).unwrap()).collect();
            let mut refused = 0;
            for stream in &mut streams {
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                stream.write_all(&0_u64.to_le_bytes()).unwrap();
                stream.write_all(&(1_u64 << 20).to_le_bytes()).unwrap();
                // 6 MiB of 8.
                let sent = stream.write_all(&vec![0; 6 << 20]);
                refused += usize::from(sent.is_err());
            }
            // The server may still read what the last streams have buffered.
            let end = Instant::now() + Duration::from_secs(10);
            while refused < 2 {
                assert!(Instant::now() < end, "{refused} were closed");
                refused =
                    streams.iter_mut().map(|stream| usize::from(stream.write_all(&[0; 8]).is_err())).sum();
                std::thread::sleep(Duration::from_millis(20));
            }
            block_on(exchange.call(&[1], &mut Vec::new())).unwrap();
        });
    }

    /// A server that sends single bytes of its response at intervals is lost after the same time as a silent one.
    #[test]
    fn a_server_that_sends_single_bytes_is_lost() {
        let drips = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = drips.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = drips.accept().unwrap();
            while stream.write_all(&[1]).is_ok() {
                std::thread::sleep(Duration::from_millis(400));
            }
        });
        let exchange = Exchange::open_for(address, None, Duration::from_secs(1)).unwrap();
        let error = block_on(exchange.call(&[1], &mut Vec::new())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
