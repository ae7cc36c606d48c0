//! Sherman under several threads of several compute nodes at the same time, over shared memory: from the empty tree,
//! with small nodes that split often. Each thread checks every answer.
//!
//! Every key has one owner, the only thread that changes it, which therefore knows its value. Each value names its key
//! and its version, so that readers of other keys notice a mixture, or a version that decreases.
//!
//! `FARWOOD_STEPS=N` sets the steps of each thread instead of 6,000, for runs of minutes and hours.

use farwood_index::consistency::Consistency;
use farwood_index::sherman::layout::Sizes;
use farwood_index::sherman::{Direction, Range, Sherman, ShermanConfig, ShermanEntries, ShermanVariant};
use farwood_index::{PutOutcome, RemoveOutcome, UpdateOutcome};
use farwood_proof::shm::{Shm, attach};
use farwood_transport::runtime::block_on;
use farwood_transport::shm::ShmPool;
use std::collections::BTreeMap;
use std::sync::Barrier;

const THREADS: u64 = 4;
const NODES: usize = 2;
const KEYS: u64 = 600;
const STEPS: u64 = 6_000;
const CACHE_BYTES: usize = 16 << 10;
/// Keys below this are written first and never removed: every scan must find those in its range.
const PERMANENT: u64 = KEYS / 2;

type Model = BTreeMap<u64, u64>;

/// One thread: its tree, its client, and the contents that it expects.
struct Worker<'a> {
    me: u64,
    tree: &'a Sherman,
    client: farwood_fabric::Client<farwood_transport::shm::ShmFabric>,
    model: Model,
    /// The last version read of each key of other threads.
    seen: Model,
    random: u64,
}

fn key_of(number: u64, bytes: usize) -> Vec<u8> {
    // Neighbours differ in their last bytes, and long keys share their first.
    let mut key = vec![7; bytes - 8];
    key.extend_from_slice(&(number * 0x0101).to_be_bytes());
    key
}

/// A value that repeats eight bytes of number and version.
fn value_of(number: u64, version: u64, bytes: usize) -> Vec<u8> {
    let word = (number << 40 | version).to_le_bytes();
    word.iter().copied().cycle().take(bytes).collect()
}

fn version_in(value: &[u8], number: u64) -> u64 {
    let word = u64::from_le_bytes(value[..8].try_into().unwrap());
    assert_eq!(word >> 40, number, "a value of another key");
    let version = word & ((1 << 40) - 1);
    assert_eq!(value, value_of(number, version, value.len()), "a mixture of two values");
    version
}

impl Worker<'_> {
    fn draw(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % limit
    }

    fn mine(&self, number: u64) -> bool {
        number % THREADS == self.me
    }

    fn key(&self, number: u64) -> Vec<u8> {
        key_of(number, self.tree.layout().key_bytes)
    }

    fn value(&self, number: u64, version: u64) -> Vec<u8> {
        value_of(number, version, self.tree.layout().value_bytes)
    }

    fn step(&mut self, version: u64) {
        let number = self.draw(KEYS);
        match self.draw(10) {
            0..=5 if self.mine(number) => self.change(number, version),
            9 => self.scan(),
            _ => self.read(number),
        }
    }

    fn change(&mut self, number: u64, version: u64) {
        let (key, value) = (self.key(number), self.value(number, version));
        let there = self.model.contains_key(&number);
        let kind = self.draw(4);
        let (did, now) = match kind {
            0 if number >= PERMANENT => {
                (block_on(self.tree.remove(&self.client, &key)).map(RemoveOutcome::removed), None)
            }
            1 => (
                block_on(self.tree.insert(&self.client, &key, &value)).map(|stored| !stored.inserted()),
                Some(version),
            ),
            2 => (
                block_on(self.tree.update(&self.client, &key, &value)).map(UpdateOutcome::updated),
                Some(version),
            ),
            _ => {
                (block_on(self.tree.put(&self.client, &key, &value)).map(PutOutcome::replaced), Some(version))
            }
        };
        assert_eq!(did.expect("the operation succeeds"), there, "key {number}, change {kind}");
        match (kind, there, now) {
            (1, true, _) | (2, false, _) => {}
            (_, _, Some(version)) => drop(self.model.insert(number, version)),
            (_, _, None) => drop(self.model.remove(&number)),
        }
    }

    fn read(&mut self, number: u64) {
        let value = block_on(self.tree.get(&self.client, &self.key(number))).expect("the operation succeeds");
        let version = value.map(|value| version_in(&value, number));
        if self.mine(number) {
            assert_eq!(version, self.model.get(&number).copied(), "own key {number}");
        } else {
            assert!(version.is_some() || number >= PERMANENT, "key {number} is never removed");
            self.saw(number, version);
        }
    }

    fn saw(&mut self, number: u64, version: Option<u64>) {
        if let Some(version) = version {
            let before = self.seen.insert(number, version).unwrap_or(0);
            assert!(before <= version, "key {number}: version {before}, then {version}");
        }
    }

    fn scan(&mut self) {
        let (a, b) = (self.draw(KEYS), self.draw(KEYS));
        let (from, to) = (a.min(b), a.max(b));
        let limit = if self.draw(2) == 0 { usize::MAX } else { 20 };
        let direction = if self.draw(2) == 0 { Direction::Forward } else { Direction::Backward };
        let mut found = ShermanEntries::new();
        let (low, high) = (self.key(from), self.key(to));
        let range = Range { from: Some(&low), to: Some(&high) };
        block_on(self.tree.scan(&self.client, range, direction, limit, &mut found))
            .expect("the scan succeeds");
        let mut numbers: Vec<u64> = Vec::new();
        for (key, value) in found.iter() {
            let number = u64::from_be_bytes(key[key.len() - 8..].try_into().unwrap()) / 0x0101;
            assert_eq!(key, self.key(number));
            let version = version_in(value, number);
            if self.mine(number) {
                assert_eq!(Some(version), self.model.get(&number).copied(), "own key {number}");
            } else {
                self.saw(number, Some(version));
            }
            numbers.push(number);
        }
        if direction == Direction::Backward {
            numbers.reverse();
        }
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "in order, none twice");
        assert!(numbers.iter().all(|number| (from..to).contains(number)), "within bounds");
        let (low, high) = match (found.len() < limit, direction) {
            (true, _) => (from, to),
            (false, Direction::Forward) => (from, numbers[numbers.len() - 1]),
            (false, Direction::Backward) => (numbers[0], to),
        };
        let own = |number: &u64| self.mine(*number) && self.model.contains_key(number);
        for number in (low..high).filter(|number| *number < PERMANENT || own(number)) {
            assert!(numbers.binary_search(&number).is_ok(), "the scan from {from} to {to} misses {number}");
        }
    }
}

