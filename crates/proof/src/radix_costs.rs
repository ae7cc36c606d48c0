//! Golden costs of radix trees: round trips, verbs and bytes of every operation of every variant, compared with the
//! tables in `docs`.

use crate::golden::CostTable;
use crate::tree::Tree as _;
use crate::workload::ScanSpan;
use farwood_fabric::{Client, Costs};
use farwood_index::ordered::{self, Ordered};
use farwood_testkit::Harness;
use farwood_testkit::history::{Action, Direction, Exchange, Expected};
use farwood_testkit::loopback::Loopback;

/// Bytes of the node cache, enough for all inner nodes.
pub const CACHE_BYTES: usize = 64 << 20;

/// Key `leaf` of group `group`. The keys of a group share one inner node of 16 slots; ten slots are used.
pub fn key(group: u8, leaf: u8) -> [u8; 8] {
    [group, leaf, 9, 9, 9, 9, 9, 9]
}

/// Key `leaf` in the subtree of child `child` of an inner node of 256 slots.
fn key_below(child: u8, leaf: u8) -> [u8; 8] {
    [201, child, leaf, 9, 9, 9, 9, 9]
}

/// A loaded tree of one variant with a warm cache.
pub struct CostFixture<H: Harness> {
    world: H,
    /// The tree.
    pub tree: Ordered,
    client: Client<H::Fabric>,
}

impl CostFixture<Loopback> {
    /// Creates a tree with `config` on the loopback fabric, loads it, and warms its cache.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn new(config: ordered::OrderedConfig) -> Self {
        Self::on(Loopback::default(), config)
    }
}

impl<H: Harness> CostFixture<H> {
    /// Creates a tree with `config` on the fabric of `world`, loads it, and warms its cache.
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
        // Two keys with a long common prefix, which the row "prefix split" splits.
        bench.put(&[200, 1, 1, 1, 1, 1, 1, 1], 8);
        bench.put(&[200, 1, 1, 1, 1, 1, 1, 2], 8);
        for group in 0..100 {
            bench.get(&bench.tree, &key(group, 0));
        }
        bench
    }

    /// Runs `operation` and yields its costs.
    fn cost<T>(&self, operation: impl Future<Output = T>) -> Costs {
        self.client.take_costs();
        self.world.block_on(operation);
        self.client.take_costs()
    }

    /// Stores a value of `value_bytes` bytes and yields the costs.
    pub fn put(&self, key: &[u8], value_bytes: usize) -> Costs {
        self.perform(&self.tree, key, &Action::Put(vec![1; value_bytes]))
    }

    /// Looks `key` up in `tree`, an attachment to the same index, and yields the costs.
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

    /// Opens the tree again, with an empty cache.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn cold(&self) -> Ordered {
        self.world.block_on(Ordered::open(&self.client, "costs", CACHE_BYTES)).expect("the tree is opened")
    }
}

/// Measures every operation in every case, and adds a row of the variant `name` for each.
fn rows<H: Harness>(table: &mut CostTable, name: &str, bench: &CostFixture<H>) {
    let mut row = |operation: &str, case: &str, costs: Costs| table.row(name, operation, case, costs);
    let tree = &bench.tree;
    let present = key(7, 7);
    let absent = [7, 7, 1, 1, 1, 1, 1, 1];
    row("get", "key present", bench.get(tree, &present));
    row("get", "key absent, another key in its slot", bench.get(tree, &absent));
    row("get", "key absent, its slot empty", bench.get(tree, &key(7, 77)));
    row("get", "key absent, its path ends at a node of another prefix", bench.get(tree, &[200, 1, 1, 9, 9]));
    let cold = bench.cold();
    row("get", "nothing cached, 2 inner nodes on the path", bench.get(&cold, &present));
    row("put", "update", bench.put(&present, 8));
    row("put", "new key in an empty slot", bench.put(&key(8, 100), 8));
    row("put", "leaf split", bench.put(&[9, 7, 1, 1, 1, 1, 1, 1], 8));
    row("put", "prefix split", bench.put(&[200, 1, 1, 9, 9, 9, 9, 9], 8));
    for leaf in 10..16 {
        bench.put(&key(11, leaf), 8);
    }
    row("put", "new key, its node grows from 16 slots to 48", bench.put(&key(11, 16), 8));
    row("put", "value outgrows its leaf", bench.put(&key(12, 1), 100));
    row("insert", "key present", bench.perform(tree, &present, &Action::Insert(vec![2; 8])));
    let new = Action::Insert(vec![2; 8]);
    row("insert", "leaf split", bench.perform(tree, &[13, 7, 1, 1, 1, 1, 1, 1], &new));
    let update = Action::Update(vec![2; 8]);
    row("update", "key absent, another key in its slot", bench.perform(tree, &absent, &update));
    row("remove", "key present", bench.perform(tree, &key(14, 3), &Action::Remove));
    let exchange = |new| Action::Exchange(Exchange { expected: Expected::Any, new });
    row("modify", "key present", bench.perform(tree, &present, &exchange(Some(vec![3; 8]))));
    let kept = Action::Exchange(Exchange { expected: Expected::Value(None), new: Some(vec![4; 8]) });
    row("modify", "key kept", bench.perform(tree, &present, &kept));
    row("modify", "leaf split", bench.perform(tree, &[15, 7, 1, 1, 1, 1, 1, 1], &exchange(Some(vec![3; 8]))));
    row("modify", "value outgrows its leaf", bench.perform(tree, &key(16, 1), &exchange(Some(vec![3; 100]))));
    row("modify", "entry removed", bench.perform(tree, &key(14, 5), &exchange(None)));
    let stored = Action::Exchange(Exchange { expected: Expected::Value(Some(vec![1; 8])), new: None });
    row("remove_if", "key present", bench.perform(tree, &key(14, 4), &stored));
    let last = bench.perform(tree, &[9, 7, 1, 1, 1, 1, 1, 1], &Action::Remove);
    row("remove", "key present, its inner node is removed", last);
    row("scan", "100 entries", bench.scan(tree, key(50, 0)));
    row("scan", "100 entries, nothing cached", bench.scan(&bench.cold(), key(50, 0)));
    for child in 0..100 {
        for leaf in 0..10 {
            bench.put(&key_below(child, leaf), 8);
        }
        bench.get(tree, &key_below(child, 0));
    }
    row("scan", "100 entries, in subtrees of one node of 256 slots", bench.scan(tree, key_below(50, 0)));
}

/// Measures the costs of `variants` on the loopback fabric, and compares them with the page of `system` in `docs`.
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

/// Measures one variant on the fabric of `world`, and compares its round trips and verbs with the page of `system` in
/// `docs`, because no fabric adds round trips or verbs.
///
/// # Panics
/// If they differ.
pub fn compare_on<H: Harness>(world: H, system: &str, (name, config): (&str, ordered::OrderedConfig)) {
    let mut table = empty(system, system);
    rows(&mut table, name, &CostFixture::on(world, config));
    assert!(table.agree_in_counts_with(&format!("costs-{system}.md")) > 10, "all cases are compared");
}

/// Creates the cost table of a system, without rows.
fn empty(title: &str, system: &str) -> CostTable {
    CostTable::new(
        &format!("Costs of {title}"),
        "Keys and values\n\
         have 8 bytes. The pool has two memory nodes. The cache is warm unless the case says otherwise",
        &format!("{system}/costs.rs"),
    )
}
