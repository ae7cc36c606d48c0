//! `farwood bench --fabric sim`: its record has the same fields as on other fabrics, virtual times, and is
//! reproducible.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn bench(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farwood"));
    command.arg("bench").args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command.output().unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn record(folder: &Path, arguments: &str) -> Value {
    let output = bench(folder, &format!("--fabric sim --json {arguments}"));
    assert!(output.status.success(), "{arguments}: {}", words(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The record without the fields that depend on real time.
fn virtual_part(mut record: Value) -> String {
    let fields = record.as_object_mut().unwrap();
    assert!(fields.remove("simulated_verbs_per_second").unwrap().as_f64().unwrap() > 0.0);
    // Only records of figures have it.
    fields.remove("host_seconds");
    record.to_string()
}

const SMALL: &str = "--memory-nodes 2 --compute-nodes 2 --colocate --clients 12 --keys 20k --zipf-ranks 1e9 \
                     --seconds 0.001 --warmup 0.0002";

#[test]
fn the_same_seed_gives_the_same_record_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let run = |seed| {
        let arguments = format!("{SMALL} --workload write-intensive --seed {seed}");
        virtual_part(record(folder.path(), &arguments))
    };
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
}

#[test]
fn the_record_describes_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = format!("{SMALL} --workload ycsb-a --repeat 3");
    let record = record(folder.path(), &arguments);
    assert_eq!(record["warm_up_seconds"], 0.0002);
    assert_eq!(record["nic_values"]["cpu"]["operation_ns"], 2500.0);
    assert_eq!(record["nic_hash"].as_str().unwrap().len(), 16);
    assert!(record["command"].as_str().unwrap().contains("--repeat 3"), "{record}");
    let histogram = record["latency_histogram"].as_array().unwrap();
    let counted: u64 = histogram.iter().map(|pair| pair[1].as_u64().unwrap()).sum();
    assert_eq!(counted, record["operations"].as_u64().unwrap());
    let repeats = &record["repeats"];
    assert_eq!((repeats["mops"].as_array().unwrap().len(), &repeats["mops"][0]), (3, &record["mops"]));
    assert!(repeats["half_width95"].as_f64().unwrap() > 0.0, "{repeats}");
    let text = bench(folder.path(), &format!("--fabric sim {arguments}"));
    assert!(String::from_utf8_lossy(&text.stdout).contains("3 seeds: "));
}

#[test]
fn a_window_that_one_operation_fills_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let contended = "--fabric sim --variant fg --clients 64 --keys 1k --workload write-only --theta 1.2";
    let short = words(&bench(folder.path(), &format!("{contended} --seconds 0.0005")));
    assert!(short.contains("the longest operation took") && short.contains("--seconds"), "{short}");
    let long = words(&bench(folder.path(), "--fabric sim --clients 2 --keys 1k --workload ycsb-c"));
    assert_eq!(long, "");
}

#[test]
fn a_sweep_is_a_table_and_a_chart() {
    let folder = tempfile::tempdir().unwrap();
    let farwood = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farwood"));
        command.args(arguments.split_whitespace()).current_dir(folder.path()).stdin(Stdio::null());
        command.output().unwrap()
    };
    let swept = farwood(
        "sweep --out s.jsonl --csv s.csv -- --index sherman,smart --clients 2..8*2 --keys 2k --seconds 0.0005 \
         --warmup 0.0001 --workload ycsb-a",
    );
    assert!(swept.status.success(), "{}", words(&swept));
    let text = String::from_utf8_lossy(&swept.stdout).into_owned();
    assert!(text.starts_with("clients"), "{text}");
    let csv = fs::read_to_string(folder.path().join("s.csv")).unwrap();
    assert!(csv.starts_with("clients,index,variant,mops,"), "{csv}");
    assert_eq!((csv.lines().count(), text.lines().count()), (7, 7));
    let records = fs::read_to_string(folder.path().join("s.jsonl")).unwrap();
    let first: Value = serde_json::from_str(records.lines().next().unwrap()).unwrap();
    let again =
        farwood(&first["command"].as_str().unwrap().replace("farwood ", "").replace("bench", "bench --json"));
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&again["mops"], &again["operations"]), (&first["mops"], &first["operations"]));
    let charted = farwood("chart s.jsonl --x clients");
    assert!(charted.status.success(), "{}", words(&charted));
    let svg = fs::read_to_string(folder.path().join("s.svg")).unwrap();
    assert!(svg.contains("sherman") && svg.contains("smart") && svg.contains("latency_us.p99"));
    assert!(fs::metadata(folder.path().join("s.png")).unwrap().len() > 1000);
    for (arguments, named) in [
        ("chart s.jsonl --x theta", "differ in clients"),
        ("chart s.jsonl --x clients --y wings", "wings"),
        ("sweep --clients 8..64", "8..64"),
        ("sweep --wings 3", "--wings"),
        ("sweep --clients 0,1", "--clients"),
    ] {
        let refused = farwood(arguments);
        assert!(
            !refused.status.success() && words(&refused).contains(named),
            "{arguments}: {}",
            words(&refused)
        );
    }
}

