//! The time of a READ of 1 KiB over TCP, compared with a bare ping-pong of 32 bytes out and 1 KiB back, on the same
//! machine in the same run: with one client, and with many clients of one thread.

use farwood_fabric::{Memory, NodeId, Remote, read_bytes};
use farwood_transport::runtime::{block_on, run_all};
use farwood_transport::tcp::{Credentials, MemoryNode, NodeSpec, TcpPool};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::time::{Duration, Instant};

const BYTES: usize = 1024;
const ROUNDS: u32 = 20_000;
const REPEATS: usize = 5;

fn tell(what: &str, elapsed: Duration, count: u32) {
    let ns = elapsed.as_nanos() as f64 / f64::from(count);
    let text = format!("{what:<46} {:8.2} us   {:9.0} /s\n", ns / 1e3, 1e9 / ns);
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Fills `into` from a non-blocking stream by polling it.
fn fill(stream: &mut TcpStream, into: &mut [u8]) -> bool {
    let mut filled = 0;
    while filled < into.len() {
        match stream.read(&mut into[filled..]) {
            Ok(0) => return false,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    true
}

/// Runs the bare exchange; both sides poll.
fn ping_pong() -> Duration {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut request = [0; 32];
        while fill(&mut stream, &mut request) {
            stream.write_all(&[7; BYTES]).unwrap();
        }
    });
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_nonblocking(true).unwrap();
    let mut answer = [0; BYTES];
    let start = Instant::now();
    for _ in 0..ROUNDS {
        stream.write_all(&[1; 32]).unwrap();
        assert!(fill(&mut stream, &mut answer));
    }
    start.elapsed()
}

fn place(number: u32) -> Remote<farwood_fabric::Words> {
    let offset = (9 << 20) + u64::from(number.wrapping_mul(2_654_435_761) % 20_000) * BYTES as u64;
    Remote::at(farwood_fabric::Address::new(NodeId(0), Memory::Host, offset).unwrap())
}

fn reads(pool: &TcpPool, clients: u32) -> Duration {
    let rounds = ROUNDS / clients.min(4);
    let work = |number: u32| {
        let client = pool.client();
        Box::pin(async move {
            for round in 0..rounds {
                drop(client.post(read_bytes(place(number + round), BYTES)).await.unwrap());
            }
        }) as Pin<Box<dyn Future<Output = ()>>>
    };
    let start = Instant::now();
    if clients == 1 {
        block_on(work(0));
    } else {
        run_all((0..clients).map(work).collect());
    }
    start.elapsed() / (clients / clients.min(4))
}

fn main() {
    // `cargo test` also runs benches, without their measurements.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let node =
        MemoryNode::start(&NodeSpec::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 64 << 20)).unwrap();
    let pool = TcpPool::open(&node.address().to_string().parse().unwrap(), Credentials::default()).unwrap();
    for _ in 0..REPEATS {
        tell("ping-pong of 32 B and 1 KiB", ping_pong(), ROUNDS);
        for clients in [1, 2, 4, 16, 64] {
            tell(&format!("READ of 1 KiB, {clients} clients of a thread"), reads(&pool, clients), ROUNDS);
        }
    }
}
