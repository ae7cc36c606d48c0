//! A million sorted entries at once, a check of every invariant, and changes afterwards.
//!
//! `cargo run --release --example bulk_load`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::{BTree, Pool, PoolOptions};
use std::time::Instant;

const ENTRIES: u64 = 1_000_000;

fn main() -> farwood::Result<()> {
    let url = format!("shm://example-bulk-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(128 << 20).nodes(2))?;
    let done = use_it(&url);
    Pool::remove_by_force(&url)?;
    done
}

fn use_it(url: &str) -> farwood::Result<()> {
    let index = Pool::open(url)?.create_index::<u64, u64>("even", &BTree::new())?;
    let start = Instant::now();
    // Nodes that are 80 % full have space for later inserts.
    let loaded = index.bulk_load().run((0..ENTRIES).map(|number| (number * 2, number)))?;
    println!("{loaded} entries in {:.2} s", start.elapsed().as_secs_f64());
    for odd in (1..20_000).step_by(2) {
        index.put(odd, 0)?;
    }
    let walk = index.check()?;
    assert!(walk.problems().is_empty(), "{:?}", walk.problems());
    println!("{} entries in {} nodes, {} levels", walk.entries(), walk.nodes(), walk.levels());
    assert_eq!(walk.entries(), ENTRIES + 10_000);
    Ok(())
}
