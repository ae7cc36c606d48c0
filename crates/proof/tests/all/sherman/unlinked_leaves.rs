//! Leaves that no parent names. They arise when a client crashes or is stopped between a split and the change of the
//! parent. Lookups must find them through their left neighbours, even if many such leaves follow each other, and insert
//! them into the parent.

use farwood_fabric::{Client, Fabric, FabricError, write};
use farwood_index::IndexError;
use farwood_index::sherman::leaf::Change;
use farwood_index::sherman::node::{Fences, Node, RawNode};
use farwood_index::sherman::{Direction, Range, Sherman, ShermanConfig, ShermanEntries};
use farwood_testkit::Harness;
use farwood_testkit::loopback::Loopback;

/// Number of leaves, each with one key; the first is the root.
const LEAVES: u64 = 300;

fn key(number: u64) -> [u8; 8] {
    (number * 100).to_be_bytes()
}

/// Creates a tree whose root is a leaf, followed by many leaves that only sibling pointers reach. A bulk load that is
/// interrupted before it changes the root pointer leaves such a tree.
async fn tree_of_unlinked_leaves<F: Fabric>(client: &Client<F>) -> Sherman {
    let tree = Sherman::create(client, "unlinked", ShermanConfig::default(), 1 << 20).await.expect("a tree");
    let root = tree.entry().root();
    let word = client.post(farwood_fabric::read(root.at())).await.expect("a read");
    let word = word.check(&()).expect("words are never torn").word();
    let root = root.open_pointer::<RawNode>(word).expect("it is sealed").expect("a root");
    let owner =
        farwood_fabric::chunks::ChunkOwner { client: client.fabric().identity(), entry: tree.entry().slot };
    let taken = farwood_fabric::chunks::take(client, root.node(), owner, 64).await.expect("a chunk");
    let farwood_fabric::chunks::TakenChunk { chunk, used, .. } = taken.expect("a free chunk");
    let address = |number: u64| match number {
        0 => root,
        _ => chunk.start().part::<RawNode>(used + 1024 * number),
    };
    for number in (0..LEAVES).rev() {
        let lower = if number == 0 { [0; 8] } else { key(number) };
        let upper = key(number + 1);
        let last = number + 1 == LEAVES;
        let fences = Fences { lower: &lower, upper: (!last).then_some(&upper[..]) };
        let sibling = (!last).then(|| address(number + 1));
        let mut leaf = Node::empty(tree.layout(), 0, fences, sibling);
        leaf.place(&key(number), Change::Put(&number.to_le_bytes())).expect("an empty leaf has space");
        leaf.seal();
        client.post(write(address(number), leaf.bytes())).await.expect("a write");
    }
    tree
}

#[test]
fn leaves_that_no_parent_names_are_found_and_entered() {
    let world = Loopback::default();
    let client = world.client();
    let tree = world.block_on(tree_of_unlinked_leaves(&client));
    let before = world.block_on(tree.walk(&client)).expect("a walk");
    assert_eq!((before.problems.len(), before.half_linked), (0, LEAVES - 1), "{before:?}");
    for number in (0..LEAVES).rev() {
        let found = world.block_on(tree.get(&client, &key(number))).expect("a get");
        assert_eq!(found.as_deref(), Some(&number.to_le_bytes()[..]), "key {number}");
        assert!(
            world.block_on(tree.put(&client, &key(number), &number.to_le_bytes())).expect("a put").replaced()
        );
    }
    let mut found = ShermanEntries::new();
    let scan = tree.scan(&client, Range::default(), Direction::Backward, usize::MAX, &mut found);
    world.block_on(scan).expect("a scan");
    assert_eq!(found.len() as u64, LEAVES);
    let after = world.block_on(tree.walk(&client)).expect("a walk");
    assert_eq!((after.problems.len(), after.entries), (0, LEAVES), "{after:?}");
    assert!(after.half_linked < 10, "most leaves are entered in their parents: {after:?}");
    client.take_costs();
    for number in 0..LEAVES {
        world.block_on(tree.get(&client, &key(number))).expect("a get");
    }
    let costs = client.take_costs();
    assert!(costs.round_trips < 2 * LEAVES, "lookups are short again: {costs:?}");
}

/// Ascending keys split the rightmost node of every level many times, and every level grows to the right of the cached
/// nodes: descents must not get longer.
#[test]
fn ascending_keys_are_inserted_at_the_usual_cost() {
    const KEYS: u64 = 60_000;
    let world = Loopback::default();
    let client = world.client();
    let sizes = farwood_index::sherman::layout::Sizes { key_bytes: 8, value_bytes: 8, node_bytes: 256 };
    let config = ShermanConfig { sizes, ..ShermanConfig::default() };
    let tree = world.block_on(Sherman::create(&client, "ascending", config, 1 << 20)).expect("a tree");
    client.take_costs();
    for number in 0..KEYS {
        world.block_on(tree.put(&client, &number.to_be_bytes(), &[1; 8])).expect("a put");
    }
    let costs = client.take_costs();
    let walk = world.block_on(tree.walk(&client)).expect("a walk");
    assert!(walk.nodes.len() > 4 && walk.problems.is_empty(), "{walk:?}");
    // With eight entries in a leaf, a quarter of the puts split a leaf, and some of these split a node above it.
    assert!(costs.round_trips < 5 * KEYS, "{costs:?}");
    assert!(costs.moved < KEYS / 4, "{costs:?}");
}

/// A bulk load that needs more memory than the pool has returns the memory that it took.
#[test]
fn a_failed_bulk_load_returns_its_memory() {
    let world = Loopback::default();
    let client = world.client();
    let tree =
        world.block_on(Sherman::create(&client, "full", ShermanConfig::default(), 1 << 20)).expect("a tree");
    let entries = |count: u64| (0..count).map(|number| (number.to_be_bytes(), number.to_le_bytes()));
    for _ in 0..3 {
        let loaded = world.block_on(tree.bulk_load(&client, entries(20_000_000), 0.8, |_| {}));
        assert!(matches!(loaded, Err(IndexError::Fabric(FabricError::PoolFull { .. }))), "{loaded:?}");
        assert_eq!(world.block_on(tree.count(&client)).expect("a count"), 0);
    }
    assert_eq!(world.block_on(tree.bulk_load(&client, entries(500_000), 0.8, |_| {})), Ok(500_000));
    assert_eq!(world.block_on(tree.walk(&client)).expect("a walk").problems, []);
}
