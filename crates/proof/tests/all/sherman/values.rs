//! The memory of overflow values: slots that are freed, listed, taken over from crashed clients, and reused.

use farwood_fabric::{Client, Fabric as _, FabricError, NodeId, chunks};
use farwood_index::IndexError;
use farwood_index::PutOutcome;
use farwood_index::sherman::layout::{Sizes, Values};
use farwood_index::sherman::{Direction, Range, Sherman, ShermanConfig, ShermanEntries, ShermanVariant};
use farwood_sim::{NicModel, RunOutcome, World, WorldSpec, untimed};
use farwood_testkit::Harness as _;
use farwood_testkit::loopback::{Loopback, LoopbackFabric};

const CACHE_BYTES: usize = 1 << 20;
const MIB: usize = 1 << 20;

fn config(node_bytes: usize) -> ShermanConfig {
    let sizes = Sizes { key_bytes: 8, value_bytes: 16, node_bytes };
    let options = ShermanVariant::RECOMMENDED.features();
    ShermanConfig { sizes, values: Values::AnyLength, options, ..ShermanConfig::default() }
}

/// A pool of two memory nodes of 64 MiB, and a compute node that has the tree open.
struct Setup {
    pool: Loopback,
    client: Client<LoopbackFabric>,
    tree: Sherman,
}

impl Setup {
    fn new(node_bytes: usize) -> Self {
        let pool = Loopback::default();
        let client = pool.client();
        let tree = pool.block_on(Sherman::create(&client, "values", config(node_bytes), CACHE_BYTES));
        Self { tree: tree.expect("a new tree"), client, pool }
    }

    /// A further compute node.
    fn other_node(&self) -> (Client<LoopbackFabric>, Sherman) {
        let client = self.pool.separate_client();
        let tree =
            self.pool.block_on(Sherman::open(&client, "values", CACHE_BYTES)).expect("the key is present");
        (client, tree)
    }

    fn put(
        &self,
        (tree, client): (&Sherman, &Client<LoopbackFabric>),
        key: u64,
        value: &[u8],
    ) -> Result<bool, IndexError> {
        self.pool.block_on(tree.put(client, &key.to_be_bytes(), value)).map(PutOutcome::replaced)
    }

    fn put_first(&self, key: u64, value: &[u8]) -> Result<bool, IndexError> {
        self.put((&self.tree, &self.client), key, value)
    }

    fn chunks(&self) -> u64 {
        let taken = |node| self.pool.block_on(chunks::taken(&self.client, NodeId(node))).expect("a count");
        (0..2).map(taken).sum()
    }

    fn check(&self) {
        let walk = self.pool.block_on(self.tree.walk(&self.client)).expect("a walk");
        assert_eq!(walk.problems, []);
    }
}

/// The client that takes over the chunk of a crashed client finds the end of its last object, even if bytes of a value
/// look like the beginning of an object.
#[test]
fn taking_over_a_chunk_overwrites_no_value() {
    for fake in [&[0; 8][..], &[255, 0, 0, 0, 0, 0, 0, 0], &[255; 8]] {
        let setup = Setup::new(256);
        let (client, tree) = setup.other_node();
        let mut value = vec![0; MIB];
        for unit in value.chunks_exact_mut(64) {
            // The index's number where an overflow object has it, in every unit that the value covers; before it a kind
            // and a size.
            unit[40..48].copy_from_slice(fake);
            unit[48..56].copy_from_slice(&[7; 8]);
            unit[56..64].copy_from_slice(&setup.tree.layout().index.to_le_bytes());
        }
        for key in 0..3 {
            setup.put((&tree, &client), key, &value).expect("memory is free");
        }
        setup.pool.kill(client.fabric().identity());
        for key in 10..20 {
            setup.put_first(key, &[7; 5_000]).expect("memory is free");
        }
        setup.check();
        std::mem::forget(tree);
    }
}

#[test]
fn processes_that_leave_return_their_memory() {
    let setup = Setup::new(1024);
    for round in 0..300_u64 {
        let (client, tree) = setup.other_node();
        setup.put((&tree, &client), 1, &vec![round as u8; MIB]).expect("memory is free");
        setup.pool.block_on(tree.leave(&client)).expect("the compute node leaves");
        setup.pool.block_on(tree.close(&client)).expect("the tree is closed");
    }
    assert!(setup.chunks() <= 8, "{} chunks", setup.chunks());
    setup.check();
}

