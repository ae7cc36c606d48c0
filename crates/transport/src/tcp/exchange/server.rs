//! The server side: one thread per connection.

use super::{READ_BYTES, WORDS_MAX, frame_of, push_frame, token_bytes};
use crate::stream::{Token, keep_alive};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest frame of a token, words.
pub(super) const TOKEN_WORDS_MAX: usize = 1 << 8;
/// Connections of a server, each with a thread.
pub const CONNECTIONS_MAX: usize = 1024;
/// A client that does not send its token within this time is disconnected.
pub(super) const GREETING_MAX: Duration = Duration::from_secs(10);
/// How long a connection's thread polls for the next request before it sleeps: a wake-up takes longer than
/// most requests.
const SPIN: Duration = Duration::from_micros(50);
/// The pause of the server between two attempts to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(5);

/// Answers requests on all connections that `listener` accepts, `most` at a time, until `stop` is set. `make`
/// makes the handler of one connection, on that connection's thread; a handler that returns `false` ends its
/// connection.
///
/// If a connection cannot be accepted (it is gone already, or no file descriptor is free), the server waits
/// for the next.
///
/// # Errors
/// The error of the operating system, if the listener itself fails.
pub fn answer_requests<H>(
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
    let open = OpenConnections { most, streams: Mutex::default() };
    std::thread::scope(|scope| {
        for number in 0.. {
            if stop.load(Ordering::Acquire) {
                break;
            }
            match listener.accept().and_then(|(stream, _)| open.add(number, &stream).map(|()| stream)) {
                Ok(stream) => {
                    let (make, open) = (&make, &open);
                    scope.spawn(move || {
                        // The client detects the end of the connection.
                        let _ = serve_connection(&stream, token, make());
                        let _ = stream.shutdown(Shutdown::Both);
                        open.streams().remove(&number);
                    });
                }
                Err(_) => std::thread::sleep(ACCEPT_PAUSE),
            }
        }
        for stream in open.streams().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    Ok(())
}

/// The open connections, so that the server can end them.
#[derive(Debug)]
struct OpenConnections {
    /// The largest number of open connections.
    most: usize,
    streams: Mutex<BTreeMap<u64, TcpStream>>,
}

impl OpenConnections {
    fn streams(&self) -> MutexGuard<'_, BTreeMap<u64, TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a stream beyond the limit.
    fn add(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        let mut streams = self.streams();
        if streams.len() >= self.most {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        streams.insert(number, stream);
        Ok(())
    }
}

/// Answers the requests of one connection.
fn serve_connection(
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
    let mut is_authenticated = false;
    loop {
        if !is_authenticated {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            stream.set_read_timeout(Some(left))?;
        }
        let came = read(stream, &mut bytes)?;
        if came == 0 {
            return Ok(());
        }
        incoming.extend(&bytes[..came]);
        let mut at = 0;
        let most = |is_authenticated: bool| if is_authenticated { WORDS_MAX } else { TOKEN_WORDS_MAX };
        while let Some((request, bytes)) = frame_of(&incoming[at..], most(is_authenticated))? {
            at += bytes;
            if !is_authenticated {
                is_authenticated = token.is_none_or(|token| token.is(&token_bytes(&request)));
                if !is_authenticated {
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
