//! Snapshots of pools: all memory nodes as they were at one cut, under chains of dependent writes.

use crate::dependent_writes::{NODES, Stopping, follow, word, write_in_turn};
use farwood_testkit::harness::{read_word, write_word};
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::{
    AcceptedTokens, Credentials, Durability, MemoryNode, NodeEvent, NodeFile, NodeSpec, PoolAddress,
    PoolSnapshot, SnapshotMutant, TcpError, TcpPool, Token,
};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

const HOST_BYTES: u64 = 32 << 20;

fn spec() -> NodeSpec {
    NodeSpec { threads: 2, ..NodeSpec::new((Ipv4Addr::LOCALHOST, 0).into(), HOST_BYTES) }
}

fn start_all(nodes: u16, spec: &NodeSpec) -> Vec<MemoryNode> {
    (0..nodes).map(|_| MemoryNode::start(spec).unwrap()).collect()
}

fn start_with_logs(folder: &Path, durability: Durability) -> Vec<MemoryNode> {
    let file = |node: u16| NodeFile { durability, ..NodeFile::new(folder.join(node.to_string())) };
    let start = |node| MemoryNode::start(&NodeSpec { file: Some(file(node)), ..spec() }).unwrap();
    (0..NODES).map(start).collect()
}

fn address(nodes: &[MemoryNode]) -> PoolAddress {
    let nodes: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    nodes.join(",").parse().unwrap()
}

fn open(nodes: &[MemoryNode]) -> TcpPool {
    TcpPool::open(&address(nodes), Credentials::default()).unwrap()
}

fn snapshot(nodes: &[MemoryNode]) -> Result<(TcpPool, PoolSnapshot), TcpError> {
    TcpPool::open_snapshot(&address(nodes), Credentials::default())
}

fn read(pool: &TcpPool, node: u16, number: u16) -> u64 {
    block_on(read_word(&pool.client(), word(node, number))).unwrap()
}

fn write(pool: &TcpPool, node: u16, number: u16, value: u64) {
    block_on(write_word(&pool.client(), word(node, number), value)).unwrap();
}

/// The words of all writers, and the copy by the follower.
fn words(pool: &TcpPool) -> [u64; 7] {
    let chain = |at: u16| (at / NODES + at % NODES) % NODES;
    std::array::from_fn(|at| match at as u16 {
        6 => read(pool, 0, 9),
        at => read(pool, chain(at), at / NODES),
    })
}

/// The reason why the words do not fit together, if they do not.
fn misfit(words: &[u64; 7]) -> Option<String> {
    for (number, chain) in words[..6].chunks(3).enumerate() {
        if !chain.is_sorted_by(|a, b| a >= b) || chain[0] - chain[2] > 1 {
            return Some(format!("writer {number}: {words:?}"));
        }
    }
    (words[6] > words[2]).then(|| format!("the copy was read before it was written: {words:?}"))
}

/// Takes snapshots under three writers until `check` returns a reason or `rounds` are over.
fn under_writers(
    nodes: &[MemoryNode],
    rounds: u32,
    mut check: impl FnMut(&TcpPool) -> Option<String>,
) -> Option<String> {
    let pools = [open(nodes), open(nodes), open(nodes)];
    let stopping = Stopping::default();
    std::thread::scope(|scope| {
        scope.spawn(|| write_in_turn(&pools[0], 0, &stopping));
        scope.spawn(|| write_in_turn(&pools[1], 1, &stopping));
        scope.spawn(|| follow(&pools[2], &stopping));
        let _stop = stopping.at_end();
        (0..rounds).find_map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            let (pool, mut snapshot) = snapshot(nodes).unwrap();
            let found = check(&pool);
            assert!(found.is_some() || snapshot.check().unwrap() > 0);
            found
        })
    })
}

/// Compares the words of a snapshot with each other, and with those that are read again later.
fn compare(pool: &TcpPool) -> Option<String> {
    let first = words(pool);
    std::thread::sleep(Duration::from_millis(5));
    let again = words(pool);
    misfit(&first).or_else(|| (first != again).then(|| format!("{first:?} became {again:?}")))
}

#[test]
fn a_snapshot_of_three_memory_nodes_fits_together() {
    let nodes = start_all(NODES, &spec());
    let mut before = 0;
    let found = under_writers(&nodes, 30, |pool| {
        let seen = words(pool)[0];
        assert!(seen > before, "the writers continue while snapshots exist");
        before = seen;
        compare(pool)
    });
    assert_eq!(found, None);
}

#[test]
fn a_snapshot_of_memory_nodes_with_logs_fits_together() {
    for level in [Durability::Interval(Duration::from_millis(20)), Durability::Always] {
        let folder = tempfile::tempdir().unwrap();
        let nodes = start_with_logs(folder.path(), level);
        assert_eq!(under_writers(&nodes, 10, compare), None, "{level}");
    }
}

