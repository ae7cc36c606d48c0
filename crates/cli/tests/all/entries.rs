//! One entry, and ranges of them: put, get, del, scan.

use crate::machine::{Machine, lines};
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

#[test]
fn an_entry_is_stored_read_and_removed() {
    let machine = Machine::with_index();
    assert_eq!(machine.ok(&["put", "shm://p/i", "7", "42"]), "");
    assert_eq!(machine.ok(&["get", "shm://p/i", "7"]), "42\n");
    assert_eq!(machine.json(&["get", "shm://p/i", "7"])[0], serde_json::json!({ "key": 7, "value": 42 }));
    let again = machine.json(&["put", "shm://p/i", "7", "43"]);
    assert_eq!(again[0], serde_json::json!({ "stored": true, "existed": true }));
    machine.ok(&["del", "shm://p/i", "7"]);
    machine.refused(1, &["get", "shm://p/i", "7"], &["'7' does not exist"]);
    let missed = machine.run(&["get", "shm://p/i", "7", "--json"]);
    let entry: serde_json::Value = serde_json::from_str(&missed.out).unwrap();
    assert_eq!((missed.code, entry), (1, serde_json::json!({ "key": 7, "value": null })));
    machine.refused(1, &["del", "shm://p/i", "7"], &["'7' does not exist"]);
}

#[test]
fn numbers_are_strings_on_request() {
    let machine = Machine::with_index();
    let most = u64::MAX.to_string();
    machine.ok(&["put", "shm://p/i", &most, "9007199254740993"]);
    let entry = format!("{{\"key\":\"{most}\",\"value\":\"9007199254740993\"}}\n");
    assert_eq!(machine.ok(&["scan", "shm://p/i", "--json-strings"]), entry);
    assert_eq!(machine.ok(&["get", "shm://p/i", &most, "--json-strings"]), entry);
    assert_eq!(
        machine.ok(&["get", "shm://p/i", &most, "--json"]),
        entry.replace(":\"", ":").replace("\",", ",").replace("\"}", "}")
    );
    let missed = machine.run(&["get", "shm://p/i", "5", "--json-strings"]);
    assert_eq!((missed.code, missed.out.as_str()), (1, "{\"key\":\"5\",\"value\":null}\n"));
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    machine.ok(&["put", "shm://p/s", &most, "1,2"]);
    let found = machine.ok(&["search", "shm://p/s", "--at", "1,2", "--json-strings"]);
    assert!(found.contains(&format!("\"id\":\"{most}\"")), "{found}");
}

#[test]
fn raw_bytes_are_not_json() {
    let machine = Machine::with_index();
    machine.ok(&["put", "shm://p/i", "7", "42"]);
    let raw = ["get", "shm://p/i", "7", "--raw"];
    for option in ["--json", "--json-strings"] {
        for command in [[&raw[..], &[option]].concat(), [&[option], &raw[..]].concat()] {
            machine.refused(2, &command, &["--raw", option]);
        }
    }
    machine.file("farwood.toml", "json = true\n");
    assert_eq!(machine.run(&raw).out.as_bytes().last(), Some(&42), "the flag overrides the file");
}

#[test]
fn numbers_with_a_sign_or_leading_zeros_are_refused() {
    let machine = Machine::with_index();
    let words = ["would be stored as the number 7", "remove the sign or the leading zeros"];
    for bad in ["007", "+7"] {
        for command in
            [&["put", "shm://p/i", bad, "1"][..], &["get", "shm://p/i", bad], &["del", "shm://p/i", bad]]
        {
            machine.refused(2, command, &[bad, words[0], words[1]]);
        }
        machine.refused(2, &["put", "shm://p/i", "1", bad], &words);
    }
    assert_eq!(machine.ok(&["scan", "shm://p/i"]), "");
}

#[test]
fn put_stores_under_a_condition() {
    let machine = Machine::with_index();
    machine.refused(
        1,
        &["put", "shm://p/i", "1", "10", "--if-present"],
        &["does not exist", "nothing was stored"],
    );
    machine.ok(&["put", "shm://p/i", "1", "11", "--if-absent"]);
    let refused = machine.run(&["put", "shm://p/i", "1", "12", "--if-absent"]);
    assert_eq!((refused.code, refused.out.as_str()), (1, "11\n"));
    refused.says(&["exists already", "nothing was stored"]);
    machine.ok(&["put", "shm://p/i", "1", "13", "--if-present"]);
    assert_eq!(machine.ok(&["get", "shm://p/i", "1"]), "13\n");
    machine.refused(2, &["put", "shm://p/i", "1", "2", "--if-absent", "--if-present"], &["cannot be used"]);
}

