//! Crash points of changes that update a hash table: a compute node crashes before, at and after each verb between the
//! change of the tree and that of the entry, in the middle of a subtable's split, and while a directory is doubled.
//! Pairs of crashes are tested as well: a second compute node continues after the first crash and crashes too, and a
//! third continues.
//!
//! After each crash, every key must have the acknowledged value; the key of the interrupted operation may be present or
//! absent. Every key must be changeable, and the walk must find no problem. After all keys have been read, and a new
//! node was entered beside each old one, at most one change for each crash is unfinished.

use crate::radix::crash_cases;
use farwood_fabric::{Client, Fabric as _};
use farwood_index::IndexError;
use farwood_index::ordered::OrderedConfig;
use farwood_index::radix::prefix::PrefixHash;
use farwood_index::sphinx::table::layout::TablePosition;
use farwood_index::sphinx::{Groups, Sphinx, SphinxConfig, SphinxFeatures, SphinxVariant};
use farwood_proof::crash_cluster::{
    CRASH_POINTS, CrashCluster, DROP_DELAYS_NS, DropPoint, FIRST_CRASH, SECOND_CRASH, SURVIVOR, TIME_MAX,
};
use farwood_proof::crash_points::{reads_after_crashes, single_drops};
use farwood_sim::fault::{CrashPoint, Fault, FaultRule, FaultTrigger};
use farwood_sim::{NicModel, SimFabric, World, WorldSpec, untimed};
use farwood_testkit::campaign::size;
use std::collections::BTreeMap;

const FILTER_BYTES: usize = 1 << 12;
/// Longer than the time between two tries of a change that was postponed, nanoseconds.
const PAUSE_NS: u64 = 200_000;
/// Maximum verbs of one operation.
const VERBS_MAX: u64 = 300;

type Key = [u8; 3];
type Model = BTreeMap<Key, u8>;

/// The operation that is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Put(Key),
    Remove(Key),
}

/// A tree of `nodes` inner nodes below the root with two keys each, except the last, and the operation that is
/// interrupted.
#[derive(Clone, Copy, Debug)]
struct CrashCase {
    nodes: u8,
    change: Change,
    /// A coverage mark that the operation must pass if no compute node crashes.
    mark: &'static str,
}

/// The tree of a case, open on all compute nodes, and its contents.
struct Fixture {
    cluster: CrashCluster<Sphinx>,
    before: Model,
}

fn first(node: u8) -> Key {
    [node, 1, 0]
}

fn second(node: u8) -> Key {
    [node, 2, 0]
}

impl CrashCase {
    fn fixture(&self) -> Fixture {
        let card = NicModel::named("cx6-200g").expect("the simulator has this NIC");
        let spec = WorldSpec { host_bytes: 64 << 20, memory_nodes: 1, ..WorldSpec::small(card) };
        let world = World::new(spec).expect("a world");
        let trees: Vec<_> = (0..3).map(|node| open(&world, node)).collect();
        let (client, mut before) = (world.untimed(FIRST_CRASH), Model::new());
        for node in 0..=self.nodes {
            before.insert(first(node), 1);
            if node < self.nodes {
                before.insert(second(node), 1);
            }
        }
        // Node 0 is full.
        before.extend([([0, 3, 0], 1), ([0, 4, 0], 1)]);
        for (key, value) in &before {
            untimed(trees[FIRST_CRASH].put(&client, key, &[*value])).expect("a put");
        }
        for (node, tree) in trees.iter().enumerate() {
            let client = world.untimed(node);
            for key in before.keys() {
                untimed(tree.get(&client, key)).expect("a get");
            }
        }
        Fixture { cluster: CrashCluster { world, trees }, before }
    }

    async fn operate(&self, tree: &Sphinx, client: &Client<SimFabric>) -> Result<(), IndexError> {
        match self.change {
            Change::Put(key) => tree.put(client, &key, &[7]).await.map(drop),
            Change::Remove(key) => tree.remove(client, &key).await.map(drop),
        }
    }

    /// The case with the fewest nodes whose operation passes `mark`, and not `not`.
    fn with(mark: &'static str, not: Option<&str>) -> Self {
        let cases = (3..250).map(|nodes| Self { nodes, change: Change::Put(second(nodes)), mark });
        let passes = |case: &Self| {
            let fixture = case.fixture();
            let before = fixture.cluster.world.marks();
            fixture.change(case);
            let after = fixture.cluster.world.marks();
            let newly = |mark: &str| after.get(mark) > before.get(mark);
            newly(mark) && !not.is_some_and(newly)
        };
        cases.into_iter().find(passes).expect("tables grow")
    }
}

