//! Damaged pools and indexes.

use crate::machine::{Machine, lines};
use std::path::Path;

/// The offset of the first leaf of the first index in a pool of one memory node: the start of chunk 1.
const FIRST_LEAF: u64 = 8 << 20;

#[test]
fn files_that_are_not_pools_are_refused() {
    let machine = Machine::with_index();
    machine.overwrite(64, b"SOMEBODY");
    machine.refused(7, &["get", "shm://p/i", "1"], &["open", "wrong magic"]);
    machine.refused(7, &["drop", "shm://p"], &["wrong magic", "--force"]);
    let report = machine.ok(&["doctor"]);
    assert!(report.contains("wrong magic") && report.contains("farwood drop shm://p --force"), "{report}");
    machine.ok(&["drop", "shm://p", "--force"]);
    assert!(!machine.segment().exists());
}

#[test]
fn other_versions_are_refused_with_their_numbers() {
    let machine = Machine::with_index();
    machine.overwrite(72, &99u32.to_le_bytes());
    machine.refused(7, &["stat", "shm://p"], &["layout version 99", "create it again"]);
}

#[test]
fn a_segment_that_is_too_small_is_reported() {
    let machine = Machine::with_index();
    std::fs::File::options().write(true).open(machine.segment()).unwrap().set_len(1 << 20).unwrap();
    machine.refused(
        8,
        &["get", "shm://p/i", "1"],
        &["has 1 MiB, and 1048832 KiB are needed", "farwood doctor"],
    );
    machine.file("farwood.tiny.0", "");
    machine.refused(8, &["stat", "shm://tiny"], &["has 0 B"]);
    assert_eq!(machine.json(&["doctor"])[0]["findings"].as_array().unwrap().len(), 2);
    machine.ok(&["drop", "shm://tiny", "--force"]);
}

#[test]
fn a_pool_without_its_journal_is_damaged() {
    let words =
        ["open", "is damaged", ".journal does not exist or is cut off", "`farwood drop shm://p --force`"];
    let journal = |machine: &Machine| {
        let files = std::fs::read_dir(machine.segment().parent().unwrap()).unwrap();
        let mut files = files.map(|file| file.unwrap().path());
        files.find(|path| path.extension().is_some_and(|end| end == "journal")).unwrap()
    };
    let removed = Machine::with_index();
    std::fs::remove_file(journal(&removed)).unwrap();
    let cut = Machine::with_index();
    std::fs::File::options().write(true).open(journal(&cut)).unwrap().set_len(4096).unwrap();
    let renamed = Machine::with_index();
    // The identity of the pool, in the name of its journal.
    renamed.overwrite(80, &[0xee; 8]);
    for machine in [removed, cut, renamed] {
        for command in [&["get", "shm://p/i", "1"][..], &["stat", "shm://p"], &["check", "shm://p/i"]] {
            machine.refused(8, command, &words);
        }
        machine.ok(&["drop", "shm://p", "--force"]);
        machine.ok(&["create", "shm://p", "--memory", "16MiB"]);
    }
}

#[test]
fn a_pool_without_its_first_segment_can_be_removed() {
    let machine = Machine::new();
    machine.ok(&["create", "shm://p", "--memory", "16MiB", "--nodes", "2"]);
    std::fs::remove_file(machine.segment()).unwrap();
    machine.refused(3, &["stat", "shm://p"], &["no pool"]);
    machine.refused(3, &["drop", "shm://p"], &["--force"]);
    assert!(machine.ok(&["doctor"]).contains("farwood drop shm://p --force"));
    machine.ok(&["drop", "shm://p", "--force"]);
}

#[test]
fn a_pool_without_one_of_its_other_segments_is_damaged() {
    let machine = Machine::new();
    machine.ok(&["create", "shm://p", "--memory", "16MiB", "--nodes", "3"]);
    machine.ok(&["create", "shm://p/i"]);
    let lost = machine.path().join("farwood.p.1");
    std::fs::remove_file(&lost).unwrap();
    let words = [
        "is damaged",
        lost.to_str().unwrap(),
        "of its memory node 1 does not exist (3 belong to the pool)",
        "put the file back",
        "`farwood drop shm://p --force`",
    ];
    for command in [&["stat", "shm://p"][..], &["get", "shm://p/i", "1"], &["drop", "shm://p"]] {
        machine.refused(8, command, &words);
        let said = machine.run(command).err;
        assert_eq!(said.matches("--force").count(), 1, "{said}");
        assert!(!said.contains("`farwood create"), "{said}");
    }
    machine.ok(&["drop", "shm://p", "--force"]);
    machine.ok(&["create", "shm://p", "--memory", "16MiB", "--nodes", "3"]);
}

