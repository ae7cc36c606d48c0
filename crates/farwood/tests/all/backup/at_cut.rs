//! Dumps at one cut, of pools over TCP, while writers change several indexes.

use super::restored;
use farwood::backup::{BackupReader, Consistency, Dump};
use farwood::error::{ErrorKind, TcpError};
use farwood::node::{MemoryNode, NodeSpec};
use farwood::{BTree, Error, Hashed, Index, Pool, Radix};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const NAMES: [&str; 3] = ["tree", "radix", "hashed"];
const WRITERS: u64 = 4;
/// The key with the number of the last round of a writer.
const LAST: u64 = 0;
/// Rounds after which every third key is removed.
const LIFETIME: u64 = 100;

/// Whether a round removes a key.
fn is_removing(round: u64) -> bool {
    round.is_multiple_of(3) && round > LIFETIME
}

fn start(nodes: u16, spec: &NodeSpec) -> (Vec<MemoryNode>, String) {
    let nodes: Vec<_> = (0..nodes).map(|_| MemoryNode::start(spec).unwrap()).collect();
    let addresses: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    let url = format!("tcp://{}", addresses.join(","));
    (nodes, url)
}

fn spec() -> NodeSpec {
    NodeSpec { threads: 2, ..NodeSpec::new((Ipv4Addr::LOCALHOST, 0).into(), 256 << 20) }
}

fn at_cut(pool: &Pool) -> farwood::Result<Vec<u8>> {
    let mut file = Vec::new();
    Dump::of(pool).consistent().to_writer(&mut file)?;
    Ok(file)
}

/// Writes the keys of a writer to one index after the other, each after the answer of the one before: key `round`, and
/// the number of the round.
fn write_in_turn(url: &str, writer: u64, ended: &AtomicBool) -> u64 {
    let pool = Pool::open(url).unwrap();
    let indexes = NAMES.map(|name| pool.open_index::<u64, u64>(name).unwrap());
    let mut round = 0;
    while !ended.load(Ordering::Relaxed) {
        round += 1;
        for index in &indexes {
            index.put(writer << 32 | round, round).unwrap();
            index.put(writer << 32 | LAST, round).unwrap();
        }
        // Removes merge nodes of the B-link tree.
        if is_removing(round) {
            for index in &indexes {
                assert!(index.remove(writer << 32 | (round - LIFETIME)).unwrap());
            }
        }
    }
    round
}

/// The last round of a writer in an index, which has the keys of all rounds before and none that were removed.
fn last_round(index: &Index<u64, u64>, writer: u64) -> u64 {
    let mut rounds = Vec::new();
    for entry in index.range(writer << 32 | 1..(writer + 1) << 32) {
        let (key, value) = entry.unwrap();
        assert_eq!(key & 0xFFFF_FFFF, value);
        rounds.push(value);
    }
    let last = rounds.last().copied().unwrap_or(0);
    let stated = index.get(writer << 32 | LAST).unwrap().unwrap_or(0);
    assert!(stated == last || stated + 1 == last, "writer {writer}: {stated} and {last}");
    for round in 1..=last {
        let is_there = rounds.binary_search(&round).is_ok();
        let removing = round + LIFETIME;
        let is_legal =
            if is_removing(removing) && removing <= last { !is_there || removing == last } else { is_there };
        assert!(is_legal, "writer {writer}: round {round} of {last}: {is_there}");
    }
    last
}

fn check_rounds(file: &[u8]) -> u64 {
    let (pool, _) = restored(file);
    let indexes = NAMES.map(|name| pool.open_index::<u64, u64>(name).unwrap());
    for index in &indexes {
        assert!(index.check().unwrap().problems().is_empty());
    }
    let rounds = |writer| {
        let last = [0, 1, 2].map(|at: usize| last_round(&indexes[at], writer));
        assert!(last.is_sorted_by(|a, b| a >= b) && last[0] <= last[2] + 1, "writer {writer}: {last:?}");
        last[2]
    };
    (0..WRITERS).map(rounds).sum()
}

