//! Changes under conditions, counters, and several keys: `put --if`, `del --if`, `incr`, `get` of many keys.

use crate::machine::{Machine, Ran};
use serde_json::{Value, json};

const URL: &str = "shm://p/i";
const SYSTEMS: [&str; 3] = ["sherman", "smart", "sphinx"];

/// The line of JSON that a command prints before it exits with code 1.
fn refused_json(machine: &Machine, arguments: &[&str]) -> Value {
    let ran = machine.run(&[arguments, &["--json"]].concat());
    assert_eq!(ran.code, 1, "{ran:?}");
    serde_json::from_str(&ran.out).unwrap()
}

/// Runs a command that must exit with code 1 and print `out`.
#[track_caller]
fn negative(machine: &Machine, arguments: &[&str], out: &str) -> Ran {
    let ran = machine.run(arguments);
    assert_eq!((ran.code, ran.out.as_str()), (1, out), "{arguments:?}: {ran:?}");
    ran
}

/// A machine with an index from u64 to u64 of each system, and their URLs.
fn with_all_systems() -> (Machine, [String; 3]) {
    let machine = Machine::with_pool();
    let urls = SYSTEMS.map(|system| format!("shm://p/{system}"));
    for (system, url) in SYSTEMS.iter().zip(&urls) {
        machine.ok(&["create", url, "--index", system]);
    }
    (machine, urls)
}

#[test]
fn put_stores_if_the_key_has_exactly_this_value() {
    let (machine, urls) = with_all_systems();
    for url in &urls {
        negative(&machine, &["put", url, "1", "11", "--if", "10"], "")
            .says(&["'1' does not exist", "nothing was"]);
        machine.ok(&["put", url, "1", "10"]);
        machine.ok(&["put", url, "1", "11", "--if", "10"]);
        negative(&machine, &["put", url, "1", "12", "--if", "10"], "11\n").says(&["'1' has another value"]);
        negative(&machine, &["put", url, "1", "12", "--if-absent"], "11\n").says(&["'1' exists already"]);
        assert_eq!(machine.ok(&["get", url, "1"]), "11\n");
    }
}

#[test]
fn put_says_in_json_what_the_key_has() {
    let machine = Machine::with_index();
    let refused = |arguments: &[&str]| refused_json(&machine, &[&["put", URL], arguments].concat());
    let absent = json!({ "stored": false, "existed": false, "current": null });
    assert_eq!(refused(&["1", "11", "--if", "10"]), absent);
    assert_eq!(refused(&["1", "11", "--if-present"]), absent);
    assert_eq!(
        machine.json(&["put", URL, "1", "10", "--if-absent"])[0],
        json!({ "stored": true, "existed": false })
    );
    let present = json!({ "stored": false, "existed": true, "current": 10 });
    assert_eq!(refused(&["1", "11", "--if", "9"]), present);
    assert_eq!(refused(&["1", "11", "--if-absent"]), present);
    let text = machine.run(&["put", URL, "1", "11", "--if", "9", "--json-strings"]).out;
    assert!(text.contains("\"current\":\"10\""), "{text}");
    let stored = machine.json(&["put", URL, "1", "11", "--if", "10"]);
    assert_eq!(stored[0], json!({ "stored": true, "existed": true }));
}

#[test]
fn conditions_are_checked_before_anything_changes() {
    let machine = Machine::with_index();
    for other in ["--if-absent", "--if-present"] {
        machine.refused(2, &["put", URL, "1", "2", "--if", "3", other], &["cannot be used with"]);
    }
    machine.refused(2, &["put", URL, "1", "2", "--if", "x"], &["the value of --if", "'x'"]);
    machine.refused(2, &["del", URL, "1", "--if", "-1"], &["the value of --if", "'-1'"]);
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    machine.refused(2, &["put", "shm://p/s", "1", "2,3", "--if", "4"], &["--if applies to keys"]);
    machine.refused(2, &["del", "shm://p/s", "1", "2,3", "--if", "4"], &["--if applies to keys"]);
    assert_eq!(machine.ok(&["scan", URL]), "");
}

#[test]
fn texts_are_compared_without_their_padding_and_may_begin_with_a_hyphen() {
    let machine = Machine::with_pool();
    machine.ok(&["create", URL, "--values", "text", "--value-bytes", "16"]);
    machine.ok(&["put", URL, "1", "-a"]);
    machine.ok(&["put", URL, "1", "b", "--if", "-a"]);
    machine.ok(&["put", URL, "1", "", "--if", "b"]);
    negative(&machine, &["del", URL, "1", "--if", "b"], "\n");
    machine.ok(&["del", URL, "1", "--if", ""]);
}

