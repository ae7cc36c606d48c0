//! The memory of values out of line: rooms that are emptied, listed, inherited from the dead, and filled again.

use farwood_fabric::{Client, Fabric as _, FabricError, NodeId, chunks};
use farwood_index::IndexError;
use farwood_index::sherman::layout::{Sizes, Values};
use farwood_index::sherman::{Config, Direction, Entries, Range, Sherman, Variant};
use farwood_sim::{Card, Ended, World, WorldSpec, at_once};
use farwood_testkit::Harness as _;
use farwood_testkit::loopback::{Loopback, LoopbackFabric};

const CACHE_BYTES: usize = 1 << 20;
const MIB: usize = 1 << 20;

fn config(node_bytes: usize) -> Config {
    let sizes = Sizes { key_bytes: 8, value_bytes: 16, node_bytes };
    let options = Variant::RECOMMENDED.options();
    Config { sizes, values: Values::AnyLength, options, ..Config::default() }
}

/// A pool of two memory nodes of 64 MiB, and a compute node that has the tree open.
struct Stage {
    pool: Loopback,
    home: Client<LoopbackFabric>,
    tree: Sherman,
}

impl Stage {
    fn new(node_bytes: usize) -> Self {
        let pool = Loopback::default();
        let home = pool.client();
        let tree = pool.block_on(Sherman::create(&home, "values", config(node_bytes), CACHE_BYTES));
        Self { tree: tree.expect("a new tree"), home, pool }
    }

    /// Another compute node.
    fn visitor(&self) -> (Client<LoopbackFabric>, Sherman) {
        let client = self.pool.stranger();
        let tree = self.pool.block_on(Sherman::open(&client, "values", CACHE_BYTES)).expect("it is there");
        (client, tree)
    }

    fn put(
        &self,
        (tree, client): (&Sherman, &Client<LoopbackFabric>),
        key: u64,
        value: &[u8],
    ) -> Result<bool, IndexError> {
        self.pool.block_on(tree.put(client, &key.to_be_bytes(), value))
    }

    fn put_home(&self, key: u64, value: &[u8]) -> Result<bool, IndexError> {
        self.put((&self.tree, &self.home), key, value)
    }

    fn chunks(&self) -> u64 {
        let taken = |node| self.pool.block_on(chunks::taken(&self.home, NodeId(node))).expect("a count");
        (0..2).map(taken).sum()
    }

    fn check(&self) {
        let walk = self.pool.block_on(self.tree.walk(&self.home)).expect("a walk");
        assert_eq!(walk.problems, []);
    }
}

/// Bytes of a value that look like the beginning of an object do not hide its end from who takes over the chunk of a
/// client that died.
#[test]
fn no_value_is_written_over_when_a_chunk_is_inherited() {
    for fake in [&[0; 8][..], &[255, 0, 0, 0, 0, 0, 0, 0], &[255; 8]] {
        let stage = Stage::new(256);
        let (client, tree) = stage.visitor();
        let mut value = vec![0; MIB];
        for unit in value.chunks_exact_mut(64) {
            // The index's number where an extent has it, in every unit that the value covers; before it a kind and a
            // size.
            unit[40..48].copy_from_slice(fake);
            unit[48..56].copy_from_slice(&[7; 8]);
            unit[56..64].copy_from_slice(&stage.tree.layout().index.to_le_bytes());
        }
        for key in 0..3 {
            stage.put((&tree, &client), key, &value).expect("there is room");
        }
        stage.pool.kill(client.fabric().identity());
        for key in 10..20 {
            stage.put_home(key, &[7; 5_000]).expect("there is room");
        }
        stage.check();
        std::mem::forget(tree);
    }
}

#[test]
fn processes_that_come_and_go_leave_no_rooms_behind() {
    let stage = Stage::new(1024);
    for round in 0..300_u64 {
        let (client, tree) = stage.visitor();
        stage.put((&tree, &client), 1, &vec![round as u8; MIB]).expect("there is room");
        stage.pool.block_on(tree.leave(&client)).expect("it leaves");
        stage.pool.block_on(tree.close(&client)).expect("it closes the tree");
    }
    assert!(stage.chunks() <= 8, "{} chunks", stage.chunks());
    stage.check();
}

