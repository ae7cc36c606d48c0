//! Every crash point of every operation: a compute node dies before, at and after each verb that it sends. And pairs
//! of them: who comes across what was left dies as well, before, at and after each verb, and a third goes on.
//!
//! After each, every key must have the value that was acknowledged, or, of the key that the operation was about, the
//! one from before or from after, and from the first look on always the same; every change must be possible; the
//! walker must find nothing; and at most one node may be lost for each that died.

use farwood_fabric::Client;
use farwood_index::sherman::layout::Sizes;
use farwood_index::sherman::options::Leaves;
use farwood_index::sherman::{Config, Direction, Entries, Range, Sherman, Variant};
use farwood_index::{IndexError, MARKS};
use farwood_sim::fault::{CrashPoint, Fault, Rule, When};
use farwood_sim::{Card, SimFabric, World, WorldSpec, at_once};
use std::collections::{BTreeMap, BTreeSet};

/// The compute nodes: who dies first, who dies while it goes on, who is left.
const VICTIM: usize = 1;
const HEIR: usize = 2;
const SURVIVOR: usize = 0;
const POINTS: [CrashPoint; 3] = [CrashPoint::Before, CrashPoint::At, CrashPoint::After];
/// Leaves have 8 entries, sorted or not, inner nodes 12 or 13 children.
fn sizes(variant: Variant) -> Sizes {
    let value_bytes = if variant.options().leaves == Leaves::Sorted { 16 } else { 8 };
    Sizes { key_bytes: 8, value_bytes, node_bytes: 256 }
}

const CACHE_BYTES: usize = 1 << 16;
/// Virtual time in which an operation is done or its compute node dead, nanoseconds.
const TIME_MAX: u64 = 1_000_000_000;
/// Verbs of one operation, at most.
const VERBS_MAX: u64 = 200;

type Model = BTreeMap<u64, u64>;

/// What the victim does, with a key between the loaded ones or one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Put(u64),
    Remove(u64),
    Leave,
}

/// A tree, and what is done to it.
#[derive(Clone, Copy, Debug)]
struct Scene {
    name: &'static str,
    keys: u64,
    fill: f64,
    /// Keys that are removed once it is loaded.
    gone: (u64, u64),
    change: Change,
    /// A mark that the operation must come along when nobody dies.
    mark: Option<&'static str>,
}

const KEY_STEP: u64 = 10;

const SCENES: [Scene; 9] = [
    Scene { name: "an update", keys: 30, fill: 0.5, gone: (0, 0), change: Change::Put(70), mark: None },
    Scene { name: "a new key", keys: 30, fill: 0.5, gone: (0, 0), change: Change::Put(75), mark: None },
    Scene {
        name: "a root leaf splits",
        keys: 8,
        fill: 1.0,
        gone: (0, 0),
        change: Change::Put(35),
        mark: None,
    },
    Scene { name: "a leaf splits", keys: 60, fill: 1.0, gone: (0, 0), change: Change::Put(75), mark: None },
    Scene {
        name: "an inner root splits",
        keys: 104,
        fill: 1.0,
        gone: (0, 0),
        change: Change::Put(75),
        mark: None,
    },
    Scene { name: "a removal", keys: 60, fill: 1.0, gone: (0, 0), change: Change::Remove(70), mark: None },
    Scene {
        name: "leaves merge",
        keys: 60,
        fill: 0.5,
        gone: (0, 6),
        change: Change::Remove(60),
        mark: Some("a merge"),
    },
    Scene {
        name: "the root goes",
        keys: 9,
        fill: 1.0,
        gone: (1, 4),
        change: Change::Remove(0),
        mark: Some("a root less"),
    },
    Scene {
        name: "rooms are given",
        keys: 60,
        fill: 0.5,
        gone: (0, 8),
        change: Change::Leave,
        mark: Some("rooms given"),
    },
];

/// A world with the tree of a scene, open on all compute nodes.
struct Stage {
    world: World,
    trees: Vec<Sherman>,
    before: Model,
}

