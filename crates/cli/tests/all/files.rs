//! `farwood load`: files of all layouts, and the errors for bad files.

use crate::machine::{Machine, lines};

/// A machine with `shm://p/t` from texts of 16 bytes to numbers.
fn with_texts() -> Machine {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/t", "--keys", "text", "--key-bytes", "16"]);
    machine
}

#[test]
fn text_is_loaded_in_bulk_and_then_one_by_one() {
    let machine = with_texts();
    let file = machine.file("words.txt", "cat\nant\n\nbee\ncat\n");
    let loaded = &machine.json(&["load", "shm://p/t", &file])[0];
    assert_eq!(
        (&loaded["loaded"], &loaded["replaced"], &loaded["bulk"]),
        (&4.into(), &1.into(), &true.into())
    );
    assert_eq!(machine.ok(&["scan", "shm://p/t"]), "ant\t2\nbee\t4\ncat\t5\n");
    let loaded = &machine.json(&["load", "shm://p/t", &file, "--value", "9"])[0];
    assert_eq!(
        (&loaded["loaded"], &loaded["replaced"], &loaded["bulk"]),
        (&4.into(), &4.into(), &false.into())
    );
    assert_eq!(machine.ok(&["scan", "shm://p/t"]), "ant\t9\nbee\t9\ncat\t9\n");
    assert!(machine.ok(&["check", "shm://p/t"]).contains("3 entries"));
}

#[test]
fn entries_that_do_not_fit_into_memory_are_loaded_one_by_one() {
    let machine = with_texts();
    for memory in ["0", "100"] {
        let words = lines((0..500).map(|word| format!("w{:03}", word * 7 % 500)));
        let file = machine.file("words.txt", words);
        let loaded = &machine.json(&["load", "shm://p/t", &file, "--sort-memory", memory])[0];
        assert_eq!((&loaded["loaded"], &loaded["bulk"]), (&500.into(), &false.into()));
        assert!(machine.ok(&["check", "shm://p/t"]).contains("500 entries"));
        machine.ok(&["drop", "shm://p/t"]);
        machine.ok(&["create", "shm://p/t", "--keys", "text", "--key-bytes", "16"]);
    }
}

#[test]
fn tables_have_columns() {
    let machine = with_texts();
    let file = machine.file("prices.csv", "price,id\n3,\"a, b\"\n4,c\n");
    let by_name = ["--header", "--key-column", "id", "--value-column", "price"];
    machine.ok(&[&["load", "shm://p/t", &file][..], &by_name].concat());
    let file = machine.file("prices.tsv", "5\t\"d\n");
    machine.ok(&["load", "shm://p/t", &file, "--key-column", "2", "--value-column", "1"]);
    let named = machine.file("NAMED.CSV", "word,number\nf,7\n");
    machine.refused(2, &["load", "shm://p/t", &named], &[":1:", "--header"]);
    machine.ok(&["load", "shm://p/t", &named, "--header"]);
    machine.ok(&["del", "shm://p/t", "f"]);
    let piped = machine.run_with_input(&["load", "shm://p/t", "-", "--format", "csv"], "e,6\n");
    assert_eq!(piped.code, 0, "{piped:?}");
    assert_eq!(machine.ok(&["scan", "shm://p/t"]), "\"d\t5\na, b\t3\nc\t4\ne\t6\n");
    machine.refused(2, &["load", "shm://p/t", &file, "--key-column", "id"], &["--header"]);
    let twice = ["load", "shm://p/t", &file, "--key-column", "2"];
    machine.refused(2, &twice, &["column 2 would be the key and the value"]);
    machine.refused(2, &["load", "shm://p/t", &file, "--header", "--key-column", "id"], &["no column 'id'"]);
}