fn open(world: &World, node: usize) -> Sphinx {
    let client = world.untimed(node);
    let groups = Groups::new(0).expect("0 is a valid number");
    let config = SphinxConfig {
        options: SphinxFeatures { groups, ..SphinxVariant::Filter.features() },
        ..SphinxConfig::default()
    };
    let opened = match node {
        0 => untimed(Sphinx::create(&client, "crash", config, FILTER_BYTES)),
        _ => untimed(Sphinx::open(&client, "crash", FILTER_BYTES)),
    };
    opened.expect("the tree is open")
}

impl Fixture {
    fn change(&self, case: &CrashCase) -> u64 {
        self.cluster.perform(FIRST_CRASH, &async |tree, client| case.operate(tree, client).await)
    }

    /// Reads every key, enters and removes a node beside each, and completes changes that were postponed.
    fn use_all(&self, node: usize) -> u64 {
        self.cluster.perform(node, &async |tree, client| {
            for &key in self.before.keys() {
                tree.get(client, &key).await?;
                tree.put(client, &[key[0], key[1], 9], &[9]).await?;
                tree.remove(client, &[key[0], key[1], 9]).await?;
            }
            tree.complete_changes(client).await;
            Ok(())
        })
    }

    /// As [`use_all`](Self::use_all), each operation in a short time.
    fn use_all_soon(&self, node: usize) {
        let cluster = &self.cluster;
        for &key in self.before.keys() {
            let beside = [key[0], key[1], 9];
            cluster.perform_soon(node, async |tree, client| tree.get(client, &key).await.map(drop));
            cluster.perform_soon(node, async |tree, client| tree.put(client, &beside, &[9]).await);
            cluster.perform_soon(node, async |tree, client| tree.remove(client, &beside).await);
        }
    }

    /// Reads everything, changes everything, and reads again.
    fn check(&self, case: &CrashCase, crashes: u64) {
        self.use_all(SURVIVOR);
        let (tree, client) = (&self.cluster.trees[SURVIVOR], self.cluster.world.client(SURVIVOR));
        let (about, done) = match case.change {
            Change::Put(key) => (key, Some(7)),
            Change::Remove(key) => (key, None),
        };
        let get = |key: Key| {
            let value = self.cluster.world.block_on(tree.get(&client, &key)).expect("a get");
            value.map(|value| value[0])
        };
        for _ in 0..3 {
            for (&key, &value) in &self.before {
                let found = get(key);
                assert!(found == Some(value) || key == about && found == done, "{key:?}: {found:?}");
            }
            let found = get(about);
            assert!(found == done || found == self.before.get(&about).copied(), "{found:?}");
        }
        let walk = self.cluster.world.block_on(tree.walk(&client)).expect("a walk");
        assert_eq!(walk.problems, []);
        let present = self.before.len() as u64;
        let now = get(about).is_some();
        let was = self.before.contains_key(&about);
        assert_eq!(walk.entries, present + u64::from(now && !was) - u64::from(was && !now));
        assert!(
            walk.unfinished_changes <= crashes,
            "{} unfinished changes after {crashes} crashes: {walk:?}",
            walk.unfinished_changes
        );
    }
}

fn cases() -> [CrashCase; 5] {
    [
        CrashCase { nodes: 4, change: Change::Put(second(4)), mark: "radix: a leaf split" },
        CrashCase {
            nodes: 4,
            change: Change::Put([0, 5, 0]),
            mark: "radix: a node replaced by a larger one",
        },
        CrashCase { nodes: 4, change: Change::Remove(second(3)), mark: "radix: a node removed" },
        CrashCase::with("sphinx: a directory doubled", None),
        CrashCase::with("sphinx: a subtable split", Some("sphinx: a directory doubled")),
    ]
}

