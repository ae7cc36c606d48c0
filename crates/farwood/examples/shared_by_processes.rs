//! Three processes write to the same index: each stores its number under its own keys.
//!
//! The example starts its own program three more times, as child processes.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::{BTree, Pool, PoolOptions};
use std::process::Command;

const PROCESSES: u64 = 3;
const KEYS: u64 = 2_000;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    match &arguments[1..] {
        [url, process] => Ok(write(url, process.parse()?)?),
        _ => share(),
    }
}

/// Creates the pool, runs the child processes and removes the pool.
fn share() -> Result<(), Failure> {
    let url = format!("shm://example-shared-{}", std::process::id());
    Pool::create(&url, &PoolOptions::new().memory_bytes(64 << 20).nodes(2))?;
    let done = run_all(&url);
    Pool::remove_by_force(&url)?;
    done
}

fn run_all(url: &str) -> Result<(), Failure> {
    let start =
        |process: u64| Command::new(std::env::current_exe()?).args([url, &process.to_string()]).spawn();
    let children: Vec<_> = (0..PROCESSES).map(start).collect::<Result<_, _>>()?;
    for mut child in children {
        assert!(child.wait()?.success());
    }
    // The processes have ended, and their entries are still in the index.
    let index = Pool::open(url)?.open_index::<u64, u64>("shared")?;
    assert_eq!(index.count()?, KEYS * PROCESSES);
    for entry in &index {
        let (key, writer) = entry?;
        assert_eq!(key % PROCESSES, writer);
    }
    println!("{PROCESSES} processes have written {} keys", index.count()?);
    Ok(())
}

/// Writes the keys of a child process. The keys of the processes alternate.
fn write(url: &str, process: u64) -> farwood::Result<()> {
    let index = Pool::open(url)?.open_or_create::<u64, u64>("shared", &BTree::new())?;
    for number in 0..KEYS {
        index.put(number * PROCESSES + process, process)?;
    }
    Ok(())
}