fn trace(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farwood"));
    command.arg("trace").args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn an_operation_is_shown_with_its_verbs() {
    let folder = tempfile::tempdir().unwrap();
    let traced = |arguments: &str| -> Value {
        let output = trace(folder.path(), &format!("--json {arguments}"));
        assert!(output.status.success(), "{arguments}: {}", words(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // Round trips, and verbs: a post, an execution and a completion of each.
    for (arguments, answer, round_trips, verbs) in [
        ("get 7", "a value of 8 bytes", 1, 1),
        ("put 7", "a value was replaced", 2, 4),
        ("--keys 1000 put 1000", "the key was inserted", 2, 4),
        ("--keys 1000 get 1000", "the key is absent", 1, 1),
        ("--index smart get 7", "a value of 8 bytes", 1, 1),
        ("--index sphinx get 7", "a value of 8 bytes", 3, 4),
        ("--index smart --cold get 7", "a value of 8 bytes", 3, 3),
    ] {
        let traced = traced(arguments);
        let events = traced["events"].as_array().unwrap().len();
        let shown = (traced["answer"].as_str().unwrap(), traced["round_trips"].as_u64().unwrap(), events);
        assert_eq!(shown, (answer, round_trips, 3 * verbs), "{arguments}: {traced}");
    }
    let text = String::from_utf8(trace(folder.path(), "put 7").stdout).unwrap();
    assert!(text.contains("CAS 8 B at 0:device+") && text.contains(": won"), "{text}");
    assert!(words(&trace(folder.path(), "--index catfish get 7")).contains("--index"));
    assert!(words(&trace(folder.path(), "get 99999999999999")).contains("KEY"));
}

#[test]
fn the_record_names_the_simulated_network() {
    let folder = tempfile::tempdir().unwrap();
    let record = record(folder.path(), &format!("{SMALL} --workload ycsb-a --threads 3"));
    assert_eq!(
        (&record["fabric"], &record["nic"], &record["colocate"]),
        (&"sim".into(), &"cx5-100g".into(), &true.into())
    );
    assert_eq!(
        (&record["threads"], &record["clients"], &record["zipf_ranks"]),
        (&3.into(), &12.into(), &1_000_000_000.into())
    );
    assert_eq!(record["seconds"], 0.001, "virtual, and exactly as asked for");
    let p50 = record["by_operation"]["get"]["latency_us"]["p50"].as_f64().unwrap();
    assert!((3.0..30.0).contains(&p50), "a get takes a round trip and CPU time: {p50} us");
    let trips = record["by_operation"]["get"]["round_trips"]["mean"].as_f64().unwrap();
    assert!((1.0..1.1).contains(&trips), "its cache is warm: {trips}");
}

#[test]
fn every_workload_runs_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    for workload in ["load", "ycsb-d", "ycsb-e", "ycsb-f", "write-only", "range-write"] {
        let arguments =
            format!("--workload {workload} --keys 3000 --operations 2000 --clients 4 --compute-nodes 2");
        let record = record(folder.path(), &arguments);
        assert_eq!(record["operations"], 2000, "{workload}");
        assert!(record["mops"].as_f64().unwrap() > 0.0, "{workload}");
    }
    let load = record(folder.path(), "--workload load --keys 3000 --clients 3");
    let inserted = load["operations"].as_u64().unwrap();
    assert!((2998..=3000).contains(&inserted), "a load ends when a client finds no key: {inserted}");
    let late = record(folder.path(), "--workload load --keys 3000 --clients 3 --warmup-keys 1000");
    let (counted, warm_up) = (late["operations"].as_u64().unwrap(), late["warm_up_keys"].as_u64().unwrap());
    assert_eq!(warm_up, 1000);
    assert!((1990..=2000).contains(&counted), "the first keys do not count: {counted}");
    assert!(late["seconds"].as_f64().unwrap() < load["seconds"].as_f64().unwrap());
    let preloaded = record(folder.path(), "--workload load --keys 3000 --clients 3 --preloaded-keys 1000");
    let counted = preloaded["operations"].as_u64().unwrap();
    assert_eq!(preloaded["preloaded_keys"], 1000);
    assert!((1998..=2000).contains(&counted), "bulk-loaded keys are not inserted: {counted}");
    let cold = record(folder.path(), "--workload ycsb-c --keys 20k --operations 100 --warmup 0");
    assert!(cold["cache"]["hit_ratio"].as_f64().unwrap() < 0.95, "{cold}");
}

#[test]
fn a_card_may_be_a_file_and_must_be_a_card() {
    let folder = tempfile::tempdir().unwrap();
    let card =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/cards/cx5-100g.toml")).unwrap();
    let slow = card.replace("\"cx5-100g\"", "\"slow\"").replace("one_way_ns = 650.0", "one_way_ns = 65000.0");
    fs::write(folder.path().join("slow.toml"), slow).unwrap();
    let record = record(folder.path(), &format!("{SMALL} --nic slow.toml"));
    assert_eq!(record["nic"], "slow");
    assert!(record["latency_us"]["p50"].as_f64().unwrap() > 130.0, "{record}");
    fs::write(folder.path().join("wrong.toml"), card.replace("poll_ns", "pole_ns")).unwrap();
    for (nic, said, exit_code) in
        [("wrong.toml", "pole_ns", 2), ("none.toml", "none.toml", 2), ("cx9", "cx5-100g", 2)]
    {
        let output = bench(folder.path(), &format!("--fabric sim --nic {nic}"));
        assert_eq!(output.status.code(), Some(exit_code), "{nic}: {}", words(&output));
        assert!(words(&output).contains(said), "{nic}: {}", words(&output));
    }
}

#[test]
fn options_of_other_fabrics_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, said) in [
        ("--nic cx5-100g", "--fabric sim"),
        ("--colocate", "--fabric sim"),
        ("--fabric sim --peer lmdb", "--peer"),
        ("--workload load --preloaded-keys 5", "--fabric sim"),
        ("--fabric sim --workload ycsb-a --preloaded-keys 5", "--workload load"),
        ("--fabric sim --workload load --keys 10 --preloaded-keys 10", "fewer than --keys"),
        ("--fabric sim --workload load --keys 10 --preloaded-keys 5 --warmup-keys 5", "preloaded"),
        ("--workload load --warmup-keys 5", "--fabric sim"),
        ("--fabric sim --workload ycsb-a --warmup-keys 5", "--workload load"),
        ("--fabric sim --workload load --keys 10 --warmup-keys 10", "fewer than --keys"),
        ("--fabric sim --workload load --keys 3000 --warmup-keys 2900 --seconds 0.0001", "--warmup-keys"),
        ("--fabric sim --pool shm://mine", "--pool"),
    ] {
        let output = bench(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", words(&output));
        assert!(words(&output).contains(said), "{arguments}: {}", words(&output));
    }
}

#[test]
fn a_figure_yields_records_charts_and_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let reproduce = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farwood"));
        command.arg("reproduce").args(arguments.split_whitespace()).current_dir(folder.path());
        command.stdin(Stdio::null()).output().unwrap()
    };
    let list = String::from_utf8(reproduce("list").stdout).unwrap();
    for name in ["nic", "sherman-fig2", "sherman-fig3", "sherman-on-chip", "sherman-fig16", "sherman-table1"]
    {
        assert!(list.lines().any(|line| line.starts_with(&format!("{name} "))), "{name} in {list}");
    }
    let output = reproduce("sherman-on-chip --quick --json --out made");
    assert!(output.status.success(), "{}", words(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["figure"], &summary["runs"]), (&"sherman-on-chip".into(), &2.into()));
    assert_eq!(summary["comparisons"][0]["paper"], 110.0);
    let made = folder.path().join("made/sherman-on-chip");
    let records = fs::read_to_string(made.join("records.jsonl")).unwrap();
    let first: Value = serde_json::from_str(records.lines().next().unwrap()).unwrap();
    assert_eq!(records.lines().count(), 2);
    assert_eq!(first["command"], "farwood reproduce sherman-on-chip --quick");
    assert!(first["host_seconds"].as_f64().is_some() && !made.join("unfinished.jsonl").exists());
    assert!(fs::read_to_string(made.join("figure.svg")).unwrap().contains("</svg>"));
    assert!(fs::read(made.join("figure.png")).unwrap().starts_with(b"\x89PNG"));
    let report = fs::read_to_string(made.join("report.md")).unwrap();
    assert!(
        report.contains("farwood reproduce sherman-on-chip --quick") && report.contains("Commit"),
        "{report}"
    );
    let commit = first["commit"].as_str().unwrap().to_owned();
    let first = virtual_part(first);
    let again = reproduce("sherman-on-chip --quick --out made --jobs 2");
    assert!(again.status.success(), "{}", words(&again));
    // A commit with a mark does not determine the code, so the runs are repeated.
    let is_exact = !commit.ends_with('+') && commit != "unknown";
    assert_eq!(words(&again).contains("the records of 2 of 2 runs"), is_exact, "{commit}: {}", words(&again));
    let records = fs::read_to_string(made.join("records.jsonl")).unwrap();
    let again = virtual_part(serde_json::from_str(records.lines().next().unwrap()).unwrap());
    assert_eq!(first, again, "the same again");
    let unknown = reproduce("sherman-fig99");
    assert_eq!(unknown.status.code(), Some(2), "{}", words(&unknown));
    assert!(words(&unknown).contains("sherman-table1"), "{}", words(&unknown));
}
