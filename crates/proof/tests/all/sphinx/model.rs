//! Executes the same random operations on Sphinx and on a `BTreeMap`, and compares their answers. Trees are empty or
//! bulk-loaded at the beginning, have all variants, and large or small subtables, on the loopback fabric, shared memory
//! and TCP.

use farwood_index::ordered;
use farwood_index::sphinx::{Groups, LeafLocks, NodeReads, SphinxConfig, SphinxFeatures, SphinxVariant};
use farwood_proof::radix_model;
use farwood_proof::served::Tcp;
use farwood_proof::shm::Shm;
use farwood_testkit::loopback::Loopback;

fn of(options: SphinxFeatures) -> ordered::OrderedConfig {
    ordered::OrderedConfig::Sphinx(SphinxConfig { options, ..SphinxConfig::default() })
}

/// The configuration with subtables of 21 entries, so that subtables are split often.
fn small(options: SphinxFeatures) -> ordered::OrderedConfig {
    of(SphinxFeatures { groups: Groups::new(0).expect("0 is a valid number"), ..options })
}

/// All variants with small subtables, and the default variant with subtables of the default size and each other option.
fn all() -> Vec<ordered::OrderedConfig> {
    let variants = SphinxVariant::ALL.map(|(variant, _)| small(variant.features()));
    let plain = SphinxFeatures::default();
    let others = [
        plain,
        SphinxFeatures { node_reads: NodeReads::Whole, leaf_locks: LeafLocks::HandedOver, ..plain },
        SphinxFeatures { leaf_locks: LeafLocks::Contended, ..plain },
    ];
    variants.into_iter().chain(others.map(of)).collect()
}

#[test]
fn from_the_empty_tree_on_the_loopback() {
    radix_model::from_empty(&Loopback::default(), &all(), 300, 12);
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
    radix_model::from_bulk_loaded(small(SphinxFeatures::default()));
}

#[test]
fn keys_of_all_lengths() {
    radix_model::keys_of_all_lengths(|seed| {
        small(SphinxVariant::ALL[seed as usize % SphinxVariant::ALL.len()].0.features())
    });
}

#[test]
fn removed_keys_free_their_memory() {
    radix_model::removed_keys_free_their_memory(of(SphinxFeatures::default()));
}
