//! CPU work that the simulator charges: searches of unsorted leaves, and changes of the index cache.

use farwood_fabric::Fabric as _;
use farwood_index::sherman::layout::Sizes;
use farwood_index::sherman::{Sherman, ShermanConfig, ShermanVariant};
use farwood_sim::{NicModel, World, WorldSpec, untimed};
use std::cell::Cell;

const SIZES: Sizes = Sizes { key_bytes: 8, value_bytes: 8, node_bytes: 256 };
const KEYS: u64 = 600;
const LARGE_CACHE: usize = 1 << 20;
/// A cache of a few nodes.
const SMALL_CACHE: usize = 4 << 10;
/// Large enough to be distinguished from all other times.
const WORK_NS: f64 = 1e6;

/// Virtual time of one get and one put of each key by one client, in units of `WORK_NS`.
fn work(variant: ShermanVariant, cache_bytes: usize, change: impl FnOnce(&mut NicModel)) -> u64 {
    let mut card = NicModel::named("ideal").expect("the simulator has this NIC");
    change(&mut card);
    let world = World::new(WorldSpec { host_bytes: 32 << 20, ..WorldSpec::small(card) }).expect("a world");
    let config = ShermanConfig { sizes: SIZES, options: variant.features(), ..ShermanConfig::default() };
    let setup = world.untimed(0);
    let tree = untimed(Sherman::create(&setup, "work", config, LARGE_CACHE)).expect("a tree");
    let entries = (0..KEYS).map(|key| (key.to_be_bytes(), key.to_be_bytes()));
    untimed(tree.bulk_load(&setup, entries, 0.7, |_| {})).expect("a bulk load");
    let tree = untimed(Sherman::open(&world.untimed(1), "work", cache_bytes)).expect("a tree");
    let (client, end) = (world.client(1), Cell::new(0));
    let mut group = world.task_group();
    group.spawn(&client, async {
        for key in 0..KEYS {
            let key = key.to_be_bytes();
            assert!(tree.get(&client, &key).await.expect("a get").is_some());
            tree.put(&client, &key, &key).await.expect("a put");
        }
        end.set(client.fabric().now());
    });
    group.run().expect("the client ends");
    drop(group);
    end.get() / WORK_NS as u64
}

#[test]
fn searches_of_unsorted_leaves_take_cpu_time() {
    let of = |variant| work(variant, LARGE_CACHE, |card| card.cpu.unsorted_leaf_ns = WORK_NS);
    let others = work(ShermanVariant::Sherman, LARGE_CACHE, |_| {});
    assert_eq!(of(ShermanVariant::Sherman) - others, 2 * KEYS);
    let sorted = work(ShermanVariant::FgPlus, LARGE_CACHE, |_| {});
    assert_eq!(of(ShermanVariant::FgPlus), sorted, "the leaves of FG+ are sorted");
}

#[test]
fn changes_of_the_index_cache_take_cpu_time() {
    let others = |cache| work(ShermanVariant::Sherman, cache, |_| {});
    let admissions = |cache| {
        work(ShermanVariant::Sherman, cache, |card| card.cpu.cache_admission_ns = WORK_NS) - others(cache)
    };
    let removals = |cache| {
        work(ShermanVariant::Sherman, cache, |card| card.cpu.cache_removal_ns = WORK_NS) - others(cache)
    };
    let parents = admissions(LARGE_CACHE);
    assert!((5..KEYS / 5).contains(&parents), "each of the {parents} parents of leaves is admitted once");
    assert_eq!(removals(LARGE_CACHE), 0, "nothing is evicted");
    let (admitted, removed) = (admissions(SMALL_CACHE), removals(SMALL_CACHE));
    assert!(
        0 < removed && removed < admitted,
        "{admitted} admissions and {removed} removals in a small cache"
    );
}