#[test]
fn del_removes_if_the_key_has_exactly_this_value() {
    let (machine, urls) = with_all_systems();
    for url in &urls {
        negative(&machine, &["del", url, "1", "--if", "10"], "").says(&["'1' does not exist"]);
        machine.ok(&["put", url, "1", "10"]);
        negative(&machine, &["del", url, "1", "--if", "9"], "10\n")
            .says(&["has another value", "not removed"]);
        assert_eq!(
            refused_json(&machine, &["del", url, "1", "--if", "9"]),
            json!({ "removed": false, "existed": true, "current": 10 })
        );
        assert_eq!(
            machine.json(&["del", url, "1", "--if", "10"])[0],
            json!({ "removed": true, "existed": true })
        );
        assert_eq!(
            refused_json(&machine, &["del", url, "1"]),
            json!({ "removed": false, "existed": false, "current": null })
        );
    }
}

#[test]
fn incr_adds_to_a_number() {
    let (machine, urls) = with_all_systems();
    for url in &urls {
        assert_eq!(machine.ok(&["incr", url, "7"]), "1\n");
        assert_eq!(machine.ok(&["incr", url, "7", "41"]), "42\n");
        assert_eq!(machine.ok(&["incr", url, "7", "-2"]), "40\n");
        assert_eq!(machine.json(&["incr", url, "7", "2"])[0], json!({ "key": 7, "value": 42 }));
        let strings = machine.ok(&["incr", url, "7", "0", "--json-strings"]);
        assert_eq!(strings, "{\"key\":\"7\",\"value\":\"42\"}\n");
        assert_eq!(machine.ok(&["get", url, "7"]), "42\n");
    }
}

#[test]
fn incr_refuses_a_sum_beyond_the_type_and_changes_nothing() {
    let (machine, urls) = with_all_systems();
    for url in &urls {
        negative(&machine, &["incr", url, "7", "-1"], "").says(&[
            "is 0",
            "with -1 is beyond",
            "of u64, 0 to",
        ]);
        assert_eq!(machine.run(&["get", url, "7"]).code, 1, "the key stays absent");
        machine.ok(&["put", url, "7", "5"]);
        negative(&machine, &["incr", url, "7", "-6"], "").says(&["'7' is 5", "nothing was stored"]);
        let refused = refused_json(&machine, &["incr", url, "7", "18446744073709551611"]);
        assert_eq!(refused, json!({ "key": 7, "value": null, "current": 5 }));
        assert_eq!(machine.ok(&["get", url, "7"]), "5\n");
        assert_eq!(machine.ok(&["incr", url, "7", "18446744073709551610"]), "18446744073709551615\n");
    }
    machine.ok(&["create", URL, "--keys", "text", "--key-bytes", "16", "--values", "i64"]);
    assert_eq!(machine.ok(&["incr", URL, "-x", "-9223372036854775808"]), "-9223372036854775808\n");
    negative(&machine, &["incr", URL, "-x", "-1"], "").says(&["of i64, -9223372036854775808 to"]);
    assert_eq!(
        machine.json(&["incr", URL, "-x"])[0],
        json!({ "key": "-x", "value": -9_223_372_036_854_775_807_i64 })
    );
}

#[test]
fn incr_refuses_values_that_are_not_integers() {
    let machine = Machine::with_pool();
    for (kind, sized) in [("text", true), ("hex", true), ("f64", false), ("bool", false)] {
        let url = format!("shm://p/{kind}");
        let mut create = vec!["create", &url, "--values", kind];
        if sized {
            create.extend(["--value-bytes", "8"]);
        }
        machine.ok(&create);
        machine.refused(2, &["incr", &url, "7"], &["incr shm://p/", "have the type", kind, "--values u64"]);
    }
    machine.ok(&["create", URL]);
    machine.refused(2, &["incr", URL, "7", "1.5"], &["'1.5'", "give an integer"]);
    machine.refused(2, &["incr", URL, "7", &"9".repeat(40)], &["give an integer of at most 128 bits"]);
    machine.refused(2, &["incr", URL, "x"], &["incr shm://p/i", "the key"]);
    machine.refused(2, &["incr", URL, "--help"], &["Write -- before the key"]);
    machine.refused(3, &["incr", "shm://p/none", "7"], &["open shm://p/none", "farwood create"]);
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    machine.refused(2, &["incr", "shm://p/s", "7"], &["holds rectangles"]);
}

