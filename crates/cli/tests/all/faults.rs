//! Faults, timelines, random arrivals and the warm-up until the throughput is steady, in simulated benchmarks.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SMALL: &str =
    "bench --fabric sim --keys 2k --workload ycsb-a --compute-nodes 4 --clients 8 --warmup 0.001 --seconds";

fn farwood(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farwood"));
    command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command.output().unwrap()
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The record of a run of 4 ms, and its messages.
fn record(arguments: &str) -> (Value, String) {
    record_of(0.004, arguments)
}

fn record_of(seconds: f64, arguments: &str) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = farwood(folder.path(), &format!("{SMALL} {seconds} --json {arguments}"));
    assert!(output.status.success(), "{arguments}: {}", messages(&output));
    let mut record: Value = serde_json::from_slice(&output.stdout).unwrap();
    record.as_object_mut().unwrap().remove("simulated_verbs_per_second");
    (record, messages(&output))
}

/// The operations of all intervals.
fn operations(record: &Value) -> Vec<u64> {
    let timeline = record["timeline"].as_array().unwrap();
    timeline.iter().map(|bucket| bucket["operations"].as_u64().unwrap()).collect()
}

#[test]
fn the_other_compute_nodes_continue_after_a_crash() {
    let (crashed, _) = record("--fault crash@2ms");
    assert_eq!(crashed["faults"], serde_json::json!(["crash@2ms"]));
    assert_eq!(crashed["faults_injected"][0]["fault"], "crash:compute=3");
    assert!((crashed["faults_injected"][0]["seconds"].as_f64().unwrap() - 0.002).abs() < 1e-9);
    let operations = operations(&crashed);
    assert_eq!((operations.len(), operations.iter().sum()), (50, crashed["operations"].as_u64().unwrap()));
    let (before, after): (u64, u64) = (operations[..25].iter().sum(), operations[25..].iter().sum());
    let share = after as f64 / before as f64;
    assert!((0.4..0.95).contains(&share), "three of four compute nodes continue: {before}, {after}");
    assert_eq!(record("--fault crash@2ms").0, crashed, "the same seed gives the same record");
    assert!(record("--fault crash:compute=0@2ms").0["operations"].as_u64().unwrap() > 0);
}

#[test]
fn operations_that_a_fault_makes_fail_are_counted() {
    let (down, _) = record_of(0.016, "--fault down:10ms@1ms --timeline 1");
    assert!(down["failed_operations"].as_u64().unwrap() > 0, "the outage is longer than a NIC retries");
    let operations = operations(&down);
    assert_eq!((operations.len(), operations[2]), (16, 0), "no operation ends during the outage");
    assert!(operations[14] > 0, "the clients continue after it: {operations:?}");
    let frozen = record("--fault freeze:1ms@1ms,slow:4x@3ms").0;
    assert_eq!(frozen["faults_injected"].as_array().unwrap().len(), 2);
}

#[test]
fn the_latency_of_random_arrivals_contains_the_wait() {
    let (calm, quiet) = record("--rate 200k");
    assert_eq!((calm["offered_ops_per_second"].as_u64(), quiet.as_str()), (Some(200_000), ""));
    let achieved = calm["mops"].as_f64().unwrap();
    assert!((0.17..0.23).contains(&achieved), "{achieved}");
    let (overloaded, warned) = record("--rate 50M");
    assert!(warned.contains("of 50000000 offered operations") && warned.contains("--rate"), "{warned}");
    let p50 = |record: &Value| record["latency_us"]["p50"].as_f64().unwrap();
    assert!(p50(&overloaded) > 1000.0, "operations wait for milliseconds: {}", p50(&overloaded));
    assert!(p50(&calm) < 50.0, "{}", p50(&calm));
    assert_eq!(record("--rate 200k").0, calm, "the same seed gives the same record");
}

