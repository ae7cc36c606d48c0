//! Readiness by mio, as the memory node's workers do it: turns of connections, and a look around before sleep.

use crate::node::{Inbox, Memory, PART};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::{Duration, Instant};

/// Reads of one turn.
const PORTIONS_MAX: usize = 4;

struct Connection {
    stream: TcpStream,
    inbox: Inbox,
    part: Vec<u8>,
    sent: usize,
}

/// Serves until all connections have ended; a thread looks for `spin` before it sleeps.
pub(crate) fn serve(streams: Vec<std::net::TcpStream>, memory: &Memory, spin: Duration) -> io::Result<()> {
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(256));
    let mut connections = Vec::new();
    for (key, stream) in streams.into_iter().enumerate() {
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(key), Interest::READABLE | Interest::WRITABLE)?;
        connections.push(Some(Connection {
            stream,
            inbox: Inbox::new(),
            part: Vec::with_capacity(PART),
            sent: 0,
        }));
    }
    let (mut open, mut again, mut busy) = (connections.len(), Vec::new(), Instant::now());
    while open > 0 {
        let spinning = !again.is_empty() || busy.elapsed() < spin;
        match poll.poll(&mut events, spinning.then_some(Duration::ZERO)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        let mut ready = std::mem::take(&mut again);
        ready.extend(events.iter().map(|event| event.token().0));
        if ready.is_empty() && spinning && busy.elapsed() > spin / 2 {
            std::thread::yield_now();
        }
        for key in ready {
            busy = Instant::now();
            let Some(connection) = &mut connections[key] else { continue };
            match connection.turn(memory) {
                Ok(true) => again.push(key),
                Ok(false) => {}
                Err(_) => {
                    connections[key] = None;
                    open -= 1;
                }
            }
        }
    }
    Ok(())
}

impl Connection {
    /// True: it may have more to do, though nobody will announce it.
    fn turn(&mut self, memory: &Memory) -> io::Result<bool> {
        let mut may_have_more = true;
        for _ in 0..PORTIONS_MAX {
            if !self.flush(memory)? || !may_have_more {
                return Ok(false);
            }
            may_have_more = self.fill()?;
        }
        Ok(true)
    }

    /// False: the stream takes no more for now, and announces it when it does.
    fn flush(&mut self, memory: &Memory) -> io::Result<bool> {
        while self.sent < self.part.len() || self.inbox.answer(memory, &mut self.part) {
            match self.stream.write(&self.part[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
            if self.sent == self.part.len() {
                self.part.clear();
                self.sent = 0;
            }
        }
        Ok(true)
    }

    /// Reads once. False: there was no more than that.
    fn fill(&mut self) -> io::Result<bool> {
        let room = self.inbox.room();
        let wanted = room.len();
        match self.stream.read(room) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => {
                self.inbox.took(bytes);
                Ok(bytes == wanted)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}