fn create_all(pool: &Pool) {
    pool.create_index::<u64, u64>(NAMES[0], &BTree::new()).unwrap();
    pool.create_index::<u64, u64>(NAMES[1], &Radix::smart()).unwrap();
    pool.create_index::<u64, u64>(NAMES[2], &Hashed::sphinx()).unwrap();
}

/// A dump has the changes of a writer up to one of them, over all indexes and memory nodes.
#[test]
fn a_dump_at_one_cut_has_a_prefix_of_the_changes_of_each_writer() {
    for nodes in [1, 3] {
        let (_nodes, url) = start(nodes, &spec());
        let pool = Pool::open(url.as_str()).unwrap();
        create_all(&pool);
        let ended = AtomicBool::new(false);
        let files: Vec<_> = thread::scope(|threads| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    threads.spawn({
                        let (url, ended) = (&url, &ended);
                        move || write_in_turn(url, writer, ended)
                    })
                })
                .collect();
            let files = (0..6).map(|_| {
                thread::sleep(std::time::Duration::from_millis(200));
                at_cut(&pool)
            });
            let files = files.collect();
            ended.store(true, Ordering::Relaxed);
            for writer in writers {
                assert!(writer.join().unwrap() > 0);
            }
            files
        });
        let mut before = 0;
        for file in files {
            let file = file.unwrap();
            let consistency = BackupReader::new(file.as_slice()).unwrap().header().consistency;
            assert_eq!(consistency, Consistency::OneCut);
            let rounds = check_rounds(&file);
            assert!(rounds > before, "{rounds} after {before}");
            before = rounds;
        }
        // The live pool is not disturbed.
        for name in NAMES {
            let index = pool.open_index::<u64, u64>(name).unwrap();
            assert!(index.check().unwrap().problems().is_empty());
        }
    }
}

#[test]
fn a_second_dump_at_one_cut_is_refused() {
    let (_nodes, url) = start(2, &spec());
    let pool = Pool::open(url.as_str()).unwrap();
    let index = pool.create_index::<u64, u64>("numbers", &BTree::new()).unwrap();
    index.put(1, 1).unwrap();
    let mut second = None;
    let mut file = Vec::new();
    // The snapshot exists while the dump reports its progress.
    let dump = Dump::of(&pool).consistent().progress(|_| {
        second.get_or_insert_with(|| at_cut(&pool).unwrap_err());
    });
    dump.to_writer(&mut file).unwrap();
    let error = second.unwrap();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.is_retryable() && error.to_string().contains("another dump --consistent"), "{error}");
    assert!(at_cut(&pool).is_ok());
}

#[test]
fn a_dump_at_one_cut_ends_when_clients_change_too_much() {
    let (_nodes, url) = start(1, &NodeSpec { snapshot_bytes_max: Some(64 << 10), ..spec() });
    let pool = Pool::open(url.as_str()).unwrap();
    let index = pool.create_index::<u64, u64>("numbers", &BTree::new()).unwrap();
    index.bulk_load().run((0..50_000).map(|number| (number * 2, number))).unwrap();
    let mut file = Vec::new();
    let dump = Dump::of(&pool).consistent().progress(|_| {
        for number in 0..50 {
            index.put(number * 1_999, 1).unwrap();
        }
    });
    let error = dump.to_writer(&mut file).unwrap_err();
    assert!(matches!(error, Error::Tcp { source: TcpError::SnapshotLost { .. }, .. }), "{error:?}");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Full, "dump"));
    assert!(error.to_string().contains("--snapshot-memory"), "{error}");
    assert_eq!(index.get(1_999).unwrap(), Some(1));
}

#[test]
fn a_pool_in_shared_memory_has_no_cut() {
    let pool = super::pool();
    let error = at_cut(&pool).unwrap_err();
    assert_eq!((error.kind(), error.exit_code()), (ErrorKind::Unsupported, 2));
    assert!(error.help().is_some_and(|help| help.contains("--consistent")), "{error}");
}
