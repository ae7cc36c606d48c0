//! A thread for each connection, which waits for it in the kernel.

use crate::node::{Inbox, Memory, PART};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

/// Serves until all connections have ended.
pub(crate) fn serve(streams: Vec<TcpStream>, memory: &'static Memory) {
    thread::scope(|scope| {
        for stream in streams {
            // A connection that breaks has ended.
            scope.spawn(move || drop(converse(&stream, memory)));
        }
    });
}

fn converse(mut stream: &TcpStream, memory: &Memory) -> io::Result<()> {
    let (mut inbox, mut part) = (Inbox::new(), Vec::with_capacity(PART));
    loop {
        match stream.read(inbox.room())? {
            0 => return Ok(()),
            bytes => inbox.took(bytes),
        }
        while inbox.answer(memory, &mut part) {
            stream.write_all(&part)?;
        }
    }
}
