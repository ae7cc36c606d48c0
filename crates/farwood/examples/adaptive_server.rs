//! A server of your own beside an ordered index: it adds up the values of a range, and its clients add up the range
//! themselves while the server is busy (Catfish §VI).
//!
//! Clients and server are threads of this process, and a request is a message in a channel; in a program of several
//! processes it would be a call over the network. The server has one thread, so one client leaves it time, and eight
//! clients do not.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::adaptive::{BackOff, BackOffSettings, Heartbeat, SearchPath, ServerLoad};
use farwood::{BTree, Index, Pool, PoolOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const KEYS: u64 = 10_000;
/// Keys of a range.
const RANGE: u64 = 100;
/// The interval of heartbeats: that of the paper.
const HEARTBEAT: Duration = Duration::from_millis(10);
const RUN: Duration = Duration::from_millis(500);
/// Utilisation above which the server is busy. The paper has 0.95, for a server with processors of its own; here the
/// clients take a part of its time.
const BUSY: f64 = 0.4;

type Failure = Box<dyn std::error::Error>;

/// The first key of a range, and the channel for the answer.
type Request = (u64, Sender<farwood::Result<u64>>);

/// The path by which clients get their answers.
#[derive(Clone, Copy, Debug)]
enum Scheme {
    Messages,
    Reads,
    Adaptive,
}

fn main() -> Result<(), Failure> {
    let url = format!("shm://example-adaptive-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    let done = compare(&url);
    Pool::remove_by_force(&url)?;
    done
}

fn compare(url: &str) -> Result<(), Failure> {
    let index = Pool::open(url)?.open_or_create::<u64, u64>("values", &BTree::new())?;
    for key in 0..KEYS {
        index.put(key, 2 * key)?;
    }
    for clients in [1, 8] {
        for scheme in [Scheme::Messages, Scheme::Reads, Scheme::Adaptive] {
            let run =
                Run { index: &index, scheme, heartbeat: Heartbeat::default(), load: ServerLoad::default() };
            run.measure(clients)?;
        }
    }
    Ok(())
}

/// The sum of the values from key `first` on.
fn sum(index: &Index<u64, u64>, first: u64) -> farwood::Result<u64> {
    index.scan(first..first + RANGE).map(|entry| Ok(entry?.1)).sum()
}

/// Ends the heartbeats, also after a panic.
struct SetOnDrop<'e>(&'e AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One run of a server and its clients.
struct Run<'i> {
    index: &'i Index<u64, u64>,
    scheme: Scheme,
    heartbeat: Heartbeat,
    load: ServerLoad,
}

impl Run<'_> {
    /// Runs `clients` clients for a fixed time, and prints what they did.
    fn measure(&self, clients: u64) -> Result<(), Failure> {
        let (answered, offloaded) = (AtomicU64::new(0), AtomicU64::new(0));
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = SetOnDrop(&ended);
            let (requests, received) = channel();
            scope.spawn(move || self.serve(&received));
            scope.spawn(|| self.beat(&ended));
            let client = |number| {
                let requests = requests.clone();
                let (answered, offloaded) = (&answered, &offloaded);
                scope.spawn(move || self.ask(number, &requests, (answered, offloaded)))
            };
            let clients: Vec<_> = (0..clients).map(client).collect();
            // The server ends when no client can send.
            drop(requests);
            clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))
        })?;
        let answered = answered.into_inner();
        println!(
            "clients: {clients}, {:?}: {:.0} k sums/s, {:.0} % by READs",
            self.scheme,
            answered as f64 / RUN.as_secs_f64() / 1e3,
            100.0 * offloaded.into_inner() as f64 / answered as f64
        );
        Ok(())
    }

    /// The server: it answers one request after the other.
    fn serve(&self, requests: &Receiver<Request>) {
        let _membership = self.load.join();
        for (first, answer) in requests {
            // The client may have ended.
            let _ = answer.send(sum(self.index, first));
        }
    }

    fn beat(&self, ended: &AtomicBool) {
        while !ended.load(Ordering::Relaxed) {
            std::thread::sleep(HEARTBEAT);
            self.heartbeat.publish(self.load.utilisation());
        }
    }

    /// A client: it asks for the sums of ranges until the time is over.
    fn ask(
        &self,
        number: u64,
        requests: &Sender<Request>,
        (answered, offloaded): (&AtomicU64, &AtomicU64),
    ) -> farwood::Result<()> {
        let mut heartbeats = self.heartbeat.reader();
        let settings = BackOffSettings { threshold: BUSY, ..BackOffSettings::default() };
        let mut back_off = BackOff::new(settings, number + 1);
        let (answers, received) = channel();
        let (start, mut first) = (Instant::now(), number);
        while start.elapsed() < RUN {
            first = (first * 31 + 7) % (KEYS - RANGE);
            let path = match self.scheme {
                Scheme::Messages => SearchPath::Message,
                Scheme::Reads => SearchPath::Offload,
                Scheme::Adaptive => back_off.next(heartbeats.take()),
            };
            let found = if path == SearchPath::Message {
                requests.send((first, answers.clone())).expect("the server runs while a client does");
                received.recv().expect("the server answers every request")?
            } else {
                offloaded.fetch_add(1, Ordering::Relaxed);
                sum(self.index, first)?
            };
            assert_eq!(found, RANGE * (2 * first + RANGE - 1), "the sum of the values from {first} on");
            answered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