/// Makes an object that is not a file; yields its name in messages and the command that removes it.
fn make_object(kind: usize, path: &Path) -> (&'static str, &'static str) {
    match kind {
        0 => std::fs::create_dir(path).map(|()| ("a directory", "rm -r")),
        1 => std::os::unix::fs::symlink("/etc/passwd", path).map(|()| ("a symbolic link", "rm")),
        2 => std::process::Command::new("mkfifo").arg(path).status().map(|_| ("a FIFO", "rm")),
        _ => std::os::unix::net::UnixListener::bind(path).map(|_| ("a socket", "rm")),
    }
    .unwrap()
}

#[test]
fn a_directory_at_the_path_of_a_journal_keeps_the_whole_pool() {
    let machine = Machine::with_index();
    let files = std::fs::read_dir(machine.path()).unwrap().map(|file| file.unwrap().path());
    let journal =
        files.into_iter().find(|path| path.extension().is_some_and(|end| end == "journal")).unwrap();
    std::fs::remove_file(&journal).unwrap();
    std::fs::create_dir(&journal).unwrap();
    let remedy = format!("remove it with `rm -r {}`", journal.display());
    machine.refused(8, &["drop", "shm://p", "--force"], &["is a directory", &remedy]);
    assert!(machine.segment().exists(), "nothing was removed");
    std::fs::remove_dir(&journal).unwrap();
    machine.ok(&["drop", "shm://p", "--force"]);
}

#[test]
fn an_object_at_the_path_of_a_segment_is_named_with_the_command_that_removes_it() {
    for (kind, segment) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)] {
        let machine = Machine::new();
        let create = ["create", "shm://p", "--memory", "16MiB", "--nodes", "2"];
        if segment == 1 {
            machine.ok(&create);
            std::fs::remove_file(machine.path().join("farwood.p.1")).unwrap();
        }
        let path = machine.path().join(format!("farwood.p.{segment}"));
        let (what, command) = make_object(kind, &path);
        let path = path.to_str().unwrap();
        let words = [&format!("{path} is {what}")[..], &format!("remove it with `{command} {path}`")];
        machine.refused(8, &["stat", "shm://p"], &words);
        machine.refused(8, &["drop", "shm://p"], &words);
        if segment == 0 {
            machine.refused(8, &create, &words);
        }
        let report = machine.ok(&["doctor"]);
        assert!(report.contains(words[0]) && report.contains(&format!("    {command} {path}\n")), "{report}");
        if kind == 0 {
            machine.refused(8, &["drop", "shm://p", "--force"], &words);
            std::fs::remove_dir(path).unwrap();
        }
        machine.run(&["drop", "shm://p", "--force"]);
        machine.ok(&create);
    }
}

#[test]
fn a_creation_that_was_killed_is_removed_by_force() {
    let machine = Machine::new();
    let create = ["create", "shm://p", "--memory", "16MiB", "--nodes", "2"];
    machine.ok(&create);
    std::fs::remove_file(machine.path().join("farwood.p.0")).unwrap();
    let words = ["farwood.p.1 exists", "no first segment", "`farwood drop shm://p --force`"];
    machine.refused(4, &create, &words);
    machine.ok(&["drop", "shm://p", "--force"]);
    machine.ok(&create);
}

