//! The server side: one thread per connection.

use super::greeting::greet_client;
use super::input::{Budget, FrameInput};
use super::{READ_BYTES, WORDS_MAX, push_frame};
use crate::stream::{AcceptedTokens, is_out_of_descriptors, keep_alive};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The share of the connections that may be before their greeting, as a divisor.
const NEWCOMERS_SHARE: usize = 4;
/// Connections of a server, each with a thread.
pub const CONNECTIONS_MAX: usize = 1024;
/// The time for which a connection's thread polls for the next request before it sleeps: a wake-up takes longer than
/// most requests.
const SPIN: Duration = Duration::from_micros(50);
/// The pause of the server between two attempts to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);

/// The limits and the tokens of a server of requests.
#[derive(Clone, Copy, Debug)]
pub struct SocketSettings<'a> {
    /// Connections at a time.
    pub connections_max: usize,
    /// The accepted tokens: a client must know one of them.
    pub tokens: Option<&'a AcceptedTokens>,
    /// Bytes of incomplete requests of all connections together, beyond 64 KiB of each.
    pub request_bytes_max: usize,
}

/// Answers requests on all connections that `listener` accepts, until `stop` is set. `make` makes the handler of one
/// connection, on that connection's thread; a handler that returns `false` ends its connection.
///
/// If a connection cannot be accepted (it was closed already, or no file descriptor is free), the server waits for the
/// next.
///
/// # Errors
/// The error of the operating system, if the listener itself fails.
pub fn answer_requests<H>(
    settings: &SocketSettings<'_>,
    listener: &TcpListener,
    stop: &AtomicBool,
    make: impl Fn() -> H + Sync,
) -> io::Result<()>
where
    H: FnMut(&[u64], &mut Vec<u64>) -> bool,
{
    listener.set_nonblocking(true)?;
    let open = OpenConnections { most: settings.connections_max, streams: Mutex::default() };
    let budget = Budget::new(settings.request_bytes_max);
    std::thread::scope(|scope| {
        for number in 0.. {
            if stop.load(Ordering::Acquire) {
                break;
            }
            match listener.accept().and_then(|(stream, _)| open.add(number, &stream).map(|()| stream)) {
                Ok(stream) => {
                    let (make, open, budget) = (&make, &open, budget.clone());
                    scope.spawn(move || {
                        // The client detects the end of the connection.
                        let _ = greet(&stream, settings.tokens)
                            .map(|()| open.greeted(number))
                            .and_then(|()| serve_connection(&stream, budget, make()));
                        let _ = stream.shutdown(Shutdown::Both);
                        open.streams().remove(&number);
                    });
                }
                Err(error) => {
                    if is_out_of_descriptors(&error) {
                        open.evict_newcomer();
                    }
                    std::thread::sleep(ACCEPT_PAUSE);
                }
            }
        }
        for connection in open.streams().values() {
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
    });
    Ok(())
}

/// A handle by which the accepting thread can end a connection.
#[derive(Debug)]
struct OpenConnection {
    stream: TcpStream,
    has_greeted: bool,
}

/// The open connections in the order of their arrival, so that the server can end them.
#[derive(Debug)]
struct OpenConnections {
    /// Maximum number of open connections.
    most: usize,
    streams: Mutex<BTreeMap<u64, OpenConnection>>,
}

impl OpenConnections {
    fn streams(&self) -> MutexGuard<'_, BTreeMap<u64, OpenConnection>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a stream beyond the limit. Connections that have not greeted have a share of it; beyond that, the
    /// oldest of them is closed.
    fn add(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        let newcomers = self.streams().values().filter(|connection| !connection.has_greeted).count();
        if newcomers >= (self.most / NEWCOMERS_SHARE).max(1) {
            self.evict_newcomer();
        }
        let mut streams = self.streams();
        if streams.len() >= self.most {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        streams.insert(number, OpenConnection { stream, has_greeted: false });
        Ok(())
    }

    fn greeted(&self, number: u64) {
        if let Some(connection) = self.streams().get_mut(&number) {
            connection.has_greeted = true;
        }
    }

    /// Closes the oldest connection that has not greeted, if there is one.
    fn evict_newcomer(&self) {
        let mut streams = self.streams();
        let oldest = streams.iter().find(|(_, connection)| !connection.has_greeted);
        if let Some(number) = oldest.map(|(number, _)| *number)
            && let Some(connection) = streams.remove(&number)
        {
            // Wakes its thread, which ends.
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
    }
}

/// Greets the client.
fn greet(stream: &TcpStream, tokens: Option<&AcceptedTokens>) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    keep_alive(stream)?;
    greet_client(stream, tokens)?;
    stream.set_nonblocking(false)
}

/// Answers the requests of one connection.
fn serve_connection(
    mut stream: &TcpStream,
    budget: Budget,
    mut answer: impl FnMut(&[u64], &mut Vec<u64>) -> bool,
) -> io::Result<()> {
    let mut input = FrameInput::new(budget);
    let (mut out, mut response) = (Vec::new(), Vec::new());
    loop {
        let came = read(stream, input.space(WORDS_MAX)?)?;
        if came == 0 {
            return Ok(());
        }
        input.received(came);
        while let Some(request) = input.next(WORDS_MAX)? {
            response.clear();
            if !answer(request, &mut response) {
                return Ok(());
            }
            push_frame(&mut out, &response);
            if out.len() > READ_BYTES {
                stream.write_all(&out)?;
                out.clear();
                out.shrink_to(READ_BYTES);
                response = Vec::new();
            }
        }
        stream.write_all(&out)?;
        out.clear();
    }
}

/// Reads what is available, or waits for more.
fn read(mut stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    let begun = Instant::now();
    loop {
        match recv(stream, &mut *bytes, RecvFlags::DONTWAIT) {
            Ok((came, _)) => return Ok(came),
            Err(Errno::AGAIN) if begun.elapsed() < SPIN => std::thread::yield_now(),
            Err(Errno::AGAIN) => return stream.read(bytes),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Binds a listener, and returns its address.
///
/// # Errors
/// The error of the operating system.
pub fn listen(address: impl ToSocketAddrs) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