#[test]
fn a_test_notices_snapshots_without_cuts_and_without_copies() {
    for mutant in [SnapshotMutant::CutForgotten, SnapshotMutant::PageNotCopied] {
        let nodes = start_all(NODES, &NodeSpec { snapshot_mutant: Some(mutant), ..spec() });
        let found = under_writers(&nodes, 200, compare);
        assert!(found.is_some(), "{mutant:?}");
    }
}

#[test]
fn changes_in_a_snapshot_and_in_the_live_memory_are_separate() {
    let nodes = start_all(2, &spec());
    let live = open(&nodes);
    write(&live, 0, 0, 1);
    write(&live, 1, 1, 2);
    let (pool, mut kept) = snapshot(&nodes).unwrap();
    write(&live, 0, 0, 10);
    write(&pool, 1, 1, 20);
    assert_eq!((read(&pool, 0, 0), read(&pool, 1, 1)), (1, 20));
    assert_eq!((read(&live, 0, 0), read(&live, 1, 1)), (10, 2));
    assert!(kept.check().unwrap() >= 2 * 4096);
    // The clients of the live pool have ended in the snapshot, and only there.
    assert!(!pool.is_alive(live.identity()).unwrap());
    assert!(live.is_alive(live.identity()).unwrap());
    drop(pool);
    write(&live, 1, 1, 3);
    drop(kept);
    let (pool, _kept) = snapshot(&nodes).unwrap();
    assert_eq!((read(&pool, 0, 0), read(&pool, 1, 1)), (10, 3));
}

/// A client of the live pool is in the same slot as the client of the snapshot, and is not disturbed.
#[test]
fn a_client_of_a_snapshot_takes_no_slot_of_the_live_pool() {
    let nodes = start_all(1, &spec());
    let live = open(&nodes);
    let (pool, _kept) = snapshot(&nodes).unwrap();
    assert_eq!(pool.identity().slot, live.identity().slot);
    let later = open(&nodes);
    assert_ne!(later.identity().slot, live.identity().slot);
    pool.leave();
    write(&live, 0, 0, 1);
    write(&later, 0, 0, 2);
    assert_eq!(read(&live, 0, 0), 2);
}

#[test]
fn one_snapshot_exists_at_a_time() {
    let nodes = start_all(2, &spec());
    let live = open(&nodes);
    let first = snapshot(&nodes).unwrap();
    let error = snapshot(&nodes).unwrap_err();
    assert!(matches!(error, TcpError::SnapshotBusy { .. }), "{error}");
    assert!(error.to_string().contains("another dump --consistent"), "{error}");
    drop(first);
    wait_until(|| snapshot(&nodes).is_ok());
    write(&live, 0, 0, 1);
}

fn wait_until(mut is_true: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_true() {
        assert!(Instant::now() < end, "it is not true within 10 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_snapshot_with_too_many_pages_ends_and_says_why() {
    let (events, received) = sync_channel(64);
    let spec = NodeSpec { snapshot_bytes_max: Some(16 << 10), events: Some(events), ..spec() };
    let nodes = start_all(1, &spec);
    let live = open(&nodes);
    let (pool, mut kept) = snapshot(&nodes).unwrap();
    assert_eq!(read(&pool, 0, 0), 0);
    for number in 0..8 {
        write(&live, 0, 64 * number, 1);
    }
    let error = kept.check().unwrap_err();
    assert!(matches!(error, TcpError::SnapshotLost { .. }), "{error}");
    assert!(error.to_string().contains("--snapshot-memory"), "{error}");
    let error = block_on(read_word(&pool.client(), word(0, 0))).unwrap_err();
    assert!(error.to_string().contains("--snapshot-memory"), "{error}");
    drop((pool, kept));
    // The memory node logs the begin and the end, with the reason.
    let mut received = received.iter().map(|event: NodeEvent| (event.name(), event.to_string()));
    assert_eq!(received.next().unwrap().0, "snapshot_begun");
    let (name, text) = received.next().unwrap();
    assert!(name == "snapshot_ended" && text.contains("--snapshot-memory"), "{text}");
    assert!(snapshot(&nodes).is_ok());
    write(&live, 0, 0, 2);
}

#[test]
fn a_token_for_reading_makes_no_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let token = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let [all, reading] = [token("all", "0123456789abcdef-all"), token("read", "0123456789abcdef-read")];
    let accepted = |path: &Path| Some(AcceptedTokens::from_file(path).unwrap());
    let spec = NodeSpec { token: accepted(&all), read_token: accepted(&reading), ..spec() };
    let nodes = start_all(1, &spec);
    let of = |path: &Path| Credentials::from(Token::from_file(path).unwrap());
    let live = TcpPool::open(&address(&nodes), of(&all)).unwrap();
    let error = TcpPool::open_snapshot(&address(&nodes), of(&reading)).unwrap_err();
    assert!(matches!(error, TcpError::SnapshotDenied { .. }), "{error}");
    assert!(TcpPool::open_snapshot(&address(&nodes), of(&all)).is_ok());
    drop(live);
}