#[test]
fn keys_and_values_have_the_kinds_of_the_index() {
    let machine = Machine::with_pool();
    machine.ok(&[
        "create",
        "shm://p/t",
        "--keys",
        "text",
        "--key-bytes",
        "12",
        "--values",
        "hex",
        "--value-bytes",
        "2",
    ]);
    machine.ok(&["put", "shm://p/t", "-été", "00ff"]);
    assert_eq!(machine.ok(&["get", "shm://p/t", "-été"]), "00ff\n");
    assert_eq!(machine.ok(&["scan", "shm://p/t"]), "-été\t00ff\n");
    for (key, value, words) in [
        ("a key that is too long", "00ff", "the limit of this index is 12"),
        ("key", "00f", "4 hexadecimal digits"),
        ("key", "zzzz", "4 hexadecimal digits"),
    ] {
        machine.refused(2, &["put", "shm://p/t", key, value], &["put shm://p/t", words]);
    }
    machine.ok(&["create", "shm://p/i"]);
    for key in ["-1", "x", "18446744073709551616", ""] {
        machine.refused(2, &["get", "shm://p/i", key], &["get shm://p/i", "number from 0"]);
    }
    machine.ok(&["put", "shm://p/i", "18446744073709551615", "0"]);
    assert_eq!(machine.ok(&["get", "shm://p/i", "18446744073709551615"]), "0\n");
}

#[test]
fn data_that_looks_like_a_request_for_help_is_refused() {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/t", "--index", "smart", "--keys", "text", "--values", "text"]);
    let url = "shm://p/t";
    for flag in ["-h", "--help", "-V", "--version"] {
        for arguments in
            [&["put", url, flag, "v"][..], &["put", url, "k", flag], &["get", url, flag], &["del", url, flag]]
        {
            machine.refused(2, arguments, &[flag, "Write -- before the key"]);
        }
        machine.ok(&["put", url, "--", flag, flag]);
        assert_eq!(machine.ok(&["get", url, "--", flag]), format!("{flag}\n"));
        machine.ok(&["del", url, "--", flag]);
    }
    for data in ["-x", "-1", "--", "---"] {
        machine.ok(&["put", url, "--", data, data]);
        assert_eq!(machine.ok(&["get", url, "--", data]), format!("{data}\n"));
    }
    assert!(machine.ok(&["put", "--help"]).contains("Usage: farwood put"));
    assert!(machine.ok(&["get", "-h"]).contains("Usage: farwood get"));
}

#[test]
fn an_empty_range_is_explained() {
    let machine = with_even_keys();
    let scan = |from: &str, to: &str| machine.run(&["scan", "shm://p/i", "--from", from, "--to", to]);
    for (from, to) in [("9", "2"), ("4", "4"), ("100", "20")] {
        let ran = scan(from, to);
        assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
        ran.says(&["the range is empty", &format!("--from {from} is not before --to {to}")]);
    }
    assert_eq!(scan("3", "4").err, "", "the range has keys, but none is stored");
}

#[test]
fn global_options_come_last_in_help() {
    let machine = Machine::new();
    for (command, own) in [
        ("load", "--sort-memory"),
        ("scan", "--to"),
        ("create", "--consistency"),
        ("put", "--if-present"),
        ("stat", "--count"),
        ("serve", "--spin"),
    ] {
        let help = machine.ok(&[command, "-h"]);
        let globals = help.find("Options of all commands:").unwrap();
        for option in ["--json", "--config"] {
            assert!(help.find(&format!("  {option} ")).unwrap() > globals, "{command}: {help}");
        }
        assert!(help.find(&format!("  {own} ")).unwrap() < globals, "{command}: {help}");
    }
}

#[test]
fn a_count_of_one_is_singular() {
    let machine = Machine::with_index();
    for system in ["smart", "sphinx", "catfish"] {
        machine.ok(&["create", &format!("shm://p/{system}"), "--index", system]);
    }
    machine.ok(&["put", "shm://p/catfish", "1", "1,1"]);
    for index in ["i", "smart", "sphinx"] {
        machine.ok(&["put", &format!("shm://p/{index}"), "1", "2"]);
    }
    for index in ["i", "smart", "sphinx", "catfish"] {
        let text = machine.ok(&["check", &format!("shm://p/{index}")]);
        let words: Vec<_> = text.split([' ', '\n', ';', ',']).collect();
        for pair in words.windows(2) {
            let many = ["entries", "leaves", "rectangles", "nodes", "subtables"].contains(&pair[1]);
            assert!(!(pair[0] == "1" && many), "{text}");
        }
        assert!(text.ends_with("every invariant holds\n"), "{text}");
    }
}

