//! The growth of pools while processes use them: more memory, and more memory nodes.

use farwood::backup::{RestoredPool, SavedPool};
use farwood::error::ErrorKind;
use farwood::node::{HostPort, MemoryNode, NodeFile, NodeSpec};
use farwood::{BTree, Hashed, Index, Pool, PoolOptions, Radix};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const MIB: u64 = 1 << 20;
const NAMES: [&str; 3] = ["btree", "radix", "hashed"];

fn node_spec(memory: u64, memory_max: u64) -> NodeSpec {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    NodeSpec { host_bytes_max: Some(memory_max), ..NodeSpec::new(listen, memory) }
}

fn start(spec: &NodeSpec) -> MemoryNode {
    MemoryNode::start(spec).unwrap()
}

fn stop(nodes: Vec<MemoryNode>) {
    for node in nodes {
        node.stop().unwrap();
    }
}

fn address(node: &MemoryNode) -> HostPort {
    node.address().to_string().parse().unwrap()
}

fn url(nodes: &[&MemoryNode]) -> String {
    let nodes: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    format!("tcp://{}?environment=no", nodes.join(","))
}

fn create(pool: &Pool, name: &str) -> Index<u64, Vec<u8>> {
    match name {
        "btree" => pool.create_index(name, &BTree::new().any_length_values()),
        "radix" => pool.create_index(name, &Radix::new()),
        _ => pool.create_index(name, &Hashed::new()),
    }
    .unwrap()
}

fn create_each(pool: &Pool) -> Vec<Index<u64, Vec<u8>>> {
    NAMES.iter().map(|name| create(pool, name)).collect()
}

fn open_each(pool: &Pool) -> Vec<Index<u64, Vec<u8>>> {
    NAMES.iter().map(|name| pool.open_index(name).unwrap()).collect()
}

fn value(key: u64) -> Vec<u8> {
    vec![key as u8; 7_000 + (key % 1_500) as usize]
}

/// A key that is not near the keys of neighbouring numbers.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Puts keys until the pool is full; returns their number.
fn fill(index: &Index<u64, Vec<u8>>, from: u64) -> u64 {
    for number in from.. {
        match index.put(spread(number), value(number)) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Full, "{error}");
                return number;
            }
        }
    }
    unreachable!("a pool is finite")
}

fn check_keys(index: &Index<u64, Vec<u8>>, keys: u64) {
    for number in 0..keys {
        assert_eq!(index.get(spread(number)).unwrap(), Some(value(number)), "key {number} of {keys}");
    }
    let report = index.check().unwrap();
    assert!(report.problems().is_empty(), "{:?}", report.problems());
}

fn chunks_used(pool: &Pool) -> Vec<u64> {
    pool.stats().unwrap().nodes.iter().map(|node| node.chunks_used).collect()
}

/// Removes a pool in shared memory at the end of a test.
struct Removed(String);

impl Removed {
    fn create(name: &str, options: &PoolOptions) -> Self {
        let url = format!("shm://{name}-{}", std::process::id());
        Pool::create(&url, options).unwrap();
        Self(url)
    }
}

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = Pool::remove_by_force(&self.0);
    }
}

#[test]
fn a_full_pool_grows_under_its_writers() {
    for name in NAMES {
        let options = PoolOptions::new().memory_bytes(24 * MIB).memory_max_bytes(64 * MIB);
        let scratch = Removed::create(&format!("growth-{name}"), &options);
        let served = start(&node_spec(24 * MIB, 64 * MIB));
        for url in [scratch.0.clone(), url(&[&served])] {
            let (pool, operator) = (Pool::open(&url).unwrap(), Pool::open(&url).unwrap());
            let index = create(&pool, name);
            let full = fill(&index, 0);
            assert_eq!(operator.stats().unwrap().nodes[0].memory_bytes, 24 * MIB);
            operator.grow_memory(40 * MIB).unwrap();
            let grown = fill(&index, full);
            assert!(grown > full + full / 2, "{url}: {full} keys, then {grown}");
            operator.grow_memory(32 * MIB).unwrap();
            let node = operator.stats().unwrap().nodes[0];
            assert_eq!((node.memory_bytes, node.memory_max_bytes), (40 * MIB, 64 * MIB), "it never shrinks");
            assert_eq!((node.chunks, node.chunks_used), (4, 4));
            check_keys(&index, grown);
            let error = operator.grow_memory(72 * MIB).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.to_string().contains("can grow to 64 MiB"), "{error}");
            let error = operator.grow_memory(48 * MIB + 1).unwrap_err();
            assert!(error.to_string().contains("multiple of 8 MiB"), "{error}");
            assert_eq!(operator.stats().unwrap().nodes[0].memory_bytes, 40 * MIB);
        }
    }
}

