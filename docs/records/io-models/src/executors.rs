//! Executors: tokio over readiness, compio over `io_uring`. A connection is a task.

use crate::node::{Inbox, Memory, PART, ROOM};
use std::io;
use std::net::TcpStream;

/// Serves by tokio on `threads` threads until all connections have ended.
pub(crate) fn serve_tokio(
    streams: Vec<TcpStream>,
    memory: &'static Memory,
    threads: usize,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_io().build()?;
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for stream in streams {
            stream.set_nonblocking(true)?;
            tasks.push(tokio::spawn(converse_tokio(tokio::net::TcpStream::from_std(stream)?, memory)));
        }
        for task in tasks {
            // A connection that breaks has ended.
            let _ = task.await.expect("a task does not panic");
        }
        Ok(())
    })
}

async fn converse_tokio(mut stream: tokio::net::TcpStream, memory: &Memory) -> io::Result<()> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (mut inbox, mut part) = (Inbox::new(), Vec::with_capacity(PART));
    loop {
        match stream.read(inbox.room()).await? {
            0 => return Ok(()),
            bytes => inbox.took(bytes),
        }
        while inbox.answer(memory, &mut part) {
            stream.write_all(&part).await?;
        }
    }
}

/// Serves by compio on this thread until all connections have ended.
pub(crate) fn serve_compio(streams: Vec<TcpStream>, memory: &'static Memory) -> io::Result<()> {
    let runtime = compio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for stream in streams {
            let stream = compio::net::TcpStream::from_std(stream)?;
            tasks.push(compio::runtime::spawn(converse_compio(stream, memory)));
        }
        for task in tasks {
            // A connection that breaks has ended.
            let _ = task.await.expect("a task does not panic");
        }
        Ok(())
    })
}

async fn converse_compio(mut stream: compio::net::TcpStream, memory: &Memory) -> io::Result<()> {
    use compio::io::{AsyncRead as _, AsyncWriteExt as _};
    let (mut inbox, mut part, mut read) = (Inbox::new(), Vec::with_capacity(PART), Vec::with_capacity(ROOM));
    loop {
        let took = stream.read(read).await;
        read = took.1;
        match took.0? {
            0 => return Ok(()),
            bytes => inbox.put(&read[..bytes]),
        }
        while inbox.answer(memory, &mut part) {
            let wrote = stream.write_all(part).await;
            part = wrote.1;
            wrote.0?;
        }
    }
}
