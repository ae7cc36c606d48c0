//! Scans that begin with the children in a cached copy of a node, while another compute node changes the tree. Every
//! scan agrees with a `BTreeMap`, and the copies save a round trip.

use farwood_fabric::{Client, PoolShape};
use farwood_index::mutant::Mutant;
use farwood_index::smart::{Direction, RadixEntries, Range, Smart, SmartConfig, SmartVariant};
use farwood_testkit::Harness;
use farwood_testkit::campaign::size;
use farwood_testkit::harness::{TestRng, round_robin};
use farwood_testkit::loopback::{Loopback, LoopbackFabric, SMALL, Settings};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

const SHAPE: PoolShape = PoolShape { host_bytes: 128 << 20, ..SMALL };
const CACHE_BYTES: usize = 4 << 20;
/// Children of the node of the middle bytes, which has 256 slots.
const MIDDLES: u8 = 100;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A compute node with the tree.
struct Node {
    tree: Smart,
    client: Client<LoopbackFabric>,
}

fn node(pool: &Loopback, variant: SmartVariant, first: bool) -> Node {
    let client = pool.separate_client();
    let tree = pool.block_on(async {
        if first {
            let config = SmartConfig { options: variant.features(), ..SmartConfig::default() };
            Smart::create(&client, "t", config, CACHE_BYTES).await
        } else {
            Smart::open(&client, "t", CACHE_BYTES).await
        }
    });
    Node { tree: tree.expect("the tree is open"), client }
}

impl Node {
    /// The keys that a scan finds, and its round trips.
    fn scan(
        &self,
        pool: &Loopback,
        range: Range<'_>,
        direction: Direction,
        limit: usize,
    ) -> (Vec<Vec<u8>>, u64) {
        let mut entries = RadixEntries::new();
        self.client.take_costs();
        pool.block_on(self.tree.scan(&self.client, range, direction, limit, &mut entries)).expect("a scan");
        let keys = entries.iter().map(|(key, _)| key.to_vec()).collect();
        (keys, self.client.take_costs().round_trips)
    }
}

fn key(middle: u8, last: u8) -> Vec<u8> {
    vec![7, middle, last]
}

/// A tree of three-byte keys, open on a writer and on a scanner.
fn dense(pool: &Loopback, variant: SmartVariant) -> (Node, Node, Model) {
    let model: Model = (0..MIDDLES)
        .flat_map(|middle| (0..=u8::MAX).map(move |last| (key(middle, last), vec![last])))
        .collect();
    let writer = node(pool, variant, true);
    let loaded = pool.block_on(writer.tree.bulk_load(&writer.client, &model, |_| {}));
    assert_eq!(loaded.expect("a bulk load"), model.len() as u64);
    let scanner = node(pool, variant, false);
    for middle in 0..MIDDLES {
        let found = pool.block_on(scanner.tree.get(&scanner.client, &key(middle, 0)));
        assert!(found.expect("a get").is_some());
    }
    (writer, scanner, model)
}

/// The keys that a scan must find.
fn expected(model: &Model, from: &[u8], to: &[u8], direction: Direction, limit: usize) -> Vec<Vec<u8>> {
    let within = model.keys().filter(|key| from <= key.as_slice() && key.as_slice() < to).cloned();
    match direction {
        Direction::Forward => within.take(limit).collect(),
        Direction::Backward => within.rev().take(limit).collect(),
    }
}

#[test]
fn a_cached_copy_saves_the_round_trip_for_its_node() {
    let pool = Loopback::new(Settings { shape: SHAPE, ..Settings::default() });
    let (_, scanner, model) = dense(&pool, SmartVariant::RECOMMENDED);
    for (from, direction) in [(key(3, 200), Direction::Forward), (key(9, 60), Direction::Backward)] {
        let (low, high) = match direction {
            Direction::Forward => (from.clone(), vec![8]),
            Direction::Backward => (vec![7], from.clone()),
        };
        let range = Range { from: Some(&low), to: Some(&high) };
        let (found, round_trips) = scanner.scan(&pool, range, direction, 100);
        assert_eq!(found, expected(&model, &low, &high, direction, 100));
        // Two nodes, and two batches of at most 64 leaves.
        assert_eq!(round_trips, 3, "{direction:?}");
    }
}

