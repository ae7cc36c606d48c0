//! The client: one thread that polls sockets, the same for all models.

use crate::node::{ANSWER, OFFSETS, REQUEST};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A client without answers for this long yields its CPU between polls.
const PATIENCE: Duration = Duration::from_micros(50);
const WARM_UP: Duration = Duration::from_millis(200);

/// Connections, and requests that each has in progress.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) busy: usize,
    pub(crate) idle: usize,
    pub(crate) outstanding: usize,
}

/// The measurements of a client.
pub(crate) struct Seen {
    pub(crate) time: Duration,
    /// Nanoseconds of each request.
    pub(crate) latencies: Vec<u32>,
    /// The counts of `meter` during the run.
    pub(crate) metered: f64,
}

struct Connection {
    stream: TcpStream,
    /// The send times of the requests in flight, and their offsets.
    under_way: VecDeque<(Instant, u64)>,
    answers: Vec<u8>,
    held: usize,
}

/// Connects as `case` says.
pub(crate) struct Client {
    busy: Vec<Connection>,
    _idle: Vec<TcpStream>,
    random: u64,
    requests: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(node: SocketAddr, case: Case) -> io::Result<Self> {
        let connect = |_| {
            let stream = TcpStream::connect(node)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        let busy = (0..case.busy).map(connect).collect::<io::Result<Vec<_>>>()?;
        let connection = |stream| {
            let answers = vec![0; case.outstanding * ANSWER];
            Connection { stream, under_way: VecDeque::with_capacity(case.outstanding), answers, held: 0 }
        };
        let busy = busy.into_iter().map(connection).collect();
        let idle = (0..case.idle).map(connect).collect::<io::Result<_>>()?;
        Ok(Self { busy, _idle: idle, random: 0x9e37_79b9_7f4a_7c15, requests: Vec::new() })
    }

    /// Sends requests and checks answers for `time` after a warm-up.
    pub(crate) fn run(
        &mut self,
        case: Case,
        time: Duration,
        meter: impl Fn() -> io::Result<f64>,
    ) -> io::Result<Seen> {
        for key in 0..self.busy.len() {
            self.send(key, case.outstanding)?;
        }
        let mut latencies = Vec::with_capacity(4 << 20);
        self.look(WARM_UP, &mut latencies)?;
        latencies.clear();
        let before = meter()?;
        let time = self.look(time, &mut latencies)?;
        Ok(Seen { time, latencies, metered: meter()? - before })
    }

    fn look(&mut self, time: Duration, latencies: &mut Vec<u32>) -> io::Result<Duration> {
        let start = Instant::now();
        let mut found = start;
        while start.elapsed() < time {
            for key in 0..self.busy.len() {
                let answers = self.busy[key].receive(latencies)?;
                if answers > 0 {
                    self.send(key, answers)?;
                    found = Instant::now();
                }
            }
            if found.elapsed() > PATIENCE {
                std::thread::yield_now();
            }
        }
        Ok(start.elapsed())
    }

    fn send(&mut self, key: usize, requests: usize) -> io::Result<()> {
        self.requests.clear();
        let (connection, now) = (&mut self.busy[key], Instant::now());
        for _ in 0..requests {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            let offset = self.random % OFFSETS * 64;
            self.requests.extend_from_slice(&offset.to_le_bytes());
            self.requests.resize(self.requests.len().next_multiple_of(REQUEST), 0);
            connection.under_way.push_back((now, offset));
        }
        // Few enough that a stream takes them whole.
        let sent = connection.stream.write(&self.requests)?;
        if sent == self.requests.len() {
            Ok(())
        } else {
            Err(io::Error::other("a stream did not take 2 KiB"))
        }
    }
}

impl Connection {
    /// Reads once: how many answers are complete now.
    fn receive(&mut self, latencies: &mut Vec<u32>) -> io::Result<usize> {
        match self.stream.read(&mut self.answers[self.held..]) {
            Ok(0) => return Err(io::Error::other("the node closed a connection: see its messages")),
            Ok(bytes) => self.held += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error),
        }
        let now = Instant::now();
        for answer in self.answers[..self.held].chunks_exact(ANSWER) {
            let (sent, offset) = self.under_way.pop_front().expect("no more answers than there is room for");
            let last = offset + ANSWER as u64 - 8;
            if answer[..8] != offset.to_le_bytes() || answer[ANSWER - 8..] != last.to_le_bytes() {
                return Err(io::Error::other(format!("the answer is not what is at offset {offset}")));
            }
            latencies.push((now - sent).as_nanos() as u32);
        }
        let whole = self.held / ANSWER * ANSWER;
        self.answers.copy_within(whole..self.held, 0);
        self.held -= whole;
        Ok(whole / ANSWER)
    }
}
