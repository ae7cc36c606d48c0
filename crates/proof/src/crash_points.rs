//! Every crash point of every operation: a compute node dies before, at and after each verb that it sends. And pairs
//! of them: who comes across what was left dies as well, before, at and after each verb, and a third goes on.
//!
//! After each, every key must have the value that was acknowledged, or, of the key that the operation was about, the
//! one from before or from after, and from the first look on always the same; every change must be possible; the
//! walker must find nothing; and what one operation has in its hands may be lost for each that died.

use crate::crash_cluster::{CRASH_POINTS, CrashCluster, FIRST_CRASH, SECOND_CRASH, SURVIVOR};
use farwood_fabric::Client;
use farwood_index::ordered::{Config, Entries, Length, Ordered, Walk};
use farwood_index::radix::inner::Size;
use farwood_index::sherman::{Direction, Range};
use farwood_sim::{Card, SimFabric, World, WorldSpec, at_once};
use std::collections::{BTreeMap, BTreeSet};

const CACHE_BYTES: usize = 1 << 16;
/// Verbs of one operation, at most.
const VERBS_MAX: u64 = 200;
/// Most bytes of a radix tree that an operation takes, or has in its hands: two inner nodes, two leaves, two values.
const LOST_BYTES: i64 = 8192;

type Model = BTreeMap<u64, u64>;

/// What the victim does, with a key between the loaded ones or one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Stores a value.
    Put(u64),
    /// Stores a value of so many bytes.
    PutLong(u64, usize),
    /// Takes a key out.
    Remove(u64),
    /// Gives back the memory that the compute node does not use.
    Leave,
}

/// A tree, and what is done to it.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// What it shows.
    pub name: &'static str,
    /// What the tree is created as.
    pub config: Config,
    /// Keys that are loaded, from 0 in steps of [`KEY_STEP`].
    pub keys: u64,
    /// How full nodes are that can be fuller or emptier.
    pub fill: f64,
    /// Keys that are removed once it is loaded.
    pub gone: (u64, u64),
    /// What is done.
    pub change: Change,
    /// A mark that the operation must come along when nobody dies.
    pub mark: Option<&'static str>,
}

/// From one loaded key to the next.
pub const KEY_STEP: u64 = 10;

/// A world with the tree of a scene, open on all compute nodes.
struct Stage {
    cluster: CrashCluster<Ordered>,
    before: Model,
}

fn bytes(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The number that a key or a value begins with.
fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"))
}

impl Stage {
    /// A number as a value of the tree.
    fn value(&self, number: u64) -> Vec<u8> {
        let mut value = bytes(number).to_vec();
        if let Length::Exactly(length) = self.cluster.trees[0].value_length() {
            value.resize(length, 0);
        }
        value
    }
}

impl Scene {
    fn stage(&self) -> Stage {
        let card = Card::named("cx5-100g").expect("it is one of the named");
        let world =
            World::new(WorldSpec { host_bytes: 32 << 20, ..WorldSpec::small(card) }).expect("a world");
        let trees: Vec<_> = (0..3).map(|node| open(&world, node, self.config)).collect();
        let mut before: Model = (0..self.keys).map(|number| (number * KEY_STEP, number)).collect();
        let client = world.at_once(FIRST_CRASH);
        let stage = Stage { cluster: CrashCluster { world, trees }, before: Model::new() };
        let (world, trees) = (&stage.cluster.world, &stage.cluster.trees);
        let entries = before.iter().map(|(&key, &value)| (bytes(key), stage.value(value)));
        let loaded = trees[FIRST_CRASH].bulk_load(&client, entries, self.fill, |_| {});
        at_once(loaded).expect("it is loaded");
        for number in self.gone.0..self.gone.1 {
            before.remove(&(number * KEY_STEP));
            let removed = at_once(trees[FIRST_CRASH].remove(&client, &bytes(number * KEY_STEP)));
            assert!(removed.expect("a removal"), "{}: {number}", self.name);
        }
        // All know the tree as it is now.
        for (node, tree) in trees.iter().enumerate() {
            let client = world.at_once(node);
            for &key in before.keys() {
                at_once(tree.get(&client, &bytes(key))).expect("a get");
            }
        }
        Stage { before, ..stage }
    }
}

fn open(world: &World, node: usize, config: Config) -> Ordered {
    let client = world.at_once(node);
    let opened = match node {
        0 => at_once(Ordered::create(&client, "crash", config, CACHE_BYTES)),
        _ => at_once(Ordered::open(&client, "crash", CACHE_BYTES)),
    };
    opened.expect("the tree is there")
}

impl Stage {
    fn change(&self, scene: &Scene) -> u64 {
        self.cluster.perform(FIRST_CRASH, &async |tree, client| match scene.change {
            Change::Put(key) => tree.put(client, &bytes(key), &self.value(7_777)).await.map(drop),
            Change::PutLong(key, length) => {
                let mut value = self.value(7_777);
                value.resize(length, 0);
                tree.put(client, &bytes(key), &value).await.map(drop)
            }
            Change::Remove(key) => tree.remove(client, &bytes(key)).await.map(drop),
            Change::Leave => tree.leave(client).await,
        })
    }

