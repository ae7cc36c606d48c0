//! The overhead that the library adds to a lookup: `Index::get`, which finds its thread's client and counts the call,
//! compared with the tree's own `get` through an existing client; and the part of it that each level of metrics adds.
//! Rounds are short and alternate. The result is that of the fastest round, because other processes slow down the
//! others.
//!
//! `cargo bench -p farwood`
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use farwood::runtime::block_on;
use farwood::stats::MetricsLevel;
use farwood::{BTree, Index, Pool, PoolOptions};
use std::hint::black_box;
use std::time::Instant;

const KEYS: u64 = 10_000;
const OPERATIONS: u64 = 10_000;
const ROUNDS: usize = 1_000;

fn main() -> farwood::Result<()> {
    let url = format!("shm://bench-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    let measured = measure(&url);
    Pool::remove_by_force(&url)?;
    measured
}

fn measure(url: &str) -> farwood::Result<()> {
    let pool = Pool::open(url)?;
    let index = pool.create_index::<u64, u64>("numbers", &BTree::new())?;
    index.bulk_load().run((0..KEYS).map(|key| (key, key)))?;
    let levels = [MetricsLevel::Off, MetricsLevel::Counts, MetricsLevel::Sampled, MetricsLevel::Full];
    let (mut held, mut library) = (Vec::new(), levels.map(|_| Vec::new()));
    for _ in 0..ROUNDS {
        held.push(through_a_held_client(&index));
        for (level, rounds) in levels.iter().zip(&mut library) {
            pool.set_metrics_level(*level);
            rounds.push(through_the_library(&index)?);
        }
    }
    let (held, library) = (fastest(&held), library.map(|rounds| fastest(&rounds)));
    println!("held client {held:.1} ns");
    for (level, library) in levels.iter().zip(&library) {
        println!("library {library:.1} ns with metrics {level:?}: {:+.1} ns for each get", library - held);
    }
    Ok(())
}

/// The keys in a pseudo-random order.
fn keys() -> impl Iterator<Item = u64> {
    (0..OPERATIONS).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS)
}

fn through_a_held_client(index: &Index<u64, u64>) -> f64 {
    let (sherman, client) = index.parts();
    let start = Instant::now();
    for key in keys() {
        let value = block_on(sherman.get(&client, &key.to_be_bytes()));
        black_box(value.is_ok_and(|value| value.is_some()));
    }
    start.elapsed().as_nanos() as f64 / OPERATIONS as f64
}

fn through_the_library(index: &Index<u64, u64>) -> farwood::Result<f64> {
    let start = Instant::now();
    for key in keys() {
        black_box(index.get(key)?);
    }
    Ok(start.elapsed().as_nanos() as f64 / OPERATIONS as f64)
}

fn fastest(rounds: &[f64]) -> f64 {
    rounds.iter().copied().fold(f64::INFINITY, f64::min)
}
