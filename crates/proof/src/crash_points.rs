//! Every crash point of every operation: a compute node crashes before, at and after each verb that it sends. Pairs of
//! crashes are tested as well: a second compute node works on the tree after the first crash, and crashes at each of
//! its verbs, while a third continues.
//!
//! After each crash, every key must have the acknowledged value. The key of the interrupted operation may have the
//! value from before or from after the interrupted operation, and all reads must return the same value. Every key must
//! be changeable, and the walk must find no problem. For each crash, the memory that one operation has allocated or
//! unlinked may be lost.
//!
//! Operations whose futures are dropped leave the same intermediate states, but their compute node is alive, so no
//! client may have to wait for it.

use crate::crash_cluster::{
    CRASH_POINTS, CrashCluster, DROP_DELAYS_NS, DropPoint, FIRST_CRASH, SECOND_CRASH, SURVIVOR,
};
use crate::read_only::ReadOnlyFabric;
use farwood_fabric::{Client, Fabric as _};
use farwood_index::IndexError;
use farwood_index::ordered::{Entries, Length, Ordered, OrderedConfig, OrderedReport};
use farwood_index::radix::inner::NodeSize;
use farwood_index::sherman::{Direction, Range};
use farwood_sim::{NicModel, SimFabric, World, WorldSpec, untimed};
use std::collections::{BTreeMap, BTreeSet};

const CACHE_BYTES: usize = 1 << 16;
/// Maximum verbs of one operation.
const VERBS_MAX: u64 = 200;
/// Maximum bytes that an operation on a radix tree has allocated or unlinked: two inner nodes, two leaves, two values.
const LOST_BYTES: i64 = 8192;

type NumberModel = BTreeMap<u64, u64>;

/// The operation that is interrupted; its key is a loaded one or lies between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterruptedOperation {
    /// Stores a value.
    Put(u64),
    /// Stores a value of this number of bytes.
    PutLong(u64, usize),
    /// Removes a key.
    Remove(u64),
    /// Returns the memory that the compute node does not use.
    Leave,
    /// Reads a key.
    Get(u64),
    /// Reads all entries.
    Scan,
    /// Reads all entries as of one moment.
    Snapshot,
}

/// A tree and the operation that is interrupted.
#[derive(Clone, Copy, Debug)]
pub struct CrashCase {
    /// The name of the case in messages.
    pub name: &'static str,
    /// The configuration of the tree.
    pub config: OrderedConfig,
    /// Keys that are loaded, from 0 in steps of [`KEY_STEP`].
    pub keys: u64,
    /// The fill factor of the loaded nodes, for systems that have one.
    pub fill: f64,
    /// Keys that are removed after loading, a range of their numbers.
    pub removed: (u64, u64),
    /// The operation.
    pub change: InterruptedOperation,
    /// A coverage mark that the operation must pass if no compute node crashes.
    pub mark: Option<&'static str>,
}

/// The distance between loaded keys.
pub const KEY_STEP: u64 = 10;

/// The tree of a case, open on all compute nodes, and its contents.
struct Fixture {
    cluster: CrashCluster<Ordered>,
    before: NumberModel,
}

fn bytes(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The number at the beginning of a key or value.
fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"))
}

impl Fixture {
    /// Encodes a number as a value of the tree.
    fn value(&self, number: u64) -> Vec<u8> {
        let mut value = bytes(number).to_vec();
        if let Length::Exactly(length) = self.cluster.trees[0].value_length() {
            value.resize(length, 0);
        }
        value
    }
}

