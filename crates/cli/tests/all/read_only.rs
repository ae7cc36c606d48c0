//! Commands with `--read-only`: users who may only read the files of a pool, and tokens for reading.

use crate::machine::{Machine, Ran};
use crate::serve::Served;
use farwood_testkit::need;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;

/// The owner of the pools, and another user, with their groups.
const OWNER: (u32, u32) = (4244, 4343);
const STRANGER: (u32, u32) = (4246, 4344);

/// Runs a command as a user of a group, with a variable. `None`: this machine does not permit it.
#[track_caller]
fn run_as(
    machine: &Machine,
    (user, group): (u32, u32),
    variable: (&str, u32),
    arguments: &[&str],
) -> Option<Ran> {
    let mut command = machine.command(arguments);
    command.env(variable.0, variable.1.to_string());
    need::met(need::ROOT, command.uid(user).gid(group).output()).map(Ran::of)
}

const TRUSTS_OWNER: (&str, u32) = ("FARWOOD_SHM_OWNER", OWNER.0);

/// A machine with the index `shm://p/i` of [`OWNER`], whose files have this mode.
fn machine_with(mode: &str) -> Option<Machine> {
    let machine = Machine::new();
    std::fs::set_permissions(machine.path(), Permissions::from_mode(0o1777)).unwrap();
    let create = ["create", "shm://p/i", "--memory", "64MiB", "--mode", mode];
    let created = run_as(&machine, OWNER, TRUSTS_OWNER, &create)?;
    assert_eq!(created.code, 0, "{created:?}");
    let put = run_as(&machine, OWNER, TRUSTS_OWNER, &["put", "shm://p/i", "1", "5"]).unwrap();
    assert_eq!(put.code, 0, "{put:?}");
    for entry in std::fs::read_dir(machine.path()).unwrap() {
        let data = entry.unwrap().metadata().unwrap();
        assert_eq!(data.mode() & 0o777, u32::from_str_radix(mode, 8).unwrap());
    }
    Some(machine)
}

#[test]
fn another_user_reads_a_pool_of_mode_0644() {
    let Some(machine) = machine_with("0644") else { return };
    let run = |arguments: &[&str]| run_as(&machine, STRANGER, TRUSTS_OWNER, arguments).unwrap();
    let before = std::fs::read(machine.segment()).unwrap();
    let backup = format!("{}/of-stranger.farwood", machine.path().display());
    for (arguments, out) in [
        (&["get", "shm://p/i", "1", "--read-only"][..], "5\n"),
        (&["scan", "shm://p/i", "--read-only"], "1\t5\n"),
        (&["dump", "shm://p", "-o", &backup, "--read-only"], ""),
    ] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (0, out), "{arguments:?}: {ran:?}");
    }
    for arguments in [
        &["stat", "shm://p", "--read-only"][..],
        &["stat", "shm://p/i", "--count", "--read-only"],
        &["check", "shm://p/i", "--read-only"],
        &["check", "shm://p/i", "--scrub", "--read-only"],
        &["top", "shm://p", "--count", "1", "--interval", "0.01", "--read-only"],
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
    }
    assert_eq!(run(&["get", "shm://p/i", "2", "--read-only"]).code, 1, "an absent key");
    assert!(std::fs::read(machine.segment()).unwrap() == before, "the reader has changed nothing");
    for arguments in [&["get", "shm://p/i", "1"][..], &["put", "shm://p/i", "1", "6"], &["drop", "shm://p/i"]]
    {
        let ran = run(arguments);
        assert_eq!(ran.code, 6, "{arguments:?}: {ran:?}");
        ran.says(&["not permitted", "opened with --read-only"]);
    }
    let trusts_none = ("FARWOOD_SHM_GROUP", STRANGER.1);
    let ran = run_as(&machine, STRANGER, trusts_none, &["get", "shm://p/i", "1", "--read-only"]).unwrap();
    assert_eq!(ran.code, 6, "{ran:?}");
    ran.says(&["belongs to user 4244", "FARWOOD_SHM_OWNER=USER"]);
}

#[test]
fn a_group_reads_a_pool_of_mode_0640() {
    let Some(machine) = machine_with("0640") else { return };
    let get = ["get", "shm://p/i", "1", "--read-only"];
    let member = (STRANGER.0, OWNER.1);
    for trusts in [("FARWOOD_SHM_GROUP", OWNER.1), TRUSTS_OWNER] {
        let ran = run_as(&machine, member, trusts, &get).unwrap();
        assert_eq!((ran.code, ran.out.as_str()), (0, "5\n"), "{ran:?}");
    }
    let ran = run_as(&machine, STRANGER, TRUSTS_OWNER, &get).unwrap();
    assert_eq!(ran.code, 6, "no member of the group: {ran:?}");
    ran.says(&["not permitted"]);
}

