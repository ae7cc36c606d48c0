//! Pools and indexes: create, drop, stat, doctor.

use crate::machine::{Machine, lines};
use farwood_testkit::need;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

#[test]
fn help_has_examples_and_exit_codes() {
    let machine = Machine::new();
    let help = machine.ok(&["--help"]);
    for part in ["create", "doctor", "Exit codes", "shm://NAME"] {
        assert!(help.contains(part), "{part}");
    }
    assert!(!help.contains("worker"), "a hidden command is shown");
    assert_eq!(machine.ok(&["help"]), help);
    assert!(machine.ok(&["help", "scan"]).contains("an object {\"key\", \"value\"}"));
    for command in
        ["create", "drop", "put", "get", "del", "scan", "load", "check", "stat", "doctor", "bench", "demo"]
    {
        let help = machine.ok(&[command, "--help"]);
        assert!(help.contains("Examples:"), "{command}");
    }
}

#[test]
fn indexes_are_created_by_the_name_of_their_structure() {
    let machine = Machine::with_pool();
    for (structure, system) in
        [("btree", "sherman"), ("radix", "smart"), ("hashed", "sphinx"), ("rtree", "catfish")]
    {
        let url = format!("shm://p/{structure}");
        machine.ok(&["create", &url, "--index", structure]);
        assert_eq!(machine.json(&["stat", &url])[0]["system"], system);
    }
}

#[test]
fn a_pool_is_created_and_dropped() {
    let machine = Machine::new();
    machine.ok(&["create", "shm://p", "--memory", "32MiB", "--nodes", "2", "--device-memory", "64KiB"]);
    let stat = &machine.json(&["stat", "shm://p"])[0];
    assert_eq!(stat["nodes"].as_array().unwrap().len(), 2);
    assert_eq!(stat["nodes"][1]["memory_bytes"], 32 << 20);
    assert_eq!(stat["nodes"][1]["device_bytes"], 64 << 10);
    assert_eq!(stat["clients"][0]["is_own"], true);
    assert_eq!(machine.json(&["doctor"])[0]["pools"][0]["pool"], "shm://p");
    assert!(machine.ok(&["doctor"]).contains("no problems found"));
    machine.ok(&["drop", "shm://p"]);
    machine.refused(3, &["stat", "shm://p"], &["open", "no pool 'p'", "farwood create"]);
}

#[test]
fn an_index_is_created_and_dropped() {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/words", "--keys", "text", "--key-bytes", "20", "--variant", "fg+"]);
    let stat = &machine.json(&["stat", "shm://p/words"])[0];
    assert_eq!((&stat["keys"], &stat["key_bytes"]), (&"text".into(), &20.into()));
    assert_eq!((&stat["options"]["leaves"], &stat["variant"]), (&"sorted".into(), &"fg+".into()));
    assert_eq!((&stat["consistency"], &stat["chunks"]), (&"checksum".into(), &1.into()));
    assert!(stat["entries"].is_null(), "{stat}");
    assert_eq!(machine.json(&["stat", "shm://p/words", "--count"])[0]["entries"], 0);
    let stat = machine.ok(&["stat", "shm://p"]);
    assert!(stat.contains("index words: 8 MiB, text of 20 bytes to u64, sherman (fg+)\n"), "{stat}");
    assert_eq!(machine.json(&["stat", "shm://p"])[0]["indexes"][0]["key_bytes"], 20);
    assert!(machine.ok(&["check", "shm://p/words"]).contains("every invariant holds"));
    machine.ok(&["drop", "shm://p/words"]);
    machine.refused(3, &["stat", "shm://p/words"], &["no index 'words'", "farwood create"]);
}

#[test]
fn locks_of_16_bits_are_optional_and_cause_a_warning() {
    let machine = Machine::with_pool();
    let told = ["16 bits", "only to reproduce the paper"];
    let created = machine.run(&["create", "shm://p/packed", "--lock-width", "16"]);
    assert_eq!(created.code, 0, "{created:?}");
    created.says(&told);
    for command in [
        &["put", "shm://p/packed", "1", "2"][..],
        &["get", "shm://p/packed", "1"],
        &["scan", "shm://p/packed"],
        &["check", "shm://p/packed"],
        &["stat", "shm://p/packed", "--count"],
    ] {
        let ran = machine.run(command);
        assert_eq!(ran.code, 0, "{command:?}: {ran:?}");
        ran.says(&told);
    }
    let stat = &machine.json(&["stat", "shm://p/packed"])[0];
    assert_eq!((&stat["options"]["lock_width"], &stat["variant"]), (&"16 bit".into(), &"+lock-read".into()));
}

