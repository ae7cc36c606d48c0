//! Blocking exchanges on a non-blocking stream, with one time limit for all of them: a peer that sends single bytes at
//! intervals does not extend it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::Instant;

/// Sends all bytes before `end`.
pub(crate) fn send_all(stream: &mut (impl Write + AsFd), bytes: &[u8], end: Instant) -> io::Result<()> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(now) => sent += now,
            Err(error) => wait_after(error, &*stream, PollFlags::OUT, end)?,
        }
    }
    loop {
        match stream.flush() {
            Ok(()) => return Ok(()),
            Err(error) => wait_after(error, &*stream, PollFlags::OUT, end)?,
        }
    }
}

/// Fills `bytes` before `end`.
pub(crate) fn receive_exact(
    stream: &mut (impl Read + AsFd),
    bytes: &mut [u8],
    end: Instant,
) -> io::Result<()> {
    let mut received = 0;
    while received < bytes.len() {
        match stream.read(&mut bytes[received..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(now) => received += now,
            Err(error) => wait_after(error, &*stream, PollFlags::IN, end)?,
        }
        // A peer that always has another byte is subject to the limit as well.
        remaining(end)?;
    }
    Ok(())
}

/// Waits until the stream is ready if `error` says that it was not; returns any other error.
fn wait_after(error: io::Error, stream: &impl AsFd, ready: PollFlags, end: Instant) -> io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock => {
            let timeout = remaining(end)?;
            match poll(&mut [PollFd::new(stream, ready)], Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }
        _ => Err(error),
    }
}

/// Returns the time until `end`.
fn remaining(end: Instant) -> io::Result<Timespec> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() })
}
