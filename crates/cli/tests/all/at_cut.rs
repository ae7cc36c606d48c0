//! `farwood dump --consistent`.

use crate::machine::{Machine, Ran, eventually, lines};
use crate::serve::Served;
use std::io::Read as _;
use std::process::{Child, Stdio};

/// A memory node with an index of more entries than a pipe has space for, and its URL.
fn with_numbers(machine: &Machine, options: &[&str]) -> (Served, String) {
    let node = Served::start_at(machine, "tcp://127.0.0.1:0", options);
    let index = format!("{}/numbers", node.url);
    machine.ok(&["create", &index]);
    // Values that do not compress.
    let value = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (number << 40);
    let numbers = lines((0..60_000).map(|number| format!("{}\t{}", value(number), value(number + 1) >> 1)));
    machine.ok(&["load", &index, &machine.file("numbers.tsv", numbers)]);
    (node, index)
}

/// A dump that has made its snapshot, and waits until somebody reads from the pipe.
fn begun(machine: &Machine, node: &mut Served) -> Child {
    let mut dump = machine.command(&["dump", &node.url, "--consistent"]);
    let dump = dump.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    node.hear("a snapshot of the memory has begun");
    dump
}

#[test]
fn a_killed_dump_at_one_cut_leaves_nothing() {
    let machine = Machine::new();
    let (mut node, index) = with_numbers(&machine, &[]);
    let mut dump = begun(&machine, &mut node);
    machine.refused(9, &["dump", &node.url, "--consistent", "-o", "second"], &["another dump --consistent"]);
    // Clients and dumps of each index go on.
    machine.ok(&["put", &index, "7", "7"]);
    machine.ok(&["dump", &node.url, "-o", "each"]);
    dump.kill().unwrap();
    dump.wait().unwrap();
    node.hear("the snapshot of the memory has ended");
    machine.ok(&["dump", &node.url, "--consistent", "-o", "second"]);
    let header = &machine.json(&["restore", "second", "--list"])[0]["header"];
    assert_eq!(header["consistency"], "one-cut");
    machine.ok(&["restore", "second", "shm://copy", "--memory", "64MiB"]);
    assert_eq!(machine.ok(&["scan", "shm://copy/numbers"]), machine.ok(&["scan", &index]));
    machine.ok(&["check", "shm://copy/numbers"]);
}

#[test]
fn a_dump_at_one_cut_does_not_have_later_changes() {
    let machine = Machine::new();
    let (mut node, index) = with_numbers(&machine, &[]);
    let before = machine.ok(&["scan", &index]);
    let mut dump = begun(&machine, &mut node);
    let first = before.lines().next().unwrap().split('\t').next().unwrap();
    machine.ok(&["del", &index, first]);
    machine.ok(&["put", &index, "7", "7"]);
    let mut bytes = Vec::new();
    dump.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    assert!(dump.wait().unwrap().success());
    assert_ne!(machine.ok(&["scan", &index]), before);
    machine.ok(&["restore", &machine.file("backup", bytes), "shm://copy", "--memory", "64MiB"]);
    assert_eq!(machine.ok(&["scan", "shm://copy/numbers"]), before);
}

#[test]
fn a_dump_at_one_cut_fails_if_too_much_changes() {
    let machine = Machine::new();
    let (mut node, index) = with_numbers(&machine, &["--snapshot-memory", "256KiB"]);
    let mut dump = begun(&machine, &mut node);
    let more = lines((0..20_000_u64).map(|number| format!("{}\t1", number << 44 | number)));
    machine.ok(&["load", &index, &machine.file("more.tsv", more)]);
    let mut output = Vec::new();
    dump.stdout.take().unwrap().read_to_end(&mut output).unwrap();
    let ran = Ran::of(dump.wait_with_output().unwrap());
    assert_eq!(ran.code, 5, "{ran:?}");
    ran.says(&["dump", "more than 256 KiB of memory changed during the dump", "--snapshot-memory"]);
    // The dump of each index by itself needs no such memory.
    machine.ok(&["dump", &node.url, "-o", "each"]);
}

#[test]
fn other_pools_have_no_dump_at_one_cut() {
    let machine = Machine::with_index();
    let words = ["only a pool over TCP can be dumped at one cut", "omit --consistent", "farwood save"];
    machine.refused(2, &["dump", "shm://p", "--consistent", "-o", "backup"], &words);
    let all = machine.file("all.token", "a-token-for-everything\n");
    let reading = machine.file("read.token", "a-token-for-reading-only\n");
    let tokens = ["--token-file", &*all, "--read-token-file", &*reading];
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &tokens);
    let with = |token: &str| format!("{}?token-file={token}", node.url);
    machine.ok(&["create", &format!("{}/i?token-file={all}", node.url)]);
    let read_only = ["dump", &with(&reading), "--read-only", "--consistent", "-o", "backup"];
    machine.refused(6, &read_only, &["makes no snapshot for a client that may only read", "token"]);
    machine.ok(&["dump", &with(&all), "--read-only", "--consistent", "-o", "backup"]);
}

/// The server of a spatial index knows the live memory only; the dump reads the tree of the snapshot.
#[test]
fn a_spatial_index_with_a_server_is_dumped_at_one_cut() {
    let machine = Machine::new();
    let (mut node, _) = with_numbers(&machine, &["--spatial", "places"]);
    let index = format!("{}/places", node.url);
    machine.ok(&["create", &index, "--index", "catfish"]);
    let rows = |from: u32| lines((from..from + 500).map(|id| format!("{id},{id},{id},{id},{id}")));
    machine.ok(&["load", &index, &machine.file("first.csv", rows(0))]);
    eventually("the index is served", || {
        machine.ok(&["stat", &index, "--count"]).contains("served       yes")
    });
    // The dump waits in the index of numbers, which is before this one.
    let mut dump = begun(&machine, &mut node);
    machine.ok(&["load", &index, &machine.file("more.csv", rows(500))]);
    let mut bytes = Vec::new();
    dump.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    assert!(dump.wait().unwrap().success());
    machine.ok(&["restore", &machine.file("backup", bytes), "shm://copy", "--memory", "64MiB"]);
    machine.ok(&["check", "shm://copy/places"]);
    let found = |index: &str| machine.ok(&["search", index, "--bbox=-1,-1,9999,9999"]).lines().count();
    assert_eq!((found("shm://copy/places"), found(&index)), (500, 1000));
}