#[test]
fn locks_of_two_widths_cannot_share_one_memory() {
    let machine = Machine::with_index();
    let refused =
        ["create shm://p/packed", "index 'i' of this pool has locks of another width", "in another pool"];
    machine.refused(2, &["create", "shm://p/packed", "--lock-width", "16"], &refused);
    machine.refused(3, &["stat", "shm://p/packed"], &["no index 'packed'"]);
    // The locks of fg lie in host memory, those of sherman in device memory.
    machine.ok(&["create", "shm://p/packed", "--lock-width", "16", "--variant", "fg"]);
    assert!(!machine.run(&["get", "shm://p/i", "1"]).err.contains("16 bits"));
}

#[test]
fn the_pool_of_an_index_is_created_if_memory_is_given() {
    let machine = Machine::new();
    machine.refused(3, &["create", "shm://p/i"], &["no pool 'p'"]);
    let created = machine.json(&["create", "shm://p/i", "--memory", "32MiB"]);
    assert_eq!(created[0]["created"], serde_json::json!(["shm://p", "shm://p/i"]));
    machine.ok(&["drop", "shm://p"]);
    // A pool that exists keeps its shape.
    machine.ok(&["create", "shm://p", "--memory", "32MiB"]);
    for option in
        [&["--memory", "99GiB"][..], &["--nodes", "7"], &["--reserve"], &["--device-memory", "1MiB"]]
    {
        machine.refused(
            2,
            &[&["create", "shm://p/i"], option].concat(),
            &["create shm://p/i", "the existing pool", "1 memory node of 32 MiB", option[0]],
        );
    }
    machine.ok(&["create", "shm://p/i", "--memory", "32MiB", "--nodes", "1"]);
    machine.ok(&["drop", "shm://p"]);
    // If the index cannot be created, no pool remains.
    machine.refused(
        2,
        &["create", "shm://p/i", "--memory", "32MiB", "--node-bytes", "100"],
        &["multiple of 64"],
    );
    machine.refused(3, &["drop", "shm://p"], &["no pool"]);
}

#[test]
fn existing_pools_and_indexes_are_not_created_again() {
    let machine = Machine::with_index();
    machine.refused(4, &["create", "shm://p"], &["create", "exists already", "farwood drop shm://p"]);
    machine.refused(
        4,
        &["create", "shm://p/i"],
        &["create shm://p/i", "already", "`farwood drop shm://p/i`"],
    );
}

#[test]
fn missing_pools_and_indexes_are_reported() {
    let machine = Machine::with_pool();
    let file = machine.file("keys.txt", "1\n");
    let mut commands: Vec<Vec<&str>> = Vec::new();
    for url in ["shm://nowhere/i", "shm://p/nothing"] {
        commands.extend([
            vec!["put", url, "1", "2"],
            vec!["get", url, "1"],
            vec!["del", url, "1"],
            vec!["scan", url],
            vec!["load", url, &file],
            vec!["check", url],
            vec!["stat", url],
        ]);
    }
    commands.push(vec!["stat", "shm://nowhere"]);
    for command in commands {
        machine.refused(3, &command, &["farwood create shm://"]);
    }
    // The remedy for a missing pool or index that should be dropped is a command that lists what exists.
    for (command, remedy) in [
        (&["drop", "shm://nowhere"][..], "`farwood doctor`"),
        (&["drop", "shm://nowhere", "--force"], "`farwood doctor`"),
        (&["drop", "shm://nowhere/i"], "`farwood doctor`"),
        (&["drop", "shm://p/nothing"], "`farwood stat shm://p`"),
    ] {
        let ran = machine.run(command);
        assert_eq!(ran.code, 3, "{ran:?}");
        ran.says(&[remedy]);
        assert!(!ran.err.contains("create"), "{ran:?}");
    }
}

