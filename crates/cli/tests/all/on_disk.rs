//! Pools in shared memory whose files are on a disk.

use crate::machine::Machine;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;

/// The offset of the record in the journal.
const RECORD: u64 = 4096 * 16 * 266_240;
const IN_USE: u8 = 1;
const SAVED: u8 = 2;

/// A machine with the index `shm://p/i` on a disk; `None`: the file system of the build is in memory.
fn machine() -> Option<Machine> {
    let machine = Machine::on_disk();
    machine.ok(&["create", "shm://p", "--memory", "64MiB"]);
    machine.ok(&["create", "shm://p/i"]);
    (state(&machine) != 0).then_some(machine)
}

fn journal(machine: &Machine) -> File {
    let files = machine.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut journals = files.filter(|path| path.extension().is_some_and(|extension| extension == "journal"));
    File::options().read(true).write(true).open(journals.next().unwrap()).unwrap()
}

/// The state in the record.
fn state(machine: &Machine) -> u8 {
    let mut state = [0];
    // A journal without a record may end before it.
    let _ = journal(machine).read_at(&mut state, RECORD + 8).unwrap();
    state[0]
}

#[test]
fn a_pool_on_a_disk_is_complete_there_when_no_process_uses_it() {
    let Some(machine) = machine() else { return };
    machine.ok(&["put", "shm://p/i", "1", "10"]);
    assert_eq!(state(&machine), SAVED);
    // A killed process leaves the pool in use, and the next one saves it.
    let mut load = machine.command(&["load", "shm://p/i", "-", "--format", "tsv"]);
    let mut load = load.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    load.stdin.as_mut().unwrap().write_all(b"2\t20\n").unwrap();
    let clients = || machine.json(&["stat", "shm://p"])[0]["clients"].as_array().unwrap().len();
    crate::machine::eventually("the process attaches", || clients() == 2);
    machine.refused(9, &["save", "shm://p"], &["processes use the pool 'p'"]);
    load.kill().unwrap();
    load.wait().unwrap();
    assert_eq!(state(&machine), IN_USE);
    machine.ok(&["save", "shm://p"]);
    assert_eq!(state(&machine), SAVED);
    assert_eq!(machine.json(&["save", "shm://p"])[0]["saved"], "shm://p");
    assert_eq!(machine.ok(&["get", "shm://p/i", "1"]).trim(), "10");
}

#[test]
fn a_pool_that_was_in_use_when_the_machine_stopped_needs_a_decision() {
    let Some(machine) = machine() else { return };
    machine.ok(&["put", "shm://p/i", "1", "10"]);
    journal(&machine).write_all_at(&[IN_USE], RECORD + 8).unwrap();
    let why = &["pool 'p' was in use when the machine stopped", "restore a backup", "--accept-unclean"];
    for command in [
        &["get", "shm://p/i", "1"][..],
        &["get", "shm://p/i", "1", "--read-only"],
        &["stat", "shm://p"],
        &["save", "shm://p"],
        &["save", "shm://p", "image"],
        &["drop", "shm://p"],
    ] {
        machine.refused(8, command, why);
    }
    machine.refused(2, &["save", "shm://p", "image", "--accept-unclean"], &["cannot be used with"]);
    machine.ok(&["save", "shm://p", "--accept-unclean"]);
    assert_eq!(machine.ok(&["get", "shm://p/i", "1"]).trim(), "10");
    machine.ok(&["check", "shm://p/i"]);
}

#[test]
fn a_pool_in_memory_is_saved_in_a_file_only() {
    let machine = Machine::with_pool();
    if state(&machine) != 0 {
        // This machine has no file system in memory.
        return;
    }
    for options in [&["save", "shm://p"][..], &["save", "shm://p", "--accept-unclean"]] {
        machine.refused(2, options, &["the files of the pool 'p' are in memory", "name a file"]);
    }
}
