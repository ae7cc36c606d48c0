//! `farwood dump`, `restore` and `save`.

use crate::machine::{Machine, Ran, lines};
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

/// A machine with `shm://p/numbers`, `shm://p/words`, `shm://p/places` and `shm://p/parks`.
fn with_indexes() -> Machine {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/numbers"]);
    machine.ok(&["create", "shm://p/words", "--index", "smart", "--keys", "text", "--values", "text"]);
    machine.ok(&["create", "shm://p/places", "--index", "catfish", "--crs", "degrees"]);
    machine.ok(&["create", "shm://p/parks", "--index", "catfish", "--ids", "text"]);
    let numbers =
        machine.file("numbers.tsv", lines((0..2000).map(|number| format!("{}\t{number}", number * 3))));
    machine.ok(&["load", "shm://p/numbers", &numbers]);
    let words =
        machine.file("words.tsv", lines((0..300).map(|number| format!("w{number}\tvalue\\t{number}"))));
    machine.ok(&["load", "shm://p/words", &words]);
    let places =
        machine.file("places.csv", lines((0..80).map(|id| format!("{},{},{id},{id},{id}", id / 2, id / 2))));
    machine.ok(&["load", "shm://p/places", &places]);
    let parks = r#"{"type":"FeatureCollection","features":[{"type":"Feature","id":"Oak","properties":{"trees":[1,2]},
        "geometry":{"type":"Polygon","coordinates":[[[0,0],[4,0],[4,4],[0,0]]]}}]}"#;
    machine.ok(&["load", "shm://p/parks", &machine.file("parks.geojson", parks)]);
    machine
}

/// Everything that the indexes of a pool show.
fn shown(machine: &Machine, pool: &str) -> Vec<String> {
    let index = |name: &str| format!("{pool}/{name}");
    let mut places: Vec<_> = machine
        .ok(&["search", &index("places"), "--bbox=-180,-90,180,90"])
        .lines()
        .map(str::to_owned)
        .collect();
    places.sort();
    vec![
        machine.ok(&["scan", &index("numbers")]),
        machine.ok(&["scan", &index("words")]),
        places.join("\n"),
        machine.ok(&["get", &index("parks"), "Oak", "--json"]).replace(pool, ""),
        machine.ok(&["check", &index("numbers")]).replace(pool, ""),
        machine.ok(&["check", &index("words")]).replace(pool, ""),
        machine.ok(&["check", &index("places")]).replace(pool, ""),
        machine.ok(&["check", &index("parks")]).replace(pool, ""),
    ]
}

#[test]
fn a_dump_is_listed_and_restored() {
    let machine = with_indexes();
    let file = "backup";
    let dumped = &machine.json(&["dump", "shm://p", "-o", file])[0];
    let contents = &dumped["contents"];
    assert_eq!((&contents["entries"], &contents["indexes"][0]["name"]), (&2381.into(), &"numbers".into()));
    let listed = machine.ok(&["restore", file, "--list"]);
    for part in [
        "dump of shm://p by Farwood 0.1.0: 4 indexes",
        "every block is intact",
        "numbers\tsherman: 2000 entries; u64 keys of 8 B, u64 values of 8 B\n",
        "parks\tcatfish: 1 record; text ids\n",
        "places\tcatfish: 80 rectangles\n",
        "words\tsmart: 300 entries; text keys of any length, text values of any length\n",
    ] {
        assert!(listed.contains(part), "{listed}");
    }
    let header = &machine.json(&["restore", file, "--list"])[0]["header"];
    assert_eq!(header["consistency"], "each-index");
    machine.refused(3, &["restore", file, "shm://q"], &["no pool 'q'", "add --memory SIZE to create it"]);
    let restored = &machine.json(&["restore", file, "shm://q", "--memory", "256MiB"])[0];
    assert_eq!(restored["restored"][0], "shm://q/numbers");
    assert_eq!(shown(&machine, "shm://p"), shown(&machine, "shm://q"));
    // No index is replaced.
    machine.refused(4, &["restore", file, "shm://q"], &["the pool has an index 'numbers' already"]);
}