#[test]
fn a_memory_node_is_added_under_writers_and_readers() {
    const WRITERS: u64 = 3;
    let spec = node_spec(256 * MIB, 256 * MIB);
    let (first, second, third) = (start(&spec), start(&spec), start(&spec));
    let old_url = url(&[&first, &second]);
    let operator = Pool::open(&old_url).unwrap();
    drop(create_each(&operator));
    let (stopped, written) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 3 * WRITERS as usize]);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (url, stopped, written) = (&old_url, &stopped, &written);
            scope.spawn(move || {
                let pool = Pool::open(url).unwrap();
                let indexes = open_each(&pool);
                for number in 0.. {
                    for (at, index) in indexes.iter().enumerate() {
                        let key = spread(number * WRITERS + writer);
                        index.put(key, value(number)).unwrap();
                        assert_eq!(index.get(key).unwrap(), Some(value(number)), "{writer} {number}");
                        written[at * WRITERS as usize + writer as usize].store(number + 1, Ordering::Relaxed);
                    }
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        let all_have = |number: u64| written.iter().all(|count| count.load(Ordering::Relaxed) > number);
        while !all_have(100) {
            thread::yield_now();
        }
        assert_eq!(operator.add_memory_node(&address(&third)).unwrap(), 2);
        // Each index needs new chunks until the third memory node has some of all writers.
        while chunks_used(&operator)[2] < 3 {
            thread::yield_now();
        }
        // Each writer goes on from its own number: if slow ones had to reach the fast ones, the pool could fill up.
        let before: Vec<_> = written.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let continues = |(count, before): (&AtomicU64, &u64)| count.load(Ordering::Relaxed) > before + 100;
        while !written.iter().zip(&before).all(continues) {
            thread::yield_now();
        }
        stopped.store(true, Ordering::Relaxed);
    });
    let new_url = url(&[&first, &second, &third]);
    for url in [&old_url, &new_url] {
        let pool = Pool::open(url).unwrap();
        assert_eq!(pool.stats().unwrap().nodes.len(), 3);
        for (at, index) in open_each(&pool).iter().enumerate() {
            for writer in 0..WRITERS {
                let count = written[at * WRITERS as usize + writer as usize].load(Ordering::Relaxed);
                for number in 0..count {
                    let found = index.get(spread(number * WRITERS + writer)).unwrap();
                    assert_eq!(found, Some(value(number)), "{} {writer} {number}", NAMES[at]);
                }
            }
            let report = index.check().unwrap();
            assert!(report.problems().is_empty(), "{:?}", report.problems());
        }
    }
    let reader = Pool::open_read_only(&old_url).unwrap();
    assert_eq!(reader.open_index::<u64, Vec<u8>>("radix").unwrap().get(spread(0)).unwrap(), Some(value(0)));
    drop(reader);
    for name in NAMES {
        operator.drop_index(name).unwrap();
    }
    assert_eq!(chunks_used(&operator), [0, 0, 0]);
}

#[test]
fn a_full_pool_of_memory_nodes_takes_an_added_one() {
    for name in NAMES {
        let spec = node_spec(24 * MIB, 24 * MIB);
        let (first, second) = (start(&spec), start(&spec));
        let pool = Pool::open(url(&[&first]).as_str()).unwrap();
        let index = create(&pool, name);
        let full = fill(&index, 0);
        let operator = Pool::open(url(&[&first]).as_str()).unwrap();
        operator.add_memory_node(&address(&second)).unwrap();
        let grown = fill(&index, full);
        assert!(grown > full + full / 2, "{name}: {full} keys, then {grown}");
        assert_eq!(chunks_used(&pool)[1], 2);
        check_keys(&index, grown);
        // A process that names neither knows nothing else: its URL has the first memory node only.
        let other = Pool::open(url(&[&first]).as_str()).unwrap();
        check_keys(&other.open_index(name).unwrap(), grown);
    }
}

