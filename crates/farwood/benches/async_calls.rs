//! The cost of async calls beside blocking ones: the latency of a get, and the gets per second of 64 concurrent calls,
//! in shared memory and over TCP to a memory node of this process.
//!
//! `cargo bench -p farwood --all-features --bench async_calls`
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use farwood::node::{MemoryNode, NodeSpec};
use farwood::{AsyncIndex, BTree, Index, Pool, PoolOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const KEYS: u64 = 10_000;
/// Gets of a round that measures latency.
const SINGLE: u64 = 2_000;
const ROUNDS: usize = 30;
const CONCURRENT: u64 = 64;
/// Gets of each concurrent task or thread.
const EACH: u64 = 500;

fn main() -> farwood::Result<()> {
    let url = format!("shm://bench-async-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    let measured = measure("shared memory", &url);
    Pool::remove_by_force(&url)?;
    measured?;
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let node = MemoryNode::start(&NodeSpec::new(listen, 64 << 20))?;
    measure("TCP", &format!("tcp://{}", node.address()))
}

/// The key of a number, in a pseudo-random order.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS
}

fn measure(transport: &str, url: &str) -> farwood::Result<()> {
    let index = Pool::open(url)?.create_index::<u64, u64>("numbers", &BTree::new())?;
    index.bulk_load().run((0..KEYS).map(|key| (key, key)))?;
    let tasks = index.to_async()?;
    let runtime = Runtime::new().expect("tokio starts its threads");
    let blocking = quantiles(|| index.get(key(1)).map(drop), SINGLE)?;
    let waiting = quantiles(|| runtime.block_on(tasks.get(key(1))).map(drop), SINGLE)?;
    let spawned = runtime.block_on(async {
        let tasks = tasks.clone();
        tokio::spawn(async move { latency_in_a_task(&tasks).await }).await.expect("the task ends")
    })?;
    println!("{transport}: latency of a get in microseconds, median and 99 %:");
    for (name, [median, high]) in [("blocking", blocking), ("async, main", waiting), ("async, task", spawned)]
    {
        println!("  {name:<12} {median:8.1} {high:8.1}");
    }
    println!("{transport}: gets per second");
    println!("  1 blocking thread     {:>9.0}", best(|| by_threads(&index, 1)));
    println!("  64 blocking threads   {:>9.0}", best(|| by_threads(&index, CONCURRENT)));
    println!("  64 concurrent tasks   {:>9.0}", best(|| by_tasks(&runtime, &tasks)));
    println!("  get_many of 64 keys   {:>9.0}", best(|| by_batches(&index)));
    Ok(())
}

/// The median and the 99 % quantile of the times of `call`, in microseconds.
fn quantiles(mut call: impl FnMut() -> farwood::Result<()>, count: u64) -> farwood::Result<[f64; 2]> {
    let mut times = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        call()?;
        times.push(began.elapsed().as_nanos() as f64 / 1e3);
    }
    Ok(sorted(times))
}

async fn latency_in_a_task(tasks: &AsyncIndex<u64, u64>) -> farwood::Result<[f64; 2]> {
    let mut times = Vec::new();
    for number in 0..SINGLE {
        let began = Instant::now();
        tasks.get(key(number)).await?;
        times.push(began.elapsed().as_nanos() as f64 / 1e3);
    }
    Ok(sorted(times))
}

fn sorted(mut times: Vec<f64>) -> [f64; 2] {
    times.sort_by(f64::total_cmp);
    [times[times.len() / 2], times[times.len() * 99 / 100]]
}

/// The operations per second of the fastest round.
fn best(round: impl Fn() -> u64) -> f64 {
    let rate = |_| {
        let began = Instant::now();
        round() as f64 / began.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(rate).fold(0.0, f64::max)
}

fn by_threads(index: &Index<u64, u64>, threads: u64) -> u64 {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for number in 0..EACH {
                    let found = index.get(key(EACH * thread + number));
                    assert!(found.is_ok_and(|value| value.is_some()));
                }
            });
        }
    });
    threads * EACH
}

fn by_tasks(runtime: &Runtime, tasks: &AsyncIndex<u64, u64>) -> u64 {
    runtime.block_on(async {
        let get = |task: u64| {
            let tasks = tasks.clone();
            async move {
                for number in 0..EACH {
                    tasks.get(key(EACH * task + number)).await.expect("it is stored");
                }
            }
        };
        (0..CONCURRENT).map(get).collect::<JoinSet<()>>().join_all().await;
    });
    CONCURRENT * EACH
}

fn by_batches(index: &Index<u64, u64>) -> u64 {
    for first in 0..EACH {
        let keys = (0..CONCURRENT).map(|number| key(CONCURRENT * first + number));
        drop(index.get_many(keys).expect("they are stored"));
    }
    CONCURRENT * EACH
}
