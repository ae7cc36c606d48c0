//! SMART and a `BTreeMap` run the same programs: from the empty tree and from bulk-loaded ones, in all variants, on the
//! loopback, shared memory and TCP.

use farwood_index::ordered;
use farwood_index::smart::{Config, Options, Rooms, Variant};
use farwood_proof::radix_model;
use farwood_proof::served::Tcp;
use farwood_proof::shm::Shm;
use farwood_testkit::loopback::Loopback;

fn of(options: Options) -> ordered::Config {
    ordered::Config::Smart(Config { options, ..Config::default() })
}

/// All variants, and one that reserves 256 slots.
fn all() -> Vec<ordered::Config> {
    let preallocated = Options { rooms: Rooms::Preallocated, ..Options::default() };
    Variant::ALL.map(|(variant, _)| variant.options()).into_iter().chain([preallocated]).map(of).collect()
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
    radix_model::from_bulk_loaded(of(Options::default()));
}

#[test]
fn keys_of_all_lengths() {
    radix_model::keys_of_all_lengths(|seed| {
        let options = Variant::ALL[seed as usize % Variant::ALL.len()].0.options();
        // In some trees most values lie out of line.
        let inline_bytes = if seed % 4 == 2 { 60 } else { Config::default().inline_bytes };
        ordered::Config::Smart(Config { options, inline_bytes, ..Config::default() })
    });
}

#[test]
fn memory_comes_back() {
    for inline_bytes in [Config::default().inline_bytes, 12] {
        radix_model::memory_comes_back(ordered::Config::Smart(Config { inline_bytes, ..Config::default() }));
    }
}
