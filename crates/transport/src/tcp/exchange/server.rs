//! The server's end: a thread for each connection.

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

/// Most words of a token's frame.
pub(super) const TOKEN_WORDS_MAX: usize = 1 << 8;
/// Connections of a server, each with a thread.
pub const CONNECTIONS_MAX: usize = 1024;
/// A client shows its token within this time, or is closed.
pub(super) const GREETING_MAX: Duration = Duration::from_secs(10);
/// How long a connection's thread looks for the next request before it sleeps until that comes: to be woken takes
/// longer than most requests.
const LOOKING: Duration = Duration::from_micros(50);
/// How long the server waits for the next connection before it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(5);

/// Answers requests on all connections that `listener` accepts, `most` at a time, until `stop` is set. `make` makes
/// what answers those of one connection, on a thread of its own; that yields `false` where the connection is to end.
///
/// Where a connection cannot be accepted (it is gone already, or there are no more file descriptors), the next is
/// waited for.
///
/// # Errors
/// The system's, of the listener itself.
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
        let came = read(stream, &mut bytes)?;
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

/// Reads what has come, or waits for something to come.
fn read(mut stream: &TcpStream, bytes: &mut [u8]) -> io::Result<usize> {
    let begun = Instant::now();
    loop {
        match recv(stream, &mut *bytes, RecvFlags::DONTWAIT) {
            Ok((came, _)) => return Ok(came),
            Err(Errno::AGAIN) if begun.elapsed() < LOOKING => std::thread::yield_now(),
            Err(Errno::AGAIN) => return stream.read(bytes),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
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
