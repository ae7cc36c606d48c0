//! A stream of bytes between a compute node and a memory node: plain, or through TLS.
//!
//! A non-blocking stream behaves the same with TLS and without: [`ErrorKind::WouldBlock`] is passed on. TLS
//! keeps a bounded amount that it could not send at once, and [`Cipher::flush`] sends it later.

use crate::fork::OwnDescriptor;
use rustls::Connection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

/// The layer between frames and a TCP stream: none, or TLS.
#[derive(Debug, Default)]
pub(crate) struct Cipher(Option<Box<Connection>>);

impl Cipher {
    /// TLS, whose handshake runs as bytes are read and written.
    pub(crate) fn tls(connection: Connection) -> Self {
        Self(Some(Box::new(connection)))
    }

    /// Returns whether it is TLS: then a short read does not mean that no more is available.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Reads. Bytes that are not TLS, or not trusted, are [`ErrorKind::InvalidData`], after an alert to the
    /// peer.
    #[inline]
    pub(crate) fn read(&mut self, mut stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.0 else { return stream.read(into) };
        // Each iteration consumes bytes of the stream, or ends.
        loop {
            match tls.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            tls.read_tls(&mut stream)?;
            let taken = tls.process_new_packets();
            let sent = send(tls, stream);
            taken.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            match sent {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }

    /// Writes, or keeps bytes for [`Self::flush`], up to a bounded amount.
    #[inline]
    pub(crate) fn write(&mut self, mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.0 else { return stream.write(bytes) };
        loop {
            let taken = tls.writer().write(bytes)?;
            let was_full = tls.wants_write();
            return match (send(tls, stream), taken) {
                (Err(error), 0) => Err(error),
                (Err(error), _) if error.kind() != ErrorKind::WouldBlock => Err(error),
                // There is space now; the stream took everything, so no later event would report it.
                (Ok(()), 0) if was_full => continue,
                (_, 0) => Err(ErrorKind::WouldBlock.into()),
                (_, taken) => Ok(taken),
            };
        }
    }

    /// Sends the kept bytes.
    #[inline]
    pub(crate) fn flush(&mut self, stream: &TcpStream) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), |tls| send(tls, stream))
    }
}

fn send(tls: &mut Connection, mut stream: &TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        if tls.write_tls(&mut stream)? == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

/// A compute node's TCP stream and its TLS layer.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) tcp: OwnDescriptor<TcpStream>,
    pub(crate) cipher: Cipher,
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.cipher.read(&self.tcp, into)
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.cipher.write(&self.tcp, bytes)
    }

    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        self.cipher.flush(&self.tcp)
    }
}
