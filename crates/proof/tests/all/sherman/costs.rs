//! Golden costs: round trips, verbs and bytes of every operation of every variant, as `docs/costs.md` has them.
//!
//! The table is measured on the loopback fabric, where nothing depends on time; costs are counted above the fabric
//! and are the same on every one. A change of cost is a diff:
//! `FARWOOD_BLESS=1 cargo test -p farwood-proof --test all sherman::costs` writes the table.

use farwood_fabric::Costs;
use farwood_index::Decision;
use farwood_index::lock::LockWidth;
use farwood_index::sherman::layout::{Sizes, Values};
use farwood_index::sherman::{ShermanConfig, ShermanVariant};
use farwood_proof::golden::CostTable;
use farwood_proof::sherman_costs::{
    BYTE_VERSIONS, CHECKSUMS, CostFixture, byte_versions, checksums, empty, key, rows,
};
use farwood_testkit::loopback::{EVERYTHING, Loopback, Settings};

/// Adds the rows of overflow values of 1,000 bytes and of 3 MiB.
fn rows_far(table: &mut CostTable, name: &str, config: ShermanConfig) {
    let bench = CostFixture::new(config);
    let mut row = |operation: &str, case: &str, costs: Costs| table.row(name, operation, case, costs);
    let (tree, client) = (&bench.tree, &bench.client);
    let put = |number: u64, bytes: usize| {
        bench.cost(async { tree.put(client, &key(number), &vec![1; bytes]).await.expect("a put") })
    };
    let get = |number: u64| bench.cost(async { tree.get(client, &key(number)).await.expect("a get") });
    // The first value of each size allocates its memory.
    for bytes in [1_000, 3 << 20] {
        for number in 0..4 {
            put(number, bytes);
            put(number + 4, bytes);
            put(number, 8);
        }
    }
    row("put", "8 bytes replace 8 bytes", put(777, 8));
    row("put", "1,000 bytes replace 8 bytes", put(777, 1_000));
    row("get", "1,000 bytes", get(777));
    row("put", "1,000 bytes replace 1,000 bytes", put(777, 1_000));
    let modify = |new: &[u8]| {
        let mut store = |_: Option<&[u8]>| Decision::Store(new.to_vec());
        bench.cost(async { tree.modify(client, &key(777), &mut store).await.expect("a modification") })
    };
    row("modify", "1,000 bytes replace 1,000 bytes", modify(&[2; 1_000]));
    row("modify", "8 bytes replace 1,000 bytes", modify(&[2; 8]));
    put(777, 1_000);
    row("remove", "1,000 bytes", bench.cost(tree.remove(client, &key(777))));
    row("put", "3 MiB replace 8 bytes", put(778, 3 << 20));
    row("get", "3 MiB", get(778));
    row("put", "8 bytes replace 3 MiB", put(778, 8));
    for number in 1000..1100 {
        put(number, 1_000);
    }
    row("scan", "100 entries of 1,000 bytes", bench.scan(tree));
}

fn table() -> CostTable {
    let mut table = empty();
    let sizes = Sizes { key_bytes: 8, value_bytes: 8, node_bytes: 1024 };
    for (variant, name) in ShermanVariant::ALL {
        let config = ShermanConfig { sizes, options: variant.features(), ..ShermanConfig::default() };
        rows(&mut table, name, &CostFixture::new(config));
    }
    rows(&mut table, CHECKSUMS, &CostFixture::new(checksums()));
    // The clients of a cost table follow each other, so that no READ lasts for the time of 128 writes.
    let promises = farwood_fabric::Capabilities { brief_reads: true, ..EVERYTHING };
    let nic = Loopback::new(Settings { promises, ..Settings::default() });
    rows(&mut table, BYTE_VERSIONS, &CostFixture::on(nic, byte_versions()));
    let mut packed = ShermanConfig { sizes, ..ShermanConfig::default() };
    packed.options.lock.width = LockWidth::Packed;
    rows(&mut table, "sherman, 16-bit locks", &CostFixture::new(packed));
    for variant in [ShermanVariant::Sherman, ShermanVariant::LockRead] {
        let sizes = Sizes { value_bytes: 32, ..sizes };
        let options = variant.features();
        let config = ShermanConfig { sizes, options, values: Values::AnyLength, ..ShermanConfig::default() };
        rows_far(&mut table, &format!("{}, any length", variant.name()), config);
    }
    table
}

#[test]
fn every_operation_has_the_costs_of_the_table() {
    table().agree_with("costs.md");
}

#[test]
fn costs_are_those_of_the_paper() {
    let cost = |variant: ShermanVariant| {
        let bench =
            CostFixture::new(ShermanConfig { options: variant.features(), ..ShermanConfig::default() });
        let get = bench.cost(bench.tree.get(&bench.client, &key(5)));
        (get.round_trips, bench.put(5, 0), bench.handed_over())
    };
    let (get, update, _) = cost(ShermanVariant::FgPlus);
    assert_eq!((get, update.round_trips), (1, 4));
    assert_eq!(update.bytes_written, 1016 + 8, "one node, and the lock in it");
    let (get, update, handed_over) = cost(ShermanVariant::Sherman);
    assert_eq!((get, update.round_trips), (1, 3));
    assert!(update.bytes_written <= 32, "{update:?}");
    assert_eq!(handed_over.map(|costs| costs.round_trips), Some(2));
}

#[test]
fn lock_and_read_in_one_doorbell_save_a_round_trip() {
    let bench = CostFixture::new(ShermanConfig {
        options: ShermanVariant::LockRead.features(),
        ..ShermanConfig::default()
    });
    let update = bench.put(5, 0);
    assert_eq!((update.round_trips, update.reads, update.cas, update.writes), (2, 1, 1, 2));
    let handed_over = bench.handed_over().expect("a lock is handed over");
    assert!(
        handed_over.round_trips <= 1 && handed_over.reads == 0,
        "the lock comes with its leaf: {handed_over:?}"
    );
}
