//! Measures inserts into a spatial index with 200,000 rectangles, each in its own call and in batches: in place,
//! through rings, and over TCP. The server and all clients are threads of this process.
//!
//! `cargo bench -p farwood --bench spatial_changes`
#![expect(clippy::print_stdout, reason = "the program prints its measurements")]

use farwood::spatial::{Editor, Item, RTree, Rectangle, ServeOptions, Spatial};
use farwood::{Pool, PoolOptions};
use farwood_transport::tcp::{MemoryNode, NodeSpec};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LOADED: u64 = 200_000;
const BATCH: usize = 1024;
/// The largest edge of a rectangle, in a square of edge 1.
const EDGE: f64 = 1e-4;

/// How many items a client inserts with one call.
#[derive(Clone, Copy, Debug)]
enum Calls {
    OneByOne,
    Batches,
}

/// Draws rectangles (xorshift).
struct Draw(u64);

impl Draw {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn item(&mut self, id: u64) -> Item {
        let min = [self.unit(), self.unit()];
        let max = [min[0] + EDGE * self.unit(), min[1] + EDGE * self.unit()];
        Item { bounds: Rectangle::new(min, max).expect("edges are in order"), id }
    }
}

/// Inserts until `stop`; yields the number of inserts.
fn insert(editor: &mut Editor<'_>, calls: Calls, seed: u64, stop: &AtomicBool) -> farwood::Result<u64> {
    let (mut draw, mut inserted) = (Draw(0x9E37_79B9 + seed), 0);
    while !stop.load(Ordering::Relaxed) {
        let items: Vec<_> = (0..BATCH as u64).map(|id| draw.item(LOADED + id)).collect();
        match calls {
            Calls::Batches => editor.insert_many(&items)?,
            Calls::OneByOne => {
                for item in &items {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    editor.insert(item)?;
                    inserted += 1;
                }
                continue;
            }
        }
        inserted += BATCH as u64;
    }
    Ok(inserted)
}

/// Processor time of this process until now, server and clients together, in seconds. Other load on the machine affects
/// it less than the rate.
fn processor_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let statistics = std::fs::read_to_string("/proc/self/stat").expect("the statistics of Linux");
    let (_, fields) = statistics.rsplit_once(')').expect("the name of the program is in parentheses");
    let ticks =
        fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number"));
    ticks.sum::<f64>() / TICKS_PER_SECOND
}

/// Measures inserts of `clients` threads, each with its own connection.
fn measure(what: &str, url: &str, (clients, calls): (usize, Calls)) -> farwood::Result<()> {
    let (stop, inserted) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = processor_seconds();
    let passed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|client| {
                let (stop, inserted) = (&stop, &inserted);
                scope.spawn(move || {
                    let places = Pool::open(url)?.open_spatial("places")?;
                    let done = places.change(|editor| insert(editor, calls, client as u64, stop))?;
                    inserted.fetch_add(done, Ordering::Relaxed);
                    Ok::<_, farwood::Error>(())
                })
            })
            .collect();
        let start = Instant::now();
        std::thread::sleep(Duration::from_secs_f64(SECONDS));
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().expect("a client does not panic")?;
        }
        Ok::<_, farwood::Error>(start.elapsed().as_secs_f64())
    })?;
    let (inserted, worked) = (inserted.into_inner() as f64, processor_seconds() - began);
    println!(
        "{what}, {clients} clients, {calls:?}: {:.1} k inserts/s; {:.1} us of processor time each",
        inserted / passed / 1e3,
        1e6 * worked / inserted
    );
    Ok(())
}

fn load(places: &Spatial) -> farwood::Result<()> {
    let mut draw = Draw(7);
    let items: Vec<_> = (0..LOADED).map(|id| draw.item(id)).collect();
    places.bulk_load(&items, 0.8)
}

/// Runs `work` while a thread serves the index.
fn served(
    places: &Spatial,
    options: &ServeOptions,
    work: impl FnOnce() -> farwood::Result<()>,
) -> farwood::Result<()> {
    let (stop, ready) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let server = scope.spawn(|| places.serve(options, &stop, || ready.store(true, Ordering::Release)));
        while !ready.load(Ordering::Acquire) && !server.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let done = work();
        stop.store(true, Ordering::Release);
        server.join().expect("the server does not panic")?;
        done
    })
}

/// Bytes of a pool.
const POOL_BYTES: u64 = 2 << 30;
/// Duration of a measurement, seconds.
const SECONDS: f64 = 2.0;

fn main() -> farwood::Result<()> {
    let url = format!("shm://bench-changes-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(POOL_BYTES))?;
    let done = in_shared_memory(&url);
    Pool::remove_by_force(&url)?;
    done?;
    over_tcp()
}

fn over_tcp() -> farwood::Result<()> {
    let address = "127.0.0.1:0".parse().expect("an address");
    let node = MemoryNode::start(&NodeSpec::new(address, POOL_BYTES)).expect("a memory node");
    let url = format!("tcp://{}", node.address());
    let places = Pool::open(url.as_str())?.create_spatial("places", &RTree::new())?;
    let listener = Some(TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let options = ServeOptions { listener, memory_node: Some(node.server()), ..ServeOptions::default() };
    served(&places, &options, || {
        load(&places)?;
        measure_clients("over TCP", &url)
    })
}

fn in_shared_memory(url: &str) -> farwood::Result<()> {
    let pool = Pool::open(url)?;
    let places = pool.create_spatial("places", &RTree::new())?;
    load(&places)?;
    for calls in [Calls::OneByOne, Calls::Batches] {
        measure("in place", url, (1, calls))?;
    }
    served(&places, &ServeOptions::default(), || measure_clients("rings", url))
}

fn measure_clients(what: &str, url: &str) -> farwood::Result<()> {
    for calls in [Calls::OneByOne, Calls::Batches] {
        for clients in [1, 4, 16] {
            measure(what, url, (clients, calls))?;
        }
    }
    Ok(())
}
