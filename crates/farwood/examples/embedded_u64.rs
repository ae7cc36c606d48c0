//! An ordered index inside one program: create, change, read, remove.
//!
//! `cargo run --example embedded_u64`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::{BTree, Pool, PoolOptions};

fn main() -> farwood::Result<()> {
    let url = format!("shm://example-embedded-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20))?;
    let done = use_it(&url);
    Pool::remove_by_force(&url)?;
    done
}

fn use_it(url: &str) -> farwood::Result<()> {
    let pool = Pool::open(url)?;
    let prices = pool.create_index::<u64, u64>("prices", &BTree::new())?;
    for article in (10..100).step_by(10) {
        prices.put(article, article * 5)?;
    }
    assert_eq!(prices.get(40)?, Some(200));
    assert!(prices.update(40, 199)?);
    assert!(!prices.insert(40, 1)?, "it is there");
    assert!(prices.remove(50)?);
    for entry in prices.scan(30..=60) {
        let (article, price) = entry?;
        println!("article {article} costs {price}");
    }
    println!("{} articles", prices.count()?);
    assert_eq!(prices.count()?, 8);
    Ok(())
}
