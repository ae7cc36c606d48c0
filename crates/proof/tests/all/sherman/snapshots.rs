//! Scans of snapshots while a writer increments counters in different leaves one after the other: at every moment each
//! counter equals the one before it, or is one less. Splits and merges move the counters meanwhile.

use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::consistency::Consistency;
use farwood_index::sherman::layout::{Sizes, Values};
use farwood_index::sherman::{Direction, Range, Sherman, ShermanConfig, ShermanEntries, ShermanVariant};
use farwood_sim::{NicModel, RunOutcome, SimFabric, World, WorldSpec, untimed};
use farwood_testkit::campaign::size;
use std::cell::Cell;

/// The counters, which are incremented one after the other. Between them other keys are inserted and removed.
const COUNTERS: u64 = 24;
const STEP: u64 = 100;
const ROUNDS: u64 = 30;
const TIME_MAX: u64 = 1_000_000_000;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The method by which the counters are read.
#[derive(Clone, Copy, PartialEq)]
enum ReadMode {
    Snapshot,
    Scan,
}

struct Setup {
    world: World,
    trees: Vec<Sherman>,
    values: Values,
    seed: u64,
}

impl Setup {
    fn new(seed: u64, values: Values) -> Self {
        let card = NicModel::named("cx5-100g").expect("the simulator has this NIC");
        let spec = WorldSpec { compute_nodes: 3, memory_nodes: 2, seed, ..WorldSpec::small(card) };
        let world = World::new(WorldSpec { host_bytes: 64 << 20, ..spec }).expect("a world");
        let sizes = Sizes { key_bytes: 8, value_bytes: 16, node_bytes: 320 };
        let options = [ShermanVariant::Sherman, ShermanVariant::LockRead, ShermanVariant::FgPlus]
            [seed as usize % 3]
            .features();
        let config = ShermanConfig { sizes, values, options, ..ShermanConfig::default() };
        let mut trees = vec![untimed(Sherman::create(&world.untimed(0), "moment", config, 1 << 16))];
        trees.extend((1..3).map(|node| untimed(Sherman::open(&world.untimed(node), "moment", 1 << 16))));
        let trees: Vec<_> = trees.into_iter().map(|tree| tree.expect("a tree")).collect();
        Self { world, trees, values, seed }
    }

    fn value(&self, count: u64) -> Vec<u8> {
        let mut value = count.to_be_bytes().to_vec();
        let bytes = if self.values == Values::Fixed { 16 } else { 8 + count as usize * 7 % 60 };
        value.resize(bytes, 0);
        value
    }

    async fn count_up(&self, tree: &Sherman, client: &Client<SimFabric>, done: &Cell<bool>) {
        for count in 1..=ROUNDS {
            for counter in 0..COUNTERS {
                tree.put(client, &key(counter * STEP), &self.value(count)).await.expect("a put");
            }
        }
        done.set(true);
    }

    /// Inserts and removes keys between the counters, so that leaves split and merge.
    async fn disturb(&self, tree: &Sherman, client: &Client<SimFabric>, done: &Cell<bool>) {
        let mut round = self.seed;
        while !done.get() {
            let first = round % COUNTERS * STEP;
            for other in 1..40 {
                tree.put(client, &key(first + other), &self.value(other)).await.expect("a put");
            }
            for other in 1..40 {
                tree.remove(client, &key(first + other)).await.expect("a removal");
            }
            round += 7;
        }
    }

    /// Reads all counters until the writer ends; yields the first values that never existed at one moment.
    async fn watch(
        &self,
        mode: ReadMode,
        tree: &Sherman,
        client: &Client<SimFabric>,
        done: &Cell<bool>,
    ) -> Option<String> {
        let mut found = ShermanEntries::new();
        while !done.get() {
            let range = Range { from: Some(&[0; 8]), to: None };
            let direction =
                if self.seed.is_multiple_of(2) { Direction::Forward } else { Direction::Backward };
            match mode {
                ReadMode::Snapshot => {
                    tree.scan_snapshot(client, range, direction, usize::MAX, &mut found).await
                }
                ReadMode::Scan => tree.scan(client, range, direction, usize::MAX, &mut found).await,
            }
            .expect("a scan");
            let mut counts: Vec<u64> = found.iter().filter_map(count_of).collect();
            if direction == Direction::Backward {
                counts.reverse();
            }
            let in_step = counts.windows(2).all(|pair| pair[0] >= pair[1] && pair[0] <= pair[1] + 1);
            let all = counts.is_empty() || counts.len() as u64 == COUNTERS || counts[0] == 1;
            let ends = counts.first().zip(counts.last()).is_none_or(|(first, last)| *first <= last + 1);
            if !(in_step && all && ends) {
                return Some(format!("seed {}: {counts:?}", self.seed));
            }
        }
        None
    }
}

