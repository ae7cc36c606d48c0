//! Power failures of pools of several memory nodes at `interval`: each memory node loses another part of its log, and
//! the pool returns to a state that existed.

use crate::dependent_writes::{NODES, Stopping, follow, word, write_in_turn};
use farwood_fabric::{Fabric as _, NodeId};
use farwood_testkit::harness::{read_word, write_word};
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::{
    Credentials, Durability, MemoryNode, NodeFile, NodeSpec, PoolAddress, TcpError, TcpPool,
};
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

const HOST_BYTES: u64 = 32 << 20;
const LEVEL: Durability = Durability::Interval(Duration::from_millis(20));

fn start(path: &Path, durability: Durability) -> Result<MemoryNode, TcpError> {
    let file = Some(NodeFile { durability, ..NodeFile::new(path) });
    MemoryNode::start(&NodeSpec { file, ..NodeSpec::new((Ipv4Addr::LOCALHOST, 0).into(), HOST_BYTES) })
}

fn path(folder: &Path, node: u16) -> PathBuf {
    folder.join(node.to_string()).join("node")
}

fn start_all(folder: &Path) -> Vec<MemoryNode> {
    for node in 0..NODES {
        fs::create_dir_all(path(folder, node).parent().unwrap()).unwrap();
    }
    (0..NODES).map(|node| start(&path(folder, node), LEVEL).unwrap()).collect()
}

fn address(nodes: &[MemoryNode]) -> PoolAddress {
    let nodes: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    nodes.join(",").parse().unwrap()
}

fn open(nodes: &[MemoryNode]) -> TcpPool {
    TcpPool::open(&address(nodes), Credentials::default()).unwrap()
}

/// Reads a file from its end to its start. A log grows meanwhile: each record that is copied after a later one is at
/// least as complete as it was when the later one was written, as on a disk.
fn read_from_the_end(path: &Path) -> Vec<u8> {
    const BLOCK_BYTES: usize = 256;
    let file = fs::File::open(path).unwrap();
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    for (block, part) in bytes.chunks_mut(BLOCK_BYTES).enumerate().rev() {
        file.read_exact_at(part, (block * BLOCK_BYTES) as u64).unwrap();
    }
    bytes
}

/// The part that fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    OfProcess,
    OfMachine,
}

/// Copies the files of a memory node as a failure of its machine leaves them.
fn copy_after_failure(from: &Path, to: &Path) {
    copy_files(from, to, Failure::OfMachine);
}

/// Copies the files of a memory node as a failure leaves them.
pub(crate) fn copy_files(from: &Path, to: &Path, failure: Failure) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    for entry in fs::read_dir(from.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        let target = to.parent().unwrap().join(entry.file_name());
        let mut bytes = read_from_the_end(&entry.path());
        if failure == Failure::OfMachine && entry.file_name().to_string_lossy().contains(".log.") {
            // The boot that wrote the segment.
            bytes[32] ^= 1;
            let checksum = xxh3_64(&bytes[..56]);
            bytes[56..64].copy_from_slice(&checksum.to_le_bytes());
        }
        fs::write(target, bytes).unwrap();
    }
}

/// The words that the writers have written, and the copy by the follower.
fn check(nodes: &[MemoryNode]) -> u64 {
    let pool = open(nodes);
    let client = pool.client();
    let read = |node, number| block_on(read_word(&client, word(node, number))).unwrap();
    for number in 0..2 {
        let values: Vec<_> = (0..NODES).map(|turn| read((number + turn) % NODES, number)).collect();
        assert!(values.is_sorted_by(|a, b| a >= b), "writer {number}: {values:?}");
        assert!(values[0] - values[2] <= 1, "writer {number}: {values:?}");
    }
    let (followed, copied) = (read(NODES - 1, 0), read(0, 9));
    assert!(copied <= followed, "{copied} was read from {followed}");
    followed
}

#[test]
fn a_pool_returns_to_a_state_that_existed() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = start_all(folder.path());
    let pools = [open(&nodes), open(&nodes)];
    let stopping = Stopping::default();
    let mut returned = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| write_in_turn(&pools[0], 0, &stopping));
        scope.spawn(|| write_in_turn(&pools[0], 1, &stopping));
        scope.spawn(|| follow(&pools[1], &stopping));
        let _stop = stopping.at_end();
        for round in 0..6_u16 {
            std::thread::sleep(Duration::from_millis(100));
            let copies = folder.path().join(format!("copy-{round}"));
            for node in 0..NODES {
                let node = (round + node) % NODES;
                copy_after_failure(&path(folder.path(), node), &path(&copies, node));
                std::thread::sleep(Duration::from_millis(40));
            }
            let nodes = start_all(&copies);
            let seen = check(&nodes);
            assert!(seen > returned, "{seen} after {returned}: more than the interval is lost");
            returned = seen;
            // The pool is whole: nobody returns again.
            assert_eq!(check(&nodes), seen);
            drop(nodes);
            assert_eq!(check(&start_all(&copies)), seen, "after a restart");
        }
    });
}

