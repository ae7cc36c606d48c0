//! Tests of the checks of the demo: every kind of wrong answer is found.

use std::path::Path;

use super::model::{AllModels, ClientModel};
use super::*;
use farwood_bench::workload::keys::FileKeys;
use farwood_bench::workload::values::fill_value;

const RANKS: u64 = 400;
const LOADED: u64 = 300;

fn keys() -> FileKeys {
    let text = (0..RANKS).map(|word| format!("word{word:04}")).collect::<Vec<_>>().join("\n");
    FileKeys::parse(Path::new("words.txt"), text.as_bytes(), KeyLength::Padded(8)).unwrap()
}

fn model(client: u64) -> ClientModel {
    ClientModel::new(client, 4, RANKS, LOADED)
}

fn value(rank: u64, version: u64) -> [u8; 8] {
    let mut value = [0; 8];
    fill_value(&mut value, rank, version);
    value
}

#[test]
fn owners_know_their_keys_exactly() {
    let mut model = model(1);
    assert_eq!(model.check(5, b"k", Some(&value(5, 0))), Ok(()), "it was loaded");
    assert!(model.check(5, b"k", None).unwrap_err().contains("version 0"));
    let version = model.next_version();
    model.wrote(5, Some(version));
    assert!(model.check(5, b"k", Some(&value(5, 0))).is_err(), "a lost update");
    assert_eq!(model.check(5, b"k", Some(&value(5, version))), Ok(()));
    model.wrote(5, None);
    assert_eq!(model.check(5, b"k", None), Ok(()));
    assert!(model.check(5, b"k", Some(&value(5, version))).is_err(), "a removed key that is back");
    assert!(!model.has(301) && model.has(1));
}

#[test]
fn values_of_other_clients_are_complete_and_never_become_older() {
    let mut model = model(1);
    assert_eq!(model.check(6, b"k", Some(&value(6, 9))), Ok(()));
    assert!(model.check(6, b"k", Some(&value(6, 8))).unwrap_err().contains("went back"));
    assert!(model.check(6, b"k", Some(&value(7, 9))).unwrap_err().contains("rank 7"));
    assert!(model.is_permanent(6) && !model.is_permanent(10) && !model.is_permanent(302));
    assert!(model.check(6, b"k", None).unwrap_err().contains("missing"));
    assert_eq!(model.check(10, b"k", None), Ok(()), "its owner may have removed it");
}

/// The entries of a scan of the loaded index, in the order of `positions`.
fn entries(keys: &FileKeys, positions: impl Iterator<Item = usize>) -> Vec<(Vec<u8>, [u8; 8])> {
    let there = positions.map(|position| (position, keys.rank_at(position)));
    there
        .filter(|(_, rank)| *rank < LOADED)
        .map(|(position, rank)| (keys.key_at(position).to_vec(), value(rank, 0)))
        .collect()
}

fn wrong_entries(
    keys: &FileKeys,
    positions: impl Iterator<Item = usize>,
    limit: usize,
    entries: &[(Vec<u8>, [u8; 8])],
) -> u64 {
    let mut checked = CheckedAnswers::default();
    let entries = entries.iter().map(|(key, value)| (&key[..], &value[..]));
    model(1).check_scan(keys, positions, limit, entries, &mut checked);
    checked.wrong
}

#[test]
fn scans_are_complete_in_order_and_within_bounds() {
    let keys = keys();
    let right = entries(&keys, 100..200);
    assert_eq!(wrong_entries(&keys, 100..200, 1000, &right), 0);
    assert_eq!(wrong_entries(&keys, (100..200).rev(), 1000, &entries(&keys, (100..200).rev())), 0);
    assert_eq!(wrong_entries(&keys, 100..200, 10, &right[..10]), 0, "the limit ends it");
    assert!(wrong_entries(&keys, 100..200, 1000, &right[..10]) > 0, "it ends too early");
    assert!(wrong_entries(&keys, 100..200, 9, &right[..10]) > 0, "more than the limit");
    let mut turned = right.clone();
    turned.swap(4, 5);
    assert!(wrong_entries(&keys, 100..200, 1000, &turned) > 0, "two entries are exchanged");
    let missed = |entry: &(Vec<u8>, [u8; 8])| {
        let (rank, _) = verify(&entry.1).unwrap();
        rank % 4 == 1 || rank / 4 % 4 < 2
    };
    let at = right.iter().position(missed).unwrap();
    let mut short = right.clone();
    short.remove(at);
    assert_eq!(wrong_entries(&keys, 100..200, 1000, &short), 1, "a key that must be there is missing");
    let beyond = entries(&keys, 100..230);
    assert_eq!(wrong_entries(&keys, 100..200, 1000, &beyond), 1, "entries beyond the bound");
}

#[test]
fn the_models_of_all_clients_have_every_key() {
    let mut all = AllModels::new(4);
    all.add((0..4).map(|client| model(client).into_own()).collect());
    for rank in 0..RANKS {
        assert_eq!(all.version(rank), (rank < LOADED).then_some(0));
    }
}

#[test]
fn the_words_that_ship_are_keys() {
    let words = words_for(System::Sherman);
    assert_eq!((words.ranks(), words.key_bytes()), (274_937, WORD_BYTES));
}