#[test]
fn a_warm_up_ends_when_the_throughput_is_steady() {
    let folder = tempfile::tempdir().unwrap();
    let steady =
        "bench --fabric sim --keys 2k --workload ycsb-c --clients 4 --seconds 0.004 --warmup auto --json";
    let output = farwood(folder.path(), steady);
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["warm_up_steady"], true, "reads without conflicts are steady at once");
    assert!((record["warm_up_seconds"].as_f64().unwrap() - 0.006).abs() < 1e-9, "three windows of 2 ms");
    assert!((record["seconds"].as_f64().unwrap() - 0.004).abs() < 1e-9);
}

#[test]
fn options_that_do_not_fit_are_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, named, remedy) in [
        ("bench --fault crash@5ms", "--fault", "--fabric sim"),
        ("bench --rate 1k", "--rate", "--fabric sim"),
        ("bench --timeline 1", "--timeline", "--fabric sim"),
        ("bench --warmup auto", "--warmup", "--fabric sim"),
        ("bench --warmup soon", "--warmup", "auto"),
        ("bench --fabric sim --fault crash", "--fault", "crash@5ms"),
        ("bench --fabric sim --fault crash@5ms", "--fault", "--compute-nodes"),
        ("bench --fabric sim --workload load --fault slow:2x@5ms", "--fault", "--workload"),
        ("bench --index catfish --fabric sim --fault slow:2x@5ms", "--fault", "omit"),
        ("bench --index catfish --fabric sim --warmup auto", "--warmup", "seconds"),
    ] {
        let output = farwood(folder.path(), arguments);
        let text = messages(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {text}");
        assert!(text.contains(named) && text.contains(remedy), "{arguments}: {text}");
    }
}

#[test]
fn rates_are_swept_and_timelines_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let options = SMALL.trim_start_matches("bench --fabric sim ");
    let swept = farwood(
        folder.path(),
        &format!("sweep --out s.jsonl -- {options} 0.004 --rate 100k,50M --timeline 0.5"),
    );
    let text = String::from_utf8_lossy(&swept.stdout).into_owned();
    assert!(text.starts_with("offered_ops_per_second") && text.lines().count() == 3, "{text}");
    assert!(messages(&swept).contains("of 50000000 offered operations"), "{}", messages(&swept));
    let by_rate = farwood(folder.path(), "chart s.jsonl --x offered_ops_per_second");
    assert!(by_rate.status.success(), "{}", messages(&by_rate));
    let over_time = "chart s.jsonl --timeline --series offered_ops_per_second --out over-time";
    let over_time = farwood(folder.path(), over_time);
    assert!(over_time.status.success(), "{}", messages(&over_time));
    let svg = std::fs::read_to_string(folder.path().join("over-time.svg")).unwrap();
    assert!(svg.contains("milliseconds") && svg.contains("50000000"), "{svg}");
    let neither = farwood(folder.path(), "chart s.jsonl");
    assert!(messages(&neither).contains("--x"), "{}", messages(&neither));
}

#[test]
fn a_sweep_repeats_each_run_and_its_chart_has_whiskers() {
    let folder = tempfile::tempdir().unwrap();
    let options = "--keys 2k --workload ycsb-a --clients 2,4 --seconds 0.001 --warmup 0.0002";
    let swept = farwood(folder.path(), &format!("sweep --out s.jsonl -- {options} --repeat 3"));
    assert!(swept.status.success(), "{}", messages(&swept));
    let text = std::fs::read_to_string(folder.path().join("s.jsonl")).unwrap();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let once = farwood(
        folder.path(),
        &format!("bench --fabric sim --json {} --repeat 3", options.replace("2,4", "4")),
    );
    let once: Value = serde_json::from_slice(&once.stdout).unwrap();
    assert_eq!((records.len(), &records[1]["repeats"]), (2, &once["repeats"]));
    let charted = farwood(folder.path(), "chart s.jsonl --x clients");
    assert!(charted.status.success(), "{}", messages(&charted));
    let svg = std::fs::read_to_string(folder.path().join("s.svg")).unwrap();
    assert_eq!(svg.matches("stroke-width=\"1.5\"").count(), 6, "a whisker has three lines");
}
