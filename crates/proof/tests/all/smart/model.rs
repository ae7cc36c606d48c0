//! SMART and a `BTreeMap` run the same programs: from the empty tree and from bulk-loaded ones, in all variants, on
//! the loopback, shared memory and TCP.

use farwood_fabric::Capabilities;
use farwood_index::ordered::{self, Ordered};
use farwood_index::smart::{Allocation, NodeSizing, Smart, SmartConfig, SmartFeatures, SmartVariant};
use farwood_proof::radix_model;
use farwood_proof::served::Tcp;
use farwood_proof::shm::Shm;
use farwood_testkit::Harness as _;
use farwood_testkit::loopback::{EVERYTHING, Loopback, Settings};

fn of(options: SmartFeatures) -> ordered::OrderedConfig {
    ordered::OrderedConfig::Smart(SmartConfig { options, ..SmartConfig::default() })
}

/// All variants, with nodes that grow in place as well, and two that reserve 256 slots, of which one also rounds
/// allocations up.
fn all() -> Vec<ordered::OrderedConfig> {
    let variants = SmartVariant::ALL.map(|(variant, _)| variant.features());
    let typed = variants.map(|features| SmartFeatures { node_sizing: NodeSizing::Typed, ..features });
    let preallocated = SmartFeatures { node_sizing: NodeSizing::Preallocated, ..SmartFeatures::default() };
    let rounded = SmartFeatures { allocation: Allocation::Steps256, ..preallocated };
    variants.into_iter().chain(typed).chain([preallocated, rounded]).map(of).collect()
}

#[test]
fn from_the_empty_tree_on_the_loopback() {
    radix_model::from_empty(&Loopback::default(), &all(), 300, 12);
}

/// A fabric on which a crash of the writer may tear WRITEs of more than `bytes` bytes.
fn in_packets(bytes: usize) -> Loopback {
    let promises = Capabilities { write_survives_writer_bytes_max: bytes, ..EVERYTHING };
    Loopback::new(Settings { promises, ..Settings::default() })
}

#[test]
fn from_the_empty_tree_in_small_packets() {
    radix_model::from_empty(&in_packets(64), &all(), 300, 3);
}

/// A leaf is changed in place by one WRITE. A longer leaf is written to a new slot and linked by CAS.
#[test]
fn a_long_leaf_is_not_changed_in_place() {
    for (packet, in_place) in [(4096, true), (256, false)] {
        let loopback = in_packets(packet);
        let client = loopback.client();
        let updated = loopback.block_on(async {
            let tree = Ordered::create(&client, "t", of(SmartFeatures::default()), 1 << 20).await.unwrap();
            tree.put(&client, b"key", &[1; 600]).await.unwrap();
            client.take_costs();
            assert!(tree.update(&client, b"key", &[2; 600]).await.unwrap().updated());
            let cas = client.take_costs().cas;
            assert_eq!(*tree.get(&client, b"key").await.unwrap().unwrap(), [2; 600]);
            cas
        });
        // One CAS acquires the leaf's lock; otherwise there are also those of the node's lock and of the slot.
        assert_eq!(updated == 1, in_place, "{updated} CAS with packets of {packet} bytes");
    }
}

#[test]
fn from_the_empty_tree_on_shared_memory() {
    radix_model::from_empty(&Shm::new(), &all(), 300, 6);
}

#[test]
fn from_the_empty_tree_over_tcp() {
    radix_model::from_empty(&Tcp::new(), &all(), 200, 2);
}

#[test]
fn from_bulk_loaded_trees() {
    radix_model::from_bulk_loaded(of(SmartFeatures::default()));
}

#[test]
fn keys_of_all_lengths() {
    radix_model::keys_of_all_lengths(|seed| {
        let options = SmartVariant::ALL[seed as usize % SmartVariant::ALL.len()].0.features();
        // In some trees most values are overflow values.
        let inline_bytes = if seed % 4 == 2 { 60 } else { SmartConfig::default().inline_bytes };
        ordered::OrderedConfig::Smart(SmartConfig { options, inline_bytes, ..SmartConfig::default() })
    });
}

/// Each slot takes a multiple of 256 bytes, and the report counts the same bytes.
#[test]
fn allocations_are_rounded_up() {
    let (world, options) =
        (Loopback::default(), SmartFeatures { allocation: Allocation::Steps256, ..SmartFeatures::default() });
    let client = world.client();
    world.block_on(async {
        let config = SmartConfig { options, ..SmartConfig::default() };
        let tree = Smart::create(&client, "t", config, 1 << 20).await.unwrap();
        for key in 0..300_u64 {
            tree.put(&client, &key.to_be_bytes(), &[1; 8]).await.unwrap();
        }
        let report = tree.walk(&client).await.unwrap();
        let root = 2_304;
        assert_eq!(report.leaf_bytes, 300 * 256);
        assert_eq!(report.node_bytes % 256, 0);
        assert_eq!(tree.bytes_allocated(), (report.leaf_bytes + report.node_bytes - root).cast_signed());
    });
}

/// Clients of the baselines swap leaves without a lock, so the memory of replaced leaves is not reused.
#[test]
fn an_update_without_a_lock_writes_unused_memory() {
    for (variant, chunk_is_enough) in [(SmartVariant::LockFree, false), (SmartVariant::RearLock, true)] {
        let world = Loopback::default();
        let client = world.client();
        world.block_on(async {
            let config = SmartConfig { options: variant.features(), ..SmartConfig::default() };
            let tree = Smart::create(&client, "t", config, 1 << 20).await.unwrap();
            tree.put(&client, b"key", &[0; 4_000]).await.unwrap();
            let allocated = tree.bytes_allocated();
            let mut refused = false;
            for value in 0..40_000_u32 {
                let value = [value as u8; 4_000];
                refused = refused || tree.update(&client, b"key", &value).await.is_err();
            }
            assert_eq!(refused, !chunk_is_enough, "a pool of 128 MiB");
            assert_eq!(tree.bytes_allocated(), allocated);
        });
    }
}

#[test]
fn removed_keys_free_their_memory() {
    for inline_bytes in [SmartConfig::default().inline_bytes, 12] {
        radix_model::removed_keys_free_their_memory(ordered::OrderedConfig::Smart(SmartConfig {
            inline_bytes,
            ..SmartConfig::default()
        }));
    }
}