#[test]
fn a_crash_at_any_verb_loses_no_key() {
    let mut points = 0;
    for case in cases() {
        let whole = case.fixture();
        let verbs = whole.change(&case);
        assert!((1..VERBS_MAX).contains(&verbs), "{case:?}: {verbs}");
        assert!(
            whole.cluster.world.marks().contains_key(case.mark),
            "{case:?}: {:?}",
            whole.cluster.world.marks()
        );
        whole.check(&case, 0);
        for (verb, point) in (1..=verbs).flat_map(|verb| CRASH_POINTS.map(|point| (verb, point))) {
            let fixture = case.fixture();
            fixture.cluster.crash_at(FIRST_CRASH, verb, point);
            fixture.change(&case);
            assert!(fixture.cluster.world.crashed(FIRST_CRASH), "{case:?}, verb {verb}, {point:?}");
            fixture.check(&case, 1);
            points += 1;
        }
    }
    assert!(points > 300, "{points} crash points");
}

#[test]
fn a_drop_after_any_poll_leaves_no_lock() {
    let mut points = 0;
    for case in cases() {
        for delay_ns in DROP_DELAYS_NS {
            for polls in 1.. {
                let (fixture, point) = (case.fixture(), DropPoint { polls, delay_ns, partition_ns: 0 });
                let operate =
                    async |tree: &Sphinx, client: &Client<SimFabric>| case.operate(tree, client).await;
                if fixture.cluster.drop_at(FIRST_CRASH, point, &operate) {
                    break;
                }
                fixture.use_all_soon(if points % 2 == 0 { SECOND_CRASH } else { FIRST_CRASH });
                fixture.check(&case, 1);
                points += 1;
            }
        }
    }
    assert!(points > 150, "{points} drop points");
}

/// The operations on the tree itself, with hash table and filter, and without.
#[test]
fn a_drop_after_any_poll_leaves_no_lock_in_the_tree() {
    for variant in [SphinxVariant::Filter, SphinxVariant::Art] {
        let config = |_| {
            let options = variant.features();
            OrderedConfig::Sphinx(SphinxConfig { options, ..SphinxConfig::default() })
        };
        let points = single_drops(&crash_cases(config));
        assert!(points > 100, "{points} drop points");
    }
}

/// The answers of a client that may only read, and cannot complete what the crashed one has left.
#[test]
fn a_reader_after_a_crash_at_any_verb_has_no_wrong_answer() {
    let config = |_| {
        let options = SphinxVariant::Filter.features();
        OrderedConfig::Sphinx(SphinxConfig { options, ..SphinxConfig::default() })
    };
    let reads = reads_after_crashes(&crash_cases(config), 40);
    assert!(reads.crashes > 3 && reads.unfinished * 4 < reads.answered, "{reads:?}");
}

/// The second compute node finds the interrupted split of the first, and crashes at some of its own verbs.
#[test]
fn a_second_crash_after_a_split_loses_no_key() {
    let sampled = size(4, 12) as usize;
    let mut pairs = 0;
    for case in &cases()[3..] {
        let verbs = case.fixture().change(case);
        for verb in (1..=verbs).step_by(3) {
            let interrupted = || {
                let fixture = case.fixture();
                fixture.cluster.crash_at(FIRST_CRASH, verb, CRASH_POINTS[(verb % 3) as usize]);
                fixture.change(case);
                fixture
            };
            let second_verbs = interrupted().use_all(SECOND_CRASH);
            for second_verb in (1..=second_verbs).step_by(1 + second_verbs as usize / sampled) {
                let fixture = interrupted();
                fixture.cluster.crash_at(SECOND_CRASH, second_verb, CRASH_POINTS[(second_verb % 3) as usize]);
                fixture.use_all(SECOND_CRASH);
                assert!(
                    fixture.cluster.world.crashed(SECOND_CRASH),
                    "{case:?}, verbs {verb} and {second_verb}"
                );
                fixture.check(case, 2);
                pairs += 1;
            }
        }
    }
    assert!(pairs > size(70, 200), "{pairs} pairs");
}

/// A tree whose first table split was interrupted when the new half was settled and the old half was not.
fn half_settled() -> Fixture {
    let case = CrashCase::with("sphinx: a directory doubled", None);
    let fixture = case.fixture();
    // A subtable of one group has three headers.
    let when =
        FaultTrigger::Mark { compute_node: FIRST_CRASH, mark: "sphinx: entries that have moved", number: 4 };
    let fault = Fault::Crash { compute_node: FIRST_CRASH, point: CrashPoint::Before };
    fixture.cluster.world.add_rule(FaultRule { when, fault });
    fixture.change(&case);
    assert!(fixture.cluster.world.crashed(FIRST_CRASH));
    fixture
}

