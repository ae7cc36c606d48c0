//! Measures exact queries and joins of an index with records of 200,000 points in degrees, in shared memory, and many
//! searches in one call, in shared memory and over TCP.
//!
//! `cargo bench -p farwood --bench exact`
#![expect(clippy::print_stdout, reason = "the program prints its measurements")]

use farwood::spatial::geometry::{Geometry, Metric, Predicate};
use farwood::spatial::{
    Contents, CoordinateSystem, IdKind, Item, NearestOptions, Query, RTree, Record, Rectangle, ServeOptions,
    Spatial,
};
use farwood::{Pool, PoolOptions};
use farwood_transport::tcp::{MemoryNode, NodeSpec};
use std::hint::black_box;
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const POINTS: u64 = 200_000;
const QUERIES: usize = 2_000;
const WINDOWS: usize = 20_000;

/// Draws numbers (xorshift).
struct Draw(u64);

impl Draw {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        low + (high - low) * ((self.0 >> 11) as f64 / (1_u64 << 53) as f64)
    }

    fn point(&mut self) -> [f64; 2] {
        [self.between(-179.0, 178.0), self.between(-84.0, 83.0)]
    }
}

fn record(id: u64, geometry: &Geometry) -> Record {
    let bounds = geometry.bounds().expect("it is not empty");
    let bounds = Rectangle::new(bounds.min, bounds.max).expect("its edges are in order");
    let contents =
        Contents { geometry: geometry.to_wkb(), attributes: format!(r#"{{"name":"place {id}"}}"#) };
    Record { id: id.into(), bounds, payload: contents.encode() }
}

/// The segments of the coastlines.
fn coast() -> Vec<Geometry> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/coastlines.csv");
    let text = std::fs::read_to_string(path).expect("the repository has the coastlines");
    let segment = |row: &str| {
        let numbers: Vec<_> = row.split(',').collect();
        let wkt = format!("LINESTRING({} {},{} {})", numbers[0], numbers[1], numbers[2], numbers[3]);
        wkt.parse().expect("a row has four numbers")
    };
    text.lines().map(segment).collect()
}

fn report(what: &str, count: usize, unit: &str, took: Duration) {
    let each = took.as_secs_f64() * 1e6 / count as f64;
    println!("{what:55} {count:8} {unit:8} {:9.1} ms {each:9.2} us each", took.as_secs_f64() * 1e3);
}

fn timed<T>(run: impl FnOnce() -> farwood::Result<T>) -> farwood::Result<(T, Duration)> {
    let begun = Instant::now();
    let done = run()?;
    Ok((done, begun.elapsed()))
}

/// The squares of one degree with a corner cut off.
fn triangle(at: [f64; 2]) -> Geometry {
    let ([x, y], [x2, y2]) = (at, [at[0] + 1.0, at[1] + 1.0]);
    format!("POLYGON(({x} {y},{x2} {y},{x} {y2},{x} {y}))").parse().expect("it is WKT")
}

fn measure_records(pool: &Pool) -> farwood::Result<()> {
    let coordinates = CoordinateSystem::Degrees;
    let config = RTree::new().ids(IdKind::Number).coordinates(coordinates);
    let (points, coasts) = (pool.create_spatial("points", &config)?, pool.create_spatial("coasts", &config)?);
    let mut draw = Draw(0x9E37_79B9);
    let point = |at| Geometry::point(at).expect("its coordinates are finite");
    let all: Vec<_> = (0..POINTS).map(|id| record(id, &point(draw.point()))).collect();
    let ((), took) = timed(|| points.bulk_load_records(all, 0.7))?;
    report("load points", POINTS as usize, "records", took);
    let coast = coast();
    let triangles: Vec<_> = (0..QUERIES).map(|_| triangle(draw.point())).collect();
    coasts.bulk_load_records((0..).zip(&coast).map(|(id, line)| record(id, line)).collect(), 0.7)?;
    let find = |query| points.find(Predicate::Within, query).map(|found| found.len());
    let (found, took) = timed(|| triangles.iter().map(find).sum::<farwood::Result<usize>>())?;
    report(&format!("find within a triangle: {found} found"), QUERIES, "queries", took);
    let (_, took) = timed(|| points.find_many(Predicate::Within, &triangles).map(black_box))?;
    report("the same by find_many", QUERIES, "queries", took);
    for metric in [Metric::Planar, Metric::Sphere] {
        let options = NearestOptions::new(5, metric);
        let ((), took) = timed(|| {
            coast.iter().take(QUERIES).try_for_each(|line| points.nearest_to(line, &options).map(drop))
        })?;
        report(&format!("5 nearest to a segment, {metric:?}"), QUERIES, "queries", took);
    }
    let ((), took) = timed(|| {
        coast
            .iter()
            .take(QUERIES)
            .try_for_each(|line| points.find_within(line, 50_000.0, Metric::Sphere).map(drop))
    })?;
    report("within 50 km of a segment", QUERIES, "queries", took);
    let squares = pool.create_spatial("squares", &config)?;
    squares.bulk_load_records((0..).zip(&triangles).map(|(id, one)| record(id, one)).collect(), 0.7)?;
    for (what, one) in [("triangles", &squares), ("coastlines", &coasts), ("points", &points)] {
        let mut pairs = 0;
        let ((), took) = timed(|| {
            one.join(&points, Predicate::Intersects, |_, _| {
                pairs += 1;
                ControlFlow::Continue(())
            })
        })?;
        report(&format!("join {what} with points: {pairs} pairs"), POINTS as usize, "points", took);
    }
    Ok(())
}

fn measure_many(name: &str, places: &Spatial) -> farwood::Result<()> {
    let mut draw = Draw(0x517C_C1B7);
    let window =
        |[x, y]: [f64; 2]| Rectangle::new([x, y], [x + 0.3, y + 0.3]).expect("its edges are in order");
    let windows: Vec<_> = (0..WINDOWS).map(|_| Query::intersecting(window(draw.point()))).collect();
    for _ in 0..2 {
        let ((), took) = timed(|| windows.iter().try_for_each(|query| places.search(query).map(drop)))?;
        report(&format!("{name}: search, one after the other"), WINDOWS, "queries", took);
        let (_, took) = timed(|| places.search_many(&windows).map(black_box))?;
        report(&format!("{name}: search_many"), WINDOWS, "queries", took);
    }
    Ok(())
}

fn items() -> Vec<Item> {
    let mut draw = Draw(0x2545_F491);
    let point = |at| Rectangle::point(at).expect("its coordinates are finite");
    (0..POINTS).map(|id| Item { bounds: point(draw.point()), id }).collect()
}

fn measure_tcp() -> farwood::Result<()> {
    let node = MemoryNode::start(&NodeSpec::new("127.0.0.1:0".parse().expect("an address"), 256 << 20));
    let node = node.expect("a memory node of this process");
    let pool = Pool::open(format!("tcp://{}", node.address()))?;
    let places = pool.create_spatial("places", &RTree::new())?;
    let listener = Some(TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let options = ServeOptions { listener, memory_node: Some(node.server()), ..ServeOptions::default() };
    let (stop, ready) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let server = scope.spawn(|| places.serve(&options, &stop, || ready.store(true, Ordering::Release)));
        while !ready.load(Ordering::Acquire) && !server.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let measured = places.bulk_load(&items(), 0.7).and_then(|()| measure_many("TCP", &places));
        stop.store(true, Ordering::Release);
        server.join().expect("the server does not panic")?;
        measured
    })
}

fn main() -> farwood::Result<()> {
    let url = format!("shm://bench-exact-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(512 << 20))?;
    let pool = Pool::open(&url)?;
    let measured = measure_records(&pool).and_then(|()| {
        let places = pool.create_spatial("plain", &RTree::new())?;
        places.bulk_load(&items(), 0.7)?;
        measure_many("shared memory", &places)
    });
    drop(pool);
    Pool::remove_by_force(&url)?;
    measured?;
    measure_tcp()
}
