//! Crash points of changes of which a hash table hears: a compute node dies before, at and after each verb between the
//! change of the tree and the entry, in the middle of a subtable's split, and as a directory is doubled. And pairs of
//! them: who comes across what was left dies as well, and a third goes on.
//!
//! After each, every key must have the value that was acknowledged, or, of the key that the operation was about, be
//! there or not; every change must be possible; the walker must find nothing wrong; and once everybody's keys have been
//! looked for and new nodes entered beside the old, no more is unsettled than one entry for each that died.

use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_index::sphinx::{Config, Groups, Options, Sphinx, Variant};
use farwood_sim::fault::{CrashPoint, Fault, Rule, When};
use farwood_sim::{Card, SimFabric, World, WorldSpec, at_once};
use std::collections::BTreeMap;

/// The compute nodes: who dies first, who dies while it goes on, who is left.
const VICTIM: usize = 1;
const HEIR: usize = 2;
const SURVIVOR: usize = 0;
const POINTS: [CrashPoint; 3] = [CrashPoint::Before, CrashPoint::At, CrashPoint::After];
const FILTER_BYTES: usize = 1 << 12;
/// Virtual time in which an operation is done or its compute node dead, nanoseconds.
const TIME_MAX: u64 = 1_000_000_000;
/// Verbs of one operation, at most.
const VERBS_MAX: u64 = 300;

type Key = [u8; 3];
type Model = BTreeMap<Key, u8>;

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Put(Key),
    Remove(Key),
}

/// A tree of so many inner nodes below the root, with two keys each but for the last, and what is done to it.
#[derive(Clone, Copy, Debug)]
struct Scene {
    nodes: u8,
    change: Change,
    /// A mark that the operation must come along when nobody dies.
    mark: &'static str,
}

/// A world with the tree of a scene, open on all compute nodes.
struct Stage {
    world: World,
    trees: Vec<Sphinx>,
    before: Model,
}

fn first(node: u8) -> Key {
    [node, 1, 0]
}

fn second(node: u8) -> Key {
    [node, 2, 0]
}

impl Scene {
    fn stage(&self) -> Stage {
        let card = Card::named("cx6-200g").expect("it is one of the named");
        let spec = WorldSpec { host_bytes: 64 << 20, memory_nodes: 1, ..WorldSpec::small(card) };
        let world = World::new(spec).expect("a world");
        let trees: Vec<_> = (0..3).map(|node| open(&world, node)).collect();
        let (client, mut before) = (world.at_once(VICTIM), Model::new());
        for node in 0..=self.nodes {
            before.insert(first(node), 1);
            if node < self.nodes {
                before.insert(second(node), 1);
            }
        }
        // Node 0 is full.
        before.extend([([0, 3, 0], 1), ([0, 4, 0], 1)]);
        for (key, value) in &before {
            at_once(trees[VICTIM].put(&client, key, &[*value])).expect("a put");
        }
        for (node, tree) in trees.iter().enumerate() {
            let client = world.at_once(node);
            for key in before.keys() {
                at_once(tree.get(&client, key)).expect("a get");
            }
        }
        Stage { world, trees, before }
    }

    /// The scene with the fewest nodes in which the victim's node comes along `mark`, and not along `not`.
    fn with(mark: &'static str, not: Option<&str>) -> Self {
        let scenes = (3..250).map(|nodes| Self { nodes, change: Change::Put(second(nodes)), mark });
        let comes_along = |scene: &Self| {
            let stage = scene.stage();
            let before = stage.world.marks();
            stage.change(scene);
            let after = stage.world.marks();
            let newly = |mark: &str| after.get(mark) > before.get(mark);
            newly(mark) && !not.is_some_and(newly)
        };
        scenes.into_iter().find(comes_along).expect("tables grow")
    }
}

fn open(world: &World, node: usize) -> Sphinx {
    let client = world.at_once(node);
    let groups = Groups::new(0).expect("it is one");
    let config = Config { options: Options { groups, ..Variant::Filter.options() }, ..Config::default() };
    let opened = match node {
        0 => at_once(Sphinx::create(&client, "crash", config, FILTER_BYTES)),
        _ => at_once(Sphinx::open(&client, "crash", FILTER_BYTES)),
    };
    opened.expect("the tree is there")
}

