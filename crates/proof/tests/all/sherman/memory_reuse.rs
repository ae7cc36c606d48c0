//! Slots that are reused while old pointers still lead to them: clients use a new node only after it is linked, and a
//! slow client does not restore the previous content.

use farwood_fabric::{Client, Fabric as _};
use farwood_index::consistency::Consistency;
use farwood_index::sherman::layout::Sizes;
use farwood_index::sherman::{Sherman, ShermanConfig, ShermanVariant};
use farwood_sim::fault::{CrashPoint, Fault, FaultRule, FaultTrigger};
use farwood_sim::{NicModel, SimFabric, World, WorldSpec, untimed};

const SIZES: Sizes = Sizes { key_bytes: 8, value_bytes: 8, node_bytes: 256 };
const CACHE_BYTES: usize = 1 << 16;
/// Virtual time in which all operations end, nanoseconds.
const TIME_MAX: u64 = 1_000_000_000;
/// The compute nodes: one with old pointers in its cache, one that merges and splits, and one with an empty cache.
const OLD: usize = 0;
const BUSY: usize = 1;
const NEW: usize = 2;

fn bytes(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// A tree of every tenth key, open on three compute nodes, with leaves that are slightly more than half full.
fn setup() -> (World, Vec<Sherman>) {
    let card = NicModel::named("cx5-100g").expect("the simulator has this NIC");
    let world = World::new(WorldSpec { host_bytes: 32 << 20, ..WorldSpec::small(card) }).expect("a world");
    let config = ShermanConfig {
        sizes: SIZES,
        options: ShermanVariant::Sherman.features(),
        // Leaves of eight entries.
        consistency: Some(Consistency::Versions),
        ..ShermanConfig::default()
    };
    let mut trees = vec![untimed(Sherman::create(&world.untimed(OLD), "reuse", config, CACHE_BYTES))];
    trees.extend([BUSY, NEW].map(|node| untimed(Sherman::open(&world.untimed(node), "reuse", CACHE_BYTES))));
    let trees: Vec<_> = trees.into_iter().map(|tree| tree.expect("a tree")).collect();
    let entries = (0..30u64).map(|number| (bytes(number * 10), bytes(number)));
    untimed(trees[BUSY].bulk_load(&world.untimed(BUSY), entries, 0.6, |_| {})).expect("a bulk load");
    (world, trees)
}

async fn put(tree: &Sherman, client: &Client<SimFabric>, key: u64) {
    tree.put(client, &bytes(key), &bytes(key)).await.expect("a put");
}

async fn value(tree: &Sherman, client: &Client<SimFabric>, key: u64) -> Option<Vec<u8>> {
    tree.get(client, &bytes(key)).await.expect("a get").map(|value| value.to_vec())
}

/// A leaf is merged, and its slot gets the new sibling of a split with nearly the same keys. The splitting compute
/// node crashes at each verb. A client with an old pointer to the slot must not take the sibling for the leaf before
/// the sibling is linked.
#[test]
fn an_unlinked_sibling_is_not_used() {
    for (verb, point) in (1..=9)
        .flat_map(|verb| [CrashPoint::Before, CrashPoint::At, CrashPoint::After].map(|point| (verb, point)))
    {
        let (world, trees) = setup();
        let busy = world.untimed(BUSY);
        for number in 0..30 {
            untimed(value(&trees[OLD], &world.untimed(OLD), number * 10));
        }
        untimed(trees[BUSY].remove(&busy, &bytes(40))).expect("a removal");
        untimed(put(&trees[BUSY], &busy, 41));
        let when = FaultTrigger::Verb { compute_node: BUSY, number: world.sent(BUSY) + verb };
        world.add_rule(FaultRule { when, fault: Fault::Crash { compute_node: BUSY, point } });
        let busy = world.client(BUSY);
        let mut group = world.task_group();
        group.spawn(&busy, put(&trees[BUSY], &busy, 42));
        group.run_until(world.now() + TIME_MAX);
        drop(group);
        let (old, new) = (world.client(OLD), world.client(NEW));
        let what = format!("verb {verb}, {point:?}");
        world.block_on(put(&trees[OLD], &old, 50));
        assert_eq!(
            world.block_on(value(&trees[NEW], &new, 50)),
            Some(bytes(50).to_vec()),
            "{what}: the put was acknowledged"
        );
        let seen = world.block_on(value(&trees[OLD], &old, 42));
        assert_eq!(
            world.block_on(value(&trees[NEW], &new, 42)),
            seen,
            "{what}: all clients read the same value"
        );
        let walk = world.block_on(trees[NEW].walk(&new)).expect("a walk");
        assert_eq!(walk.problems, [], "{what}");
    }
}

/// A client reads a leaf during a merge, and is frozen before it undoes the merge. Meanwhile the merge ends, and the
/// slot is reused for a leaf with the same keys. The test freezes clients at each verb of the merge and at some verbs
/// of the other client.
#[test]
fn a_merge_is_not_undone_in_a_reused_slot() {
    let mut met = 0;
    for (step, verb) in (1..=8).flat_map(|step| (3..60).map(move |verb| (step, verb))) {
        let (world, trees) = setup();
        let merging = FaultTrigger::Mark { compute_node: BUSY, mark: "a merge begun", number: step };
        world.add_rule(FaultRule {
            when: merging,
            fault: Fault::Freeze { compute_node: BUSY, nanoseconds: 80_000 },
        });
        let looking = FaultTrigger::Verb { compute_node: OLD, number: world.sent(OLD) + verb };
        world.add_rule(FaultRule {
            when: looking,
            fault: Fault::Freeze { compute_node: OLD, nanoseconds: 2_000_000 },
        });
        let (busy, old) = (world.client(BUSY), world.client(OLD));
        let mut group = world.task_group();
        group.spawn(&busy, async {
            trees[BUSY].remove(&busy, &bytes(40)).await.expect("a removal");
            for key in [40, 41, 42, 43] {
                put(&trees[BUSY], &busy, key).await;
            }
        });
        group.spawn(&old, async {
            old.fabric().sleep(50_000).await;
            value(&trees[OLD], &old, 60).await;
        });
        group.run_until(world.now() + TIME_MAX);
        drop(group);
        let new = world.client(NEW);
        for key in [40, 41, 42, 43, 50, 60, 70] {
            let found = world.block_on(value(&trees[NEW], &new, key));
            assert!(found.is_some(), "step {step}, verb {verb}: {key} was acknowledged");
        }
        met += u64::from(world.marks().contains_key("a slot reused"));
    }
    assert!(met > 100, "the slot is reused in only {met} runs");
}
