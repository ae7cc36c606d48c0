//! The current latency of the machine's loopback interface: an exchange of 32 bytes out and 1 KiB back over TCP.
//!
//! The loopback interface of an idle machine has two states. If the other side sleeps in the kernel, the exchange takes
//! about 15 us when its CPU is in a light idle state, and about 55 us when it is in a deep one. A record names the
//! state.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use super::cpu::{CpuPinning, pin};
use crate::record::Loopback;
use crate::{Error, Result};

const REQUEST_BYTES: usize = 32;
const ANSWER_BYTES: usize = 1024;
const ROUNDS: usize = 4000;
/// Number of polls after which an end yields its CPU, as Farwood's threads do.
const POLLS_BEFORE_YIELD: u32 = 64;
/// The latency with sleeping ends above which the state is "slow", in microseconds.
const SLOW_US: f64 = 30.0;

/// The way in which both ends of the connection wait for data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitMode {
    Sleep,
    Poll,
}

/// Measures the latency between the CPUs of servers and of clients, with ends that sleep and with ends that poll.
pub(crate) fn measure(pinning: &CpuPinning) -> Result<Loopback> {
    let median = |mode| {
        exchange(pinning, mode)
            .map_err(|source| Error::Processes { doing: "measure the loopback".to_owned(), source })
    };
    let (sleeping_us, looking_us) = (median(WaitMode::Sleep)?, median(WaitMode::Poll)?);
    let state = if sleeping_us < SLOW_US { "fast" } else { "slow" }.to_owned();
    Ok(Loopback { sleeping_us, looking_us, state })
}

/// The median latency of an exchange in microseconds.
fn exchange(pinning: &CpuPinning, mode: WaitMode) -> io::Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let (servers, clients) = (pinning.servers.clone(), pinning.clients.clone());
    let server = thread::spawn(move || -> io::Result<()> {
        pin(&servers)?;
        let mut stream = configure(listener.accept()?.0, mode)?;
        let mut request = [0; REQUEST_BYTES];
        for _ in 0..ROUNDS {
            fill(&mut stream, &mut request)?;
            stream.write_all(&[7; ANSWER_BYTES])?;
        }
        Ok(())
    });
    let client = thread::spawn(move || -> io::Result<f64> {
        pin(&clients)?;
        let mut stream = configure(TcpStream::connect(address)?, mode)?;
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

fn configure(stream: TcpStream, mode: WaitMode) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(mode == WaitMode::Poll)?;
    Ok(stream)
}

fn fill(stream: &mut TcpStream, into: &mut [u8]) -> io::Result<()> {
    let (mut filled, mut polls) = (0, 0);
    while filled < into.len() {
        match stream.read(&mut into[filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                polls += 1;
                if polls > POLLS_BEFORE_YIELD {
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
    fn the_latency_and_its_state_are_measured() {
        let loopback = measure(&CpuPinning::of_this_machine()).unwrap();
        assert!(loopback.sleeping_us > 0.0 && loopback.looking_us > 0.0, "{loopback:?}");
        assert_eq!(loopback.state == "slow", loopback.sleeping_us >= SLOW_US);
    }
}
