//! The cluster of Sherman's evaluation (its §5.1).

use farwood_index::ordered::System;

use super::builders::{LoadedKeys, Time, ZIPF, simulated};
use super::figure::{CalibrationStatus, Comparison, Effort};
use crate::record::{Measured, Record};
use crate::run::RunSpec;
use crate::workload::Workload;
use crate::workload::distribution::Distribution;

/// The paper's keys.
pub(super) const RANKS: u64 = 1_000_000_000;
/// Clients of all compute nodes: 22 threads with one client each.
pub(super) const CLIENTS: u64 = 176;
/// The steps of Figures 10 and 11: their names here, and in the charts.
pub(super) const STEPS: [(&str, &str); 5] = [
    ("fg+", "fg+"),
    ("+combine", "+combine"),
    ("+on-chip", "+on-chip"),
    ("+hierarchical", "+hierarchical"),
    ("sherman", "+two-level = sherman"),
];

impl Time {
    /// The time of runs without contention, whose operations take microseconds.
    pub(super) fn calm(effort: Effort) -> Time {
        Time::of(effort, (0.0005, 0.001), (0.005, 0.02))
    }

    /// The time of runs whose clients wait for locks: an operation can take 20 ms without local locks, and a few with
    /// them.
    pub(super) fn contended(variant: &str, effort: Effort) -> Time {
        match variant {
            "+hierarchical" | "sherman" => Time::of(effort, (0.003, 0.006), (0.03, 0.15)),
            "+on-chip" => Time::of(effort, (0.003, 0.006), (0.05, 0.2)),
            _ => Time::of(effort, (0.005, 0.01), (0.1, 0.4)),
        }
    }
}

/// A run of `variant` on 8 machines, each a memory node and a compute node of 22 threads.
pub(super) fn spec(
    variant: &str,
    workload: Workload,
    distribution: Distribution,
    time: Time,
    effort: Effort,
) -> RunSpec {
    let keys = LoadedKeys { count: effort.pick(1_000_000, 10_000_000), ranks: RANKS };
    RunSpec {
        colocate: true,
        distribution,
        cache_bytes: Some(500_000_000),
        memory_nodes: 8,
        compute_nodes: 8,
        threads: Some(22),
        clients: Some(CLIENTS),
        ..simulated(System::Sherman, variant, "cx5-100g", workload, keys, time)
    }
}

/// The share of the hottest key in all operations.
pub(super) fn hottest_share(record: &Record, point: impl Into<String>) -> Comparison {
    let share = Distribution::Zipf { theta: record.theta }.share_of_hottest(record.zipf_ranks);
    Comparison {
        panel: "Share of the hottest key, % of operations".to_owned(),
        point: point.into(),
        paper: Some(100.0 * ZIPF.share_of_hottest(RANKS)),
        ours: 100.0 * share,
        ours_to: None,
        curve: None,
        status: CalibrationStatus::Given,
        source: "zipf 0.99 over the 1e9 keys of the paper",
    }
}

/// The share of operations, in percent, for whose value `holds`.
pub(super) fn percent<'a>(
    counts: impl IntoIterator<Item = (&'a u64, &'a u64)>,
    holds: impl Fn(u64) -> bool,
) -> f64 {
    let (mut some, mut all) = (0, 0);
    for (value, count) in counts {
        all += count;
        some += if holds(*value) { *count } else { 0 };
    }
    if all == 0 { 0.0 } else { 100.0 * some as f64 / all as f64 }
}

/// The measured fields of puts; empty if there were none.
pub(super) fn puts(record: &Record) -> Measured {
    record.by_operation.put.clone().unwrap_or_default()
}

/// Throughput, median and 99th percentile of a step relative to the step before it; latencies inverted.
pub(super) fn factors(before: &Record, after: &Record) -> [(&'static str, f64); 3] {
    [
        ("throughput", after.mops / before.mops),
        ("p50 (shorter)", before.latency_us.p50 / after.latency_us.p50),
        ("p99 (shorter)", before.latency_us.p99 / after.latency_us.p99),
    ]
}
