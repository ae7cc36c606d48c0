//! `farwood demo`: real processes, no wrong answers, a chart.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn demo(place: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farwood"));
    command.arg("demo").args(arguments).env("FARWOOD_SHM_DIR", place.path()).current_dir(place.path());
    // Credentials for memory nodes other than those that a demo starts.
    command.env("FARWOOD_TOKEN_FILE", "/nowhere").env("FARWOOD_TLS_CA", "/nowhere");
    command.output().unwrap()
}

fn place() -> TempDir {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { tempfile::tempdir_in(shm).unwrap() } else { tempfile::tempdir().unwrap() }
}

#[test]
fn the_demo_has_no_wrong_answers_and_writes_a_chart() {
    check_demo("shm");
}

#[test]
fn the_demo_over_tcp_has_no_wrong_answers_and_writes_a_chart() {
    check_demo("tcp");
}

fn check_demo(fabric: &str) {
    let place = place();
    let output = demo(&place, &["--seconds", "1", "--out", "chart", "--json", "--fabric", fabric]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    assert!(words.contains("0 wrong") && words.contains("chart/demo.png"), "{words}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "one object and nothing else");
    let outcome: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((outcome["wrong"].as_u64(), outcome["problems"].as_u64()), (Some(0), Some(0)));
    let record = &outcome["record"];
    assert_eq!(record["fabric"], fabric);
    assert_eq!((record["compute_nodes"].as_u64(), record["memory_nodes"].as_u64()), (Some(4), Some(2)));
    for kind in ["get", "put", "insert", "remove", "scan"] {
        assert!(record["by_operation"][kind]["operations"].as_u64().unwrap() > 0, "{kind}");
    }
    assert!(outcome["answers"].as_u64() > record["operations"].as_u64());
    let svg = fs::read_to_string(place.path().join("chart/demo.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("remove"));
    let png = fs::read(place.path().join("chart/demo.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG"));
    let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["chart"], "the pool is removed");
}

#[test]
fn the_spatial_demo_has_no_wrong_answers_and_writes_a_map() {
    for fabric in ["shm", "tcp"] {
        let place = place();
        let output = demo(
            &place,
            &["--index", "catfish", "--seconds", "1", "--out", "map", "--json", "--fabric", fabric],
        );
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && words.contains("0 wrong"), "{words}");
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((outcome["wrong"].as_u64(), outcome["problems"].as_u64()), (Some(0), Some(0)));
        // The coast, and 12 ships of each of 8 clients.
        assert_eq!(outcome["entries"].as_u64(), Some(4_993 + 96));
        for kind in ["search", "put"] {
            assert!(outcome["record"]["by_operation"][kind]["operations"].as_u64().unwrap() > 0, "{kind}");
        }
        let svg = fs::read_to_string(place.path().join("map/map.svg")).unwrap();
        assert!(svg.starts_with("<svg") && svg.matches("<line").count() > 4_993);
        assert!(fs::read(place.path().join("map/map.png")).unwrap().starts_with(b"\x89PNG"));
        let left: Vec<_> =
            fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["map"], "the pool is removed");
    }
}

#[test]
fn without_json_the_output_is_a_table() {
    let place = place();
    let output = demo(&place, &["--seconds", "0.3", "--processes", "2", "--memory-nodes", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("round trips") && text.contains("\nremove "), "{text}");
    assert!(place.path().join("farwood-demo/demo.png").is_file());
}

#[test]
fn invalid_arguments_are_refused() {
    let place = place();
    for (arguments, problem) in [
        (["--processes", "1"], "2 to 64"),
        (["--memory-nodes", "0"], "1 to 64"),
        (["--seconds", "0"], "0.1 to 3600"),
    ] {
        let spatial = demo(&place, &[&["--index", "catfish"], &arguments[..]].concat());
        assert_eq!(spatial.status.code(), Some(2), "{arguments:?} spatial");
        let output = demo(&place, &arguments);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains(problem), "{words}");
    }
    for (arguments, problem) in [
        (&["--fabric", "sim"][..], "give shm or tcp"),
        (&["--fabric", "sim", "--index", "catfish"], "give shm or tcp"),
        (&["--index", "oak"], "give sherman, smart, sphinx or catfish"),
    ] {
        let output = demo(&place, arguments);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains(problem) && words.lines().count() == 1, "no banner: {words}");
    }
    assert_eq!(demo(&place, &["--quick", "--seconds", "3"]).status.code(), Some(2));
}