/// A compute node reuses listed slots of every size.
#[test]
fn listed_slots_are_reused() {
    let setup = Setup::new(256);
    for key in 0..300 {
        setup.put_first(key, &[1; 100]).expect("memory is free");
    }
    for key in 0..300 {
        setup.put_first(key, &[1; 4]).expect("memory is free");
    }
    for round in 0..3 {
        let (client, tree) = setup.other_node();
        for key in 5_000..5_004 {
            setup.put((&tree, &client), key, &vec![1; MIB]).expect("memory is free");
        }
        for key in 5_000..5_004_u64 {
            setup.pool.block_on(tree.remove(&client, &key.to_be_bytes())).expect("the key is present");
        }
        setup.pool.block_on(tree.leave(&client)).expect("the compute node leaves");
        setup.pool.block_on(tree.close(&client)).expect("the tree is closed");
        let before = setup.chunks();
        for key in 0..4 {
            setup.put_first(9_000 + 100 * round + key, &vec![1; MIB]).expect("memory is free");
        }
        // Values that do not fit the rest of this compute node's chunk go into the listed slots.
        assert_eq!(setup.chunks(), before, "round {round}");
    }
    setup.check();
}

#[test]
fn a_refused_insertion_takes_no_memory() {
    let setup = Setup::new(256);
    let big = vec![1; MIB];
    let mut keys = 0;
    while setup.put_first(keys * 100, &big).is_ok() {
        keys += 1;
    }
    let mut small = 1_000_000;
    while setup.put_first(small, &[1; 4]).is_ok() {
        small += 1;
    }
    // This frees the slots of their values, and no leaf. The slots then serve new values, and new leaves.
    for shortened in 0..30 {
        assert_eq!(setup.put_first(shortened * 200, &[1; 4]), Ok(true));
    }
    let refused = (0..100).filter(|new| setup.put_first(small + new, &big).is_err()).count();
    assert!(refused >= 70, "only {refused} were refused");
    // A refused insertion keeps no slot: the next one that is freed serves the next value.
    assert_eq!(setup.put_first(30 * 200, &[1; 4]), Ok(true));
    assert_eq!(setup.put_first(100, &big), Ok(true), "the freed slots are still free");
}

#[test]
fn a_failed_scan_returns_no_entries() {
    let setup = Setup::new(256);
    for key in 0..1_000 {
        setup.put_first(key, &[1; 4]).expect("memory is free");
    }
    let mut found = ShermanEntries::new();
    let wide =
        setup.tree.scan_snapshot(&setup.client, Range::default(), Direction::Forward, usize::MAX, &mut found);
    assert!(matches!(setup.pool.block_on(wide), Err(IndexError::NoSnapshot(_))));
    assert_eq!((found.len(), found.iter().next()), (0, None));
}

/// Many clients put their first values at the same time: each compute node takes one chunk for all its clients.
#[test]
fn first_puts_of_a_compute_node_share_a_chunk() {
    let card = NicModel::named("cx5-100g").expect("the simulator has this NIC");
    let spec = WorldSpec { compute_nodes: 4, memory_nodes: 1, ..WorldSpec::small(card) };
    let world = World::new(spec).expect("a world");
    let mut trees = vec![untimed(Sherman::create(&world.untimed(0), "begin", config(1024), 1 << 16))];
    trees.extend((1..4).map(|node| untimed(Sherman::open(&world.untimed(node), "begin", 1 << 16))));
    let trees: Vec<_> = trees.into_iter().map(|tree| tree.expect("a tree")).collect();
    let clients: Vec<_> = (0..32).map(|client| world.client(client % 4)).collect();
    let mut group = world.task_group();
    for (number, client) in clients.iter().enumerate() {
        let tree = &trees[number % 4];
        group.spawn(client, async move {
            let put = tree.put(client, &(number as u64).to_be_bytes(), &vec![1; 32 << 10]).await;
            assert!(
                !matches!(put, Err(IndexError::Fabric(FabricError::PoolFull { .. }))),
                "client {number}: {put:?}"
            );
            put.expect("a put");
        });
    }
    assert_eq!(group.run_until(1_000_000_000), RunOutcome::Done);
    drop(group);
    let taken = untimed(chunks::taken(&world.untimed(0), NodeId(0))).expect("a count");
    assert!(taken <= 1 + 4, "{taken} chunks, with the superblock's");
}