#[test]
fn a_dump_passes_through_pipes() {
    let machine = with_indexes();
    let mut dump = machine.command(&["dump", "shm://p/words"]);
    let mut dump = dump.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut restore = machine.command(&["restore", "-", "shm://p/again", "--index", "words"]);
    let restored = Ran::of(restore.stdin(dump.stdout.take().unwrap()).output().unwrap());
    let dumped = Ran::of(dump.wait_with_output().unwrap());
    assert_eq!((dumped.code, restored.code), (0, 0), "{dumped:?} {restored:?}");
    dumped.says(&["dumped shm://p/words: 1 index, 300 entries"]);
    assert_eq!(machine.ok(&["scan", "shm://p/words"]), machine.ok(&["scan", "shm://p/again"]));
}

#[test]
fn indexes_get_another_structure() {
    let machine = with_indexes();
    let file = "backup";
    machine.ok(&["dump", "shm://p", "-o", file]);
    let restore = |more: &[&'static str]| [&["restore", file], more].concat();
    machine.ok(&restore(&["shm://p/n2", "--index", "numbers", "--structure", "hashed"]));
    machine.refused(
        2,
        &restore(&["shm://p/w2", "--index", "words", "--structure", "btree"]),
        &["a key of type text needs a length", "--key-bytes N"],
    );
    machine.ok(&restore(&["shm://p/w2", "--index", "words", "--structure", "btree", "--key-bytes", "16"]));
    assert_eq!(machine.ok(&["scan", "shm://p/numbers"]), machine.ok(&["scan", "shm://p/n2"]));
    assert_eq!(machine.ok(&["scan", "shm://p/words"]), machine.ok(&["scan", "shm://p/w2"]));
    let stat = machine.ok(&["stat", "shm://p"]);
    assert!(stat.contains("sphinx") && stat.contains("index w2"), "{stat}");
    machine.refused(
        2,
        &restore(&["shm://p", "--key-bytes", "9"]),
        &["--key-bytes is an option of --structure btree"],
    );
    machine.refused(2, &restore(&["shm://p/x"]), &["names one index", "--index NAME"]);
    machine.refused(
        3,
        &restore(&["shm://p", "--index", "none"]),
        &["it has no index 'none'; it has numbers, parks"],
    );
}

#[test]
fn a_damaged_dump_leaves_neither_pool_nor_index() {
    let machine = with_indexes();
    let file = "backup";
    machine.ok(&["dump", "shm://p", "-o", file]);
    let mut bytes = std::fs::read(machine.path().join(file)).unwrap();
    let cut = "cut";
    std::fs::write(machine.path().join(cut), &bytes[..bytes.len() - 1]).unwrap();
    machine.refused(2, &["restore", cut, "shm://q", "--memory", "256MiB"], &["before the end of the backup"]);
    machine.refused(3, &["stat", "shm://q"], &["no pool 'q'"]);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(machine.path().join(cut), &bytes).unwrap();
    machine.refused(2, &["restore", cut, "--list"], &["is damaged: its checksum does not match"]);
    let text = machine.file("text", "no backup, but a text of some length");
    machine.refused(7, &["restore", &text, "shm://p"], &["it is not a backup of Farwood"]);
    machine.refused(2, &["restore", "none", "shm://p"], &["cannot open", "No such file"]);
    machine.refused(3, &["dump", "shm://none", "-o", cut], &["no pool 'none'", "`farwood doctor`"]);
    machine.refused(3, &["dump", "shm://p/none", "-o", cut], &["no index 'none'"]);
    assert_eq!(std::fs::read(machine.path().join(cut)).unwrap(), bytes);
}

#[test]
fn memory_nodes_are_not_saved_and_no_image_becomes_one() {
    let machine = Machine::with_pool();
    machine.ok(&["save", "shm://p", "image"]);
    machine.refused(2, &["save", "tcp://127.0.0.1:1", "image"], &["save tcp://", "farwood serve --file"]);
    machine.refused(2, &["restore", "image", "tcp://127.0.0.1:1"], &["restore tcp://", "shm://NAME"]);
}

#[test]
fn a_pool_is_saved_and_restored_as_a_whole() {
    let machine = with_indexes();
    let file = "image";
    let before = shown(&machine, "shm://p");
    let saved = &machine.json(&["save", "shm://p", file])[0];
    assert_eq!(saved["saved"], "shm://p");
    machine.ok(&["drop", "shm://p"]);
    machine.refused(2, &["restore", file, "shm://p", "--index", "words"], &["--index applies to a dump"]);
    machine.refused(2, &["restore", file, "shm://p/words"], &["which is restored as a whole; write shm://p"]);
    machine.refused(2, &["save", "shm://p/words", file], &["write shm://p", "farwood dump"]);
    machine.refused(3, &["save", "shm://p", file], &["no pool 'p'"]);
    machine.ok(&["restore", file, "shm://p"]);
    assert_eq!(shown(&machine, "shm://p"), before);
    machine.refused(4, &["restore", file, "shm://p"], &["exists already"]);
    let listed = machine.ok(&["restore", file, "--list"]);
    assert!(listed.contains("image of shm://p by Farwood 0.1.0: 1 memory node with"), "{listed}");
}

#[test]
fn an_image_passes_through_pipes() {
    let machine = with_indexes();
    let before = shown(&machine, "shm://p");
    let mut save = machine.command(&["save", "shm://p", "-"]);
    let mut save = save.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut restore = machine.command(&["restore", "-", "shm://again"]);
    let restored = Ran::of(restore.stdin(save.stdout.take().unwrap()).output().unwrap());
    let saved = Ran::of(save.wait_with_output().unwrap());
    assert_eq!((saved.code, restored.code), (0, 0), "{saved:?} {restored:?}");
    saved.says(&["saved shm://p: "]);
    assert!(!machine.path().join("-").exists());
    assert_eq!(shown(&machine, "shm://again"), before);
}

#[test]
fn a_list_has_the_chosen_indexes() {
    let machine = with_indexes();
    machine.ok(&["dump", "shm://p", "-o", "backup"]);
    let listed = machine.ok(&["restore", "backup", "--list", "--index", "words", "--index", "parks"]);
    let names: Vec<_> = listed.lines().skip(1).filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(names, ["parks", "words"], "{listed}");
    let listed = &machine.json(&["restore", "backup", "--list", "--index", "words"])[0];
    assert_eq!(listed["indexes"].as_array().unwrap().len(), 1);
    machine.refused(3, &["restore", "backup", "--list", "--index", "none"], &["it has no index 'none'"]);
    machine.refused(2, &["restore", "backup", "--list", "--memory", "64MiB"], &["restores nothing"]);
    machine.ok(&["save", "shm://p", "image"]);
    machine.refused(2, &["restore", "image", "--list", "--index", "words"], &["--index applies to a dump"]);
}

/// No option is ignored: what a pool and an index have already is compared with it.
#[test]
fn options_without_effect_are_refused() {
    let machine = with_indexes();
    machine.ok(&["dump", "shm://p", "-o", "backup"]);
    machine.ok(&["create", "shm://q", "--memory", "128MiB"]);
    let restore = |more: &[&'static str]| [&["restore", "backup"], more].concat();
    machine.refused(
        2,
        &restore(&["shm://q", "--memory", "64MiB"]),
        &["--memory 64 MiB cannot change the existing pool, which has 1 memory node of 128 MiB"],
    );
    machine.refused(
        2,
        &restore(&["shm://q", "--memory", "128MiB", "--nodes", "2"]),
        &["--nodes 2 cannot change"],
    );
    machine.refused(
        2,
        &restore(&["shm://q", "--memory", "128MiB", "--mode", "0640"]),
        &["--mode cannot change"],
    );
    machine.refused(
        2,
        &restore(&["shm://q", "--mode", "0640"]),
        &["--mode applies to a pool that --memory creates"],
    );
    let spatial = ["index 'places': it is spatial, and keeps its structure"];
    machine.refused(2, &restore(&["shm://q", "--index", "places", "--structure", "radix"]), &spatial);
    machine.ok(&["dump", "shm://p/places", "-o", "places"]);
    machine.refused(2, &["restore", "places", "shm://q", "--structure", "radix"], &spatial);
    assert_eq!(machine.json(&["stat", "shm://q"])[0]["indexes"].as_array().unwrap().len(), 0);
    machine.ok(&restore(&["shm://q", "--memory", "128MiB", "--structure", "radix"]));
    machine.refused(2, &["create", "shm://q/r", "--memory", "64MiB"], &["--memory 64 MiB cannot change"]);
}

#[test]
fn a_restore_names_the_indexes() {
    let machine = with_indexes();
    machine.ok(&["dump", "shm://p", "-o", "backup"]);
    let renamed = machine.run(&["restore", "backup", "shm://p/w2", "--index", "words"]);
    renamed.says(&["restored words of backup as shm://p/w2: 1 index, 300 entries"]);
    let renamed = &machine.json(&["restore", "backup", "shm://p/w3", "--index", "words"])[0];
    assert_eq!((&renamed["restored"][0], &renamed["renamed_from"]), (&"shm://p/w3".into(), &"words".into()));
    let all = machine.run(&["restore", "backup", "shm://q", "--memory", "256MiB"]);
    all.says(&["restored backup into shm://q (numbers, parks, places, words): 4 indexes"]);
}

/// Errors of files have the exit code of the table, and a remedy.
#[test]
fn errors_of_files_name_the_remedy() {
    let machine = with_indexes();
    machine.ok(&["dump", "shm://p", "-o", "backup"]);
    let small = "name a file on another file system";
    let missing = "a file in an existing directory";
    let folder = "name a file instead of the directory";
    for (code, arguments, words) in [
        (5, &["dump", "shm://p", "-o", "/dev/full"][..], ["dump /dev/full: No space left", small]),
        (5, &["save", "shm://p", "/dev/full"], ["save /dev/full: No space left", small]),
        (2, &["dump", "shm://p", "-o", "none/x"], ["dump none/x: No such file", missing]),
        (2, &["save", "shm://p", "none/x"], ["save none/x: No such file", missing]),
        (2, &["dump", "shm://p", "-o", "."], ["dump .: ", folder]),
        (2, &["restore", ".", "shm://p"], ["restore: cannot read .: Is a directory", folder]),
        (2, &["dump", "shm://p", "-o", "backup/x"], ["backup/x: Not a directory", "parents are directories"]),
    ] {
        machine.refused(code, arguments, &words);
    }
    // Streams.
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let closed = || {
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        write
    };
    for command in [&["dump", "shm://p"][..], &["save", "shm://p", "-"]] {
        let ran = Ran::of(machine.command(command).stdout(full()).output().unwrap());
        assert_eq!(ran.code, 5, "{ran:?}");
        ran.says(&["No space left", small]);
        let ran = Ran::of(machine.command(command).stdout(closed()).output().unwrap());
        assert_eq!(ran.code, 10, "{ran:?}");
        ran.says(&["Broken pipe", "has not read all of it"]);
    }
}

/// An image has the permissions of the pool; options of the restore replace them.
#[test]
fn a_restored_pool_has_the_permissions_of_the_saved_one() {
    let machine = Machine::new();
    machine.ok(&["create", "shm://p", "--memory", "16MiB", "--mode", "0640"]);
    let data = std::fs::metadata(machine.segment()).unwrap();
    let stat = machine.ok(&["stat", "shm://p"]);
    assert!(stat.contains("  files: mode 0640, owner "), "{stat}");
    assert_eq!(machine.json(&["stat", "shm://p"])[0]["files"]["mode"], "0640");
    let doctor = &machine.json(&["doctor", "--read-only"])[0]["pools"][0];
    assert_eq!(
        (&doctor["segments"][0]["mode"], &doctor["clients"]),
        (&"0640".into(), &serde_json::json!([]))
    );
    assert!(machine.ok(&["doctor"]).contains("farwood.p.0: mode 0640, owner "));
    machine.refused(2, &["doctor", "--read-only", "--sweep"], &["--sweep changes pools"]);
    machine.ok(&["save", "shm://p", "image"]);
    machine.ok(&["drop", "shm://p"]);
    for (options, mode) in [(&[][..], 0o640), (&["--mode", "0604"], 0o604), (&["--mode", "0600"], 0o600)] {
        machine.ok(&[&["restore", "image", "shm://p"], options].concat());
        let restored = std::fs::metadata(machine.segment()).unwrap();
        assert_eq!(restored.permissions().mode() & 0o7777, mode, "{options:?}");
        assert_eq!(
            std::os::unix::fs::MetadataExt::gid(&restored),
            std::os::unix::fs::MetadataExt::gid(&data)
        );
        machine.ok(&["drop", "shm://p"]);
    }
}

/// The command has created the pool, so `farwood grow` cannot help.
#[test]
fn a_dump_that_does_not_fit_into_the_new_pool_asks_for_more_memory() {
    let machine = Machine::new();
    machine.ok(&["create", "shm://p/i", "--memory", "64MiB"]);
    let entries = crate::machine::lines((0..300_000).map(|number| format!("{number}\t{number}")));
    let file = machine.file("entries", entries);
    machine.ok(&["load", "shm://p/i", &file, "--format", "tsv"]);
    machine.ok(&["dump", "shm://p", "-o", "dump"]);
    let words = ["do not fit into shm://q", "--memory 16 MiB: give more memory"];
    machine.refused(5, &["restore", "dump", "shm://q", "--memory", "16MiB"], &words);
    machine.refused(3, &["stat", "shm://q"], &["no pool 'q'"]);
}
