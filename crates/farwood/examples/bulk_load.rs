//! A million sorted entries at once, from a source that can fail; then batches of changes and lookups, and a check of
//! every invariant.
//!
//! `cargo run --release --example bulk_load`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::{BTree, Pool, PoolOptions};
use std::time::Instant;

const ENTRIES: u64 = 1_000_000;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let url = format!("shm://example-bulk-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(128 << 20).nodes(2))?;
    let done = use_it(&url);
    Pool::remove_by_force(&url)?;
    done
}

fn use_it(url: &str) -> Result<(), Failure> {
    let index = Pool::open(url)?.create_index::<u64, u64>("even", &BTree::new())?;
    let start = Instant::now();
    let broken =
        (0..ENTRIES).map(|number| if number < 1_000 { Ok((number, 0)) } else { Err("a broken file") });
    let failed: Result<u64, Failure> = index.bulk_load().try_run(broken.map(|entry| Ok(entry?)));
    println!(
        "a load ended early: {}; the index has {} entries",
        failed.expect_err("it fails"),
        index.count()?
    );

    // Nodes that are 80 % full have space for later inserts.
    let progress = |entries| {
        if entries % 250_000 == 0 {
            println!("{entries} entries");
        }
    };
    let load = index.bulk_load().fill(0.8).progress(progress);
    let loaded = load.run((0..ENTRIES).map(|number| (number * 2, number)))?;
    println!("{loaded} entries in {:.2} s", start.elapsed().as_secs_f64());

    let existed = index.put_many((1..20_000).step_by(2).map(|odd| (odd, 0)))?;
    assert!(existed.iter().all(|existed| !existed));
    assert_eq!(index.get_many([1, 2, ENTRIES * 2])?, [Some(0), Some(1), None]);
    let walk = index.check()?;
    assert!(walk.problems().is_empty(), "{:?}", walk.problems());
    println!("{} entries in {} nodes, {} levels", walk.entries(), walk.nodes(), walk.levels());
    assert_eq!(walk.entries(), ENTRIES + 10_000);
    Ok(())
}