/// Removes and puts keys on one compute node, single keys and whole nodes, and scans on the other. Yields the first
/// wrong scan.
fn scans_between_changes(variant: SmartVariant, mutant: Option<Mutant>, seed: u64) -> Option<String> {
    let pool = Loopback::new(Settings { shape: SHAPE, seed, ..Settings::default() });
    let (writer, mut scanner, mut model) = dense(&pool, variant);
    if let Some(mutant) = mutant {
        scanner.tree.mutant(mutant);
    }
    let mut random = TestRng::new(seed);
    let mut byte = |below: u64| random.below(below) as u8;
    for _ in 0..60 {
        for _ in 0..3 {
            let (middle, first, count) =
                (byte(u64::from(MIDDLES)), byte(256), [1, 40, 255][byte(3) as usize]);
            let remove = byte(2) == 0;
            for further in 0..=count {
                let key = key(middle, first.wrapping_add(further));
                if remove {
                    let gone = pool.block_on(writer.tree.remove(&writer.client, &key)).expect("a removal");
                    assert_eq!(gone.removed(), model.remove(&key).is_some());
                } else {
                    let there = pool.block_on(writer.tree.put(&writer.client, &key, &[1])).expect("a put");
                    assert_eq!(there.replaced(), model.insert(key, vec![1]).is_some());
                }
            }
        }
        for _ in 0..10 {
            let ends = [key(byte(u64::from(MIDDLES)), byte(256)), key(byte(u64::from(MIDDLES)), byte(256))];
            let direction = if byte(2) == 0 { Direction::Forward } else { Direction::Backward };
            let limit = [1, 60, 150, 256, 1000][byte(5) as usize];
            let (low, high) = (ends[0].clone().min(ends[1].clone()), ends[0].clone().max(ends[1].clone()));
            let range = Range { from: Some(&low), to: Some(&high) };
            let (found, _) = scanner.scan(&pool, range, direction, limit);
            let right = expected(&model, &low, &high, direction, limit);
            if found != right {
                return Some(format!("seed {seed}, {direction:?} {low:?} to {high:?}, {limit}"));
            }
        }
    }
    let walk = pool.block_on(writer.tree.walk(&writer.client)).expect("a walk");
    assert_eq!((walk.problems.len(), walk.entries), (0, model.len() as u64));
    assert!(pool.marked("radix: a scan restarted") > 0, "no cached copy was stale");
    None
}

#[test]
fn stale_copies_hide_no_key() {
    for seed in 0..3 {
        assert_eq!(scans_between_changes(SmartVariant::RECOMMENDED, None, seed), None);
    }
    assert_eq!(scans_between_changes(SmartVariant::Art, None, 3), None);
}

#[test]
fn a_scan_that_skips_gaps_is_noticed() {
    let broken = Some(Mutant::GapsPassed);
    assert!((0..3).any(|seed| scans_between_changes(SmartVariant::RECOMMENDED, broken, seed).is_some()));
}

/// A key of [`dense`], or one between two of them.
fn end(random: &mut TestRng) -> Vec<u8> {
    let key = key(random.below(u64::from(MIDDLES)) as u8, random.below(256) as u8);
    match random.below(4) {
        0 => key[..2].to_vec(),
        1 => [&key[..], &[0]].concat(),
        _ => key,
    }
}