/// Rooms of every kind that others have listed are filled, whatever else a compute node keeps.
#[test]
fn listed_rooms_are_used() {
    let stage = Stage::new(256);
    for key in 0..300 {
        stage.put_home(key, &[1; 100]).expect("there is room");
    }
    for key in 0..300 {
        stage.put_home(key, &[1; 4]).expect("there is room");
    }
    for round in 0..3 {
        let (client, tree) = stage.visitor();
        for key in 5_000..5_004 {
            stage.put((&tree, &client), key, &vec![1; MIB]).expect("there is room");
        }
        for key in 5_000..5_004_u64 {
            stage.pool.block_on(tree.remove(&client, &key.to_be_bytes())).expect("it is there");
        }
        stage.pool.block_on(tree.leave(&client)).expect("it leaves");
        stage.pool.block_on(tree.close(&client)).expect("it closes the tree");
        let before = stage.chunks();
        for key in 0..4 {
            stage.put_home(9_000 + 100 * round + key, &vec![1; MIB]).expect("there is room");
        }
        // What does not fit the rest of this compute node's own chunk goes into the rooms.
        assert_eq!(stage.chunks(), before, "round {round}");
    }
    stage.check();
}

#[test]
fn an_insertion_that_finds_no_room_takes_none() {
    let stage = Stage::new(256);
    let big = vec![1; MIB];
    let mut keys = 0;
    while stage.put_home(keys * 100, &big).is_ok() {
        keys += 1;
    }
    let mut small = 1_000_000;
    while stage.put_home(small, &[1; 4]).is_ok() {
        small += 1;
    }
    // Their rooms come free, and no leaf does.
    for shortened in 0..30 {
        assert_eq!(stage.put_home(shortened * 200, &[1; 4]), Ok(true));
    }
    let refused = (0..100).filter(|new| stage.put_home(small + new, &big).is_err()).count();
    assert!(refused > 75, "only {refused} were refused");
    assert_eq!(stage.put_home(100, &big), Ok(true), "the rooms of those are still there");
}

#[test]
fn a_scan_that_fails_has_found_nothing() {
    let stage = Stage::new(256);
    for key in 0..1_000 {
        stage.put_home(key, &[1; 4]).expect("there is room");
    }
    let mut found = Entries::new();
    let wide =
        stage.tree.scan_snapshot(&stage.home, Range::default(), Direction::Forward, usize::MAX, &mut found);
    assert!(matches!(stage.pool.block_on(wide), Err(IndexError::NoSnapshot(_))));
    assert_eq!((found.len(), found.iter().next()), (0, None));
}

/// The first puts of many clients come at the same time: each compute node takes a chunk for all of its clients.
#[test]
fn clients_that_begin_at_once_share_a_chunk() {
    let card = Card::named("cx5-100g").expect("it is one of the named");
    let spec = WorldSpec { compute_nodes: 4, memory_nodes: 1, ..WorldSpec::small(card) };
    let world = World::new(spec).expect("a world");
    let mut trees = vec![at_once(Sherman::create(&world.at_once(0), "begin", config(1024), 1 << 16))];
    trees.extend((1..4).map(|node| at_once(Sherman::open(&world.at_once(node), "begin", 1 << 16))));
    let trees: Vec<_> = trees.into_iter().map(|tree| tree.expect("a tree")).collect();
    let clients: Vec<_> = (0..32).map(|client| world.client(client % 4)).collect();
    let mut crew = world.crew();
    for (number, client) in clients.iter().enumerate() {
        let tree = &trees[number % 4];
        crew.spawn(client, async move {
            let put = tree.put(client, &(number as u64).to_be_bytes(), &vec![1; 32 << 10]).await;
            assert!(
                !matches!(put, Err(IndexError::Fabric(FabricError::PoolFull { .. }))),
                "client {number}: {put:?}"
            );
            put.expect("a put");
        });
    }
    assert_eq!(crew.run_until(1_000_000_000), Ended::Done);
    drop(crew);
    let taken = at_once(chunks::taken(&world.at_once(0), NodeId(0))).expect("a count");
    assert!(taken <= 1 + 4, "{taken} chunks, with the superblock's");
}