/// A compute node that only reads completes an interrupted split, so that each get takes three round trips again.
#[test]
fn a_client_that_only_reads_completes_a_split() {
    // After the directory leads to the new half, and before it has its entries.
    let case = CrashCase::with("sphinx: a directory doubled", None);
    let fixture = case.fixture();
    let when = FaultTrigger::Mark { compute_node: FIRST_CRASH, mark: "sphinx: a split begun", number: 6 };
    let fault = Fault::Crash { compute_node: FIRST_CRASH, point: CrashPoint::Before };
    fixture.cluster.world.add_rule(FaultRule { when, fault });
    fixture.change(&case);
    assert!(fixture.cluster.world.crashed(FIRST_CRASH));
    let (world, tree) = (&fixture.cluster.world, &fixture.cluster.trees[SURVIVOR]);
    let client = world.client(SURVIVOR);
    let read_all = || {
        client.take_costs();
        for key in fixture.before.keys() {
            world.block_on(tree.get(&client, key)).expect("a get");
        }
        client.take_costs().round_trips
    };
    let first = read_all();
    for _ in 0..20 {
        world.block_on(client.fabric().sleep(PAUSE_NS));
        read_all();
    }
    let (last, keys) = (read_all(), fixture.before.len() as u64);
    assert!(first > 3 * keys + 10, "the split was interrupted: {first} round trips for {keys} keys");
    assert!(last <= 3 * keys + 2, "{last} round trips for {keys} keys");
}

/// First bytes of new keys whose nodes have their entries in that half of a table that was split once.
fn of_half(half: u64) -> impl Iterator<Item = u8> {
    (100..=255).filter(move |&byte| TablePosition::of(PrefixHash::of(&[byte]), 1).upper(1) == half)
}

/// Creates a node with a prefix of one byte.
async fn create_node(tree: &Sphinx, client: &Client<SimFabric>, byte: u8) -> Result<(), IndexError> {
    tree.put(client, &first(byte), &[1]).await?;
    tree.put(client, &second(byte), &[1]).await.map(drop)
}

impl Fixture {
    /// Checks that the walk finds no problem, and at most one unfinished change.
    fn check_tables(&self) {
        let (tree, client) = (&self.cluster.trees[SURVIVOR], self.cluster.world.client(SURVIVOR));
        self.cluster.world.block_on(tree.complete_changes(&client));
        let walk = self.cluster.world.block_on(tree.walk(&client)).expect("a walk");
        assert_eq!(walk.problems, []);
        assert!(walk.unfinished_changes <= 1, "{} unfinished changes: {walk:?}", walk.unfinished_changes);
        assert!(!self.cluster.world.marks().contains_key("sphinx: a node without an entry"));
    }
}

/// The old half is found through the new one, so the new half must not be split again too early.
#[test]
fn a_new_half_is_split_again_only_when_the_old_half_is_settled() {
    let fixture = half_settled();
    fixture.cluster.perform(SURVIVOR, &async |tree, client| {
        for byte in of_half(1).chain(of_half(0)) {
            create_node(tree, client, byte).await?;
        }
        Ok(())
    });
    fixture.check_tables();
}

/// A client that completes a split whose new half is in use keeps the entries that other clients write there.
#[test]
fn completing_a_split_keeps_new_entries() {
    for step in 0..40 {
        let fixture = half_settled();
        let clients = [SECOND_CRASH, SURVIVOR].map(|node| fixture.cluster.world.client(node));
        let mut group = fixture.cluster.world.task_group();
        let (trees, [second, survivor]) = (&fixture.cluster.trees, &clients);
        group.spawn(second, async {
            second.fabric().sleep(500 * step).await;
            let byte = of_half(0).next().expect("a byte of the lower half");
            create_node(&trees[SECOND_CRASH], second, byte).await.expect("no further crash");
            trees[SECOND_CRASH].complete_changes(second).await;
        });
        group.spawn(survivor, async {
            for byte in of_half(1).take(8) {
                create_node(&trees[SURVIVOR], survivor, byte).await.expect("no further crash");
            }
        });
        group.run_until(fixture.cluster.world.now() + TIME_MAX);
        drop(group);
        fixture.check_tables();
    }
}