impl CrashCase {
    fn fixture(&self) -> Fixture {
        let card = NicModel::named("cx5-100g").expect("the simulator has this NIC");
        let world =
            World::new(WorldSpec { host_bytes: 32 << 20, ..WorldSpec::small(card) }).expect("a world");
        let trees: Vec<_> = (0..3).map(|node| open(&world, node, self.config)).collect();
        let mut before: NumberModel = (0..self.keys).map(|number| (number * KEY_STEP, number)).collect();
        let client = world.untimed(FIRST_CRASH);
        let fixture = Fixture { cluster: CrashCluster { world, trees }, before: NumberModel::new() };
        let (world, trees) = (&fixture.cluster.world, &fixture.cluster.trees);
        let entries = before.iter().map(|(&key, &value)| (bytes(key), fixture.value(value)));
        let loaded = trees[FIRST_CRASH].bulk_load(&client, entries, self.fill, |_| {});
        untimed(loaded).expect("a bulk load");
        for number in self.removed.0..self.removed.1 {
            before.remove(&(number * KEY_STEP));
            let removed = untimed(trees[FIRST_CRASH].remove(&client, &bytes(number * KEY_STEP)));
            assert!(removed.expect("a removal").removed(), "{}: {number}", self.name);
        }
        // Fill the caches of all compute nodes.
        for (node, tree) in trees.iter().enumerate() {
            let client = world.untimed(node);
            for &key in before.keys() {
                untimed(tree.get(&client, &bytes(key))).expect("a get");
            }
        }
        Fixture { before, ..fixture }
    }
}

fn open(world: &World, node: usize, config: OrderedConfig) -> Ordered {
    let client = world.untimed(node);
    let opened = match node {
        0 => untimed(Ordered::create(&client, "crash", config, CACHE_BYTES)),
        _ => untimed(Ordered::open(&client, "crash", CACHE_BYTES)),
    };
    opened.expect("the tree is open")
}

impl Fixture {
    fn change(&self, case: &CrashCase) -> u64 {
        self.cluster.perform(FIRST_CRASH, &async |tree, client| self.operate(case, tree, client).await)
    }

    async fn operate(
        &self,
        case: &CrashCase,
        tree: &Ordered,
        client: &Client<SimFabric>,
    ) -> Result<(), IndexError> {
        match case.change {
            InterruptedOperation::Put(key) => {
                tree.put(client, &bytes(key), &self.value(7_777)).await.map(drop)
            }
            InterruptedOperation::PutLong(key, length) => {
                let mut value = self.value(7_777);
                value.resize(length, 0);
                tree.put(client, &bytes(key), &value).await.map(drop)
            }
            InterruptedOperation::Remove(key) => tree.remove(client, &bytes(key)).await.map(drop),
            InterruptedOperation::Leave => tree.leave(client).await,
            InterruptedOperation::Get(key) => tree.get(client, &bytes(key)).await.map(drop),
            InterruptedOperation::Scan => {
                let found = &mut Entries::new();
                tree.scan(client, Range::default(), Direction::Forward, usize::MAX, found).await
            }
            InterruptedOperation::Snapshot => {
                let found = &mut Entries::new();
                tree.scan_snapshot(client, Range::default(), Direction::Forward, usize::MAX, found).await
            }
        }
    }

    /// Updates every key that is present, each in a short time.
    fn update_all_soon(&self, node: usize) {
        for &key in self.before.keys() {
            self.cluster.perform_soon(node, async |tree, client| {
                let value = tree.get(client, &bytes(key)).await?.map(|value| value.to_vec());
                match value {
                    Some(value) => tree.update(client, &bytes(key), &value).await.map(drop),
                    None => Ok(()),
                }
            });
        }
    }

    /// Updates every key that was present, and so acquires every lock that an interrupted operation may hold.
    fn update_all(&self, node: usize, keys: &BTreeSet<u64>) -> u64 {
        self.cluster.perform(node, &async |tree, client| {
            for &key in keys {
                let value = tree.get(client, &bytes(key)).await?.map(|value| value.to_vec());
                if let Some(value) = value {
                    tree.update(client, &bytes(key), &value).await?;
                }
            }
            Ok(())
        })
    }

