//! Crash points of changes of which a hash table hears: a compute node dies before, at and after each verb between the
//! change of the tree and the entry, in the middle of a subtable's split, and as a directory is doubled. And pairs of
//! them: who comes across what was left dies as well, and a third goes on.
//!
//! After each, every key must have the value that was acknowledged, or, of the key that the operation was about, be
//! there or not; every change must be possible; the walker must find nothing wrong; and once everybody's keys have
//! been looked for and new nodes entered beside the old, no more is unsettled than one entry for each that died.

use farwood_fabric::{Client, Fabric as _};
use farwood_index::IndexError;
use farwood_index::radix::prefix::PrefixHash;
use farwood_index::sphinx::table::layout::Spot;
use farwood_index::sphinx::{Config, Groups, Options, Sphinx, Variant};
use farwood_proof::crash_cluster::{
    CRASH_POINTS, CrashCluster, FIRST_CRASH, SECOND_CRASH, SURVIVOR, TIME_MAX,
};
use farwood_sim::fault::{CrashPoint, Fault, Rule, When};
use farwood_sim::{Card, SimFabric, World, WorldSpec, at_once};
use std::collections::BTreeMap;

const FILTER_BYTES: usize = 1 << 12;
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
    cluster: CrashCluster<Sphinx>,
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
        let (client, mut before) = (world.at_once(FIRST_CRASH), Model::new());
        for node in 0..=self.nodes {
            before.insert(first(node), 1);
            if node < self.nodes {
                before.insert(second(node), 1);
            }
        }
        // Node 0 is full.
        before.extend([([0, 3, 0], 1), ([0, 4, 0], 1)]);
        for (key, value) in &before {
            at_once(trees[FIRST_CRASH].put(&client, key, &[*value])).expect("a put");
        }
        for (node, tree) in trees.iter().enumerate() {
            let client = world.at_once(node);
            for key in before.keys() {
                at_once(tree.get(&client, key)).expect("a get");
            }
        }
        Stage { cluster: CrashCluster { world, trees }, before }
    }

    /// The scene with the fewest nodes in which the victim's node comes along `mark`, and not along `not`.
    fn with(mark: &'static str, not: Option<&str>) -> Self {
        let scenes = (3..250).map(|nodes| Self { nodes, change: Change::Put(second(nodes)), mark });
        let comes_along = |scene: &Self| {
            let stage = scene.stage();
            let before = stage.cluster.world.marks();
            stage.change(scene);
            let after = stage.cluster.world.marks();
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
    fn change(&self, scene: &Scene) -> u64 {
        self.cluster.perform(FIRST_CRASH, &async |tree, client| match scene.change {
            Change::Put(key) => tree.put(client, &key, &[7]).await.map(drop),
            Change::Remove(key) => tree.remove(client, &key).await.map(drop),
        })
    }

    /// Looks for every key, and enters a node beside each: below its first key.
    fn go_on(&self, node: usize) -> u64 {
        self.cluster.perform(node, &async |tree, client| {
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
        let (tree, client) = (&self.cluster.trees[SURVIVOR], self.cluster.world.client(SURVIVOR));
        let (about, done) = match scene.change {
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
        assert!(
            whole.cluster.world.marks().contains_key(scene.mark),
            "{scene:?}: {:?}",
            whole.cluster.world.marks()
        );
        whole.check(&scene, 0);
        for (verb, point) in (1..=verbs).flat_map(|verb| CRASH_POINTS.map(|point| (verb, point))) {
            let stage = scene.stage();
            stage.cluster.crash_at(FIRST_CRASH, verb, point);
            stage.change(&scene);
            assert!(stage.cluster.world.crashed(FIRST_CRASH), "{scene:?}, verb {verb}, {point:?}");
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
                stage.cluster.crash_at(FIRST_CRASH, verb, CRASH_POINTS[(verb % 3) as usize]);
                stage.change(scene);
                stage
            };
            let heirs = left().go_on(SECOND_CRASH);
            for heir_verb in (1..=heirs).step_by(1 + heirs as usize / 12) {
                let stage = left();
                stage.cluster.crash_at(SECOND_CRASH, heir_verb, CRASH_POINTS[(heir_verb % 3) as usize]);
                stage.go_on(SECOND_CRASH);
                assert!(stage.cluster.world.crashed(SECOND_CRASH), "{scene:?}, verbs {verb} and {heir_verb}");
                stage.check(scene, 2);
                pairs += 1;
            }
        }
    }
    assert!(pairs > 200, "{pairs} pairs");
}

/// A stage where the first split of a table was cut off when the new half was settled, and the old half was not.
fn half_settled() -> Stage {
    let scene = Scene::with("sphinx: a directory doubled", None);
    let stage = scene.stage();
    // A subtable of one group has three headers.
    let when = When::Mark { compute_node: FIRST_CRASH, mark: "sphinx: entries that have moved", number: 4 };
    let fault = Fault::Crash { compute_node: FIRST_CRASH, point: CrashPoint::Before };
    stage.cluster.world.add_rule(Rule { when, fault });
    stage.change(&scene);
    assert!(stage.cluster.world.crashed(FIRST_CRASH));
    stage
}

/// First bytes of keys that no scene has, whose nodes have their entries in that half of a table that was split once.
fn of_half(half: u64) -> impl Iterator<Item = u8> {
    (100..=255).filter(move |&byte| Spot::of(PrefixHash::of(&[byte]), 1).upper(1) == half)
}

/// Makes a node of one byte.
async fn make_node(tree: &Sphinx, client: &Client<SimFabric>, byte: u8) -> Result<(), IndexError> {
    tree.put(client, &first(byte), &[1]).await?;
    tree.put(client, &second(byte), &[1]).await.map(drop)
}

impl Stage {
    /// Nothing is wrong, and nothing unsettled but what one that died may have left.
    fn check_tables(&self) {
        let client = self.cluster.world.client(SURVIVOR);
        let walk = self.cluster.world.block_on(self.cluster.trees[SURVIVOR].walk(&client)).expect("a walk");
        assert_eq!(walk.problems, []);
        assert!(walk.unsettled <= 1, "{} are unsettled: {walk:?}", walk.unsettled);
        assert!(!self.cluster.world.marks().contains_key("sphinx: a node that was not entered"));
    }
}

/// Who knows the old half only by its being the other half of the new one has to know it still.
#[test]
fn a_new_half_is_split_again_only_when_the_old_half_is_settled() {
    let stage = half_settled();
    stage.cluster.perform(SURVIVOR, &async |tree, client| {
        for byte in of_half(1).chain(of_half(0)) {
            make_node(tree, client, byte).await?;
        }
        Ok(())
    });
    stage.check_tables();
}

/// Who ends a split whose new half is in use leaves alone what others enter there meanwhile.
#[test]
fn who_ends_a_split_undoes_no_entries_of_others() {
    for step in 0..40 {
        let stage = half_settled();
        let clients = [SECOND_CRASH, SURVIVOR].map(|node| stage.cluster.world.client(node));
        let mut crew = stage.cluster.world.crew();
        let (trees, [heir, survivor]) = (&stage.cluster.trees, &clients);
        crew.spawn(heir, async {
            heir.fabric().sleep(500 * step).await;
            let byte = of_half(0).next().expect("there are some");
            make_node(&trees[SECOND_CRASH], heir, byte).await.expect("nobody dies any more");
        });
        crew.spawn(survivor, async {
            for byte in of_half(1).take(8) {
                make_node(&trees[SURVIVOR], survivor, byte).await.expect("nobody dies any more");
            }
        });
        crew.run_until(stage.cluster.world.now() + TIME_MAX);
        drop(crew);
        stage.check_tables();
    }
}
