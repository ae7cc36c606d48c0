//! A program reacts to errors by their kind, by whether the operation may have changed something, and by the remedy.
//!
//! `cargo run --example errors`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use farwood::error::{Effect, ErrorKind};
use farwood::testing::ScratchPool;
use farwood::types::Bytes;
use farwood::{BTree, Error, Index, Pool, PoolOptions, Radix};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Shows an error as a service would log it.
fn log(error: &Error) {
    println!("{error}");
    println!(
        "  kind {:?}, {}, {}",
        error.kind(),
        match error.effect() {
            Effect::None => "nothing was changed",
            Effect::Unknown => "the change may have been made",
        },
        if error.is_retryable() { "repeat the call" } else { "do not repeat the call" }
    );
    if let Some(help) = error.help() {
        println!("  {help}");
    }
}

/// Opens the pool, or creates it if it does not exist. A pool that exists and cannot be used is an error.
fn open_or_create(url: &str) -> farwood::Result<Pool> {
    match Pool::open(url) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            log(&error);
            Pool::create(url, &PoolOptions::new().memory_bytes(24 << 20))?;
            Pool::open(url)
        }
        opened => opened,
    }
}

/// Adds an entry. Repeats the call as long as a repetition may help and cannot add the entry twice.
fn insert_patiently(index: &Index<u64, u64>, key: u64, value: u64) -> farwood::Result<bool> {
    for attempt in 0..8 {
        match index.insert(key, value) {
            Err(error) if error.is_retryable() && error.effect() == Effect::None => {
                thread::sleep(Duration::from_millis(1 << attempt));
            }
            done => return done,
        }
    }
    index.insert(key, value)
}

/// Fills a pool.
fn fill(pool: &Pool) -> farwood::Result<()> {
    let blobs = pool.create_index::<u64, Bytes>("blobs", &Radix::new())?;
    let megabyte = vec![0; 1 << 20];
    let full = (0..64).find_map(|key| blobs.put(key, &megabyte).err()).expect("24 MiB are full");
    log(&full);
    assert_eq!((full.kind(), full.effect()), (ErrorKind::Full, Effect::None));
    drop(blobs);
    pool.drop_index("blobs")
}

/// Calls with a time limit, while another thread keeps the lock.
fn wait_at_a_lock(index: &Index<u64, u64>) -> farwood::Result<()> {
    let ((locked, is_locked), (tried, has_tried)) = (channel(), channel::<()>());
    thread::scope(|scope| {
        scope.spawn(move || {
            index.fetch_update(1, move |value| {
                let _ = locked.send(());
                let _ = has_tried.recv();
                value.copied()
            })
        });
        is_locked.recv().expect("the other thread has the lock");
        let late = index.with_timeout(Duration::from_millis(20)).put(1, 2).expect_err("the lock is taken");
        drop(tried);
        log(&late);
        assert_eq!((late.kind(), late.effect()), (ErrorKind::TimedOut, Effect::Unknown));
        Ok(())
    })
}

fn main() -> farwood::Result<()> {
    // The name of a pool that does not exist.
    let url = ScratchPool::new(16 << 20)?.url().to_owned();
    let pool = open_or_create(&url)?;
    let done = fill(&pool).and_then(|()| {
        let index = pool.open_or_create::<u64, u64>("numbers", &BTree::new())?;
        assert!(insert_patiently(&index, 1, 1)?);
        wait_at_a_lock(&index)?;
        let other = pool.open_index::<u64, f64>("numbers").expect_err("the values are no f64");
        log(&other);
        assert_eq!(other.kind(), ErrorKind::TypeMismatch);
        Ok(())
    });
    drop(pool);
    Pool::remove_by_force(&url)?;
    done
}
