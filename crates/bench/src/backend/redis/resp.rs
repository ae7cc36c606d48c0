//! The part of Redis' protocol (RESP 2) that a benchmark needs: commands and replies over one connection, without
//! allocations. A thread polls for replies, as Farwood's threads do.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// The connection fails if the server sends nothing for this time.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Polls before the thread yields its CPU, as Farwood's threads do.
const POLLS_BEFORE_YIELD: u32 = 64;
/// Initial size of the buffer for replies.
const INPUT_BYTES: usize = 64 << 10;

/// One reply, or the head of an array of replies.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    /// `+OK`.
    Simple,
    /// `:1`.
    Number(i64),
    /// A string, or null.
    Bulk(Option<&'a [u8]>),
    /// An array of this many replies, which follow.
    Array(usize),
}

/// A parsed reply with its length in bytes.
#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    Simple(usize),
    Number(i64, usize),
    Bulk(std::ops::Range<usize>, usize),
    Null(usize),
    Array(usize, usize),
}

/// A TCP connection to a Redis server.
pub(super) struct RedisConnection {
    stream: TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
    start: usize,
    end: usize,
}

pub(super) fn failure(problem: impl Into<String>) -> Error {
    Error::Peer { peer: "redis", problem: problem.into() }
}

fn lost(error: &io::Error) -> Error {
    failure(format!("the connection broke: {error}"))
}

impl RedisConnection {
    pub(super) fn connect(address: SocketAddr) -> Result<RedisConnection> {
        let stream = TcpStream::connect(address).map_err(|error| lost(&error))?;
        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(|error| lost(&error))?;
        Ok(RedisConnection { stream, out: Vec::new(), input: vec![0; INPUT_BYTES], start: 0, end: 0 })
    }

    /// Adds a command to the batch of [`RedisConnection::send`].
    pub(super) fn command(&mut self, parts: &[&[u8]]) {
        self.head(b'*', parts.len());
        for part in parts {
            self.part(part);
        }
    }

    /// Adds the header of a command of `parts` parts, which the caller adds next.
    pub(super) fn begin(&mut self, parts: usize) {
        self.head(b'*', parts);
    }

    /// Adds a part of a command.
    pub(super) fn part(&mut self, part: &[u8]) {
        self.head(b'$', part.len());
        self.out.extend_from_slice(part);
        self.out.extend_from_slice(b"\r\n");
    }

    fn head(&mut self, kind: u8, mut number: usize) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.out.push(kind);
        self.out.extend_from_slice(&digits[at..]);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Sends the batch.
    pub(super) fn send(&mut self) -> Result<()> {
        let mut sent = 0;
        let mut poll = PollState::default();
        while sent < self.out.len() {
            match self.stream.write(&self.out[sent..]) {
                Ok(bytes) => sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => poll.again()?,
                Err(error) => return Err(lost(&error)),
            }
        }
        self.out.clear();
        Ok(())
    }

    /// Waits for the next reply.
    pub(super) fn reply(&mut self) -> Result<Reply<'_>> {
        loop {
            if let Some(parsed) = parse(&self.input[self.start..self.end])? {
                let start = self.start;
                return Ok(match parsed {
                    Parsed::Simple(bytes) => self.took(bytes, Reply::Simple),
                    Parsed::Number(number, bytes) => self.took(bytes, Reply::Number(number)),
                    Parsed::Null(bytes) => self.took(bytes, Reply::Bulk(None)),
                    Parsed::Array(count, bytes) => self.took(bytes, Reply::Array(count)),
                    Parsed::Bulk(range, bytes) => {
                        self.start += bytes;
                        Reply::Bulk(Some(&self.input[start + range.start..start + range.end]))
                    }
                });
            }
            self.fill()?;
        }
    }

    fn took(&mut self, bytes: usize, reply: Reply<'static>) -> Reply<'static> {
        self.start += bytes;
        reply
    }

    fn fill(&mut self) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.input.len() {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end == self.input.len() {
                self.input.resize(2 * self.end, 0);
            }
        }
        let mut poll = PollState::default();
        loop {
            match self.stream.read(&mut self.input[self.end..]) {
                Ok(0) => return Err(failure("the server closed the connection")),
                Ok(bytes) => {
                    self.end += bytes;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => poll.again()?,
                Err(error) => return Err(lost(&error)),
            }
        }
    }
}

/// The state of a loop that polls the server.
#[derive(Default)]
struct PollState {
    since: Option<Instant>,
    times: u32,
}

impl PollState {
    fn again(&mut self) -> Result<()> {
        self.times = self.times.wrapping_add(1);
        if self.times.is_multiple_of(1 << 12) {
            let since = *self.since.get_or_insert_with(Instant::now);
            if since.elapsed() > SILENCE_MAX {
                return Err(failure(format!("no answer for {} s", SILENCE_MAX.as_secs())));
            }
        }
        if self.times > POLLS_BEFORE_YIELD {
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// Parses the first reply in `bytes`, if it is complete.
fn parse(bytes: &[u8]) -> Result<Option<Parsed>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (kind, line, head) = (bytes[0], &bytes[1..end.max(1)], end + 2);
    let words = || String::from_utf8_lossy(line).into_owned();
    let number = || words().parse::<i64>().map_err(|_| failure(format!("invalid number {:?}", words())));
    Ok(Some(match kind {
        b'+' => Parsed::Simple(head),
        b'-' => return Err(failure(format!("error reply: {}", words()))),
        b':' => Parsed::Number(number()?, head),
        b'*' => Parsed::Array(number()?.max(0) as usize, head),
        b'$' => match usize::try_from(number()?) {
            Err(_) => Parsed::Null(head),
            Ok(length) if bytes.len() < head + length + 2 => return Ok(None),
            Ok(length) => Parsed::Bulk(head..head + length, head + length + 2),
        },
        other => return Err(failure(format!("unknown type of reply: {:?}", char::from(other)))),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_replies_are_parsed() {
        for (bytes, parsed) in [
            (&b"+OK\r\n"[..], Parsed::Simple(5)),
            (b":-12\r\n", Parsed::Number(-12, 6)),
            (b"$3\r\na\r\n\r\n", Parsed::Bulk(4..7, 9)),
            (b"$0\r\n\r\n", Parsed::Bulk(4..4, 6)),
            (b"$-1\r\n", Parsed::Null(5)),
            (b"*2\r\n", Parsed::Array(2, 4)),
        ] {
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut]).unwrap(), None, "{cut} of {bytes:?}");
            }
            assert_eq!(parse(&[bytes, b"+more"].concat()).unwrap(), Some(parsed));
        }
    }

    #[test]
    fn invalid_replies_are_errors() {
        for (bytes, words) in [
            (&b"-ERR no\r\n"[..], "ERR no"),
            (b":x\r\n", "invalid number"),
            (b"?\r\n", "unknown type"),
            (b"\r\n", "unknown type"),
        ] {
            assert!(parse(bytes).unwrap_err().to_string().contains(words));
        }
    }
}