fn bytes(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

impl Stage {
    /// A number as a value of the tree.
    fn value(&self, number: u64) -> Vec<u8> {
        let mut value = bytes(number).to_vec();
        value.resize(self.trees[0].layout().value_bytes, 0);
        value
    }
}

impl Scene {
    fn stage(&self, variant: Variant) -> Stage {
        let card = Card::named("cx5-100g").expect("it is one of the named");
        let world =
            World::new(WorldSpec { host_bytes: 32 << 20, ..WorldSpec::small(card) }).expect("a world");
        let trees: Vec<_> = (0..3).map(|node| open(&world, node, variant)).collect();
        let mut before: Model = (0..self.keys).map(|number| (number * KEY_STEP, number)).collect();
        let client = world.at_once(VICTIM);
        let stage = Stage { world, trees, before: Model::new() };
        let (world, trees) = (&stage.world, &stage.trees);
        let entries = before.iter().map(|(&key, &value)| (bytes(key), stage.value(value)));
        let loaded = trees[VICTIM].bulk_load(&client, entries, self.fill, |_| {});
        at_once(loaded).expect("it is loaded");
        for number in self.gone.0..self.gone.1 {
            before.remove(&(number * KEY_STEP));
            let removed = at_once(trees[VICTIM].remove(&client, &bytes(number * KEY_STEP)));
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

fn open(world: &World, node: usize, variant: Variant) -> Sherman {
    let client = world.at_once(node);
    let config = Config { sizes: sizes(variant), options: variant.options(), ..Config::default() };
    let opened = match node {
        0 => at_once(Sherman::create(&client, "crash", config, CACHE_BYTES)),
        _ => at_once(Sherman::open(&client, "crash", CACHE_BYTES)),
    };
    opened.expect("the tree is there")
}

impl Stage {
    /// Does something on a compute node until it is done, or the compute node dead. Yields how many verbs it took.
    fn perform(
        &self,
        node: usize,
        work: &impl AsyncFn(&Sherman, &Client<SimFabric>) -> Result<(), IndexError>,
    ) -> u64 {
        let before = self.world.sent(node);
        let client = self.world.client(node);
        let mut crew = self.world.crew();
        crew.spawn(&client, async {
            work(&self.trees[node], &client).await.expect("only its death ends it");
        });
        crew.run_until(self.world.now() + TIME_MAX);
        drop(crew);
        self.world.sent(node) - before
    }

    fn dies_at(&self, node: usize, verb: u64, point: CrashPoint) {
        let when = When::Verb { compute_node: node, number: self.world.sent(node) + verb };
        self.world.add_rule(Rule { when, fault: Fault::Crash { compute_node: node, point } });
    }

    fn change(&self, scene: &Scene) -> u64 {
        self.perform(VICTIM, &async |tree, client| match scene.change {
            Change::Put(key) => tree.put(client, &bytes(key), &self.value(7_777)).await.map(drop),
            Change::Remove(key) => tree.remove(client, &bytes(key)).await.map(drop),
            Change::Leave => tree.leave(client).await,
        })
    }

    /// Writes every key that was there anew, so that every lock that was left is met.
    fn go_on(&self, node: usize, keys: &BTreeSet<u64>) -> u64 {
        self.perform(node, &async |tree, client| {
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
            Change::Put(key) => drop(after.insert(key, 7_777)),
            Change::Remove(key) => drop(after.remove(&key)),
            Change::Leave => {}
        }
        let (tree, client) = (&self.trees[SURVIVOR], self.world.client(SURVIVOR));
        let found = self.world.block_on(entries(tree, &client));
        assert!(found == self.before || found == after, "{found:?}");
        let keys: BTreeSet<u64> = self.before.keys().chain(after.keys()).copied().collect();
        self.world.block_on(async {
            for &key in &keys {
                let value = tree.get(&client, &bytes(key)).await.expect("a get");
                assert_eq!(value.as_deref(), found.get(&key).map(|&value| self.value(value)).as_deref());
                tree.put(&client, &bytes(key), &self.value(key)).await.expect("a put");
                tree.put(&client, &bytes(key + 1), &self.value(1)).await.expect("a put");
            }
            for &key in &keys {
                assert!(tree.remove(&client, &bytes(key + 1)).await.expect("a removal"));
            }
        });
        let all: Model = keys.iter().map(|&key| (key, key)).collect();
        assert_eq!(self.world.block_on(entries(tree, &client)), all);
        let walk = self.world.block_on(tree.walk(&client)).expect("a walk");
        assert_eq!((walk.problems, walk.entries), (vec![], all.len() as u64));
        assert!(
            walk.half_linked <= dead && walk.half_merged == 0,
            "{} {}",
            walk.half_linked,
            walk.half_merged
        );
        let linked = walk.nodes.iter().sum::<u64>().cast_signed();
        let allocated = 1 + self.trees.iter().map(Sherman::nodes_allocated).sum::<i64>();
        assert!(
            (linked..=linked + dead.cast_signed()).contains(&allocated),
            "{allocated} allocated, {linked} linked"
        );
    }
}

async fn entries(tree: &Sherman, client: &Client<SimFabric>) -> Model {
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"));
    let mut found = Entries::new();
    let scan = tree.scan(client, Range::default(), Direction::Forward, usize::MAX, &mut found);
    scan.await.expect("a scan");
    found.iter().map(|(key, value)| (number(key), number(value))).collect()
}

fn variants() -> impl Iterator<Item = Variant> {
    [Variant::Sherman, Variant::Combine, Variant::LockRead].into_iter()
}

#[test]
fn a_compute_node_dies_at_every_verb_of_every_operation() {
    let mut points = 0;
    for variant in variants() {
        for scene in SCENES {
            let whole = scene.stage(variant);
            let verbs = whole.change(&scene);
            assert!((1..VERBS_MAX).contains(&verbs), "{}: {verbs}", scene.name);
            if let Some(mark) = scene.mark {
                assert!(
                    MARKS.contains(&mark) && whole.world.marks().contains_key(mark),
                    "{}: no {mark}: {:?}",
                    scene.name,
                    whole.world.marks()
                );
            }
            whole.check(&scene, 0);
            for (verb, point) in (1..=verbs).flat_map(|verb| POINTS.map(|point| (verb, point))) {
                let stage = scene.stage(variant);
                stage.dies_at(VICTIM, verb, point);
                stage.change(&scene);
                assert!(stage.world.crashed(VICTIM), "{variant}, {}, verb {verb}, {point:?}", scene.name);
                stage.check(&scene, 1);
                points += 1;
            }
        }
    }
    assert!(points > 300, "{points} crash points");
}

/// The heir dies while it meets what the victim left. Every other verb of the victim, every verb of the heir up to
/// where it has met everything.
#[test]
fn whoever_comes_across_what_was_left_dies_as_well() {
    let mut pairs = 0;
    for scene in SCENES {
        let verbs = scene.stage(Variant::Sherman).change(&scene);
        for verb in 1..=verbs {
            let point = POINTS[(verb % 3) as usize];
            let left = || {
                let stage = scene.stage(Variant::Sherman);
                stage.dies_at(VICTIM, verb, point);
                stage.change(&scene);
                stage
            };
            let keys: BTreeSet<u64> = left().before.keys().copied().collect();
            let whole = left();
            let heirs = whole.go_on(HEIR, &keys);
            whole.check(&scene, 1);
            for heir_verb in (1..=heirs).step_by(1 + heirs as usize / 40) {
                let stage = left();
                stage.dies_at(HEIR, heir_verb, POINTS[(heir_verb % 3) as usize]);
                stage.go_on(HEIR, &keys);
                assert!(stage.world.crashed(HEIR), "{}, verbs {verb} and {heir_verb}", scene.name);
                stage.check(&scene, 2);
                pairs += 1;
            }
        }
    }
    assert!(pairs > 1_000, "{pairs} pairs");
}
