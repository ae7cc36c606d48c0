//! Golden costs of radix trees: round trips, verbs and bytes of every operation of every variant, compared with the
//! tables in `docs`.

use crate::golden::CostTable;
use crate::tree::Tree as _;
use crate::workload::ScanSpan;
use farwood_fabric::{Client, Costs};
use farwood_index::ordered::{self, Ordered};
use farwood_testkit::Harness;
use farwood_testkit::history::{Action, Direction};
use farwood_testkit::loopback::Loopback;

/// Bytes of the node cache: all inner nodes.
pub const CACHE_BYTES: usize = 64 << 20;

/// Key `leaf` of group `group`. The node of a group has 16 slots, of which ten are used.
pub fn key(group: u8, leaf: u8) -> [u8; 8] {
    [group, leaf, 9, 9, 9, 9, 9, 9]
}

/// Key `leaf` below child `below` of one node of 256 slots.
fn key_below(below: u8, leaf: u8) -> [u8; 8] {
    [201, below, leaf, 9, 9, 9, 9, 9]
}

/// A tree of one variant with a warm cache.
pub struct CostFixture<H: Harness> {
    world: H,
    /// The tree.
    pub tree: Ordered,
    client: Client<H::Fabric>,
}

impl CostFixture<Loopback> {
    /// A tree of that configuration on the loopback fabric.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn new(config: ordered::OrderedConfig) -> Self {
        Self::on(Loopback::default(), config)
    }
}

impl<H: Harness> CostFixture<H> {
    /// The same on any fabric.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn on(world: H, config: ordered::OrderedConfig) -> Self {
        let client = world.client();
        let tree = world.block_on(Ordered::create(&client, "costs", config, CACHE_BYTES)).expect("a tree");
        let bench = Self { world, tree, client };
        for group in 0..100 {
            for leaf in 0..10 {
                bench.put(&key(group, leaf), 8);
            }
        }
        // Keys with a common prefix that can be split.
        bench.put(&[200, 1, 1, 1, 1, 1, 1, 1], 8);
        bench.put(&[200, 1, 1, 1, 1, 1, 1, 2], 8);
        for group in 0..100 {
            bench.get(&bench.tree, &key(group, 0));
        }
        bench
    }

    /// The costs of one operation.
    fn cost<T>(&self, operation: impl Future<Output = T>) -> Costs {
        self.client.take_costs();
        self.world.block_on(operation);
        self.client.take_costs()
    }

    /// The costs of storing a value.
    pub fn put(&self, key: &[u8], value_bytes: usize) -> Costs {
        self.perform(&self.tree, key, &Action::Put(vec![1; value_bytes]))
    }

    /// The costs of a lookup in this tree, or in another one that is open.
    pub fn get(&self, tree: &Ordered, key: &[u8]) -> Costs {
        self.perform(tree, key, &Action::Get)
    }

    fn perform(&self, tree: &Ordered, key: &[u8], action: &Action) -> Costs {
        self.cost(async { tree.perform(&self.client, key, action).await.expect("the operation succeeds") })
    }

    fn scan(&self, tree: &Ordered, from: [u8; 8]) -> Costs {
        let (from, direction) = (Some(from.to_vec()), Direction::Forward);
        let span = ScanSpan { direction, from, to: None, limit: 100 };
        self.cost(async {
            let found = tree.scan_span(&self.client, &span).await.expect("a scan");
            assert_eq!(found.len(), 100);
        })
    }

    /// The tree opened again, with an empty cache.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn cold(&self) -> Ordered {
        self.world.block_on(Ordered::open(&self.client, "costs", CACHE_BYTES)).expect("the tree is opened")
    }
}

fn rows<H: Harness>(table: &mut CostTable, name: &str, bench: &CostFixture<H>) {
    let mut row = |operation: &str, case: &str, costs: Costs| table.row(name, operation, case, costs);
    let tree = &bench.tree;
    let there = key(7, 7);
    let other = [7, 7, 1, 1, 1, 1, 1, 1];
    row("get", "key present", bench.get(tree, &there));
    row("get", "key absent, another in its slot", bench.get(tree, &other));
    row("get", "key absent, its slot empty", bench.get(tree, &key(7, 77)));
    row("get", "key absent, a node of another prefix", bench.get(tree, &[200, 1, 1, 9, 9]));
    let cold = bench.cold();
    row("get", "nothing cached, 2 nodes", bench.get(&cold, &there));
    row("put", "update", bench.put(&there, 8));
    row("put", "new key in an empty slot", bench.put(&key(8, 100), 8));
    row("put", "leaf split", bench.put(&[9, 7, 1, 1, 1, 1, 1, 1], 8));
    row("put", "prefix split", bench.put(&[200, 1, 1, 9, 9, 9, 9, 9], 8));
    for leaf in 10..16 {
        bench.put(&key(11, leaf), 8);
    }
    row("put", "new key, its node grows from 16 slots to 48", bench.put(&key(11, 16), 8));
    row("put", "value outgrows its leaf", bench.put(&key(12, 1), 100));
    row("insert", "key present", bench.perform(tree, &there, &Action::Insert(vec![2; 8])));
    let new = Action::Insert(vec![2; 8]);
    row("insert", "leaf split", bench.perform(tree, &[13, 7, 1, 1, 1, 1, 1, 1], &new));
    let update = Action::Update(vec![2; 8]);
    row("update", "key absent, another in its slot", bench.perform(tree, &other, &update));
    row("remove", "key present", bench.perform(tree, &key(14, 3), &Action::Remove));
    let last = bench.perform(tree, &[9, 7, 1, 1, 1, 1, 1, 1], &Action::Remove);
    row("remove", "key present, its node is removed", last);
    row("scan", "100 entries", bench.scan(tree, key(50, 0)));
    row("scan", "100 entries, nothing cached", bench.scan(&bench.cold(), key(50, 0)));
    for below in 0..100 {
        for leaf in 0..10 {
            bench.put(&key_below(below, leaf), 8);
        }
        bench.get(tree, &key_below(below, 0));
    }
    row("scan", "100 entries, below children of a node of 256 slots", bench.scan(tree, key_below(50, 0)));
}

/// Compares the costs of these variants with the golden table of the system in `docs`.
///
/// # Panics
/// If a cost differs.
pub fn compare(title: &str, system: &str, variants: &[(&str, ordered::OrderedConfig)]) {
    let mut table = empty(title, system);
    for (name, config) in variants {
        rows(&mut table, name, &CostFixture::new(*config));
    }
    table.agree_with(&format!("costs-{system}.md"));
}

/// Compares round trips and verbs on another fabric with the golden ones: fabrics add none.
///
/// # Panics
/// If they differ.
pub fn compare_on<H: Harness>(world: H, system: &str, (name, config): (&str, ordered::OrderedConfig)) {
    let mut table = empty(system, system);
    rows(&mut table, name, &CostFixture::on(world, config));
    assert!(table.agree_in_counts_with(&format!("costs-{system}.md")) > 10, "all cases are compared");
}

fn empty(title: &str, system: &str) -> CostTable {
    CostTable::new(
        &format!("Costs of {title}"),
        "keys and values of 8 bytes, two memory nodes, the\n\
         cache warm unless said otherwise",
        &format!("{system}/costs.rs"),
    )
}