#[test]
fn the_mode_of_a_pool_is_checked() {
    let machine = Machine::new();
    for (mode, words) in [
        ("0400", "the owner must be able to read and write them"),
        ("0700", "nobody executes them"),
        ("0666", "not everybody may write them"),
        ("0660", "give --group as well"),
        ("rw-r--r--", "give octal digits"),
        ("0844", "give octal digits"),
    ] {
        machine.refused(2, &["create", "shm://p", "--memory", "16MiB", "--mode", mode], &[words]);
    }
    machine.refused(2, &["create", "tcp://127.0.0.1:1/i", "--mode", "0644"], &["--mode", "shared memory"]);
    machine.ok(&["create", "shm://p", "--memory", "16MiB"]);
    machine.refused(
        2,
        &["create", "shm://p/i", "--mode", "0644"],
        &["--mode cannot change the existing pool"],
    );
}

#[test]
fn the_token_for_reading_reads() {
    let machine = Machine::new();
    let all = machine.file("all", "a-token-for-everything\n");
    let read = machine.file("read", "a-token-for-reading-only\n");
    let options = ["--token-file", &all, "--read-token-file", &read];
    let mut node = Served::start_at(&machine, "tcp://127.0.0.1:0", &options);
    let [writer, reader] = [&all, &read].map(|token| format!("{}/i?token-file={token}", node.url));
    let pool = format!("{}?token-file={read}", node.url);
    machine.refused(3, &["stat", &pool, "--read-only"], &["there is no pool yet"]);
    machine.ok(&["create", &writer]);
    machine.ok(&["put", &writer, "1", "5"]);
    assert_eq!(machine.ok(&["get", &reader, "1", "--read-only"]), "5\n");
    assert_eq!(machine.ok(&["scan", &writer, "--read-only"]), "1\t5\n", "a command restricts itself");
    assert!(machine.ok(&["stat", &pool, "--read-only"]).contains('i'));
    for arguments in
        [&["get", &reader, "1"][..], &["put", &reader, "1", "6"], &["stat", &pool], &["del", &reader, "1"]]
    {
        machine.refused(6, arguments, &["permits only reads with this client's token", "--read-only"]);
    }
    machine.file("other", "a-token-of-someone-else\n");
    let other = format!("{}/i?token-file={}/other", node.url, machine.path().display());
    machine.refused(6, &["get", &other, "1", "--read-only"], &["requires another token"]);
    assert_eq!(machine.ok(&["get", &reader, "1", "--read-only"]), "5\n");
    // The operator replaces the token for reading; that for everything is not accepted as one for reading.
    machine.file("read", "another-token-for-reading\n");
    node.signal("-HUP");
    node.hear("read the files of the tokens and the certificates again");
    assert_eq!(machine.ok(&["get", &reader, "1", "--read-only"]), "5\n");
    machine.file("read", "a-token-for-everything\n");
    node.signal("-HUP");
    node.hear("also in the file of the tokens with other rights");
    machine.ok(&["put", &writer, "1", "7"]);
}

#[test]
fn a_token_for_reading_needs_one_for_writing() {
    let machine = Machine::new();
    let read = machine.file("read", "a-token-for-reading-only\n");
    machine.refused(2, &["serve", "--read-token-file", &read], &["--token-file"]);
    let same = ["serve", "--listen", "tcp://127.0.0.1:0", "--token-file", &read, "--read-token-file", &read];
    machine.refused(2, &same, &["is also the token for reading and writing"]);
    let rdma = ["serve", "--rdma", "auto", "--token-file", &read, "--read-token-file", &read];
    machine.refused(2, &rdma, &["--rdma", "--read-token-file"]);
    machine.refused(
        2,
        &["get", "rdma://127.0.0.1:1/i", "1", "--read-only"],
        &["RDMA", "without --read-only"],
    );
}

#[test]
fn a_spatial_index_is_searched_read_only() {
    let machine = Machine::with_pool();
    for (index, ids) in [("places", "repeated"), ("parks", "number")] {
        let index = format!("shm://p/{index}");
        machine.ok(&["create", &index, "--index", "catfish", "--ids", ids]);
        machine.ok(&["put", &index, "7", "1,1,2,2"]);
        let search = ["search", &index, "--bbox", "0,0,3,3"];
        let found = machine.ok(&search);
        assert_eq!(machine.ok(&[&search[..], &["--read-only"]].concat()), found);
    }
    assert!(machine.ok(&["get", "shm://p/parks", "7", "--read-only"]).starts_with("1,1,2,2"));
    let stat = &machine.json(&["stat", "shm://p", "--read-only"])[0];
    assert_eq!(stat["clients"].as_array().unwrap().len(), 0, "the reader is not in the client table");
}
