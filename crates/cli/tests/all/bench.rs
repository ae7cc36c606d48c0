//! `farwood bench`: its records, the arguments that it refuses, and the removal of its files.

use crate::machine::eventually;
use farwood_testkit::need;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A private directory for the segments of pools.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let shm = Path::new("/dev/shm");
        let root = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        Place(tempfile::tempdir_in(root).unwrap())
    }

    fn bench(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farwood"));
        command.arg("bench").args(arguments.split_whitespace());
        command.env("FARWOOD_SHM_DIR", self.0.path()).current_dir(self.0.path()).stdin(Stdio::null());
        // Credentials for memory nodes other than those that a run starts.
        command.env("FARWOOD_TOKEN_FILE", "/nowhere").env("FARWOOD_TLS_CA", "/nowhere");
        command
    }

    /// The records of a run that must succeed and print nothing else.
    fn records(&self, arguments: &str) -> Vec<Value> {
        let output = self.bench(arguments).arg("--json").output().unwrap();
        assert!(output.status.success(), "{arguments}: {}", words(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn record(&self, arguments: &str) -> Value {
        let mut records = self.records(arguments);
        assert_eq!(records.len(), 1, "{arguments}");
        records.remove(0)
    }

    /// The names of the files in the directory.
    fn leftovers(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

fn close(value: &Value, expected: f64) -> bool {
    (number(value) - expected).abs() < 1e-9
}

fn names(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

fn sorted(names: &str) -> Vec<&str> {
    let mut names: Vec<&str> = names.split_whitespace().collect();
    names.sort_unstable();
    names
}

/// Operations, and the histogram of round trips, of a record or of one of its kinds.
fn operations(measured: &Value) -> (u64, u64) {
    let histogram = measured["round_trips"]["histogram"].as_object().unwrap();
    let by_round_trips = histogram.values().map(|count| count.as_u64().unwrap()).sum();
    (measured["operations"].as_u64().unwrap(), by_round_trips)
}

#[test]
fn every_workload_has_its_operations() {
    let place = Place::new();
    let workloads = [
        ("load", "insert"),
        ("ycsb-a", "get put"),
        ("ycsb-b", "get put"),
        ("ycsb-c", "get"),
        ("ycsb-d", "get insert"),
        ("ycsb-e", "insert scan"),
        ("ycsb-f", "get put"),
        ("write-only", "put"),
        ("write-intensive", "get put"),
        ("read-intensive", "get put"),
        ("range-only", "scan"),
        ("range-write", "put scan"),
    ];
    for (workload, kinds) in workloads {
        let run = "--keys 3000 --operations 4000 --compute-nodes 2 --clients 4 --warmup 0.01 --range-size 20";
        let record = place.record(&format!("--workload {workload} {run}"));
        let expected = if workload == "load" { 3000 } else { 4000 };
        assert_eq!(operations(&record), (expected, expected), "{workload}");
        assert_eq!(names(&record["by_operation"]), sorted(kinds), "{workload}");
        let mut total = 0;
        for (kind, measured) in record["by_operation"].as_object().unwrap() {
            let (operations, by_round_trips) = operations(measured);
            assert_eq!(operations, by_round_trips, "{workload} {kind}");
            total += operations;
        }
        assert_eq!(total, expected, "{workload}: its kinds add up");
        assert_eq!(record["workload"], workload);
        assert!(number(&record["mops"]) > 0.0 && number(&record["latency_us"]["p50"]) > 0.0);
        let distribution = if workload == "ycsb-d" { "latest" } else { "zipf" };
        assert_eq!(record["distribution"], distribution, "{workload}");
    }
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn warm_operations_cost_what_each_variant_promises() {
    let place = Place::new();
    // Round trips of a put, and the minimum and maximum number of bytes that it writes.
    let variants = [
        // The last 8 of the 1,024 bytes are the lock.
        ("fg", 4.0, (1016.0, 1016.0)),
        ("fg+", 4.0, (1016.0, 1024.0)),
        ("+combine", 3.0, (1016.0, 1024.0)),
        ("+on-chip", 3.0, (1024.0, 1032.0)),
        ("+local", 3.0, (1024.0, 1032.0)),
        ("+queue", 3.0, (1024.0, 1032.0)),
        ("+hierarchical", 3.0, (1024.0, 1032.0)),
        ("+two-level", 3.0, (16.0, 32.0)),
        ("sherman", 3.0, (16.0, 32.0)),
        ("+lock-read", 2.0, (16.0, 32.0)),
    ];
    for (variant, round_trips, (least, most)) in variants {
        let run = "--workload ycsb-a --keys 5000 --operations 4000 --distribution uniform --warmup 0.01";
        let record = place.record(&format!("--variant {variant} {run}"));
        let (get, put) = (&record["by_operation"]["get"], &record["by_operation"]["put"]);
        assert!(close(&get["round_trips"]["mean"], 1.0), "{variant}: {get}");
        let in_node = ["fg", "fg+", "+combine"].contains(&variant);
        let node_bytes = if in_node { 1016.0 } else { 1024.0 };
        assert!(close(&get["bytes_per_op"]["read"], node_bytes), "{variant}: {get}");
        assert!(close(&put["round_trips"]["mean"], round_trips), "{variant}: {put}");
        let written = number(&put["bytes_per_op"]["written"]);
        assert!((least..=most).contains(&written), "{variant} wrote {written} B");
        assert!(close(&record["cache"]["hit_ratio"], 1.0), "{variant}");
        let named = if variant == "+two-level" { "sherman" } else { variant };
        assert_eq!(record["variant"], named);
    }
}

#[test]
fn a_cold_run_misses_and_wider_keys_and_values_work() {
    let place = Place::new();
    let run = "--workload ycsb-b --keys 20000 --operations 500 --distribution uniform";
    let cold = place.record(&format!("{run} --warmup 0"));
    assert!(number(&cold["cache"]["hit_ratio"]) < 1.0, "{cold}");
    assert!(number(&cold["round_trips"]["mean"]) > 1.0);
    let sizes = "--key-bytes 40 --value-bytes 100 --node-bytes 4KiB --memory-nodes 3 --cache-bytes 1MiB";
    let wide = place.record(&format!("{run} {sizes} --warmup 0.01"));
    for (field, expected) in [("key_bytes", 40), ("value_bytes", 100), ("memory_nodes", 3), ("keys", 20_000)]
    {
        assert_eq!(wide[field], expected, "{field}");
    }
    assert_eq!(wide["options"]["node_bytes"], 4096);
}

#[test]
fn the_record_has_exactly_the_documented_fields() {
    let place = Place::new();
    let record = place.record("--workload ycsb-a --keys 2000 --operations 1000 --warmup 0.01 --seed 7");
    let fields = "index variant options consistency fabric workload distribution theta zipf_ranks keys key_bytes \
                  value_bytes memory_nodes compute_nodes threads clients warm_up_seconds operations seconds mops \
                  latency_us latency_histogram \
                  round_trips verbs_per_op bytes_per_op retries cache memory_node_bytes by_operation seed commit \
                  profile machine";
    assert_eq!(names(&record), sorted(fields));
    for (field, fields) in [
        ("latency_us", "mean p50 p90 p99 p999 max"),
        ("round_trips", "mean p50 p99 histogram"),
        ("verbs_per_op", "read write cas masked_cas faa write_imm"),
        ("bytes_per_op", "read written"),
        ("retries", "torn lock moved"),
        ("cache", "bytes hit_ratio"),
        (
            "options",
            "leaves lock_memory lock_width release write_back local_locks lock_pauses lock_read node_bytes \
             cache_bytes_max fill",
        ),
    ] {
        assert_eq!(names(&record[field]), sorted(fields), "{field}");
    }
    let measured = "operations seconds mops latency_us round_trips verbs_per_op bytes_per_op retries cache";
    assert_eq!(names(&record["by_operation"]["get"]), sorted(measured));
    assert_eq!((record["seed"].as_u64(), record["index"].as_str()), (Some(7), Some("sherman")));
    assert_eq!((record["fabric"].as_str(), record["consistency"].as_str()), (Some("shm"), Some("checksum")));
    assert!(record["memory_node_bytes"].as_u64().unwrap() > 0);
    assert!(!record["machine"]["pages"].as_str().unwrap().is_empty());
}

#[test]
fn locks_of_16_bits_are_measured_and_recorded() {
    let place = Place::new();
    let run = "--workload ycsb-a --keys 2000 --operations 1000 --warmup 0.01";
    let packed = place.record(&format!("{run} --lock-width 16"));
    assert_eq!(
        (&packed["options"]["lock_width"], &packed["variant"]),
        (&"16 bit".into(), &"+lock-read".into())
    );
    assert!(number(&packed["verbs_per_op"]["masked_cas"]) > 0.0, "{packed}");
    let wide = place.record(run);
    assert_eq!(wide["options"]["lock_width"], "64 bit");
    assert!(close(&wide["verbs_per_op"]["masked_cas"], 0.0), "{wide}");
}

#[test]
fn operations_depend_on_the_seed_only() {
    let place = Place::new();
    let run = |seed: u32| {
        let run = "--workload write-intensive --keys 2000 --operations 3000";
        let record = place.record(&format!("{run} --seed {seed} --warmup 0.0{seed}"));
        let kinds = &record["by_operation"];
        let of = |kind: &str| (kinds[kind]["operations"].clone(), kinds[kind]["round_trips"].clone());
        (of("get"), of("put"), record["bytes_per_op"].clone(), record["verbs_per_op"].clone())
    };
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
}

#[test]
fn processes_threads_and_clients_are_as_requested() {
    let place = Place::new();
    let run = "--workload ycsb-c --keys 2000 --operations 1200 --warmup 0.01";
    let record = place.record(&format!("{run} --processes 3 --clients 6 --threads 2"));
    for (field, expected) in [("compute_nodes", 3), ("clients", 6), ("threads", 2)] {
        assert_eq!(record[field], expected, "{field}");
    }
    let record = place.record(&format!("{run} --clients 5 --threads 1"));
    assert_eq!((record["threads"].as_u64(), record["operations"].as_u64()), (Some(1), Some(1200)));
}

#[test]
fn keys_come_from_a_file() {
    let place = Place::new();
    let lines: String = (0..1000).map(|line| ["key of line ", &line.to_string(), "\n"].concat()).collect();
    fs::write(place.0.path().join("keys.txt"), lines).unwrap();
    let record = place.record("--workload ycsb-d --key-file keys.txt --operations 500 --warmup 0.01");
    assert_eq!((record["keys"].as_u64(), record["key_bytes"].as_u64()), (Some(800), Some(16)));
    let output = place.bench("--key-file none.txt").output().unwrap();
    assert!(words(&output).contains("none.txt"), "{}", words(&output));
}

#[test]
fn a_run_over_tcp_starts_its_memory_nodes() {
    let place = Place::new();
    let arguments =
        "--fabric tcp --workload ycsb-a --keys 5000 --operations 3000 --warmup 0.05 --memory-nodes 2";
    let record = place.record(&format!("{arguments} --compute-nodes 2 --threads 1 --clients 8"));
    assert_eq!((&record["fabric"], record["memory_nodes"].as_u64()), (&"tcp".into(), Some(2)));
    assert_eq!(record["clients"].as_u64(), Some(8));
    let trips = number(&record["by_operation"]["get"]["round_trips"]["mean"]);
    assert!((1.0..1.5).contains(&trips), "{trips} round trips per get");
    assert!(number(&record["memory_node_bytes"]) > 8e6);
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn without_json_the_output_is_a_table() {
    let place = Place::new();
    let output = place.bench("--workload ycsb-a --keys 2000 --operations 1000 --warmup 0").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("round trips") && text.contains("\nget "), "{text}");
}

#[test]
fn invalid_arguments_are_refused_with_a_remedy() {
    let place = Place::new();
    let refused = [
        ("--index btree", "--index", "sherman"),
        ("--fabric rdma", "--pool", "rdma://HOST:PORT"),
        ("--fabric tcp --pool shm://p", "--pool", "--fabric shm"),
        ("--pool tcp://127.0.0.1:1", "--pool", "--fabric tcp"),
        ("--fabric carrier", "no such fabric", "shm"),
        ("--variant best", "no variant 'best'", "+hierarchical"),
        ("--lock-width 32", "--lock-width", "16"),
        ("--workload ycsb-z", "no such workload", "ycsb-a"),
        ("--distribution normal", "no such distribution", "uniform"),
        ("--theta -1", "--theta", "0.99"),
        ("--zipf-ranks 0", "--zipf-ranks", "at least 1"),
        ("--keys 0", "--keys", "at least 1"),
        ("--keys many", "--keys", "10M"),
        ("--key-bytes 4", "--key-bytes", "8"),
        ("--key-bytes 2000", "--key-bytes", "1024"),
        ("--value-bytes 7", "--value-bytes", "at least 8"),
        ("--range-size 0", "--range-size", "at least 1"),
        ("--node-bytes 1KB", "--node-bytes", "KiB"),
        ("--node-bytes 64", "node", "64"),
        ("--cache-bytes lots", "--cache-bytes", "KiB"),
        ("--memory-nodes 0", "--memory-nodes", "1 to 256"),
        ("--compute-nodes 0", "--compute-nodes", "1 to 1024"),
        ("--threads 0", "--threads", "give 1 to 65536"),
        ("--clients 1 --compute-nodes 2", "--clients", "total"),
        ("--clients 1 --workload range-write", "--clients", "at least 2"),
        ("--seconds 0", "--seconds", "more than 0"),
        ("--operations 0", "--operations", "at least 1"),
        ("--seconds 1 --operations 1", "--operations", "cannot be used with"),
        ("--warmup -1", "--warmup", "0 (cold)"),
        ("--pool tcp://there", "--pool", "shm://NAME"),
        ("--speed 9", "--speed", "--help"),
    ];
    for (arguments, problem, remedy) in refused {
        let output = place.bench(arguments).output().unwrap();
        let words = words(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {words}");
        assert!(words.contains(problem) && words.contains(remedy), "{arguments}: {words}");
        assert!(output.stdout.is_empty(), "{arguments}");
    }
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn help_has_examples_and_hides_the_worker() {
    let place = Place::new();
    let help = String::from_utf8(place.bench("--help").output().unwrap().stdout).unwrap();
    assert!(help.contains("Examples:") && help.contains("--zipf-ranks"), "{help}");
    let all = Command::new(env!("CARGO_BIN_EXE_farwood")).arg("--help").output().unwrap();
    assert!(!String::from_utf8(all.stdout).unwrap().contains("worker"));
}

#[test]
fn a_worker_without_a_job_names_the_commands() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_farwood")).arg("worker").stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success() && words(&output).contains("farwood bench"), "{}", words(&output));
}

#[cfg(not(feature = "peers"))]
#[test]
fn a_missing_peer_is_refused_with_the_build_command() {
    let place = Place::new();
    let output = place.bench("--peer lmdb --keys 1000").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let command = "cargo build --release -p farwood-cli --features peers";
    assert!(words(&output).contains(command), "{}", words(&output));
}

#[cfg(feature = "peers")]
#[test]
fn peers_have_separate_records_and_farwoods_has_the_ratio() {
    let place = Place::new();
    let run = "--workload ycsb-a --keys 3000 --operations 4000 --compute-nodes 2 --warmup 0.01";
    let records = place.records(&format!("{run} --peer lmdb --peer btreemap --peer congee --peer skiplist"));
    let peers: Vec<&str> = records[1..].iter().map(|record| record["peer"].as_str().unwrap()).collect();
    assert_eq!(peers, ["lmdb", "btreemap", "congee", "skiplist"]);
    assert!(records[0].get("peer").is_none());
    let ratio = number(&records[0]["mops"]) / number(&records[1]["mops"]);
    assert!((number(&records[0]["ratio"]) / ratio - 1.0).abs() < 1e-9);
    assert_eq!(
        (records[1]["compute_nodes"].as_u64(), records[1]["fabric"].as_str()),
        (Some(2), Some("processes"))
    );
    assert_eq!(
        (records[2]["compute_nodes"].as_u64(), records[2]["fabric"].as_str()),
        (Some(1), Some("threads"))
    );
    for record in &records {
        assert_eq!(record["operations"], 4000);
        assert_eq!(names(&record["by_operation"]), ["get", "put"]);
    }
    assert!(records[1].get("round_trips").is_none() && records[1].get("ratio").is_none());
    assert_eq!(place.leftovers(), Vec::<String>::new());
    let output = place.bench("--peer redis").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn redis_and_memory_nodes_are_measured_with_the_same_connections_and_requests() {
    let place = Place::new();
    let run =
        "--fabric tcp --keys 2000 --operations 2000 --clients 4 --connections 2 --warmup 0.01 --peer redis";
    if need::program("redis-server").is_none() {
        let output = place.bench(run).output().unwrap();
        assert!(!output.status.success() && words(&output).contains("apt-get install redis-server"));
        return;
    }
    for (workload, kinds) in [
        ("ycsb-a", &["get", "put"][..]),
        ("ycsb-d", &["get", "insert"]),
        ("range-only", &["scan"]),
        ("ycsb-e", &["insert", "scan"]),
    ] {
        let records = place.records(&format!("{run} --workload {workload}"));
        assert_eq!(records.len(), 2, "{workload}");
        for record in &records {
            let counts = ["connections", "clients"].map(|name| record[name].as_u64().unwrap());
            assert_eq!(counts, [2, 4], "{workload}: {record}");
            assert_eq!(names(&record["by_operation"]), kinds);
            assert!(number(&record["loopback"]["sleeping_us"]) > 0.0, "{record}");
            assert!(["fast", "slow"].contains(&record["loopback"]["state"].as_str().unwrap()));
            assert!(record["pinned"].as_str().unwrap().contains("servers on"), "{record}");
        }
        assert_eq!(records[1]["options"]["outstanding_per_connection"], 2);
        let ratio = number(&records[0]["mops"]) / number(&records[1]["mops"]);
        assert!((number(&records[0]["ratio"]) / ratio - 1.0).abs() < 1e-9);
    }
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn memory_nodes_with_a_log_are_measured_beside_others_without_one() {
    let place = Place::new();
    let run = "--fabric tcp --keys 2000 --operations 2000 --clients 4 --connections 2 --warmup 0.01 --workload ycsb-a";
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().display();
    let redis = if need::program("redis-server").is_some() { "--peer redis" } else { "" };
    for (level, appendfsync) in [("interval=1", "everysec"), ("always", "always")] {
        let run = format!("{run} --durability {level} --files {files} --peer no-log {redis}");
        let records = place.records(&run);
        assert_eq!(records[0]["durability"], level);
        assert!(number(&records[0]["sync_us"]) > 0.0 && number(&records[0]["ratio"]) > 0.0, "{}", records[0]);
        assert_eq!(records[1]["peer"], "no-log");
        assert!(records[1].get("durability").is_none() && number(&records[1]["round_trips"]["mean"]) > 0.0);
        if let Some(redis) = records.get(2) {
            assert_eq!(redis["options"]["appendfsync"], appendfsync);
        }
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the folder is empty after the runs");
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn runs_that_redis_does_not_support_are_refused() {
    let place = Place::new();
    for (run, said) in [
        ("--peer redis", "--fabric tcp"),
        ("--fabric tcp --peer redis --workload ycsb-f", "ycsb-f"),
        ("--fabric tcp --peer redis --workload range-write", "range-write"),
        ("--fabric tcp --peer redis --pool tcp://127.0.0.1:1", "omit --pool"),
        ("--fabric tcp --peer redis --clients 3 --connections 2", "--connections"),
        ("--fabric tcp --peer no-log", "--durability"),
        ("--durability always", "--fabric tcp"),
        ("--fabric tcp --durability always --pool tcp://127.0.0.1:1", "omit --pool"),
        ("--fabric tcp --durability sometimes", "interval=SECONDS"),
        ("--fabric tcp --files /tmp", "--durability"),
        ("--fabric shm --connections 2 --clients 2", "only --fabric tcp"),
        ("--fabric tcp --connections 3 --compute-nodes 2 --clients 6", "multiple of the 2"),
    ] {
        let output = place.bench(run).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{run}: {}", words(&output));
        assert!(words(&output).contains(said), "{run}: {}", words(&output));
    }
}

#[test]
fn a_run_in_an_existing_pool_drops_its_index() {
    use farwood_fabric::{directory, superblock};
    use farwood_transport::runtime::block_on;
    use farwood_transport::shm::{Backing, PoolName, PoolSpec, SegmentDir, ShmPool, create};
    let place = Place::new();
    let (dir, name) = (SegmentDir::at(place.0.path()), "mine".parse::<PoolName>().unwrap());
    let spec = PoolSpec {
        name: name.clone(),
        nodes: 2,
        host_bytes: 64 << 20,
        host_bytes_max: None,
        device_bytes: superblock::DEVICE_BYTES_DEFAULT,
        backing: Backing::Growable,
        group: None,
        mode: None,
    };
    create(&dir, &spec).unwrap();
    let record = place.record("--pool shm://mine --keys 2000 --operations 1000 --compute-nodes 2");
    assert_eq!(record["memory_nodes"], 2);
    let pool = ShmPool::open(&dir, &name).unwrap();
    assert_eq!(block_on(directory::list(&pool.client())).unwrap(), []);
    let output = place.bench("--pool shm://yours --keys 2000").output().unwrap();
    assert!(words(&output).contains("farwood create shm://yours"), "{}", words(&output));
    assert_eq!(place.leftovers().len(), 3, "the segments and the journal of the pool that was there before");
}

/// A run that would take a minute; returned when its processes are measuring.
fn long_run(place: &Place) -> (Child, Vec<u32>) {
    let mut command =
        place.bench("--workload ycsb-a --keys 2000 --seconds 60 --compute-nodes 2 --warmup 0.01");
    let parent = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let children = || {
        let id = parent.id();
        let list = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<u32>>()
    };
    // The cleanup process, and two workers that are measuring: each has used 0.1 s of processor time.
    let at_work = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        after_name.split_whitespace().nth(11).is_some_and(|ticks| ticks.parse::<u64>().unwrap() >= 10)
    };
    eventually("two workers are at work", || children().iter().filter(|id| at_work(id)).count() == 2);
    let workers = children().into_iter().filter(at_work).collect();
    (parent, workers)
}

fn signal(name: &str, process: u32) {
    assert!(
        Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status().unwrap().success()
    );
}

fn is_there(process: u32) -> bool {
    // A zombie that waits for init counts as terminated.
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn a_worker_that_is_killed_ends_the_run_with_an_error() {
    let place = Place::new();
    let (parent, workers) = long_run(&place);
    signal("KILL", workers[1]);
    let output = parent.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(10), "{}", words(&output));
    let words = words(&output);
    assert!(words.contains("compute node 1") && words.contains("signal: 9"), "{words}");
    assert!(output.stdout.is_empty());
    assert!(!is_there(workers[0]), "the other worker has ended as well");
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn processes_and_files_are_removed_if_the_parent_is_killed() {
    for name in ["KILL", "INT"] {
        let place = Place::new();
        let (mut parent, workers) = long_run(&place);
        assert!(!place.leftovers().is_empty());
        signal(name, parent.id());
        parent.wait().unwrap();
        eventually("the workers end", || workers.iter().all(|worker| !is_there(*worker)));
        eventually("the pool is removed", || place.leftovers().is_empty());
    }
}
