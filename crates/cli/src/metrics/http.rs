//! A small HTTP server: one thread polls all connections together, so that a silent or slow client delays no other.
//!
//! The time limit of a connection is [`EXCHANGE_MAX`]. Beyond [`CONNECTIONS_MAX`] connections the oldest is closed.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time limit from the connection to the last byte of the answer.
const EXCHANGE_MAX: Duration = Duration::from_secs(2);
/// Connections at a time.
const CONNECTIONS_MAX: usize = 64;
/// Bytes of a request that the server reads.
const REQUEST_BYTES_MAX: usize = 4096;
/// The longest wait before the thread checks whether it must stop.
const LOOK: Duration = Duration::from_millis(100);

/// A listener whose thread has not started.
pub(super) struct HttpListener(TcpListener);

impl HttpListener {
    pub(super) fn bind(at: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Answers requests with `reply` on a separate thread until the result is dropped.
    pub(super) fn start(self, reply: impl Fn(&[u8]) -> String + Send + 'static) -> io::Result<HttpServer> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let serve = move || {
            let mut open = VecDeque::new();
            while !stopped.load(Ordering::Acquire) {
                wait(&self.0, &open);
                advance_all(&self.0, &mut open, &reply);
            }
        };
        let thread = std::thread::Builder::new().name("farwood-metrics".to_owned()).spawn(serve)?;
        Ok(HttpServer { stop, thread: Some(thread) })
    }
}

/// A running server. Stops when dropped.
pub(crate) struct HttpServer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed by its hook.
            let _ = thread.join();
        }
    }
}

/// A connection with its request, and later its answer.
struct HttpConnection {
    stream: TcpStream,
    end: Instant,
    request: Vec<u8>,
    answer: Option<Vec<u8>>,
    sent: usize,
}

/// Waits until a stream is ready, a time limit is over, or [`LOOK`] has passed.
fn wait(listener: &TcpListener, open: &VecDeque<HttpConnection>) {
    let ready = |connection: &HttpConnection| match connection.answer {
        None => PollFlags::IN,
        Some(_) => PollFlags::OUT,
    };
    let mut streams = vec![PollFd::new(listener, PollFlags::IN)];
    streams.extend(open.iter().map(|connection| PollFd::new(&connection.stream, ready(connection))));
    let oldest = open.front().map(|connection| connection.end.saturating_duration_since(Instant::now()));
    let timeout = oldest.map_or(LOOK, |left| left.min(LOOK));
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.as_nanos() as i64 };
    if poll(&mut streams, Some(&timeout)).is_err() {
        // An interrupted wait, or a lack of memory: the next one may succeed.
        std::thread::yield_now();
    }
}

/// Accepts connections, and lets every connection read and write what its stream allows.
fn advance_all(
    listener: &TcpListener,
    open: &mut VecDeque<HttpConnection>,
    reply: &impl Fn(&[u8]) -> String,
) {
    for _ in 0..CONNECTIONS_MAX {
        match listener.accept() {
            Ok((stream, _)) => {
                if stream.set_nonblocking(true).is_ok() {
                    let end = Instant::now() + EXCHANGE_MAX;
                    let (request, answer, sent) = (Vec::new(), None, 0);
                    open.push_back(HttpConnection { stream, end, request, answer, sent });
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // No descriptor is free: the oldest connection is closed, so that the next one can be accepted.
            Err(_) => {
                if open.pop_front().is_none() {
                    std::thread::sleep(LOOK);
                }
                break;
            }
        }
    }
    let now = Instant::now();
    open.retain_mut(|connection| now < connection.end && connection.advance(reply));
    while open.len() > CONNECTIONS_MAX {
        open.pop_front();
    }
}

impl HttpConnection {
    /// Reads the request and writes the answer, as far as the stream allows. Returns whether the exchange continues.
    fn advance(&mut self, reply: &impl Fn(&[u8]) -> String) -> bool {
        match self.try_advance(reply) {
            Ok(()) => false,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn try_advance(&mut self, reply: &impl Fn(&[u8]) -> String) -> io::Result<()> {
        if self.answer.is_none() {
            self.read_request()?;
        }
        let answer = self.answer.get_or_insert_with(|| reply(&self.request).into_bytes());
        while self.sent < answer.len() {
            match self.stream.write(&answer[self.sent..])? {
                0 => return Err(ErrorKind::WriteZero.into()),
                sent => self.sent += sent,
            }
        }
        Ok(())
    }

    /// Reads until the head is complete, the peer closes, or the limit is reached.
    fn read_request(&mut self) -> io::Result<()> {
        let mut bytes = [0; REQUEST_BYTES_MAX];
        loop {
            let is_complete = [&b"\r\n\r\n"[..], b"\n\n"]
                .iter()
                .any(|end| self.request.windows(end.len()).any(|part| part == *end));
            if is_complete || self.request.len() >= REQUEST_BYTES_MAX {
                return Ok(());
            }
            let space = REQUEST_BYTES_MAX - self.request.len();
            match self.stream.read(&mut bytes[..space])? {
                0 => return Ok(()),
                came => self.request.extend_from_slice(&bytes[..came]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn serve() -> (HttpServer, SocketAddr) {
        let listener = HttpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.address().unwrap();
        (listener.start(|request| format!("{} bytes", request.len())).unwrap(), address)
    }

    fn ask(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn silent_and_slow_clients_delay_no_other() {
        let (_server, address) = serve();
        let mut clients: Vec<_> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
        for round in 0..5 {
            assert_eq!(ask(address), "18 bytes");
            for client in &mut clients {
                // The server has closed the connections beyond the limit.
                let _ = client.write(&b"GET / HTTP/1.1"[round..=round]);
            }
        }
    }

    #[test]
    fn a_client_that_sends_too_slowly_is_closed_in_time() {
        let (_server, address) = serve();
        let mut client = TcpStream::connect(address).unwrap();
        let (begun, mut is_open) = (Instant::now(), true);
        while is_open {
            assert!(begun.elapsed() < Duration::from_secs(20), "it is still open");
            is_open = client.write_all(b"G").is_ok();
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(begun.elapsed() + LOOK >= EXCHANGE_MAX);
    }
}