#[test]
fn impossible_sizes_are_refused() {
    let machine = Machine::with_pool();
    for (arguments, words) in [
        (&["create", "shm://q", "--memory", "8MiB"][..], "at least 16 MiB"),
        (&["create", "shm://q", "--memory", "17MiB"], "multiple of 8 MiB"),
        (&["create", "shm://q", "--memory", "many"], "256KiB"),
        (&["create", "shm://q", "--nodes", "0"], "1 to 256"),
        (&["create", "shm://q", "--device-memory", "100"], "multiple of 64"),
        (&["create", "shm://p/i", "--key-bytes", "4", "--keys", "hex"], "8 to 1024"),
        (&["create", "shm://p/i", "--key-bytes", "9"], "u64"),
        (&["create", "shm://p/i", "--keys", "text"], "--key-bytes"),
        (&["create", "shm://p/i", "--values", "text"], "--value-bytes"),
        (&["create", "shm://p/i", "--variant", "fg+", "--consistency", "byte-versions"], "choose versions"),
        (&["create", "shm://p/i", "--values", "hex", "--value-bytes", "5000"], "4096"),
        (&["create", "shm://p/i", "--variant", "btree"], "+hierarchical"),
        (&["create", "shm://p/i", "--lock-width", "32"], "possible values: 64, 16"),
        (&["create", "shm://p", "--lock-width", "16"], "--lock-width is an option of an index"),
        (&["create", "shm://p/i", "--keys", "float"], "u64, i64, f64, bool, text or hex"),
        (&["create", "shm://p/no good"], "cannot name an index"),
        (&["create", "shm://p", "--key-bytes", "9"], "--key-bytes is an option of an index"),
        (&["drop", "shm://p/i", "--force"], "--force applies to pools"),
        (&["stat", "shm://p", "--count"], "--count applies to an index"),
        (&["get", "shm://p", "1"], "write shm://p/INDEX"),
        (&["create", "p"], "'p' for '<URL>': this is not a URL"),
        (&["create", "rdma://host:7700"], "farwood serve"),
        (&["create", "shm://p/i", "--frobnicate"], "--frobnicate"),
        (&["frobnicate"], "frobnicate"),
    ] {
        machine.refused(2, arguments, &[words]);
    }
    let promise = ["READs that sample all their bytes within 60 µs", "checksums"];
    machine.refused(7, &["create", "shm://p/i", "--consistency", "byte-versions"], &promise);
}

#[test]
fn a_reserved_pool_that_does_not_fit_is_refused() {
    let machine = Machine::new();
    machine.refused(
        5,
        &["create", "shm://p", "--memory", "256GiB", "--reserve"],
        &["create", "not enough memory", "smaller"],
    );
    assert_eq!(machine.json(&["doctor"])[0]["pools"].as_array().unwrap().len(), 0, "something was left");
}

#[test]
fn a_full_pool_is_reported_and_no_entry_is_lost() {
    let machine = Machine::new();
    machine.ok(&["create", "shm://p/i", "--memory", "16MiB"]);
    let keys = |count: u64| lines((0..count).map(|key| key * 7919));
    machine.ok(&["load", "shm://p/i", &machine.file("few.txt", keys(1000))]);
    let ran = machine.run(&["load", "shm://p/i", &machine.file("many.txt", keys(400_000))]);
    assert_eq!(ran.code, 5, "{ran:?}");
    ran.says(&["load shm://p/i", "full", "`farwood grow`"]);
    assert_eq!(machine.ok(&["get", "shm://p/i", "7919"]), "2\n");
    assert_eq!(machine.run(&["check", "shm://p/i"]).code, 0);
    machine.refused(5, &["create", "shm://p/j"], &["full"]);
    machine.ok(&["drop", "shm://p/i"]);
    machine.ok(&["create", "shm://p/j"]);
    let ran = machine.run(&["load", "shm://p/j", &machine.file("many.txt", keys(400_000))]);
    assert_eq!(ran.code, 5, "{ran:?}");
    ran.says(&["load shm://p/j", "full", "the index is still empty", "farwood drop shm://p/j"]);
}

#[test]
fn a_bulk_load_of_rectangles_into_a_full_pool_states_that_the_index_is_empty() {
    let machine = Machine::new();
    machine.ok(&["create", "shm://p/s", "--memory", "16MiB", "--index", "catfish"]);
    let rows = machine.file("many.csv", lines((0..300_000).map(|row| format!("{row},0,{row},1,{row}"))));
    let ran = machine.run(&["load", "shm://p/s", &rows]);
    assert_eq!(ran.code, 5, "{ran:?}");
    ran.says(&["load shm://p/s", "full", "the index is still empty", "farwood drop shm://p/s"]);
    assert_eq!(machine.run(&["search", "shm://p/s", "--bbox", "0,0,1e9,1", "--count"]).out, "0\n");
}