#[test]
fn incr_adds_to_integers_of_other_types() {
    let machine = Machine::with_pool();
    let dir = machine.path().to_str().unwrap();
    let mut program = crate::waiting::rerun("conditions::a_program_creates_counters_of_other_types");
    let output = program.env("FARWOOD_SHM_DIR", dir).env(CREATES, "shm://p").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for (name, below) in [("u8", None), ("i16", Some("-1\n")), ("u128", None)] {
        let url = format!("shm://p/{name}");
        assert_eq!(machine.ok(&["incr", &url, "7", "255"]), "255\n");
        let ran = machine.run(&["incr", &url, "7", "-256"]);
        assert_eq!(
            (ran.code, ran.out.as_str()),
            (i32::from(below.is_none()), below.unwrap_or("")),
            "{ran:?}"
        );
    }
    let most = i128::MAX.to_string();
    negative(&machine, &["incr", "shm://p/u8", "7", &most], "").says(&["is 255", "of u8, 0 to 255"]);
    negative(&machine, &["incr", "shm://p/i16", "7", "32769"], "").says(&["is -1", "-32768 to 32767"]);
    let sum = (i128::MAX.cast_unsigned() + 255).to_string();
    assert_eq!(machine.ok(&["incr", "shm://p/u128", "7", &most]), format!("{sum}\n"));
    let shown = machine.json(&["incr", "shm://p/u128", "7", "0"]);
    assert_eq!(shown[0], json!({ "key": 7, "value": sum }), "JSON has no numbers of 128 bits");
    machine.refused(2, &["incr", "shm://p/pair", "7"], &["the type custom (structured)", "only integers"]);
}

/// The variable that gives a child process the URL of the pool.
const CREATES: &str = "FARWOOD_TEST_CREATES";

#[test]
fn a_program_creates_counters_of_other_types() {
    let Ok(url) = std::env::var(CREATES) else { return };
    let (pool, options) = (farwood::Pool::open(&url).unwrap(), farwood::BTree::new());
    pool.create_index::<u64, u8>("u8", &options).unwrap();
    pool.create_index::<u64, i16>("i16", &options).unwrap();
    pool.create_index::<u64, u128>("u128", &options).unwrap();
    pool.create_index::<u64, (u64, u64)>("pair", &options).unwrap();
}

#[test]
fn get_prints_the_entries_of_several_keys() {
    let (machine, urls) = with_all_systems();
    for url in &urls {
        for key in ["1", "2", "3"] {
            machine.ok(&["put", url, key, &format!("{key}0")]);
        }
        assert_eq!(machine.ok(&["get", url, "3", "1", "3"]), "3\t30\n1\t10\n3\t30\n");
        negative(&machine, &["get", url, "1", "9", "2"], "1\t10\n2\t20\n").says(&["'9' does not exist"]);
        let ran = machine.run(&["get", url, "1", "9", "--json"]);
        let out = "{\"key\":1,\"value\":10}\n{\"key\":9,\"value\":null}\n";
        assert_eq!((ran.code, ran.out.as_str()), (1, out));
        machine.refused(2, &["get", url, "1", "x"], &["get shm://p/", "'x'"]);
        machine.refused(2, &["get", url, "1", "2", "--raw"], &["--raw", "give one key"]);
    }
    let keys: Vec<_> = (0..200).map(|key| key.to_string()).collect();
    let mut command = vec!["get", &urls[0]];
    command.extend(keys.iter().map(String::as_str));
    assert_eq!(machine.run(&command).out, "1\t10\n2\t20\n3\t30\n");
}

#[test]
fn several_keys_may_be_texts_with_hyphens_and_records() {
    let machine = Machine::with_pool();
    machine.ok(&["create", URL, "--keys", "text", "--key-bytes", "16", "--values", "i64"]);
    machine.ok(&["put", URL, "-a", "-1"]);
    machine.ok(&["put", URL, "-2", "5"]);
    machine.ok(&["put", URL, "a\tb", "6"]);
    assert_eq!(machine.ok(&["get", URL, "-a", "-2"]), "-a\t-1\n-2\t5\n");
    assert_eq!(machine.ok(&["get", URL, "--", "a\tb", "-a"]), "a\\tb\t6\n-a\t-1\n");
    machine.refused(2, &["get", URL, "-2", "-a"], &["-a"]);
    let parks = "shm://p/parks";
    machine.ok(&["create", parks, "--index", "catfish", "--ids", "text"]);
    machine.ok(&["put", parks, "one", "1,2", "--attributes", "{\"a\":1}"]);
    machine.ok(&["put", parks, "two", "3,4"]);
    let one = machine.ok(&["get", parks, "one"]);
    let two = machine.ok(&["get", parks, "two"]);
    assert_eq!(machine.ok(&["get", parks, "two", "one"]), format!("two\t{two}one\t{one}"));
    negative(&machine, &["get", parks, "one", "three"], &format!("one\t{one}")).says(&["'three' does not"]);
}