    /// The contents after the interrupted operation.
    fn after(&self, case: &CrashCase) -> NumberModel {
        let mut after = self.before.clone();
        match case.change {
            InterruptedOperation::Put(key) | InterruptedOperation::PutLong(key, _) => {
                after.insert(key, 7_777);
            }
            InterruptedOperation::Remove(key) => drop(after.remove(&key)),
            InterruptedOperation::Leave
            | InterruptedOperation::Get(_)
            | InterruptedOperation::Scan
            | InterruptedOperation::Snapshot => {}
        }
        after
    }

    /// Reads everything, changes everything, and reads again.
    fn check(&self, case: &CrashCase, crashes: u64) {
        let after = self.after(case);
        let (tree, client) = (&self.cluster.trees[SURVIVOR], self.cluster.world.client(SURVIVOR));
        let found = self.cluster.world.block_on(entries(tree, &client));
        assert!(found == self.before || found == after, "{found:?}");
        let keys: BTreeSet<u64> = self.before.keys().chain(after.keys()).copied().collect();
        self.cluster.world.block_on(async {
            for &key in &keys {
                let value = tree.get(&client, &bytes(key)).await.expect("a get");
                assert_eq!(value.map(|value| number(&value)), found.get(&key).copied());
                tree.put(&client, &bytes(key), &self.value(key)).await.expect("a put");
                tree.put(&client, &bytes(key + 1), &self.value(1)).await.expect("a put");
            }
            for &key in &keys {
                assert!(tree.remove(&client, &bytes(key + 1)).await.expect("a removal").removed());
            }
        });
        let all: NumberModel = keys.iter().map(|&key| (key, key)).collect();
        assert_eq!(self.cluster.world.block_on(entries(tree, &client)), all);
        let walk = self.cluster.world.block_on(tree.walk(&client)).expect("a walk");
        assert_eq!((walk.problems(), walk.entries()), (&[][..], all.len() as u64));
        self.check_memory(&walk, crashes);
    }

    /// Checks that all allocated memory is linked, except what interrupted operations may lose.
    fn check_memory(&self, walk: &OrderedReport, crashes: u64) {
        let allocated = |tree: &Ordered| match tree {
            Ordered::Sherman(tree) => tree.nodes_allocated(),
            Ordered::Smart(_) | Ordered::Sphinx(_) => tree.bytes_allocated(),
        };
        // The creator of the tree allocated the root.
        let (linked, root, lost) = match walk {
            OrderedReport::Sherman(walk) => {
                let unfinished = (walk.half_linked, walk.half_merged);
                assert!(unfinished.0 <= crashes && unfinished.1 == 0, "{unfinished:?}");
                (walk.nodes.iter().sum::<u64>(), 1, 1)
            }
            OrderedReport::Radix(walk) => {
                assert!(
                    walk.unfinished_changes == 0 || crashes > 0,
                    "{} unfinished changes",
                    walk.unfinished_changes
                );
                (
                    walk.node_bytes + walk.leaf_bytes + walk.value_bytes,
                    NodeSize::All.bytes().cast_signed() as i64,
                    LOST_BYTES,
                )
            }
        };
        let (linked, allocated) =
            (linked.cast_signed(), root + self.cluster.trees.iter().map(allocated).sum::<i64>());
        assert!(
            (linked..=linked + lost * crashes.cast_signed()).contains(&allocated),
            "{allocated} allocated, {linked} linked"
        );
    }
}

/// The reads of clients that may only read, after crashes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadsAfterCrashes {
    /// The crashes.
    pub crashes: u64,
    /// The reads that had an answer.
    pub answered: u64,
    /// The reads that an unfinished change has stopped.
    pub unfinished: u64,
}

impl ReadsAfterCrashes {
    /// Counts a read; yields its answer. Every other error is a failure.
    fn count<T>(&mut self, read: Result<T, IndexError>) -> Option<T> {
        match read {
            Ok(answer) => {
                self.answered += 1;
                Some(answer)
            }
            Err(IndexError::Unfinished { .. }) => {
                self.unfinished += 1;
                None
            }
            Err(error) => panic!("a read: {error}"),
        }
    }
}

