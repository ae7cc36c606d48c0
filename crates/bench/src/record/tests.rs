//! Tests of the record: its field names, round trips, and refusal of unknown fields. Also makes sample records
//! for the tests of tables and charts.

use super::*;
use crate::record::measurement::{CostTotals, Measurement, OperationKind};

/// A record with several kinds of operation.
pub(crate) fn sample() -> Record {
    let mut measurement = Measurement::new();
    let costs = |round_trips, bytes_read, bytes_written| CostTotals {
        round_trips,
        reads: 1,
        writes: round_trips - 1,
        bytes_read,
        bytes_written,
        cache_hits: 1,
        ..CostTotals::default()
    };
    for i in 0..10_000 {
        measurement.record(OperationKind::Get, 700 + i % 500, &costs(1, 1024, 0));
        measurement.record(OperationKind::Put, 1800 + i % 900, &costs(3, 1024, 27));
    }
    for i in 0..1000 {
        measurement.record(OperationKind::Scan, 4000 + i, &costs(2, 4096, 0));
        measurement.record(OperationKind::Insert, 2500 + 20 * i, &costs(3, 1024, 40));
        measurement.record(OperationKind::Remove, 2000 + i, &costs(3, 1024, 18));
    }
    Record {
        index: "sherman".to_owned(),
        variant: Some("sherman".to_owned()),
        options: Map::from_iter([("node_bytes".to_owned(), Value::from(1024))]),
        consistency: Some("checksum".to_owned()),
        fabric: "shm".to_owned(),
        workload: "ycsb-a".to_owned(),
        distribution: "zipf".to_owned(),
        theta: 0.99,
        zipf_ranks: 274_937,
        keys: 274_937,
        key_bytes: 32,
        value_bytes: 8,
        memory_nodes: Some(2),
        compute_nodes: 4,
        threads: 1,
        clients: 4,
        memory_node_bytes: Some(64 << 20),
        seed: 42,
        commit: "abc1234".to_owned(),
        profile: "release".to_owned(),
        machine: Machine::default(),
        peer: Some("none".to_owned()),
        ratio: Some(1.5),
        ..Record::of(measurement.measured(0.01, Some(1 << 20)), measurement.by_operation(0.01, Some(1 << 20)))
    }
}

/// A record of a peer, without the fields that do not apply.
pub(crate) fn peer() -> Record {
    let mut measurement = Measurement::new();
    for i in 0..8_000 {
        measurement.record(OperationKind::Get, 900 + i % 700, &CostTotals::default());
        measurement.record(OperationKind::Put, 2800 + i % 2900, &CostTotals::default());
    }
    Record {
        index: "lmdb".to_owned(),
        fabric: "processes".to_owned(),
        peer: Some("lmdb".to_owned()),
        variant: None,
        consistency: None,
        memory_nodes: None,
        memory_node_bytes: None,
        ratio: None,
        ..Record::of(measurement.measured_locally(0.012), measurement.by_operation_locally(0.012))
    }
}

#[test]
fn the_names_of_the_fields_are_stable() {
    let record = serde_json::to_value(sample()).unwrap();
    let names: Vec<&str> = record.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = "index variant options consistency fabric workload distribution theta zipf_ranks keys \
        key_bytes value_bytes memory_nodes compute_nodes threads clients operations seconds mops latency_us \
        round_trips verbs_per_op bytes_per_op retries cache memory_node_bytes by_operation seed commit profile \
        machine peer ratio"
        .split_whitespace()
        .collect::<Vec<_>>();
    expected.sort_unstable();
    let mut names = names;
    names.sort_unstable();
    assert_eq!(names, expected);
    let fields = |value: &Value| -> String {
        let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        names.join(" ")
    };
    assert_eq!(fields(&record["latency_us"]), "max mean p50 p90 p99 p999");
    assert_eq!(fields(&record["round_trips"]), "histogram mean p50 p99");
    assert_eq!(fields(&record["verbs_per_op"]), "cas faa masked_cas read write write_imm");
    assert_eq!(fields(&record["bytes_per_op"]), "read written");
    assert_eq!(fields(&record["retries"]), "lock moved torn");
    assert_eq!(fields(&record["cache"]), "bytes hit_ratio");
    assert_eq!(fields(&record["by_operation"]), "get insert put remove scan");
    assert_eq!(record["by_operation"]["get"]["round_trips"]["histogram"]["1"], 10_000);
}

#[test]
fn records_without_a_profile_are_read_and_written_unchanged() {
    let line = Record { profile: String::new(), ..sample() }.to_json_line();
    assert!(!line.contains("profile"));
    assert_eq!(Record::from_json_line(&line).unwrap().to_json_line(), line);
}

#[test]
fn records_are_written_and_read_back_unchanged() {
    for record in [sample(), peer()] {
        let line = record.to_json_line();
        assert!(!line.contains('\n'));
        assert_eq!(Record::from_json_line(&line).unwrap(), record);
        let two = format!("{line}\n\n{line}\n");
        assert_eq!(Record::from_json_lines(&two).unwrap().len(), 2);
    }
}

#[test]
fn the_record_of_a_peer_has_no_fields_of_far_memory() {
    let line = peer().to_json_line();
    for field in ["round_trips", "verbs_per_op", "memory_nodes", "cache", "ratio", "consistency"] {
        assert!(!line.contains(&format!("\"{field}\"")), "{field} in {line}");
    }
}

#[test]
fn unknown_fields_are_named() {
    let line = sample().to_json_line();
    for (path, name) in [("{\"index\"", "speed"), ("{\"mean\"", "p75")] {
        let bad = line.replacen(path, &format!("{{\"{name}\":1,{}", &path[1..]), 1);
        let error = Record::from_json_line(&bad).unwrap_err().to_string();
        assert!(error.contains(&format!("unknown field `{name}`")), "{error}");
    }
    let error = Record::from_json_lines(&format!("{line}\n{{}}")).unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("missing field `index`"), "{error}");
}