#[test]
fn a_damaged_node_is_never_an_answer() {
    let machine = Machine::with_index();
    assert_eq!(machine.run_with_input(&["load", "shm://p/i", "-"], &lines(0..10)).code, 0);
    // The number of the index that the node belongs to.
    machine.overwrite(FIRST_LEAF + 24, &[0xee; 8]);
    machine.refused(8, &["get", "shm://p/i", "5"], &["get shm://p/i", "damaged", "farwood check"]);
    machine.refused(8, &["put", "shm://p/i", "5", "1"], &["damaged"]);
    machine.refused(8, &["scan", "shm://p/i"], &["damaged"]);
    let ran = machine.run(&["check", "shm://p/i"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("problem:"), "{ran:?}");
    ran.says(&["check shm://p/i", "problem", "load it again"]);
    machine.ok(&["drop", "shm://p/i"]);
}

#[test]
fn a_half_written_entry_is_found() {
    let machine = Machine::with_index();
    assert_eq!(machine.run_with_input(&["load", "shm://p/i", "-"], &lines(0..10)).code, 0);
    // The rear version of the first entry: header 32, fences 16, version 4, key 8, value 8.
    machine.overwrite(FIRST_LEAF + 32 + 16 + 20, &[0x55; 4]);
    let ran = machine.run(&["check", "shm://p/i", "--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let walk: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(walk["problems"][0]["what"].as_str().unwrap().contains("half-written"), "{walk}");
}

/// The state of the first directory entry, and the counter of chunks.
const STATE: u64 = 256;
const NEXT_CHUNK: u64 = 128;

#[test]
fn a_damaged_superblock_loses_no_index_and_frees_none_of_its_memory() {
    let machine = Machine::with_index();
    assert_eq!(machine.run_with_input(&["load", "shm://p/i", "-"], &lines(0..10)).code, 0);
    let good = std::fs::read(machine.segment()).unwrap();
    let restore = |at: u64| machine.overwrite(at, &good[at as usize..][..8]);
    for state in [0_u64, 1, 2, 3] {
        machine.overwrite(STATE, &state.to_le_bytes());
        for command in [&["get", "shm://p/i", "5"][..], &["create", "shm://p/i"], &["create", "shm://p/u"]] {
            machine.refused(8, command, &["directory entry 0", "damaged"]);
        }
    }
    restore(STATE);
    for counter in [0_u64, 1] {
        machine.overwrite(NEXT_CHUNK, &counter.to_le_bytes());
        machine.refused(8, &["create", "shm://p/u"], &["damaged"]);
    }
    restore(NEXT_CHUNK);
    machine.ok(&["create", "shm://p/u"]);
    assert_eq!(machine.ok(&["scan", "shm://p/i"]).lines().count(), 10);
}

#[test]
fn stat_and_doctor_report_a_damaged_directory_entry_and_all_others() {
    let machine = Machine::with_index();
    machine.ok(&["create", "shm://p/other"]);
    machine.overwrite(STATE, &[0; 8]);
    let ran = machine.run(&["stat", "shm://p"]);
    assert_eq!(ran.code, 8, "{ran:?}");
    for line in ["  index other: ", "  client ", "  directory entry 0: damaged, its index is unknown"] {
        assert!(ran.out.contains(line), "{line}: {ran:?}");
    }
    ran.says(&["directory entry 0 has the impossible state"]);
    let ran = machine.run(&["stat", "shm://p", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &stats["damaged_entries"][0]["entry"]), (8, &0.into()), "{stats}");
    assert_eq!(stats["indexes"][0]["name"], "other", "{stats}");
    let report = machine.ok(&["doctor"]);
    assert!(report.contains("indexes: other") && report.contains("! shm://p: "), "{report}");
    assert!(report.contains("directory entry 0 has the impossible state"), "{report}");
    assert_eq!(machine.run(&["doctor", "--strict"]).code, 1);
    machine.ok(&["doctor", "--sweep"]);
}

/// Words in place of the root pointer of the first index: pointers beyond the pool, at offset 0 of no memory node, and
/// into the superblock.
const ROOTS: [u64; 4] = [0xffff_ffff_ffff, 1 << 63, u64::MAX, 64];

#[test]
fn a_damaged_root_pointer_of_an_ordered_index_is_reported() {
    for system in ["sherman", "smart", "sphinx"] {
        let machine = Machine::with_pool();
        machine.ok(&["create", "shm://p/i", "--index", system]);
        machine.ok(&["put", "shm://p/i", "1", "1"]);
        for root in ROOTS {
            machine.overwrite(256 + 8, &root.to_le_bytes());
            for command in
                [&["get", "shm://p/i", "1"][..], &["put", "shm://p/i", "1", "2"], &["del", "shm://p/i", "1"]]
            {
                machine.refused(8, command, &[]);
            }
            machine.refused(8, &["scan", "shm://p/i"], &[]);
            machine.refused(8, &["stat", "shm://p/i", "--count"], &[]);
            let checked = machine.run(&["check", "shm://p/i"]);
            assert!(matches!(checked.code, 1 | 8), "{system}, {root:#x}: {checked:?}");
        }
    }
}

#[test]
fn a_damaged_root_pointer_of_a_spatial_index_is_reported() {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/i", "--index", "catfish"]);
    machine.ok(&["put", "shm://p/i", "1", "0,0,1,1"]);
    for root in ROOTS {
        machine.overwrite(256 + 8, &root.to_le_bytes());
        for command in [
            &["search", "shm://p/i", "--bbox", "0,0,2,2"][..],
            &["put", "shm://p/i", "2", "0,0,1,1"],
            &["check", "shm://p/i"],
            &["stat", "shm://p/i", "--count"],
        ] {
            let ran = machine.run(command);
            assert!(matches!(ran.code, 1 | 8), "{command:?}, {root:#x}: {ran:?}");
        }
    }
}

/// Words of the root node are damaged: neither a search by READs nor the server, which `put` starts, answers from them
/// or panics.
#[test]
fn a_damaged_node_of_a_spatial_index_is_reported() {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/i", "--index", "catfish"]);
    let rows = lines((0..200).map(|row| format!("{row},{row},{},{},{row}", row + 1, row + 1)));
    machine.ok(&["load", "shm://p/i", &machine.file("rows.csv", rows)]);
    let good = std::fs::read(machine.segment()).unwrap();
    let word = |at: u64| u64::from_le_bytes(good[at as usize..][..8].try_into().unwrap());
    let root = 64 * u64::from(word(FIRST_LEAF) as u32);
    assert_eq!(word(root + 8) as u8, 1, "the root is above the leaves");
    let reference = root + 64 + 4 * 64;
    let level = root + 8;
    for at in [root, level, root + 16, reference] {
        let possible = |damaged: &u64| *damaged == word(at) || (at == level && *damaged as u8 <= 1);
        let damages = [0, word(at) ^ 1, word(at) ^ 1 << 40, word(at) ^ 2, u64::MAX, 1 << 32 | 1];
        for damaged in damages.into_iter().filter(|damaged| !possible(damaged)) {
            machine.overwrite(at, &damaged.to_le_bytes());
            for command in [
                &["search", "shm://p/i", "--bbox", "0,0,300,300"][..],
                &["search", "shm://p/i", "--at", "3,3", "--nearest", "200"],
                &["put", "shm://p/i", "1000", "5,5,6,6"],
            ] {
                let ran = machine.run(command);
                assert_eq!(ran.code, 8, "{at:#x} := {damaged:#x}: {ran:?}");
            }
            let checked = machine.run(&["check", "shm://p/i"]);
            assert!(matches!(checked.code, 1 | 8), "{at:#x} := {damaged:#x}: {checked:?}");
            machine.overwrite(at, &word(at).to_le_bytes());
        }
    }
    machine.ok(&["check", "shm://p/i"]);
}

/// No machine has a device of that name.
#[test]
fn a_requested_device_that_does_not_exist_is_reported() {
    let machine = Machine::with_pool();
    let output =
        machine.command(&["doctor", "--json"]).env("FARWOOD_RDMA_DEVICE", "no-such,1").output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let why = report["rdma_requested"][0]["error"].as_str().unwrap();
    assert!(why.contains("no RDMA"), "{why}");
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["what"] == why).unwrap();
    assert!(!found["remedy"].as_str().unwrap().is_empty(), "{found}");
}

#[test]
fn unfinished_segments_of_crashed_processes_are_swept() {
    let machine = Machine::with_pool();
    let draft = machine.file(".farwood.q.0.new", "half a segment");
    let report = machine.ok(&["doctor"]);
    assert!(report.contains(&draft) && report.contains("farwood doctor --sweep"), "{report}");
    assert!(machine.ok(&["doctor", "--sweep"]).contains("no problems found"));
    assert!(!std::path::Path::new(&draft).exists());
    machine.ok(&["stat", "shm://p"]);
}

#[test]
fn a_scrub_reads_an_index_in_use_and_names_damage() {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/i"]);
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    let stored = 7_305_815_000_000_000_001_u64;
    machine.ok(&["load", "shm://p/i", &machine.file("keys.csv", format!("1,{stored}\n2,3\n"))]);
    machine.ok(&["load", "shm://p/s", &machine.file("one.csv", "1,2,3,1234.5678,5\n")]);
    assert!(machine.ok(&["check", "shm://p/i", "--scrub"]).contains("2 entries read, no damage"));
    assert_eq!(machine.json(&["check", "shm://p/s", "--scrub"])[0]["scrubbed"], 1);
    let changed = |from: &[u8], to: &[u8]| {
        let path = machine.segment();
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(from.len()).position(|window| window == from).expect("the bytes are stored");
        bytes[at..at + to.len()].copy_from_slice(to);
        std::fs::write(&path, bytes).unwrap();
    };
    changed(&stored.to_be_bytes(), &(stored + 2).to_be_bytes());
    machine.refused(8, &["check", "shm://p/i", "--scrub"], &["damaged"]);
    machine.refused(8, &["get", "shm://p/i", "1"], &["damaged"]);
    changed(&1234.5678f64.to_le_bytes(), &6f64.to_le_bytes());
    machine.refused(8, &["check", "shm://p/s", "--scrub"], &["do not match its hash"]);
    machine.ok(&["create", "shm://p/v", "--consistency", "versions"]);
    machine.refused(2, &["check", "shm://p/v", "--scrub"], &["scheme", "create the index with checksums"]);
}

/// The offset of slot 3 of the client table.
const CLIENT_SLOT: u64 = 32_768 + 3 * 64;
const DAMAGED_SLOT: &str = "client slot 3 has the state 0xdddddddddddddddd, which no client stores";

#[test]
fn a_damaged_client_slot_is_named_beside_everything_else() {
    let machine = Machine::with_index();
    machine.ok(&["create", "shm://other", "--memory", "64MiB"]);
    machine.overwrite(CLIENT_SLOT, &[0xdd; 64]);
    let stat = machine.run(&["stat", "shm://p"]);
    assert_eq!(stat.code, 8, "{stat:?}");
    stat.says(&["stat shm://p", DAMAGED_SLOT, "create the pool again"]);
    for line in ["node 0: 64 MiB", "client slot 3: damaged", "index i: "] {
        assert!(stat.out.contains(line), "{line}: {stat:?}");
    }
    let report = machine.ok(&["doctor"]);
    for line in
        ["shm://other: ", "indexes: i\n", DAMAGED_SLOT, "`farwood scan`", "farwood drop shm://p --force"]
    {
        assert!(report.contains(line), "{line}: {report}");
    }
    assert_eq!(machine.run(&["doctor", "--strict"]).code, 1);
    let report = &machine.json(&["doctor", "--sweep"])[0];
    let pools = report["pools"].as_array().unwrap();
    let pool = pools.iter().find(|pool| pool["pool"] == "shm://p").unwrap();
    assert_eq!(pool["damaged_slots"][0]["slot"], 3, "{report}");
    assert_eq!(report["findings"].as_array().unwrap().len(), 1, "{report}");
}

#[test]
fn a_damaged_client_slot_prevents_drops_except_by_force() {
    let machine = Machine::with_index();
    machine.overwrite(CLIENT_SLOT, &[0xdd; 64]);
    machine.refused(
        8,
        &["drop", "shm://p/i"],
        &[DAMAGED_SLOT, "whether its client has the index open is unknown", "create the pool again"],
    );
    machine.ok(&["put", "shm://p/i", "1", "1"]);
    machine.refused(
        8,
        &["drop", "shm://p"],
        &[
            DAMAGED_SLOT,
            "whether a live process is attached there is unknown",
            "farwood drop shm://p --force",
        ],
    );
    machine.ok(&["drop", "shm://p", "--force"]);
    machine.refused(3, &["stat", "shm://p"], &["no pool"]);
}

/// Each word of a slot at random: no command panics or waits, and none refuses without a reason.
#[test]
fn random_words_in_a_client_slot_are_survived() {
    let machine = Machine::with_index();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for trial in 0..6 {
        let words: Vec<_> = (0..8)
            .flat_map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state.to_be_bytes()
            })
            .collect();
        machine.overwrite(CLIENT_SLOT, &words);
        for (code, command) in [
            (8, &["stat", "shm://p"][..]),
            (0, &["doctor"]),
            (0, &["doctor", "--sweep"]),
            (8, &["drop", "shm://p/i"]),
            (8, &["drop", "shm://p"]),
        ] {
            let ran = machine.run(command);
            assert_eq!(ran.code, code, "{trial}: {command:?}: {ran:?}");
            assert!(format!("{}{}", ran.out, ran.err).contains("client slot 3"), "{trial}: {ran:?}");
        }
    }
}