/// Crashes a compute node at every verb of each case. Then a client that may only read, which has read every key
/// before, reads every key and scans the tree: each answer is that of before or after the operation. When a client that
/// may write has completed the change, the reader finds everything.
/// Only one of `every` crash points is tested, because a read that is stopped tries for a long time.
pub fn reads_after_crashes(cases: &[CrashCase], every: usize) -> ReadsAfterCrashes {
    let mut reads = ReadsAfterCrashes::default();
    for case in cases {
        let verbs = case.fixture().change(case);
        let points = (1..=verbs).flat_map(|verb| CRASH_POINTS.map(|point| (verb, point)));
        for (verb, point) in points.step_by(every) {
            let fixture = case.fixture();
            let (world, after) = (&fixture.cluster.world, fixture.after(case));
            let connection = world.client(SURVIVOR);
            let reader = Client::new(ReadOnlyFabric(connection.fabric()));
            let opened =
                world.block_on(Ordered::open(&reader, "crash", CACHE_BYTES)).expect("the tree is open");
            let tree = &opened;
            let get = |key: u64| world.block_on(tree.get(&reader, &bytes(key)));
            let keys: BTreeSet<u64> = fixture.before.keys().chain(after.keys()).copied().collect();
            for &key in &keys {
                let found = get(key).expect("a get").map(|value| number(&value));
                assert_eq!(found, fixture.before.get(&key).copied());
            }
            fixture.cluster.crash_at(FIRST_CRASH, verb, point);
            fixture.change(case);
            reads.crashes += 1;
            for &key in &keys {
                let Some(found) = reads.count(get(key)) else { continue };
                let found = found.map(|value| number(&value));
                let expected = [&fixture.before, &after].map(|model| model.get(&key).copied());
                assert!(expected.contains(&found), "{}, verb {verb}: {key} has {found:?}", case.name);
            }
            let mut found = Entries::new();
            let scan = tree.scan(&reader, Range::default(), Direction::Forward, usize::MAX, &mut found);
            if reads.count(world.block_on(scan)).is_some() {
                let found: NumberModel =
                    found.iter().map(|(key, value)| (number(key), number(value))).collect();
                assert!(found == fixture.before || found == after, "{}, verb {verb}: {found:?}", case.name);
            }
            fixture.check(case, 1);
            for &key in &keys {
                assert_eq!(get(key).expect("a get").map(|value| number(&value)), Some(key));
            }
            world.block_on(tree.close(&reader)).expect("a reader has marked nothing");
        }
    }
    reads
}

async fn entries(tree: &Ordered, client: &Client<SimFabric>) -> NumberModel {
    let mut found = Entries::new();
    let scan = tree.scan(client, Range::default(), Direction::Forward, usize::MAX, &mut found);
    scan.await.expect("a scan");
    found.iter().map(|(key, value)| (number(key), number(value))).collect()
}

/// Crashes a compute node at every verb of each case; yields the number of crashes.
pub fn single_crashes(cases: &[CrashCase]) -> u64 {
    let mut crashes = 0;
    for case in cases {
        let whole = case.fixture();
        let verbs = whole.change(case);
        assert!((1..VERBS_MAX).contains(&verbs), "{}: {verbs}", case.name);
        if let Some(mark) = case.mark {
            let marks = whole.cluster.world.marks();
            assert!(marks.contains_key(mark), "{}: no {mark}: {marks:?}", case.name);
        }
        whole.check(case, 0);
        for (verb, point) in (1..=verbs).flat_map(|verb| CRASH_POINTS.map(|point| (verb, point))) {
            let fixture = case.fixture();
            fixture.cluster.crash_at(FIRST_CRASH, verb, point);
            fixture.change(case);
            assert!(fixture.cluster.world.crashed(FIRST_CRASH), "{case:?}, verb {verb}, {point:?}");
            fixture.check(case, 1);
            crashes += 1;
        }
    }
    crashes
}

