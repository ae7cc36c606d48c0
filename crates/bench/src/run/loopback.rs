//! How fast this machine's loopback is right now: a bare exchange of 32 bytes out and 1 KiB back.
//!
//! On idle processors it has two states. Where the other side sleeps in the kernel, a wake-up of a processor that dozes
//! lightly costs some 15 us for the exchange, of one that sleeps deeply some 55; a record says which it was.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use super::pins::{Pins, pin};
use crate::record::Loopback;
use crate::{Error, Result};

const REQUEST_BYTES: usize = 32;
const ANSWER_BYTES: usize = 1024;
const ROUNDS: usize = 4000;
/// Looks before a side gives way, as Farwood's threads do.
const LOOKS: u32 = 64;
/// Between the two states.
const SLOW_US: f64 = 30.0;

/// How both sides wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    Sleeping,
    Looking,
}

/// Measures it between the processors of servers and clients.
pub(super) fn measure(pins: &Pins) -> Result<Loopback> {
    let median = |waits| {
        exchange(pins, waits)
            .map_err(|source| Error::Processes { doing: "measure the loopback".to_owned(), source })
    };
    let (sleeping_us, looking_us) = (median(Waits::Sleeping)?, median(Waits::Looking)?);
    let state = if sleeping_us < SLOW_US { "fast" } else { "slow" }.to_owned();
    Ok(Loopback { sleeping_us, looking_us, state })
}

/// The median exchange, microseconds.
fn exchange(pins: &Pins, waits: Waits) -> io::Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let (servers, clients) = (pins.servers.clone(), pins.clients.clone());
    let server = thread::spawn(move || -> io::Result<()> {
        pin(&servers)?;
        let mut stream = ready(listener.accept()?.0, waits)?;
        let mut request = [0; REQUEST_BYTES];
        for _ in 0..ROUNDS {
            fill(&mut stream, &mut request)?;
            stream.write_all(&[7; ANSWER_BYTES])?;
        }
        Ok(())
    });
    let client = thread::spawn(move || -> io::Result<f64> {
        pin(&clients)?;
        let mut stream = ready(TcpStream::connect(address)?, waits)?;
        let (mut answer, mut times) = ([0; ANSWER_BYTES], Vec::with_capacity(ROUNDS));
        for _ in 0..ROUNDS {
            let start = Instant::now();
            stream.write_all(&[1; REQUEST_BYTES])?;
            fill(&mut stream, &mut answer)?;
            times.push(start.elapsed().as_nanos() as f64 / 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[ROUNDS / 2])
    });
    let panicked = |_| io::Error::other("a thread panicked");
    let median = client.join().map_err(panicked)??;
    server.join().map_err(panicked)??;
    Ok(median)
}

fn ready(stream: TcpStream, waits: Waits) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(waits == Waits::Looking)?;
    Ok(stream)
}

fn fill(stream: &mut TcpStream, into: &mut [u8]) -> io::Result<()> {
    let (mut filled, mut looks) = (0, 0);
    while filled < into.len() {
        match stream.read(&mut into[filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                looks += 1;
                if looks > LOOKS {
                    thread::yield_now();
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_measured_and_its_state_is_named() {
        let loopback = measure(&Pins::of_this_machine()).unwrap();
        assert!(loopback.sleeping_us > 0.0 && loopback.looking_us > 0.0, "{loopback:?}");
        assert_eq!(loopback.state == "slow", loopback.sleeping_us >= SLOW_US);
    }
}
