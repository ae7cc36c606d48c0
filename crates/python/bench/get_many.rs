//! Looks random keys of an index of numbers up in one batch, twice, and prints the keys per second of the second batch:
//! the peer of Python's `get_many` in `bench/compare.py`.
//!
//! Usage: `get_many URL INDEX KEYS LOOKUPS`
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use farwood::{Index, Pool};
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, name, keys, lookups] = arguments.as_slice() else {
        return Err("usage: get_many URL INDEX KEYS LOOKUPS".into());
    };
    let index: Index<u64, u64> = Pool::open(url)?.open_index(name)?;
    let asked = random_keys(keys.parse()?, lookups.parse()?);
    index.get_many(&asked)?;
    let begun = Instant::now();
    let found = index.get_many(&asked)?;
    let rate = asked.len() as f64 / begun.elapsed().as_secs_f64();
    assert!(found.iter().zip(&asked).all(|(value, key)| value.as_ref() == Some(key)), "a value is wrong");
    println!("{rate:.0}");
    Ok(())
}

/// Keys below `keys`, uniform, by a linear congruential generator.
fn random_keys(keys: u64, count: u64) -> Vec<u64> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(state) * u128::from(keys)) >> 64) as u64
    };
    (0..count).map(|_| next()).collect()
}
