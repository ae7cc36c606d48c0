//! The costs of Sherman's operations on any fabric: the rows of `docs/costs.md`.

use crate::golden::CostTable;
use farwood_fabric::{Client, Costs};
use farwood_index::Decision;
use farwood_index::consistency::Consistency;
use farwood_index::sherman::layout::Sizes;
use farwood_index::sherman::{Direction, Range, Sherman, ShermanConfig, ShermanEntries};
use farwood_testkit::Harness;
use farwood_testkit::harness::round_robin;
use farwood_testkit::loopback::Loopback;

/// Entries of the tree: three levels.
const KEYS: u64 = 40_000;
/// Bytes of the index cache: all of level 1.
const CACHE_BYTES: usize = 16 << 20;

/// A loaded tree of one variant, opened by two compute nodes whose caches are warm.
pub struct CostFixture<H: Harness> {
    world: H,
    /// The tree.
    pub tree: Sherman,
    /// A client of the first compute node.
    pub client: Client<H::Fabric>,
    other_tree: Sherman,
    other_client: Client<H::Fabric>,
}

/// Keys are even, so that a new key fits between any two.
pub fn key(number: u64) -> [u8; 8] {
    (2 * number).to_be_bytes()
}

impl CostFixture<Loopback> {
    /// Creates a tree with `config` on the loopback fabric, loads it, and warms both caches.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn new(config: ShermanConfig) -> Self {
        Self::on(Loopback::default(), config)
    }
}

impl<H: Harness> CostFixture<H> {
    /// Creates a tree with `config` on the fabric of `world`, loads it, and warms both caches.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn on(world: H, config: ShermanConfig) -> Self {
        let client = world.client();
        let other_client = world.separate_client();
        let created = world.block_on(Sherman::create(&client, "costs", config, CACHE_BYTES));
        let tree = created.expect("a tree is created");
        let entries = (0..KEYS).map(|number| (key(number), number.to_le_bytes()));
        world.block_on(tree.bulk_load(&client, entries, 0.8, |_| {})).expect("a bulk load");
        let opened = world.block_on(Sherman::open(&other_client, "costs", CACHE_BYTES));
        let bench =
            Self { other_tree: opened.expect("the tree is opened"), world, tree, client, other_client };
        bench.warm();
        bench
    }

    /// Fills both caches, and splits a leaf after the largest key so that each allocator owns a chunk.
    fn warm(&self) {
        let ends = [(&self.tree, &self.client, KEYS), (&self.other_tree, &self.other_client, KEYS + 50)];
        for (tree, client, first) in ends {
            for number in first..first + 50 {
                self.world.block_on(tree.put(client, &key(number), &[0; 8])).expect("a put");
            }
            // The paths to these keys include every node of level 1.
            for number in (0..KEYS).step_by(8) {
                self.world.block_on(tree.get(client, &key(number))).expect("a get");
            }
        }
    }

    /// Runs `operation` and yields its costs, of both clients.
    pub fn cost<T>(&self, operation: impl Future<Output = T>) -> Costs {
        self.client.take_costs();
        self.other_client.take_costs();
        self.world.block_on(operation);
        let mut costs = self.client.take_costs();
        costs += self.other_client.take_costs();
        costs
    }

    /// Stores a value under the key that is `offset` larger than key `number`, and yields the costs.
    ///
    /// # Panics
    /// If it fails.
    pub fn put(&self, number: u64, offset: u64) -> Costs {
        self.put_by((&self.tree, &self.client), number, offset)
    }

    fn put_by(&self, (tree, client): (&Sherman, &Client<H::Fabric>), number: u64, offset: u64) -> Costs {
        let key = (2 * number + offset).to_be_bytes();
        self.cost(async { tree.put(client, &key, &[1; 8]).await.expect("a put") })
    }

    /// Fills the leaf of key number `first` until a put splits it; yields the costs of that put. The parent has space
    /// for the new entry.
    fn split_by(&self, who: (&Sherman, &Client<H::Fabric>), first: u64) -> Costs {
        let without = self.put_by(who, first, 1);
        (first + 1..first + 100)
            .map(|number| self.put_by(who, number, 1))
            .find(|costs| costs.writes > without.writes)
            .expect("a leaf has less than 100 entries")
    }

    /// Removes the keys from number `first` on until a leaf is merged. Yields the costs of a removal that reads the
    /// neighbours of its leaf, and of the removal that merges the leaf.
    fn merge(&self, first: u64) -> (Costs, Costs) {
        let remove = |number| self.cost(self.tree.remove(&self.client, &key(number)));
        let without = remove(first);
        let mut more = (first + 1..first + 100).map(remove).filter(|costs| costs.reads > without.reads);
        let neighbours_read = more.next().expect("a leaf becomes half empty");
        let merge = more.find(|costs| costs.writes > without.writes + 2).expect("a leaf is merged");
        (neighbours_read, merge)
    }

    /// Scans 100 entries and yields the costs.
    ///
    /// # Panics
    /// If it fails.
    pub fn scan(&self, tree: &Sherman) -> Costs {
        let from = key(1000);
        let range = Range { from: Some(&from), to: None };
        let mut found = ShermanEntries::new();
        let costs = self.cost(async {
            tree.scan(&self.client, range, Direction::Forward, 100, &mut found).await.expect("a scan");
        });
        assert_eq!(found.len(), 100);
        costs
    }

    fn snapshot(&self, tree: &Sherman) -> Costs {
        let from = key(1000);
        let range = Range { from: Some(&from), to: None };
        let mut found = ShermanEntries::new();
        let scan = tree.scan_snapshot(&self.client, range, Direction::Forward, 100, &mut found);
        let costs = self.cost(async { scan.await.expect("a scan") });
        assert_eq!(found.len(), 100);
        costs
    }

    fn cold(&self) -> Sherman {
        self.world.block_on(Sherman::open(&self.client, "costs", CACHE_BYTES)).expect("the tree is opened")
    }

    /// Makes two clients of one compute node change one entry at the same time, until one hands its lock over; yields
    /// the costs of the client that received it.
    ///
    /// # Panics
    /// If a put fails.
    pub fn handed_over(&self) -> Option<Costs> {
        for _ in 0..200 {
            let tree = &self.tree;
            // Client 1 belongs to another compute node, and does nothing.
            let costs = round_robin(&self.world, 3, async |number, client| {
                if number != 1 {
                    tree.put(&client, &key(500), &[1; 8]).await.expect("a put");
                }
                client.take_costs()
            });
            if let Some(costs) = costs.into_iter().find(|costs| costs.handed_over > 0) {
                return Some(costs);
            }
        }
        None
    }
}