#[test]
fn files_without_permission_are_refused() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
    use std::os::unix::process::CommandExt as _;
    let machine = Machine::with_index();
    let mut command = machine.command(&["get", "shm://p/i", "1"]);
    if std::fs::metadata(machine.path()).unwrap().uid() == 0 {
        // Root has every permission, so the command runs as another user.
        std::fs::set_permissions(machine.path(), PermissionsExt::from_mode(0o755)).unwrap();
        command.uid(65534).gid(65534);
    } else {
        std::fs::set_permissions(machine.segment(), PermissionsExt::from_mode(0o000)).unwrap();
    }
    let Ok(output) = command.output() else {
        return; // The other user may not execute the binary.
    };
    assert_eq!(output.status.code(), Some(6), "{output:?}");
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("not permitted") && words.contains("ask the owner"), "{words}");
}

#[test]
fn a_missing_directory_is_named() {
    let machine = Machine::new();
    let output = machine.command(&["doctor"]).env("FARWOOD_SHM_DIR", "/nowhere/at/all").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("/nowhere/at/all"));
}

#[test]
fn a_pool_that_others_may_access_is_refused() {
    let machine = Machine::with_index();
    let open_to_all = Permissions::from_mode(0o666);
    std::fs::set_permissions(machine.segment(), open_to_all).unwrap();
    let words = ["farwood.p.0 has mode 0666", "`chmod 600 "];
    machine.refused(6, &["get", "shm://p/i", "1"], &words);
    machine.refused(6, &["put", "shm://p/i", "1", "1"], &words);
    let doctor = machine.ok(&["doctor"]);
    let remedy = format!("chmod 600 {}\n", machine.segment().display());
    assert!(doctor.contains("! other users have access to shm://p") && doctor.contains(&remedy), "{doctor}");
    std::fs::set_permissions(machine.segment(), Permissions::from_mode(0o600)).unwrap();
    machine.ok(&["put", "shm://p/i", "1", "1"]);
}

#[test]
fn a_pool_of_another_user_is_refused() {
    let machine = Machine::with_index();
    let given = std::os::unix::fs::chown(machine.segment(), Some(4242), None);
    let Some(()) = need::met(need::ROOT, given) else { return };
    let words = ["farwood.p.0 belongs to user 4242", "FARWOOD_SHM_DIR"];
    machine.refused(6, &["put", "shm://p/i", "1", "1"], &words);
    machine.refused(6, &["drop", "shm://p"], &words);
    assert!(!machine.ok(&["doctor"]).contains('!'), "it is a problem of the other user");
}

/// A group and two of its users, and a user of another group.
const GROUP: u32 = 4343;
const MEMBERS: [u32; 2] = [4244, 4245];
const STRANGER: (u32, u32) = (4246, 4344);

#[test]
fn a_pool_is_shared_with_a_group() {
    let machine = Machine::new();
    std::fs::set_permissions(machine.path(), Permissions::from_mode(0o1777)).unwrap();
    let group = GROUP.to_string();
    let as_member = |member: usize, arguments: &[&str]| machine.run_as(MEMBERS[member], GROUP, arguments);
    let create = ["create", "shm://p/i", "--memory", "64MiB", "--nodes", "2", "--group", &group];
    let Some(created) = as_member(0, &create) else { return };
    assert_eq!(created.code, 0, "{created:?}");
    assert_eq!(std::fs::metadata(machine.segment()).unwrap().mode() & 0o777, 0o660);
    for (member, key) in [(1, "1"), (0, "2")] {
        let put = as_member(member, &["put", "shm://p/i", key, "5"]).unwrap();
        assert_eq!(put.code, 0, "{put:?}");
    }
    let scanned = as_member(1, &["scan", "shm://p/i"]).unwrap();
    assert_eq!(scanned.out, "1\t5\n2\t5\n", "{scanned:?}");
    let stranger = machine.run_as(STRANGER.0, STRANGER.1, &["get", "shm://p/i", "1"]).unwrap();
    assert_eq!(stranger.code, 6, "{stranger:?}");
    stranger.says(&["not permitted", "creating it with `--group GROUP`", "FARWOOD_SHM_GROUP=GROUP"]);
    machine.refused(
        6,
        &["get", "shm://p/i", "1"],
        &["of user 4244 is shared with group 4343", "FARWOOD_SHM_GROUP=4343"],
    );
    let dropped = as_member(1, &["drop", "shm://p"]).unwrap();
    assert_eq!(dropped.code, 6, "the directory is sticky: {dropped:?}");
    assert_eq!(as_member(0, &["drop", "shm://p"]).unwrap().code, 0);
}