#[test]
fn bad_lines_are_named_or_counted() {
    let machine = with_texts();
    let bad = [
        ("long.txt", "ant\na word of far too many letters\nbee\n", ":2:", "the limit of this index is 16"),
        ("nul.txt", "ant\nb\0ee\n", ":2:", "NUL"),
        ("short.csv", "a,1\nb\nc,3\n", ":2:", "1 column,"),
        ("words.csv", "a,1\nb,two\n", ":2:", "'two' is not a number"),
    ];
    for (name, contents, line, why) in bad {
        let file = machine.file(name, contents);
        machine.refused(2, &["load", "shm://p/t", &file], &[name, line, why, "--skip-bad", "0 entries"]);
    }
    assert_eq!(machine.ok(&["scan", "shm://p/t"]), "", "a refused load left something");
    for (name, ..) in bad {
        let file = machine.path().join(name);
        let loaded = &machine.json(&["load", "shm://p/t", file.to_str().unwrap(), "--skip-bad"])[0];
        assert_eq!(loaded["skipped"], 1, "{name}");
    }
    let file = machine.file("all.csv", "a,one\nb,two\n");
    let ran = machine.run(&["load", "shm://p/t", &file, "--skip-bad"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    ran.says(&["every line of", "line 1: ", "'one' is not a number", "--header"]);
    let file = machine.path().join("no-utf8.txt");
    std::fs::write(&file, b"ant\n\xff\xfe\n").unwrap();
    machine.refused(
        2,
        &["load", "shm://p/t", file.to_str().unwrap()],
        &[":2:", "UTF-8", "1 entry is loaded"],
    );
}

#[test]
fn skipped_lines_do_not_control_the_terminal() {
    let machine = with_texts();
    for contents in ["a,\x1b[31mx\n", "a,\x1b[31mx\nb,1\n", "a,\"\x1b[31mx\n\"\n"] {
        let file = machine.file("escapes.csv", contents);
        let ran = machine.run(&["load", "shm://p/t", &file, "--skip-bad"]);
        ran.says(&["line 1", "\\u{1b}[31mx"]);
        assert!(!ran.err.contains('\x1b'), "{ran:?}");
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let machine = with_texts();
    let words = ["load: cannot open nowhere.txt", "name an existing file"];
    machine.refused(2, &["load", "shm://p/t", "nowhere.txt"], &words);
    machine.refused(2, &["load", "shm://p/t", "."], &["load: cannot read .", "name a file instead"]);
    let below = machine.file("file", "");
    machine.refused(2, &["load", "shm://p/t", &format!("{below}/x")], &["load: cannot open"]);
    for arguments in [
        &["bench", "--key-file", "nowhere.txt", "--keys", "10"][..],
        &["bench", "--rectangles-file", "nowhere.txt", "--index", "catfish", "--keys", "10"],
        &["put", "--value-file", "nowhere.txt", "shm://p/t", "ant"],
    ] {
        let words = format!("{}: cannot read nowhere.txt", arguments[1]);
        machine.refused(2, arguments, &[&words, "name an existing file"]);
    }
    let pipe = machine.path().join("pipe.toml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for file in ["/dev/zero", pipe.to_str().unwrap()] {
        for arguments in [
            &["bench", "--key-file", file, "--keys", "10"][..],
            &["bench", "--nic", file, "--fabric", "sim", "--keys", "10"],
            &["bench", "--rectangles-file", file, "--index", "catfish", "--keys", "10"],
        ] {
            let words = format!("{}: {file}: it is not a regular file", arguments[1]);
            machine.refused(2, arguments, &[&words, "name another file"]);
        }
    }
    let huge = machine.file("huge", "");
    std::fs::File::options().write(true).open(&huge).unwrap().set_len((4 << 30) + 1).unwrap();
    machine.refused(2, &["bench", "--key-file", &huge, "--keys", "10"], &["longer than 4 GiB"]);
    let mut command = machine.command(&["doctor"]);
    let output = command.env("FARWOOD_SHM_DIR", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("cannot list /nowhere") && words.contains("FARWOOD_SHM_DIR"), "{words}");
}

/// A run of a figure takes minutes, and a demo seconds: the folder is checked before.
#[test]
fn a_folder_of_results_that_cannot_be_written_is_refused_before_the_work() {
    let machine = Machine::new();
    let file = machine.file("file", "");
    std::fs::create_dir_all(machine.path().join("taken/demo.png")).unwrap();
    std::fs::create_dir_all(machine.path().join("taken/map.svg")).unwrap();
    std::fs::create_dir_all(machine.path().join("taken/nic/report.md")).unwrap();
    for command in [
        &["demo", "--seconds", "3600"][..],
        &["demo", "--seconds", "3600", "--index", "catfish"],
        &["reproduce", "nic", "sherman-fig10"],
    ] {
        let words = format!("{}: --out: cannot", command[0]);
        for (folder, code) in [(file.as_str(), 2), (&format!("{file}/x"), 2), ("taken", 2)] {
            let ran = machine.run(&[command, &["--out", folder]].concat());
            assert_eq!(ran.code, code, "{command:?} --out {folder}: {ran:?}");
            ran.says(&[&words]);
        }
    }
    assert_eq!(std::fs::read_dir(machine.path().join("taken/nic")).unwrap().count(), 1, "nothing is left");
}

#[test]
fn invalid_options_and_values_are_refused() {
    let machine = with_texts();
    let file = machine.file("words.txt", "ant\n");
    machine.refused(2, &["load", "shm://p/t", &file, "--fill", "0.1"], &["0.5 to 1"]);
    machine.refused(2, &["load", "shm://p/t", &file, "--value", "many"], &["'many'"]);
    machine.ok(&["create", "shm://p/h", "--values", "hex", "--value-bytes", "4"]);
    let numbers = machine.file("numbers.txt", "1\n");
    machine.refused(2, &["load", "shm://p/h", &numbers], &["give --value"]);
    machine.ok(&["load", "shm://p/h", &numbers, "--value", "00ff00ff"]);
    assert_eq!(machine.ok(&["get", "shm://p/h", "1"]), "00ff00ff\n");
    // Keys without values need no value.
    machine.ok(&["create", "shm://p/set", "--values", "hex", "--value-bytes", "0"]);
    machine.ok(&["load", "shm://p/set", &numbers]);
    assert_eq!(machine.ok(&["scan", "shm://p/set"]), "1\n");
}

#[test]
fn real_words_are_all_found() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/english-words.txt");
    let machine = Machine::new();
    machine.ok(&["create", "shm://p/t", "--memory", "256MiB", "--keys", "text", "--key-bytes", "48"]);
    machine.ok(&["load", "shm://p/t", file]);
    let mut words: Vec<String> = std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect();
    words.sort_unstable();
    words.dedup();
    let found = machine.ok(&["scan", "shm://p/t"]);
    assert!(found.lines().map(|line| line.split('\t').next().unwrap()).eq(words.iter().map(String::as_str)));
    assert!(machine.ok(&["check", "shm://p/t"]).contains("every invariant holds"));
}