    /// Writes every key that was there anew, so that every lock that was left is met.
    fn go_on(&self, node: usize, keys: &BTreeSet<u64>) -> u64 {
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

    /// Looks at everything, changes everything, and looks again.
    fn check(&self, scene: &Scene, dead: u64) {
        let mut after = self.before.clone();
        match scene.change {
            Change::Put(key) | Change::PutLong(key, _) => drop(after.insert(key, 7_777)),
            Change::Remove(key) => drop(after.remove(&key)),
            Change::Leave => {}
        }
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
                assert!(tree.remove(&client, &bytes(key + 1)).await.expect("a removal"));
            }
        });
        let all: Model = keys.iter().map(|&key| (key, key)).collect();
        assert_eq!(self.cluster.world.block_on(entries(tree, &client)), all);
        let walk = self.cluster.world.block_on(tree.walk(&client)).expect("a walk");
        assert_eq!((walk.problems(), walk.entries()), (&[][..], all.len() as u64));
        self.check_memory(&walk, dead);
    }

    /// What is allocated is linked, but for what the dead had in their hands.
    fn check_memory(&self, walk: &Walk, dead: u64) {
        let allocated = |tree: &Ordered| match tree {
            Ordered::Sherman(tree) => tree.nodes_allocated(),
            Ordered::Smart(_) | Ordered::Sphinx(_) => tree.bytes_allocated(),
        };
        // The root was allocated by whoever created the tree.
        let (linked, root, lost) = match walk {
            Walk::Sherman(walk) => {
                let cut_off = (walk.half_linked, walk.half_merged);
                assert!(cut_off.0 <= dead && cut_off.1 == 0, "{cut_off:?}");
                (walk.nodes.iter().sum::<u64>(), 1, 1)
            }
            Walk::Radix(walk) => {
                assert!(walk.unsettled == 0 || dead > 0, "{} are unsettled", walk.unsettled);
                (
                    walk.node_bytes + walk.leaf_bytes + walk.value_bytes,
                    Size::All.bytes().cast_signed() as i64,
                    LOST_BYTES,
                )
            }
        };
        let (linked, allocated) =
            (linked.cast_signed(), root + self.cluster.trees.iter().map(allocated).sum::<i64>());
        assert!(
            (linked..=linked + lost * dead.cast_signed()).contains(&allocated),
            "{allocated} allocated, {linked} linked"
        );
    }
}

async fn entries(tree: &Ordered, client: &Client<SimFabric>) -> Model {
    let mut found = Entries::new();
    let scan = tree.scan(client, Range::default(), Direction::Forward, usize::MAX, &mut found);
    scan.await.expect("a scan");
    found.iter().map(|(key, value)| (number(key), number(value))).collect()
}

/// A compute node dies at every verb of each scene; yields how many deaths that were.
pub fn one_dies(scenes: &[Scene]) -> u64 {
    let mut points = 0;
    for scene in scenes {
        let whole = scene.stage();
        let verbs = whole.change(scene);
        assert!((1..VERBS_MAX).contains(&verbs), "{}: {verbs}", scene.name);
        if let Some(mark) = scene.mark {
            let marks = whole.cluster.world.marks();
            assert!(marks.contains_key(mark), "{}: no {mark}: {marks:?}", scene.name);
        }
        whole.check(scene, 0);
        for (verb, point) in (1..=verbs).flat_map(|verb| CRASH_POINTS.map(|point| (verb, point))) {
            let stage = scene.stage();
            stage.cluster.crash_at(FIRST_CRASH, verb, point);
            stage.change(scene);
            assert!(stage.cluster.world.crashed(FIRST_CRASH), "{scene:?}, verb {verb}, {point:?}");
            stage.check(scene, 1);
            points += 1;
        }
    }
    points
}

/// The heir dies while it meets what the victim left: every verb of the victim, and so many verbs of the heir, up to
/// where it has met everything; yields how many pairs that were.
pub fn two_die(scenes: &[Scene], heirs_max: usize) -> u64 {
    let mut pairs = 0;
    for scene in scenes {
        let verbs = scene.stage().change(scene);
        for verb in 1..=verbs {
            let point = CRASH_POINTS[(verb % 3) as usize];
            let left = || {
                let stage = scene.stage();
                stage.cluster.crash_at(FIRST_CRASH, verb, point);
                stage.change(scene);
                stage
            };
            let keys: BTreeSet<u64> = left().before.keys().copied().collect();
            let whole = left();
            let heirs = whole.go_on(SECOND_CRASH, &keys);
            whole.check(scene, 1);
            for heir_verb in (1..=heirs).step_by(1 + heirs as usize / heirs_max) {
                let stage = left();
                stage.cluster.crash_at(SECOND_CRASH, heir_verb, CRASH_POINTS[(heir_verb % 3) as usize]);
                stage.go_on(SECOND_CRASH, &keys);
                assert!(
                    stage.cluster.world.crashed(SECOND_CRASH),
                    "{}, verbs {verb} and {heir_verb}",
                    scene.name
                );
                stage.check(scene, 2);
                pairs += 1;
            }
        }
    }
    pairs
}