impl Stage {
    /// Does something on a compute node until it is done, or the compute node dead. Yields how many verbs it took.
    fn perform(
        &self,
        node: usize,
        work: &impl AsyncFn(&Sphinx, &Client<SimFabric>) -> Result<(), IndexError>,
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
            Change::Put(key) => tree.put(client, &key, &[7]).await.map(drop),
            Change::Remove(key) => tree.remove(client, &key).await.map(drop),
        })
    }

    /// Looks for every key, and enters a node beside each: below its first key.
    fn go_on(&self, node: usize) -> u64 {
        self.perform(node, &async |tree, client| {
            for &key in self.before.keys() {
                tree.get(client, &key).await?;
                tree.put(client, &[key[0], key[1], 9], &[9]).await?;
                tree.remove(client, &[key[0], key[1], 9]).await?;
            }
            Ok(())
        })
    }

    /// Looks at everything, changes everything, and looks again.
    fn check(&self, scene: &Scene, dead: u64) {
        self.go_on(SURVIVOR);
        let (tree, client) = (&self.trees[SURVIVOR], self.world.client(SURVIVOR));
        let (about, done) = match scene.change {
            Change::Put(key) => (key, Some(7)),
            Change::Remove(key) => (key, None),
        };
        let get = |key: Key| {
            let value = self.world.block_on(tree.get(&client, &key)).expect("a get");
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
        let walk = self.world.block_on(tree.walk(&client)).expect("a walk");
        assert_eq!(walk.problems, []);
        let present = self.before.len() as u64;
        let now = get(about).is_some();
        let was = self.before.contains_key(&about);
        assert_eq!(walk.entries, present + u64::from(now && !was) - u64::from(was && !now));
        assert!(walk.unsettled <= dead, "{} are unsettled, {dead} died: {walk:?}", walk.unsettled);
    }
}

fn scenes() -> [Scene; 5] {
    [
        Scene { nodes: 4, change: Change::Put(second(4)), mark: "radix: a leaf split" },
        Scene { nodes: 4, change: Change::Put([0, 5, 0]), mark: "radix: a node replaced by a larger" },
        Scene { nodes: 4, change: Change::Remove(second(3)), mark: "radix: a node that gave way" },
        Scene::with("sphinx: a directory doubled", None),
        Scene::with("sphinx: a subtable split", Some("sphinx: a directory doubled")),
    ]
}

#[test]
fn a_compute_node_dies_at_every_verb_of_every_change() {
    let mut points = 0;
    for scene in scenes() {
        let whole = scene.stage();
        let verbs = whole.change(&scene);
        assert!((1..VERBS_MAX).contains(&verbs), "{scene:?}: {verbs}");
        assert!(whole.world.marks().contains_key(scene.mark), "{scene:?}: {:?}", whole.world.marks());
        whole.check(&scene, 0);
        for (verb, point) in (1..=verbs).flat_map(|verb| POINTS.map(|point| (verb, point))) {
            let stage = scene.stage();
            stage.dies_at(VICTIM, verb, point);
            stage.change(&scene);
            assert!(stage.world.crashed(VICTIM), "{scene:?}, verb {verb}, {point:?}");
            stage.check(&scene, 1);
            points += 1;
        }
    }
    assert!(points > 300, "{points} crash points");
}

/// The heir dies while it meets what the victim left of a split: at some forty of its verbs each.
#[test]
fn whoever_comes_across_a_split_that_was_cut_off_dies_as_well() {
    let mut pairs = 0;
    for scene in &scenes()[3..] {
        let verbs = scene.stage().change(scene);
        for verb in (1..=verbs).step_by(3) {
            let left = || {
                let stage = scene.stage();
                stage.dies_at(VICTIM, verb, POINTS[(verb % 3) as usize]);
                stage.change(scene);
                stage
            };
            let heirs = left().go_on(HEIR);
            for heir_verb in (1..=heirs).step_by(1 + heirs as usize / 12) {
                let stage = left();
                stage.dies_at(HEIR, heir_verb, POINTS[(heir_verb % 3) as usize]);
                stage.go_on(HEIR);
                assert!(stage.world.crashed(HEIR), "{scene:?}, verbs {verb} and {heir_verb}");
                stage.check(scene, 2);
                pairs += 1;
            }
        }
    }
    assert!(pairs > 200, "{pairs} pairs");
}