fn steps() -> u64 {
    std::env::var("FARWOOD_STEPS").map_or(STEPS, |steps| steps.parse().expect("a number of steps"))
}

/// Runs all threads on a tree with that configuration, and checks the tree.
fn run_threads(config: ShermanConfig, seed: u64) {
    let shm = Shm::new();
    let pools: Vec<ShmPool> = (0..NODES).map(|_| attach(shm.path())).collect();
    let client = pools[0].client();
    let first =
        block_on(Sherman::create(&client, "threads", config, CACHE_BYTES)).expect("a tree is created");
    let mut trees = vec![first];
    for pool in &pools[1..] {
        trees.push(
            block_on(Sherman::open(&pool.client(), "threads", CACHE_BYTES)).expect("the tree is opened"),
        );
    }
    let barrier = Barrier::new(THREADS as usize);
    let models: Vec<Model> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|me| {
                let (pool, tree) = (&pools[me as usize % NODES], &trees[me as usize % NODES]);
                let barrier = &barrier;
                scope.spawn(move || work(me, pool, tree, seed, barrier))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread found a wrong answer")).collect()
    });
    let union: Model = models.into_iter().flatten().collect();
    for (pool, tree) in pools.iter().zip(&trees) {
        check_tree(&pool.client(), tree, &union);
    }
}

fn work(me: u64, pool: &ShmPool, tree: &Sherman, seed: u64, barrier: &Barrier) -> Model {
    let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (me + 1).wrapping_mul(0xD1B5_4A32_D192_ED03);
    let mut worker =
        Worker { me, tree, client: pool.client(), model: Model::new(), seen: Model::new(), random };
    barrier.wait();
    for number in (0..PERMANENT).filter(|number| number % THREADS == me) {
        let (key, value) = (worker.key(number), worker.value(number, 1));
        assert!(
            !block_on(tree.put(&worker.client, &key, &value)).expect("the operation succeeds").replaced()
        );
        worker.model.insert(number, 1);
    }
    barrier.wait();
    for version in 2..steps() {
        worker.step(version);
    }
    worker.model
}

fn check_tree(
    client: &farwood_fabric::Client<farwood_transport::shm::ShmFabric>,
    tree: &Sherman,
    union: &Model,
) {
    let mut found = ShermanEntries::new();
    block_on(tree.scan(client, Range::default(), Direction::Forward, usize::MAX, &mut found))
        .expect("a scan");
    let layout = tree.layout();
    let expected: Vec<_> = union
        .iter()
        .map(|(&number, &version)| {
            (key_of(number, layout.key_bytes), value_of(number, version, layout.value_bytes))
        })
        .collect();
    let found: Vec<_> = found.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
    assert!(found == expected, "the tree is the union of the models");
    assert_eq!(block_on(tree.count(client)).expect("a count"), union.len() as u64);
    let walk = block_on(tree.walk(client)).expect("a walk");
    assert_eq!(walk.problems, [], "{walk:?}");
    assert_eq!((walk.entries, walk.half_linked), (union.len() as u64, 0));
    assert!(walk.nodes.len() > 2, "the tree has grown: {:?}", walk.nodes);
    assert_eq!(tree.locks_dropped(), 0);
}

fn config(variant: ShermanVariant, sizes: Sizes, consistency: Option<Consistency>) -> ShermanConfig {
    ShermanConfig { sizes, options: variant.features(), consistency, ..ShermanConfig::default() }
}

const SMALL: Sizes = Sizes { key_bytes: 8, value_bytes: 16, node_bytes: 256 };
const LARGE: Sizes = Sizes { key_bytes: 40, value_bytes: 100, node_bytes: 1024 };

#[test]
fn every_variant_answers_correctly() {
    for (at, (variant, _)) in ShermanVariant::ALL.into_iter().enumerate() {
        run_threads(config(variant, SMALL, None), at as u64);
    }
}

#[test]
fn checksums_answer_right() {
    run_threads(config(ShermanVariant::Sherman, SMALL, Some(Consistency::Checksum)), 20);
    run_threads(config(ShermanVariant::Sherman, LARGE, Some(Consistency::Checksum)), 21);
}

#[test]
fn long_keys_with_a_common_prefix_are_answered_correctly() {
    run_threads(config(ShermanVariant::Sherman, LARGE, None), 30);
    run_threads(config(ShermanVariant::FgPlus, LARGE, None), 31);
}

#[test]
fn packed_locks_give_correct_answers() {
    let mut config = config(ShermanVariant::Sherman, SMALL, None);
    config.options.lock.width = farwood_index::lock::LockWidth::Packed;
    run_threads(config, 40);
}