/// One client fills and empties nodes while a client of another compute node scans. Yields the first scan that missed
/// a key that was present throughout.
fn scans_during_changes(mutant: Option<Mutant>, seed: u64) -> Option<String> {
    let pool = Loopback::new(Settings { shape: SHAPE, seed, ..Settings::default() });
    let (writer, mut scanner, model) = dense(&pool, SmartVariant::RECOMMENDED);
    if let Some(mutant) = mutant {
        scanner.tree.mutant(mutant);
    }
    // A key is removed from `there` before its removal, and added to both after its put.
    let there: RefCell<BTreeSet<Vec<u8>>> = RefCell::new(model.into_keys().collect());
    let came: RefCell<Vec<Vec<u8>>> = RefCell::default();
    let wrong = RefCell::new(None);
    let done = Cell::new(false);
    let write = async || {
        let mut random = TestRng::new(seed);
        for _ in 0..60 {
            let (middle, fill) = (random.below(u64::from(MIDDLES)) as u8, random.below(2) == 0);
            let end = key(middle, 0)[..2].to_vec();
            for key in (0..=u8::MAX).map(|last| key(middle, last)).chain([end]) {
                if fill {
                    writer.tree.put(&writer.client, &key, &[1]).await.expect("a put");
                    there.borrow_mut().insert(key.clone());
                    came.borrow_mut().push(key);
                } else {
                    there.borrow_mut().remove(&key);
                    writer.tree.remove(&writer.client, &key).await.expect("a removal");
                }
            }
        }
        done.set(true);
    };
    let scan = async || {
        let (mut random, mut entries) = (TestRng::new(!seed), RadixEntries::new());
        while !done.get() {
            let ends = [end(&mut random), end(&mut random)];
            let [low, high] = if ends[0] <= ends[1] { [&ends[0], &ends[1]] } else { [&ends[1], &ends[0]] };
            let direction = [Direction::Forward, Direction::Backward][random.below(2) as usize];
            let limit = [1, 60, 150, 256, 1000][random.below(5) as usize];
            let range = Range { from: Some(low), to: Some(high) };
            let before = came.borrow().len();
            let scanned = scanner.tree.scan(&scanner.client, range, direction, limit, &mut entries).await;
            scanned.expect("a scan");
            let mut found: Vec<_> = entries.iter().map(|(key, _)| key.to_vec()).collect();
            let last = found.last().cloned().filter(|_| found.len() == limit);
            if direction == Direction::Backward {
                found.reverse();
            }
            let what = || format!("seed {seed}, {direction:?} {low:?} to {high:?}, {limit}");
            assert!(found.len() <= limit && found.is_sorted_by(|a, b| a < b), "{}", what());
            assert!(found.iter().all(|key| low <= key && key < high), "{}", what());
            let seen = |key: &&Vec<u8>| match (direction, &last) {
                (_, None) => true,
                (Direction::Forward, Some(last)) => *key <= last,
                (Direction::Backward, Some(last)) => *key >= last,
            };
            let new: BTreeSet<_> = came.borrow()[before..].iter().cloned().collect();
            let there = there.borrow();
            let mut firm =
                there.range(low.clone()..high.clone()).filter(seen).filter(|key| !new.contains(*key));
            if let Some(missed) = firm.find(|key| found.binary_search(key).is_err()) {
                wrong.borrow_mut().get_or_insert(format!("{}: {missed:?} is missed", what()));
            }
        }
    };
    round_robin(&pool, 2, async |number, _| if number == 0 { write().await } else { scan().await });
    let walk = pool.block_on(writer.tree.walk(&writer.client)).expect("a walk");
    assert_eq!(walk.problems.len(), 0);
    assert!(pool.marked("radix: a scan restarted") > 0, "no cached copy was stale");
    wrong.into_inner()
}

#[test]
fn scans_during_changes_miss_no_lasting_key() {
    let seeds = std::env::var("FARWOOD_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok())
        .unwrap_or_else(|| size(3, 6));
    assert_eq!((0..seeds).find_map(|seed| scans_during_changes(None, seed)), None);
}

#[test]
fn a_scan_that_skips_gaps_during_changes_is_noticed() {
    assert!((0..3).any(|seed| scans_during_changes(Some(Mutant::GapsPassed), seed).is_some()));
}
