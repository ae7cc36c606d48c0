//! TCP sockets: connecting, and detecting an unreachable peer.

use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// A memory node that does not accept a connection within this time is lost.
pub(crate) const CONNECT_MAX: Duration = Duration::from_secs(3);
/// A peer that acknowledges nothing for this time counts as unreachable.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Connects to the first of the addresses that accepts the connection.
pub(crate) fn connect(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                keep_alive(&stream)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Makes the kernel probe an idle peer, and close the stream if the peer does not answer.
pub(crate) fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE_MAX / 3)?;
    sockopt::set_tcp_keepintvl(stream, SILENCE_MAX / 3)?;
    sockopt::set_tcp_keepcnt(stream, 2)?;
    Ok(sockopt::set_tcp_user_timeout(stream, SILENCE_MAX.as_millis() as u32)?)
}

/// Returns whether an error means that this process or machine has no free descriptor.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