#[test]
fn a_snapshot_covers_few_leaves() {
    let machine = with_even_keys();
    let all = machine.ok(&["scan", "shm://p/i"]);
    assert_eq!(machine.ok(&["scan", "shm://p/i", "--snapshot"]), all);
    let rows = lines((0..10_000).map(|key| format!("{key}\t{key}")));
    machine.ok(&["create", "shm://p/big"]);
    machine.ok(&["load", "shm://p/big", &machine.file("rows.tsv", rows)]);
    let few = ["scan", "shm://p/big", "--from", "500", "--limit", "3", "--reverse", "--snapshot"];
    assert_eq!(machine.ok(&few), "9999\t9999\n9998\t9998\n9997\t9997\n");
    machine.refused(2, &["scan", "shm://p/big", "--snapshot"], &["snapshot", "32 leaves"]);
}

#[test]
fn a_text_in_a_file_is_stored_like_one_on_the_command_line() {
    let machine = Machine::with_pool();
    let url = "shm://p/t";
    machine.ok(&["create", url, "--values", "text", "--value-bytes", "16"]);
    machine.ok(&["put", url, "1", "--value-file", &machine.file("short", "far")]);
    machine.ok(&["put", url, "2", "far"]);
    assert_eq!(machine.ok(&["scan", url]), "1\tfar\n2\tfar\n");
    let long = machine.file("long", "x".repeat(17));
    machine.refused(2, &["put", url, "1", "--value-file", &long], &["17 B", "is 16 B"]);
    machine.refused(2, &["put", url, "1", "--value-file", &machine.file("nul", "a\0b")], &["NUL at byte 1"]);
    let binary = machine.file("binary", [0xFF, 0xFE]);
    let words = ["put shm://p/t: --value-file: ", "is not UTF-8 text", "convert the file to UTF-8"];
    machine.refused(2, &["put", url, "1", "--value-file", &binary], &words);
    machine.refused(2, &["put", url, "1", "--value-file", "/dev/zero"], &["value"]);
}

#[test]
fn values_of_any_length() {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/t", "--keys", "u64", "--values", "text", "--any-length"]);
    let url = "shm://p/t";
    let long = "far ".repeat(50_000);
    let file = machine.file("long", &long);
    machine.ok(&["put", url, "1", "short"]);
    machine.ok(&["put", url, "2", "--value-file", &file]);
    machine.ok(&["put", url, "3", ""]);
    assert_eq!(machine.ok(&["get", url, "1"]), "short\n");
    assert_eq!(machine.ok(&["get", url, "2", "--raw"]), long);
    assert_eq!(machine.ok(&["scan", url]), format!("1\tshort\n2\t{long}\n3\t\n"));
    machine.ok(&["put", url, "2", "no more"]);
    assert_eq!(machine.ok(&["get", url, "2"]), "no more\n");
    let rows = lines((10..400).map(|key| format!("{key}\t{}", "x".repeat(key))));
    machine.ok(&["create", "shm://p/u", "--values", "text", "--any-length", "--value-bytes", "64"]);
    machine.ok(&["load", "shm://p/u", &machine.file("rows.tsv", rows)]);
    assert_eq!(machine.ok(&["get", "shm://p/u", "399"]).len(), 400);
    let walk = &machine.json(&["check", "shm://p/u"])[0];
    assert_eq!((&walk["entries"], &walk["overflow_values"]), (&390.into(), &339.into()));
    let stat = machine.ok(&["stat", "shm://p/u"]);
    assert!(stat.contains("text of any length, 64 bytes of an entry"), "{stat}");
    let missing = machine.path().join("missing");
    let missing = missing.to_str().unwrap();
    let words = ["put: --value-file: cannot read", "missing", "name an existing file"];
    machine.refused(2, &["put", url, "1", "--value-file", missing], &words);
    machine.refused(2, &["put", url, "1", "--value-file", "/dev/zero"], &["value"]);
    machine.refused(2, &["put", url, "1"], &["required"]);
    machine.refused(2, &["create", "shm://p/v", "--any-length", "--value-bytes", "8"], &["16 to 256 bytes"]);
}

/// An index with the keys 0, 2, … 1998.
fn with_even_keys() -> Machine {
    let machine = Machine::with_index();
    let keys = lines((0..1000).map(|key| 2 * key));
    assert_eq!(machine.run_with_input(&["load", "shm://p/i", "-"], &keys).code, 0);
    machine
}

