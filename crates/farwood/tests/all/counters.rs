//! Counters that several processes increment.

use farwood::index::Structure;
use farwood::testing::ScratchPool;
use farwood::{BTree, Hashed, Pool, Radix};
use std::process::{Child, Command, Stdio};

/// The variable that gives a child process the URL of the pool, and the index.
const COUNTER: &str = "FARWOOD_TEST_COUNTER";
const PROCESSES: u64 = 4;
const INCREMENTS: u64 = 3_000;
const KEY: u64 = 7;

/// Increments the counter, by both kinds of conditional changes in turn.
fn increment(pool: &str, index: &str) {
    let pool = Pool::open(pool).unwrap();
    let counters = pool.open_index::<u64, u64>(index).unwrap();
    for number in 0..INCREMENTS {
        if number % 2 == 0 {
            counters.fetch_add(KEY, 1).unwrap();
        } else {
            counters.fetch_update(KEY, |value| Some(value.map_or(1, |value| value + 1))).unwrap();
        }
    }
}

fn start_child(pool: &str, index: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "counters::four_processes_increment_one_counter"]);
    command.env(COUNTER, format!("{pool} {index}")).stdout(Stdio::null()).spawn().unwrap()
}

fn count_with(pool: &str, index: &str, options: &impl Structure) {
    let counters = Pool::open(pool).unwrap().create_index::<u64, u64>(index, options).unwrap();
    let mut children: Vec<_> = (0..PROCESSES).map(|_| start_child(pool, index)).collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success(), "a child failed in {index}");
    }
    assert_eq!(counters.get(KEY).unwrap(), Some(PROCESSES * INCREMENTS), "{index}");
    assert_eq!(counters.count().unwrap(), 1, "{index}");
}

#[test]
fn four_processes_increment_one_counter() {
    if let Ok(counter) = std::env::var(COUNTER) {
        let (pool, index) = counter.split_once(' ').unwrap();
        return increment(pool, index);
    }
    let scratch = ScratchPool::new(256 << 20).unwrap();
    count_with(scratch.url(), "sherman", &BTree::new());
    count_with(scratch.url(), "smart", &Radix::new());
    count_with(scratch.url(), "sphinx", &Hashed::new());
}
