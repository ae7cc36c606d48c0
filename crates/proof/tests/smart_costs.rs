//! Golden costs of SMART: round trips, verbs and bytes of every operation of every variant, as `docs/costs-smart.md`
//! has them. `FARWOOD_BLESS=1 cargo test -p farwood-proof --test smart_costs` writes the table anew.

use farwood_fabric::{Client, Costs};
use farwood_index::smart::{Config, Direction, Entries, Range, Smart, Variant};
use farwood_testkit::Harness;
use farwood_testkit::harness::Chance;
use farwood_testkit::loopback::Loopback;
use std::fmt::Write as _;

type F = <Loopback as Harness>::Fabric;

/// Bytes of the node cache: all inner nodes.
const CACHE_BYTES: usize = 64 << 20;

/// Key `leaf` of group `group`; the groups' nodes have 16 slots, of which ten are taken.
fn key(group: u8, leaf: u8) -> [u8; 8] {
    [group, leaf, 9, 9, 9, 9, 9, 9]
}

/// A tree of one variant with a warm cache.
struct Bench {
    world: Loopback,
    tree: Smart,
    client: Client<F>,
}

impl Bench {
    fn new(config: Config) -> Self {
        let world = Loopback::default();
        let client = world.client();
        let tree = world.block_on(Smart::create(&client, "costs", config, CACHE_BYTES)).expect("a tree");
        let bench = Self { world, tree, client };
        for group in 0..100 {
            for leaf in 0..10 {
                bench.put(&key(group, leaf), 8);
            }
        }
        // Keys with much in common, so that there is a prefix to be split.
        bench.put(&[200, 1, 1, 1, 1, 1, 1, 1], 8);
        bench.put(&[200, 1, 1, 1, 1, 1, 1, 2], 8);
        for group in 0..100 {
            bench.cost(bench.tree.get(&bench.client, &key(group, 0)));
        }
        bench
    }

    /// The costs of one operation.
    fn cost<T>(&self, operation: impl Future<Output = T>) -> Costs {
        self.client.take_costs();
        self.world.block_on(operation);
        self.client.take_costs()
    }

    fn put(&self, key: &[u8], value_bytes: usize) -> Costs {
        let value = vec![1; value_bytes];
        self.cost(async { self.tree.put(&self.client, key, &value).await.expect("a put") })
    }

    fn scan(&self, tree: &Smart) -> Costs {
        let from = key(50, 0);
        let range = Range { from: Some(&from), to: None };
        let mut found = Entries::new();
        let costs = self.cost(async {
            tree.scan(&self.client, range, Direction::Forward, 100, &mut found).await.expect("a scan");
        });
        assert_eq!(found.len(), 100);
        costs
    }

    fn cold(&self) -> Smart {
        self.world.block_on(Smart::open(&self.client, "costs", CACHE_BYTES)).expect("the tree is opened")
    }
}

fn row(table: &mut String, variant: &str, operation: &str, case: &str, costs: Costs) {
    let atomics = costs.cas + costs.masked_cas + costs.faa;
    writeln!(
        table,
        "| `{variant}` | {operation} | {case} | {} | {} | {} | {atomics} | {} | {} |",
        costs.round_trips, costs.reads, costs.writes, costs.bytes_read, costs.bytes_written
    )
    .expect("a string takes what it is given");
}

