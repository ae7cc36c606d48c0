//! Many clients on one thread: each is a session, and while one session waits, the others continue.
//!
//! `cargo run --example async_many_clients`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::runtime::run_all;
use farwood::stats::Costs;
use farwood::{BTree, Index, Pool, PoolOptions};
use std::future::Future;
use std::pin::Pin;

const CLIENTS: u64 = 16;
const OPERATIONS: u64 = 500;

fn main() -> farwood::Result<()> {
    let url = format!("shm://example-async-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    let done = use_it(&url);
    Pool::remove_by_force(&url)?;
    done
}

fn use_it(url: &str) -> farwood::Result<()> {
    let index = Pool::open(url)?.create_index::<u64, u64>("numbers", &BTree::new())?;
    let clients = (0..CLIENTS).map(|client| {
        Box::pin(work(&index, client)) as Pin<Box<dyn Future<Output = farwood::Result<Costs>> + '_>>
    });
    let mut sum = Costs::default();
    for costs in run_all(clients.collect()) {
        sum += costs?;
    }
    assert_eq!(index.count()?, CLIENTS * OPERATIONS);
    let operations = (CLIENTS * OPERATIONS) as f64;
    println!("{:.2} round trips for each put", sum.round_trips as f64 / operations);
    println!("{:.1} bytes written by each put", sum.bytes_written as f64 / operations);
    Ok(())
}

/// One client. The keys of the clients alternate, so the clients contend for every leaf.
async fn work(index: &Index<u64, u64>, client: u64) -> farwood::Result<Costs> {
    let session = index.session();
    for number in 0..OPERATIONS {
        session.put(&(number * CLIENTS + client), &client).await?;
    }
    Ok(session.take_costs())
}