#[test]
fn ranges_have_ends_limits_and_directions() {
    let machine = with_even_keys();
    let keys = |arguments: &[&str]| {
        let out = machine.ok(&[&["scan", "shm://p/i"], arguments].concat());
        out.lines().map(|line| line.split('\t').next().unwrap().parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&["--from", "10", "--to", "16"]), [10, 12, 14]);
    assert_eq!(keys(&["--from", "9", "--limit", "2"]), [10, 12]);
    assert_eq!(keys(&["--reverse", "--limit", "2"]), [1998, 1996]);
    assert_eq!(keys(&["--from", "1990", "--reverse"]), [1998, 1996, 1994, 1992, 1990]);
    assert_eq!(keys(&["--from", "5", "--to", "5"]), [0; 0]);
    assert_eq!(keys(&["--from", "9", "--to", "3"]), [0; 0]);
    assert_eq!(keys(&["--limit", "0"]), [0; 0]);
    assert_eq!(keys(&[]), (0..1000).map(|key| 2 * key).collect::<Vec<_>>());
    let lines = machine.json(&["scan", "shm://p/i", "--to", "4"]);
    assert_eq!(
        lines,
        [serde_json::json!({ "key": 0, "value": 1 }), serde_json::json!({ "key": 2, "value": 2 })]
    );
    machine.refused(2, &["scan", "shm://p/i", "--from", "x"], &["scan shm://p/i", "'x'"]);
}

#[test]
fn a_reader_that_closes_the_pipe_causes_no_error() {
    let machine = Machine::with_index();
    let keys = lines(0..50_000);
    assert_eq!(machine.run_with_input(&["load", "shm://p/i", "-"], &keys).code, 0);
    let mut command = machine.command(&["scan", "shm://p/i"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "0\t1\n");
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let machine = with_even_keys();
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    for command in [
        &["scan", "shm://p/i"][..],
        &["top", "shm://p", "--count", "1"],
        &["serve", "shm://p", "--spatial", "s"],
        &["serve", "--listen", "tcp://127.0.0.1:0", "--memory", "16MiB"],
        &["help"],
        &["help", "put"],
        &["put", "--help"],
        &["--version"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = machine.command(command).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{command:?}");
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(words.contains("cannot write the output") && words.contains("free some space"), "{words}");
    }
}

#[test]
fn help_that_nobody_reads_is_no_error() {
    let machine = Machine::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = machine.command(&["help"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

/// A dump is a table whatever is in the texts, and a terminal interprets nothing in it.
#[test]
fn the_output_of_a_scan_is_loaded_unchanged() {
    let machine = Machine::with_pool();
    let create = |name: &str| {
        machine.ok(&[
            "create",
            &format!("shm://p/{name}"),
            "--index",
            "smart",
            "--keys",
            "text",
            "--values",
            "text",
        ]);
    };
    create("from");
    let entries =
        [("a", "1\nb\t2"), ("b\tc", "C:\\new"), ("d", "\u{1b}[2J\r"), ("e", ""), ("f\\", "\u{9b}ü")];
    for (key, value) in entries {
        machine.ok(&["put", "shm://p/from", key, value]);
    }
    let dump = machine.ok(&["scan", "shm://p/from"]);
    assert_eq!(dump.lines().count(), entries.len(), "{dump}");
    assert!(!dump.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{dump:?}");
    create("to");
    machine.ok(&["load", "shm://p/to", &machine.file("dump.tsv", &dump)]);
    for (key, value) in entries {
        assert_eq!(machine.ok(&["get", "shm://p/to", key, "--raw"]), value, "{key:?}");
    }
    assert_eq!(machine.ok(&["scan", "shm://p/to"]), dump);
    machine.refused(
        2,
        &["load", "shm://p/to", &machine.file("bad.tsv", "k\tC:\\Users\n")],
        &["bad.tsv:1", "COPY"],
    );
}

#[test]
fn signed_numbers_fractions_and_truth_values_are_kinds() {
    let machine = Machine::with_index();
    machine.ok(&["create", "shm://p/n", "--keys", "i64", "--values", "f64"]);
    for (key, value) in [("-7", "-0.5"), ("3", "inf"), ("-20", "2")] {
        machine.ok(&["put", "shm://p/n", "--", key, value]);
    }
    assert_eq!(machine.ok(&["scan", "shm://p/n"]), "-20\t2\n-7\t-0.5\n3\tinf\n");
    assert_eq!(machine.ok(&["scan", "shm://p/n", "--from=-7", "--to", "3"]), "-7\t-0.5\n");
    let entries = machine.ok(&["scan", "shm://p/n", "--json"]);
    assert_eq!(entries.lines().last(), Some("{\"key\":3,\"value\":\"inf\"}"));
    machine.refused(2, &["put", "shm://p/n", "+3", "1"], &["'+3' is not a number", "without a plus sign"]);
    machine.refused(2, &["scan", "shm://p/n", "--prefix", "3"], &["the keys are numbers"]);
    machine.ok(&["create", "shm://p/b", "--keys", "bool", "--values", "bool"]);
    machine.ok(&["put", "shm://p/b", "true", "false"]);
    assert_eq!(machine.ok(&["get", "shm://p/b", "true", "--json"]), "{\"key\":true,\"value\":false}\n");
    machine.refused(2, &["put", "shm://p/b", "yes", "no"], &["give true or false"]);
    assert!(machine.ok(&["stat", "shm://p/n"]).contains("i64"));
}