/// The value of a counter; `None` for other keys.
fn count_of((key, value): (&[u8], &[u8])) -> Option<u64> {
    let number = u64::from_be_bytes(key.try_into().expect("eight bytes"));
    number.is_multiple_of(STEP).then(|| u64::from_be_bytes(value[..8].try_into().expect("eight bytes")))
}

/// Runs a seed; yields the first values that never existed at one moment.
fn inconsistency(seed: u64, values: Values, mode: ReadMode) -> Option<String> {
    let setup = Setup::new(seed, values);
    let clients: Vec<_> = (0..4).map(|client| setup.world.client(client % 3)).collect();
    let (done, wrong) = (Cell::new(false), Cell::new(None));
    let mut group = setup.world.task_group();
    group.spawn(&clients[0], setup.count_up(&setup.trees[0], &clients[0], &done));
    group.spawn(&clients[1], setup.disturb(&setup.trees[1], &clients[1], &done));
    group.spawn(&clients[2], async {
        wrong.set(setup.watch(mode, &setup.trees[2], &clients[2], &done).await);
    });
    assert_eq!(group.run_until(TIME_MAX), RunOutcome::Done, "seed {seed}");
    drop(group);
    wrong.take()
}

#[test]
fn a_snapshot_shows_one_moment() {
    for seed in 0..size(20, 60) {
        for values in [Values::Fixed, Values::AnyLength] {
            assert_eq!(inconsistency(seed, values, ReadMode::Snapshot), None);
        }
    }
}

/// The outcome of a snapshot whose two READs together take 80 µs.
fn slow_snapshot(consistency: Consistency) -> Result<(), IndexError> {
    let mut card = NicModel::named("cx5-100g").expect("the simulator has this NIC");
    card.pcie.read_ns = 40_000.0;
    let world = World::new(WorldSpec::small(card)).expect("a world");
    let config = ShermanConfig { consistency: Some(consistency), ..ShermanConfig::default() };
    let tree = untimed(Sherman::create(&world.untimed(0), "slow", config, 1 << 16)).expect("a tree");
    untimed(tree.put(&world.untimed(0), &key(1), &[1; 8])).expect("a put");
    let (client, outcome) = (world.client(0), Cell::new(Ok(())));
    let mut group = world.task_group();
    group.spawn(&client, async {
        let (range, mut found) = (Range { from: None, to: None }, ShermanEntries::new());
        let done = tree.scan_snapshot(&client, range, Direction::Forward, usize::MAX, &mut found).await;
        outcome.set(done.map(|()| assert_eq!(found.len(), 1)));
    });
    assert_eq!(group.run_until(TIME_MAX), RunOutcome::Done);
    drop(group);
    outcome.into_inner()
}

/// In 80 µs an entry may be written 128 times, so that its version of one byte is the same again.
#[test]
fn a_snapshot_that_takes_long_does_not_trust_versions_of_one_byte() {
    assert_eq!(slow_snapshot(Consistency::Versions), Ok(()));
    let refused = slow_snapshot(Consistency::ByteVersions);
    assert!(matches!(refused, Err(IndexError::NoSnapshot(why)) if why.contains("checksums")), "{refused:?}");
}

/// The check of snapshots fails for an ordinary scan, which is not atomic.
#[test]
fn an_ordinary_scan_shows_several_moments() {
    assert!((0..10).any(|seed| inconsistency(seed, Values::Fixed, ReadMode::Scan).is_some()));
}
