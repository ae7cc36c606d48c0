//! Measures searches through shared memory and in rstar: one process, one thread, the rectangles of the paper. Also
//! measures the processor time of a node in a search and in an insert. All times are processor times of the thread,
//! which other load on the machine affects less.
//!
//! `cargo run --release -p farwood-proof --example spatial_speed -- [RECTANGLES] [BLOCKS]`

use farwood_fabric::{Client, Fabric, NodeId, Server};
use farwood_index::catfish::{
    CHANGES_MAX, Catfish, CatfishConfig, Change, Count, Issue, Item, Query, Reader, Rectangle,
    ServerSettings, Worker,
};
use farwood_proof::shm::Shm;
use farwood_testkit::Harness;
use farwood_testkit::harness::{ServerHarness as _, TestRng};
use rstar::primitives::{GeomWithData, Rectangle as Peer};
use rstar::{AABB, RTree};
use std::time::Duration;

fn window(random: &mut TestRng, scale: f64) -> Rectangle {
    let unit = |random: &mut TestRng| random.below(1 << 53) as f64 / (1_u64 << 53) as f64;
    let corner = [unit(random), unit(random)];
    let edge = [scale * (1.0 - unit(random)), scale * (1.0 - unit(random))];
    Rectangle::new(corner, [corner[0] + edge[0], corner[1] + edge[1]]).expect("edges are not negative")
}

/// A point in this thread's processor time.
struct Instant(u64);

impl Instant {
    /// Nanoseconds that the thread has run, by the scheduler's count.
    fn ran() -> u64 {
        // A yield makes the scheduler update its count.
        std::thread::yield_now();
        let statistics =
            std::fs::read_to_string("/proc/thread-self/schedstat").expect("the statistics of Linux");
        statistics.split(' ').next().and_then(|ran| ran.parse().ok()).expect("the first field is a number")
    }

    fn now() -> Self {
        Self(Self::ran())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(Self::ran() - self.0)
    }
}

#[expect(clippy::print_stdout, reason = "the program prints its measurements")]
fn main() {
    let argument = |at| std::env::args().nth(at).and_then(|argument| argument.parse().ok());
    let (count, blocks) = (argument(1).unwrap_or(2_000_000), argument(2).unwrap_or(6) as usize);
    let mut random = TestRng::new(1);
    let items: Vec<_> = (0..count).map(|id| Item { bounds: window(&mut random, 1e-4), id }).collect();
    let start = Instant::now();
    let peer =
        |item: &Item| GeomWithData::new(Peer::from_corners(item.bounds.min(), item.bounds.max()), item.id);
    let peers = RTree::bulk_load(items.iter().map(peer).collect());
    println!("rstar: bulk-loaded {count} in {:.2} s", start.elapsed().as_secs_f64());
    let harness = Shm::of_bytes(1 << 30);
    let (client, server) = (harness.client(), harness.server(NodeId(0)));
    harness.block_on(async {
        let config = CatfishConfig { blocks, ..CatfishConfig::default() };
        let index = Catfish::create(&client, "speed", config).await.expect("a pool");
        let start = Instant::now();
        let tree = index.serve(&client, &server, ServerSettings::default()).await.expect("no other server");
        let worker = tree.worker(&client, &server);
        worker.bulk_load(&items, 1.0).await.expect("memory is free");
        println!("catfish, {blocks} blocks: bulk-loaded {count} in {:.2} s", start.elapsed().as_secs_f64());
        let _ = server.local();
        for scale in [1e-5, 1e-2] {
            let queries: Vec<_> = (0..400_000).map(|_| window(&mut random, scale)).collect();
            let queries = if scale < 1e-3 { &queries[..] } else { &queries[..60_000] };
            let mut reader = Reader::new(&index, &client, Issue::Many);
            for round in 0..3 {
                let mut found = Count::default();
                let _ = client.take_costs();
                let start = Instant::now();
                for window in queries {
                    reader.search(&Query::intersecting(*window), &mut found).await.expect("a search");
                }
                let offloaded = queries.len() as f64 / start.elapsed().as_secs_f64();
                let costs = client.take_costs();
                let mut local = Count::default();
                let start = Instant::now();
                for window in queries {
                    worker.search(&Query::intersecting(*window), &mut local).await.expect("a search");
                }
                let in_place = queries.len() as f64 / start.elapsed().as_secs_f64();
                let start = Instant::now();
                let theirs: usize = queries
                    .iter()
                    .map(|window| {
                        let window = AABB::from_corners(window.min(), window.max());
                        peers.locate_in_envelope_intersecting(&window).count()
                    })
                    .sum();
                let theirs_rate = queries.len() as f64 / start.elapsed().as_secs_f64();
                assert!(found == local && found.0 == theirs as u64, "{found:?} {local:?} {theirs}");
                // A search reads the word of the root and then nodes.
                let nodes = costs.reads as f64 / queries.len() as f64 - 1.0;
                let visit_ns = 1e9 / in_place / nodes;
                println!(
                    "scale {scale}, {round}: {:.0} k/s by READs, {:.0} k/s in place, {:.0} k/s rstar; {:.2} found; \
                     {nodes:.2} nodes, {visit_ns:.0} ns each in place",
                    offloaded / 1e3,
                    in_place / 1e3,
                    theirs_rate / 1e3,
                    found.0 as f64 / queries.len() as f64
                );
            }
        }
        inserts(&index, &client, &worker, &mut random, count).await;
    });
}

/// Measures an insert, and its time for each node of its path.
#[expect(clippy::print_stdout, reason = "the program prints its measurements")]
async fn inserts<F: Fabric, S: Server>(
    index: &Catfish,
    client: &Client<F>,
    worker: &Worker<'_, F, S>,
    random: &mut TestRng,
    count: u64,
) {
    const INSERTS: u64 = 100_000;
    let levels = index.walk(client).await.expect("a tree").nodes.len();
    for round in 0..3 {
        let items: Vec<_> =
            (0..INSERTS).map(|id| Item { bounds: window(random, 1e-4), id: count + id }).collect();
        let start = Instant::now();
        for item in &items {
            worker.insert(item).await.expect("memory is free");
        }
        let each_ns = start.elapsed().as_nanos() as f64 / INSERTS as f64;
        println!(
            "inserts, {round}: {each_ns:.0} ns each on {levels} levels, {:.0} ns a node",
            each_ns / levels as f64
        );
        let items: Vec<_> = (0..INSERTS)
            .map(|id| Change::Insert(Item { bounds: window(random, 1e-4), id: 2 * count + id }))
            .collect();
        for batch in [16, CHANGES_MAX] {
            let start = Instant::now();
            for changes in items.chunks(batch) {
                worker.apply(changes).await.expect("memory is free");
            }
            let each_ns = start.elapsed().as_nanos() as f64 / INSERTS as f64;
            println!(
                "inserts in batches of {batch}, {round}: {each_ns:.0} ns each, {:.0} k/s",
                1e6 / each_ns
            );
        }
    }
}