/// Drops the operation of each case after every poll, and runs operations on the compute node that dropped it and on
/// others; yields the number of drops.
pub fn single_drops(cases: &[CrashCase]) -> u64 {
    let mut drops = 0;
    for case in cases {
        for delay_ns in DROP_DELAYS_NS {
            for polls in 1.. {
                let (fixture, point) = (case.fixture(), DropPoint { polls, delay_ns, partition_ns: 0 });
                let operate = async |tree: &Ordered, client: &Client<SimFabric>| {
                    fixture.operate(case, tree, client).await
                };
                if fixture.cluster.drop_at(FIRST_CRASH, point, &operate) {
                    break;
                }
                fixture.update_all_soon(if drops % 2 == 0 { SECOND_CRASH } else { FIRST_CRASH });
                fixture.check(case, 1);
                drops += 1;
            }
        }
    }
    drops
}

/// Time in which a compute node cannot reach any memory node, nanoseconds: longer than its NIC retries.
const PARTITION_NS: u64 = 100_000_000;

/// Drops the operation of each case after every poll, while its compute node cannot reach any memory node, so that the
/// verb that frees its lock may be lost. Once the compute node reaches the memory nodes again, its next operation frees
/// the lock. Yields the number of locks that were freed so.
pub fn drops_in_partitions(cases: &[CrashCase]) -> u64 {
    let mut freed = 0;
    for case in cases {
        for (polls, delay_ns) in (1..).flat_map(|polls| DROP_DELAYS_NS.map(|delay_ns| (polls, delay_ns))) {
            let (fixture, point) =
                (case.fixture(), DropPoint { polls, delay_ns, partition_ns: PARTITION_NS });
            let operate =
                async |tree: &Ordered, client: &Client<SimFabric>| fixture.operate(case, tree, client).await;
            if fixture.cluster.drop_at(FIRST_CRASH, point, &operate) {
                break;
            }
            let world = &fixture.cluster.world;
            world.block_on(world.client(FIRST_CRASH).fabric().sleep(2 * PARTITION_NS));
            fixture.update_all_soon(FIRST_CRASH);
            fixture.update_all_soon(SECOND_CRASH);
            fixture.check(case, 1);
            freed += u64::from(world.marks().contains_key("an uncertain lock freed"));
        }
    }
    freed
}

/// Crashes the first compute node at every verb of each case, and the second at about `seconds_max` of the verbs of its
/// operation on the tree after the first crash; yields the number of pairs.
pub fn paired_crashes(cases: &[CrashCase], seconds_max: usize) -> u64 {
    let mut pairs = 0;
    for case in cases {
        let verbs = case.fixture().change(case);
        for verb in 1..=verbs {
            let point = CRASH_POINTS[(verb % 3) as usize];
            let interrupted = || {
                let fixture = case.fixture();
                fixture.cluster.crash_at(FIRST_CRASH, verb, point);
                fixture.change(case);
                fixture
            };
            let keys: BTreeSet<u64> = interrupted().before.keys().copied().collect();
            let whole = interrupted();
            let second_verbs = whole.update_all(SECOND_CRASH, &keys);
            whole.check(case, 1);
            for second_verb in (1..=second_verbs).step_by(1 + second_verbs as usize / seconds_max) {
                let fixture = interrupted();
                fixture.cluster.crash_at(SECOND_CRASH, second_verb, CRASH_POINTS[(second_verb % 3) as usize]);
                fixture.update_all(SECOND_CRASH, &keys);
                assert!(
                    fixture.cluster.world.crashed(SECOND_CRASH),
                    "{}, verbs {verb} and {second_verb}",
                    case.name
                );
                fixture.check(case, 2);
                pairs += 1;
            }
        }
    }
    pairs
}
