//! Completion by io_uring: a ring for each thread, a receive that stays, and sends.

use crate::node::{Inbox, Memory, PART};
use crate::sys::{Event, Ring};
use std::io;
use std::net::TcpStream;
use std::time::Duration;

struct Connection {
    inbox: Inbox,
    /// None while the kernel sends it.
    part: Option<Vec<u8>>,
}

/// Serves until all connections have ended; a thread looks for `spin` before it sleeps. With `sqpoll` a thread of
/// the kernel looks for what is submitted.
pub(crate) fn serve(streams: &[TcpStream], memory: &Memory, spin: Duration, sqpoll: bool) -> io::Result<()> {
    let ring = Ring::leaked(streams, sqpoll)?;
    let connection = || Connection { inbox: Inbox::new(), part: Some(Vec::with_capacity(PART)) };
    let mut connections: Vec<_> = streams.iter().map(|_| connection()).collect();
    let mut open = connections.len();
    while open > 0 {
        ring.wait(spin)?;
        while let Some(event) = ring.next()? {
            let key = match event {
                Event::Received { key, bytes } => {
                    connections[key].inbox.put(ring.bytes(&bytes));
                    ring.give_back(bytes);
                    key
                }
                Event::Sent { key, part } => {
                    connections[key].part = Some(part);
                    key
                }
                Event::Over => {
                    open -= 1;
                    continue;
                }
            };
            let Connection { inbox, part } = &mut connections[key];
            let Some(mut next) = part.take() else { continue };
            if inbox.answer(memory, &mut next) {
                ring.send(key, next)?;
            } else {
                *part = Some(next);
            }
        }
    }
    Ok(())
}
