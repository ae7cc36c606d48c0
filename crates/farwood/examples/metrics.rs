//! The calls of a program by index and operation, with their costs and durations, and an observer of slow calls.
//!
//! `cargo run --example metrics`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::runtime::block_on;
use farwood::stats::{MetricsLevel, ObservedCall, Observer};
use farwood::{BTree, Error, Pool, PoolOptions, Radix};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SLOW: Duration = Duration::from_micros(100);

/// Counts calls that take long.
#[derive(Default)]
struct SlowCalls(AtomicU64);

impl Observer for SlowCalls {
    fn done(&self, call: &ObservedCall<'_>) {
        if call.duration > SLOW {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn main() -> farwood::Result<()> {
    let url = format!("shm://example-metrics-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    let done = use_it(&url);
    Pool::remove_by_force(&url)?;
    done
}

fn use_it(url: &str) -> farwood::Result<()> {
    let pool = Pool::open(url)?;
    pool.set_metrics_level(MetricsLevel::Full);
    let slow = Arc::new(SlowCalls::default());
    pool.set_observer(slow.clone());
    work(&pool)?;

    println!("index    operation   calls  errors  RT/call  bytes/call  lock retries   median    99 %");
    for of in &pool.metrics().operations {
        let each = |sum: u64| sum as f64 / of.calls as f64;
        let duration = |quantile| of.latency.quantile(quantile).unwrap_or_default();
        println!(
            "{:<8} {:<10} {:>6} {:>7} {:>8.2} {:>11.0} {:>13} {:>8.1?} {:>7.1?}",
            of.index,
            of.operation,
            of.calls,
            of.errors_total(),
            each(of.costs.round_trips),
            each(of.costs.bytes_read + of.costs.bytes_written),
            of.costs.lock,
            duration(0.5),
            duration(0.99),
        );
        for (kind, count) in &of.errors {
            println!("{:<8} {:<10} {count:>6} of kind {}", "", "", kind.name());
        }
    }
    println!("{} calls took longer than {SLOW:?}", slow.0.load(Ordering::Relaxed));
    Ok(())
}

/// Threads that share an index of numbers, and a session on an index of names.
fn work(pool: &Pool) -> farwood::Result<()> {
    let numbers = pool.create_index::<u64, u64>("numbers", &BTree::new())?;
    std::thread::scope(|scope| {
        let threads = (0..4).map(|thread| {
            let numbers = &numbers;
            scope.spawn(move || {
                for number in 0..1000 {
                    numbers.put(number * 4 + thread, number)?;
                    numbers.get(number)?;
                }
                numbers.fetch_add(7, 1).map(drop)
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    let names = pool.create_index::<String, u64>("names", &Radix::new())?;
    let session = names.session();
    block_on(async {
        for number in 0..100 {
            session.insert(format!("name {number}"), number).await?;
        }
        Ok::<(), Error>(())
    })?;
    assert!(names.get("a name with \0 in it").is_err(), "texts have no NUL");
    Ok(())
}