/// Adds the rows of one variant.
///
/// # Panics
/// If an operation fails.
pub fn rows<H: Harness>(table: &mut CostTable, name: &str, bench: &CostFixture<H>) {
    let mut row = |operation: &str, case: &str, costs: Costs| table.row(name, operation, case, costs);
    let (tree, client) = (&bench.tree, &bench.client);
    let (there, absent) = (key(777), 1555u64.to_be_bytes());
    row("get", "key present", bench.cost(tree.get(client, &there)));
    row("get", "key absent", bench.cost(tree.get(client, &absent)));
    let cold = bench.cold();
    row("get", "nothing cached, 3 levels", bench.cost(cold.get(client, &there)));
    row("put", "update", bench.put(777, 0));
    if let Some(costs) = bench.handed_over() {
        row("put", "update, lock handed over", costs);
    }
    row("put", "new key, space in the leaf", bench.put(3000, 1));
    row("put", "split, sibling on the same memory node", bench.split_by((tree, client), 6000));
    let other = (&bench.other_tree, &bench.other_client);
    row("put", "split, sibling on another memory node", bench.split_by(other, 9000));
    row("insert", "key present", bench.cost(tree.insert(client, &there, &[2; 8])));
    row("update", "key absent", bench.cost(tree.update(client, &absent, &[2; 8])));
    row("remove", "key present", bench.cost(tree.remove(client, &key(12_000))));
    row("remove", "key absent", bench.cost(tree.remove(client, &absent)));
    let mut store = |_: Option<&[u8]>| Decision::Store(vec![3; 8]);
    row("modify", "key present", bench.cost(tree.modify(client, &there, &mut store)));
    row("modify", "key kept", bench.cost(tree.modify(client, &there, &mut |_| Decision::Keep)));
    row("remove_if", "key present", bench.cost(tree.remove_if(client, &key(12_500), &mut |_| true)));
    let (neighbours_read, merge) = bench.merge(15_000);
    row("remove", "leaf half empty: its neighbours are read", neighbours_read);
    row("remove", "leaf merged with a neighbour", merge);
    row("scan", "100 entries", bench.scan(tree));
    row("scan_snapshot", "100 entries", bench.snapshot(tree));
    row("scan", "100 entries, nothing cached", bench.scan(&bench.cold()));
}

/// The variant in the rows of [`checksums`].
pub const CHECKSUMS: &str = "sherman, checksums";

/// The configuration of Sherman for a fabric on which versions cannot detect torn copies.
pub fn checksums() -> ShermanConfig {
    let sizes = Sizes { key_bytes: 8, value_bytes: 8, node_bytes: 1024 };
    ShermanConfig { sizes, consistency: Some(Consistency::Checksum), ..ShermanConfig::default() }
}

/// The variant in the rows of [`byte_versions`].
pub const BYTE_VERSIONS: &str = "sherman, byte versions";

/// The configuration of Sherman for a fabric whose NICs copy.
pub fn byte_versions() -> ShermanConfig {
    ShermanConfig { consistency: Some(Consistency::ByteVersions), ..checksums() }
}

/// Creates the cost table of Sherman, without rows.
pub fn empty() -> CostTable {
    CostTable::new(
        "Costs",
        "Keys and values\n\
         have 8 bytes, nodes 1 KiB. Caches are warm unless the case says otherwise. The parent of a split leaf has\n\
         space for the new entry",
        "sherman/costs.rs",
    )
}