fn rows(table: &mut String, name: &str, config: Config) {
    let bench = Bench::new(config);
    let mut row = |operation: &str, case: &str, costs: Costs| row(table, name, operation, case, costs);
    let (tree, client) = (&bench.tree, &bench.client);
    let there = key(7, 7);
    let other = [7, 7, 1, 1, 1, 1, 1, 1];
    row("get", "key there", bench.cost(tree.get(client, &there)));
    row("get", "key absent, another in its slot", bench.cost(tree.get(client, &other)));
    row("get", "key absent, its slot empty", bench.cost(tree.get(client, &key(7, 77))));
    row("get", "key absent, a node of another prefix", bench.cost(tree.get(client, &[200, 1, 1, 9, 9])));
    let cold = bench.cold();
    row("get", "nothing cached, 2 nodes", bench.cost(cold.get(client, &there)));
    row("put", "update", bench.put(&there, 8));
    row("put", "new key, a slot of its own", bench.put(&key(8, 100), 8));
    row("put", "leaf split", bench.put(&[9, 7, 1, 1, 1, 1, 1, 1], 8));
    row("put", "prefix split", bench.put(&[200, 1, 1, 9, 9, 9, 9, 9], 8));
    for leaf in 10..16 {
        bench.put(&key(11, leaf), 8);
    }
    row("put", "new key, its node grows from 16 slots to 48", bench.put(&key(11, 16), 8));
    row("put", "value outgrows its leaf", bench.put(&key(12, 1), 100));
    row("insert", "key there", bench.cost(tree.insert(client, &there, &[2; 8])));
    row("insert", "leaf split", bench.cost(tree.insert(client, &[13, 7, 1, 1, 1, 1, 1, 1], &[2; 8])));
    row("update", "key absent, another in its slot", bench.cost(tree.update(client, &other, &[2; 8])));
    row("remove", "key there", bench.cost(tree.remove(client, &key(14, 3))));
    row(
        "remove",
        "key there, its node gives way",
        bench.cost(tree.remove(client, &[9, 7, 1, 1, 1, 1, 1, 1])),
    );
    row("scan", "100 entries", bench.scan(tree));
    row("scan", "100 entries, nothing cached", bench.scan(&bench.cold()));
}

fn table() -> String {
    let mut table = String::from(
        "# Costs of SMART\n\n\
         Round trips, verbs and payload bytes of one operation: keys and values of 8 bytes, two memory nodes,\n\
         the cache warm unless said otherwise. Written by `crates/proof/tests/smart_costs.rs`, which fails\n\
         when an operation costs anything else. Atomics carry 8 bytes each way, which are not counted.\n\n\
         | variant | operation | case | round trips | READ | WRITE | atomics | bytes read | bytes written |\n\
         |---|---|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for (variant, name) in Variant::ALL {
        rows(&mut table, name, Config { options: variant.options(), ..Config::default() });
    }
    table
}

#[test]
fn every_operation_costs_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/costs-smart.md");
    let measured = table();
    if std::env::var_os("FARWOOD_BLESS").is_some() {
        std::fs::write(path, &measured).expect("the table can be written");
    }
    let golden = std::fs::read_to_string(path).expect("the table is there; FARWOOD_BLESS=1 writes it");
    for (golden, measured) in golden.lines().zip(measured.lines()) {
        assert_eq!(measured, golden, "a cost has changed; FARWOOD_BLESS=1 writes the table anew");
    }
    assert_eq!(golden.lines().count(), measured.lines().count());
}

#[test]
fn the_costs_that_are_asked_for() {
    let bench = Bench::new(Config::default());
    let get = bench.cost(bench.tree.get(&bench.client, &key(5, 5)));
    assert!(get.round_trips == 1 && get.bytes_read <= 64, "{get:?}");
    let update = bench.put(&key(5, 5), 8);
    assert!(update.round_trips <= 3 && update.bytes_read <= 64 && update.bytes_written <= 64, "{update:?}");
}

/// Random keys into a tree of random keys that was just loaded: splits and growth are in the average.
#[test]
fn a_new_key_takes_few_round_trips_on_average() {
    const KEYS: u64 = 100_000;
    let world = Loopback::default();
    let client = world.client();
    let tree =
        world.block_on(Smart::create(&client, "costs", Config::default(), CACHE_BYTES)).expect("a tree");
    let mut chance = Chance::new(1);
    let mut put = |count: u64| {
        for _ in 0..count {
            let key = chance.next_u64().to_be_bytes();
            world.block_on(tree.put(&client, &key, &[1; 8])).expect("a put");
        }
    };
    put(KEYS);
    let bytes = tree.bytes_allocated() as f64 / KEYS as f64;
    assert!(bytes <= 110.0, "{bytes} bytes a key");
    client.take_costs();
    put(KEYS / 10);
    let average = client.take_costs().round_trips as f64 / (KEYS / 10) as f64;
    assert!(average <= 3.3, "{average}");
}