#[test]
fn a_group_is_named_before_an_index_is_created_in_its_pool() {
    let machine = Machine::new();
    let create = ["create", "shm://p/i", "--memory", "64MiB", "--group", "root"];
    machine.refused(2, &create, &["set FARWOOD_SHM_GROUP=root"]);
    machine.refused(2, &["create", "shm://p", "--group", "no such group"], &["'no such group' is no group"]);
    let ran =
        machine.command(&["create", "shm://p"]).env("FARWOOD_SHM_GROUP", "no such group").output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let ran =
        machine.command(&["stat", "shm://p"]).env("FARWOOD_SHM_GROUP", "no such group").output().unwrap();
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
}

#[test]
fn a_draft_of_another_user_blocks_creation_with_its_reason() {
    let machine = Machine::new();
    let draft = machine.file(".farwood.p.0.new", "");
    let Some(()) = need::met(need::ROOT, std::os::unix::fs::chown(draft, Some(4242), None)) else { return };
    let words = [".farwood.p.0.new belongs to user 4242", "let that user or root remove it", "another name"];
    machine.refused(6, &["create", "shm://p", "--memory", "16MiB"], &words);
}

#[test]
fn a_pool_that_does_not_fit_into_its_file_system_is_reported() {
    let machine = Machine::new();
    let directory = &machine.json(&["doctor"])[0];
    let (all, free) = (directory["directory_bytes"].as_u64(), directory["directory_free_bytes"].as_u64());
    // A multiple of 8 MiB that exceeds what is free, whatever other tests allocate meanwhile.
    let memory = ((all.unwrap() + (1 << 30)) >> 23 << 23).to_string();
    assert!(free <= all);
    let created = machine.run(&["create", "shm://p/i", "--memory", &memory]);
    assert_eq!(created.code, 0, "{created:?}");
    created.says(&["warning: shm://p: ", " MiB free", "may grow by", "--shm-size", "smaller pool"]);
    let doctor = machine.ok(&["doctor"]);
    assert!(doctor.contains("may grow by") && doctor.contains("mount -o remount,size=SIZE"), "{doctor}");
    machine.ok(&["drop", "shm://p"]);
    let fits = machine.run(&["create", "shm://p", "--memory", "16MiB"]);
    assert!(!fits.err.contains("warning"), "{fits:?}");
    assert!(machine.ok(&["doctor"]).contains("no problems found"));
}

#[test]
fn a_pool_grows_by_the_command() {
    let machine = Machine::new();
    machine.ok(&["create", "shm://p/i", "--memory", "16MiB"]);
    let ran = machine.run(&["grow", "shm://p", "--memory", "32MiB"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.says(&["grown shm://p: 1 memory node of 32 MiB each"]);
    machine
        .run(&["grow", "shm://p", "--memory", "16MiB"])
        .says(&["shm://p has 1 memory node of 32 MiB each already"]);
    let json = machine.ok(&["grow", "shm://p", "--memory", "40MiB", "--json"]);
    assert!(json.contains("\"memory_bytes\":[41943040]") && json.contains("\"added\":null"), "{json}");
    assert!(machine.ok(&["stat", "shm://p"]).contains("40 MiB and 256 KiB of device memory"));
    machine.refused(2, &["grow", "shm://p", "--memory", "1GiB"], &["grow shm://p", "can grow to 256 MiB"]);
    machine.refused(2, &["grow", "shm://p", "--memory", "41MiB"], &["grow shm://p", "multiple of 8 MiB"]);
    machine.refused(2, &["grow", "shm://p/i", "--memory", "48MiB"], &["write shm://p"]);
    machine.refused(2, &["grow", "shm://p"], &["--memory", "--add-node"]);
    machine.refused(2, &["grow", "shm://p", "--add-node", "tcp://127.0.0.1:1"], &["farwood grow --memory"]);
    machine.refused(3, &["grow", "shm://q", "--memory", "48MiB"], &["shm://q"]);
    let small = ["create", "shm://q", "--memory", "16MiB", "--memory-max", "8MiB"];
    machine.refused(2, &small, &["--memory-max", "less than its memory"]);
}
