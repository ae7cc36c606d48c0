//! A stream of bytes between a compute node and a memory node: as it is, or through TLS.
//!
//! A stream that does not block says so, with TLS as without: [`ErrorKind::WouldBlock`] is passed on. What TLS could
//! not send at once it keeps, a bounded amount, and [`Cipher::flush`] sends later.

use rustls::Connection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

/// What stands between frames and a TCP stream: nothing, or TLS.
#[derive(Debug, Default)]
pub(crate) struct Cipher(Option<Box<Connection>>);

impl Cipher {
    /// TLS, whose handshake happens as bytes come and go.
    pub(crate) fn tls(connection: Connection) -> Self {
        Self(Some(Box::new(connection)))
    }

    /// Whether it is TLS: then a short read does not mean that there is no more.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Reads. What is no TLS, or not trusted, is [`ErrorKind::InvalidData`], and the other side is told.
    #[inline]
    pub(crate) fn read(&mut self, mut stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.0 else { return stream.read(into) };
        // Each turn takes bytes of the stream in, or ends.
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

    /// Writes, or keeps for [`Self::flush`]; never more than a bounded amount.
    #[inline]
    pub(crate) fn write(&mut self, mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.0 else { return stream.write(bytes) };
        loop {
            let taken = tls.writer().write(bytes)?;
            let was_full = tls.wants_write();
            return match (send(tls, stream), taken) {
                (Err(error), 0) => Err(error),
                (Err(error), _) if error.kind() != ErrorKind::WouldBlock => Err(error),
                // There is room now, and as the stream took everything, nobody would tell of it later.
                (Ok(()), 0) if was_full => continue,
                (_, 0) => Err(ErrorKind::WouldBlock.into()),
                (_, taken) => Ok(taken),
            };
        }
    }

    /// Sends what was kept.
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

/// A TCP stream and what is between it and frames, at the compute node.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) tcp: TcpStream,
    pub(crate) cipher: Cipher,
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