#[test]
fn an_unfit_memory_node_is_not_added() {
    let spec = node_spec(32 * MIB, 64 * MIB);
    let (first, second, other) = (start(&spec), start(&spec), start(&spec));
    let pool = Pool::open(url(&[&first]).as_str()).unwrap();
    let refused = |address: &HostPort, words: &str| {
        let error = pool.add_memory_node(address).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(pool.stats().unwrap().nodes.len(), 1);
    };
    let sizes = start(&node_spec(32 * MIB, 128 * MIB));
    refused(&address(&sizes), "--memory-max");
    drop(Pool::open(url(&[&other]).as_str()).unwrap());
    refused(&address(&other), "belongs to a pool already");
    refused(&address(&first), "is memory node 0 of the pool already");
    refused(&"127.0.0.1:1".parse().unwrap(), "127.0.0.1:1");
    assert_eq!(pool.add_memory_node(&address(&second)).unwrap(), 1);
    assert_eq!(pool.add_memory_node(&address(&second)).unwrap(), 1, "an addition can be repeated");
    let third = start(&spec);
    let wrong = Pool::open(url(&[&first, &second, &third]).as_str()).unwrap_err();
    assert!(wrong.to_string().contains("farwood grow --add-node"), "{wrong}");

    let scratch = Removed::create("growth-shm", &PoolOptions::new().memory_bytes(16 * MIB));
    let error = Pool::open(&scratch.0).unwrap().add_memory_node(&address(&third)).unwrap_err();
    assert!(error.to_string().contains("farwood grow --memory"), "{error}");
}

#[test]
fn a_grown_pool_survives_restarts() {
    for durability in ["orderly", "interval=0.05", "always"] {
        let folder = tempfile::tempdir().unwrap();
        let spec = |number: usize, listen: SocketAddr, memory: u64| NodeSpec {
            listen,
            file: Some(NodeFile {
                durability: durability.parse().unwrap(),
                ..NodeFile::new(folder.path().join(format!("node-{number}")))
            }),
            ..node_spec(memory, 64 * MIB)
        };
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let nodes: Vec<_> = (0..2).map(|number| start(&spec(number, any, 32 * MIB))).collect();
        let addresses: Vec<_> = nodes.iter().map(MemoryNode::address).collect();
        let old_url = url(&[&nodes[0]]);
        let pool = Pool::open(&old_url).unwrap();
        pool.add_memory_node(&address(&nodes[1])).unwrap();
        pool.grow_memory(48 * MIB).unwrap();
        let indexes = create_each(&pool);
        for index in &indexes {
            index.put_many((0..500).map(|number| (spread(number), value(number)))).unwrap();
        }
        drop((indexes, pool));
        stop(nodes);
        // A smaller size changes nothing, and a larger one grows the memory.
        for (memory, expected) in [(32 * MIB, 48 * MIB), (56 * MIB, 56 * MIB)] {
            let restarted = |(number, at): (usize, &SocketAddr)| start(&spec(number, *at, memory));
            let nodes: Vec<_> = addresses.iter().enumerate().map(restarted).collect();
            let pool = Pool::open(&old_url).unwrap();
            let found: Vec<_> = pool.stats().unwrap().nodes.iter().map(|node| node.memory_bytes).collect();
            assert_eq!(found, [expected; 2], "{durability}");
            for index in &open_each(&pool) {
                check_keys(index, 500);
            }
            drop(pool);
            stop(nodes);
        }
        let error =
            MemoryNode::start(&NodeSpec { host_bytes: 72 * MIB, host_bytes_max: None, ..spec(0, any, 0) });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("its memory can grow to 64 MiB"), "{error}");
    }
}

#[test]
fn an_image_keeps_the_limit_of_the_memory() {
    let options = PoolOptions::new().memory_bytes(16 * MIB).memory_max_bytes(64 * MIB);
    let scratch = Removed::create("growth-image", &options);
    let pool = Pool::open(&scratch.0).unwrap();
    pool.grow_memory(32 * MIB).unwrap();
    let index = create(&pool, "radix");
    let full = fill(&index, 0);
    drop((index, pool));
    let mut image = Vec::new();
    SavedPool::at(&scratch.0).to_writer(&mut image).unwrap();
    let copy = Removed(format!("{}-copy", scratch.0));
    RestoredPool::at(&copy.0).from_reader(image.as_slice()).unwrap();
    let pool = Pool::open(&copy.0).unwrap();
    let node = pool.stats().unwrap().nodes[0];
    assert_eq!((node.memory_bytes, node.memory_max_bytes), (32 * MIB, 64 * MIB));
    let index = pool.open_index("radix").unwrap();
    pool.grow_memory(64 * MIB).unwrap();
    check_keys(&index, fill(&index, full));
}