/// A memory node whose machine failed brings the others back to the cut, also those that have gone on.
#[test]
fn running_memory_nodes_return_with_one_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let mut nodes = start_all(folder.path());
    let pool = open(&nodes);
    let stopping = Stopping::default();
    let copies = folder.path().join("copy");
    std::thread::scope(|scope| {
        scope.spawn(|| write_in_turn(&pool, 0, &stopping));
        scope.spawn(|| write_in_turn(&pool, 1, &stopping));
        let _stop = stopping.at_end();
        std::thread::sleep(Duration::from_millis(100));
        copy_after_failure(&path(folder.path(), 1), &path(&copies, 1));
        std::thread::sleep(Duration::from_millis(100));
    });
    let before = block_on(read_word(&pool.client(), word(0, 0))).unwrap();
    nodes[1] = start(&path(&copies, 1), LEVEL).unwrap();
    let after = check_without_follower(&nodes);
    assert!(after < before, "{after} of {before}");
    // The clients of before do not continue on the memory of the return.
    let error = block_on(read_word(&pool.client(), word(0, 0))).unwrap_err().to_string();
    assert!(error.contains("open the pool again"), "{error}");
}

/// A pool whose machine fails before the first sync of the interval returns to its state when it was complete.
#[test]
fn a_pool_that_fails_at_once_returns() {
    let folder = tempfile::tempdir().unwrap();
    let level = Durability::Interval(Duration::from_hours(1));
    let start_in = |folder: &Path| -> Vec<_> {
        let paths = (0..NODES).map(|node| path(folder, node));
        paths
            .map(|path| {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                start(&path, level).unwrap()
            })
            .collect()
    };
    let nodes = start_in(folder.path());
    let pool = open(&nodes);
    block_on(write_word(&pool.client(), word(0, 0), 7)).unwrap();
    let copies = folder.path().join("copy");
    for node in 0..NODES {
        copy_after_failure(&path(folder.path(), node), &path(&copies, node));
    }
    let nodes = start_in(&copies);
    let pool = open(&nodes);
    assert_eq!(block_on(read_word(&pool.client(), word(0, 0))).unwrap(), 0, "the change was not durable");
}

fn check_without_follower(nodes: &[MemoryNode]) -> u64 {
    let pool = open(nodes);
    block_on(write_word(&pool.client(), word(0, 9), 0)).unwrap();
    drop(pool);
    check(nodes)
}

#[test]
fn memory_nodes_of_different_levels_form_no_pool() {
    let folder = tempfile::tempdir().unwrap();
    for other in [Durability::Always, Durability::Orderly] {
        let at = folder.path().join(other.to_string());
        for node in 0..2 {
            fs::create_dir_all(path(&at, node).parent().unwrap()).unwrap();
        }
        let nodes = [start(&path(&at, 0), LEVEL).unwrap(), start(&path(&at, 1), other).unwrap()];
        let error = TcpPool::open(&address(&nodes), Credentials::default()).unwrap_err().to_string();
        assert!(error.contains("the same level"), "{error}");
    }
}

/// Writes increasing numbers to a word of each memory node that the pool has, the last memory node first; records the
/// first number on three memory nodes.
fn write_on_all(pool: &TcpPool, on_three: &AtomicU64, stopping: &Stopping) {
    let client = pool.client();
    for value in 1.. {
        if stopping.is_set() {
            return;
        }
        block_on(client.fabric().find_added_nodes()).unwrap();
        let nodes = pool.shape().nodes;
        if nodes == 3 {
            let _ = on_three.compare_exchange(0, value, Ordering::Relaxed, Ordering::Relaxed);
        }
        for node in (0..nodes).rev() {
            block_on(write_word(&client, word(node, 0), value)).unwrap();
        }
    }
}

/// The words of the copies of three memory nodes, as far as the pool that they return to has them.
fn words_after_return(nodes: &[MemoryNode]) -> Vec<u64> {
    let all = TcpPool::open(&address(nodes), Credentials::default());
    // The addition of the third memory node may be lost. (With the addresses of two, the pool would ask the running
    // third one, because the table has its address.)
    let (pool, count) = match all {
        Ok(pool) => (pool, 3),
        Err(error) => {
            assert!(error.to_string().contains("no others"), "{error}");
            (open(&nodes[..2]), 2)
        }
    };
    let client = pool.client();
    (0..count).map(|node| block_on(read_word(&client, word(node, 0))).unwrap()).collect()
}

#[test]
fn a_return_to_before_an_addition_loses_no_pointer() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = start_all(folder.path());
    let pools = [open(&nodes[..2]), open(&nodes[..2])];
    let (stopping, on_three) = (Stopping::default(), AtomicU64::new(0));
    let mut counts = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| write_on_all(&pools[0], &on_three, &stopping));
        let _stop = stopping.at_end();
        for round in 0..6_u16 {
            std::thread::sleep(Duration::from_millis(60));
            if round == 2 {
                let new = nodes[2].address().to_string().parse().unwrap();
                assert_eq!(pools[1].add_node(&new).unwrap(), NodeId(2));
            }
            let copies = folder.path().join(format!("copy-{round}"));
            for node in 0..NODES {
                let node = (round + node) % NODES;
                copy_after_failure(&path(folder.path(), node), &path(&copies, node));
                std::thread::sleep(Duration::from_millis(15));
            }
            let mut words = words_after_return(&start_all(&copies));
            let nodes_then = words.len();
            if words.get(2) == Some(&0) {
                words.pop();
            }
            assert!(words.is_sorted() && words[1] - words[0] <= 1, "{words:?}");
            let first = on_three.load(Ordering::Relaxed);
            if words.len() == 2 {
                assert!(first == 0 || words[1] < first, "{words:?}, and three memory nodes from {first} on");
            }
            counts.push(nodes_then);
        }
    });
    assert_eq!((counts[0], counts[5]), (2, 3), "{counts:?}");
}
