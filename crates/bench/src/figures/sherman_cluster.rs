//! The cluster that Sherman is measured on (its §5.1), and what its figures share.

use super::{Comparison, Effort, Run, Standing};
use crate::record::{Measured, Record};
use crate::run::{Amount, FabricKind, RunSpec};
use crate::workload::Workload;
use crate::workload::distribution::{Distribution, THETA_DEFAULT};

/// The paper's skew.
pub(super) const ZIPF: Distribution = Distribution::Zipf { theta: THETA_DEFAULT };
/// Ranks over which popularity is drawn, however many keys are loaded: the paper's keys.
pub(super) const RANKS: u64 = 1_000_000_000;
/// Clients of all compute nodes: one on each of 22 threads.
pub(super) const CLIENTS: u64 = 176;
/// The steps of Figures 10 and 11: the name here, and what the paper calls it.
pub(super) const STEPS: [(&str, &str); 5] = [
    ("fg+", "fg+"),
    ("+combine", "+combine"),
    ("+on-chip", "+on-chip"),
    ("+hierarchical", "+hierarchical"),
    ("sherman", "+two-level = sherman"),
];

/// Virtual seconds: before measuring, and measured.
#[derive(Clone, Copy)]
pub(super) struct Time {
    pub(super) warm_up_seconds: f64,
    pub(super) seconds: f64,
}

impl Time {
    /// Where nobody waits long: operations take microseconds.
    pub(super) fn calm(effort: Effort) -> Time {
        let (warm_up_seconds, seconds) = effort.pick((0.0005, 0.001), (0.005, 0.02));
        Time { warm_up_seconds, seconds }
    }

    /// Where clients wait for a lock: an operation may take 20 ms without local locks, and a few with them.
    pub(super) fn contended(variant: &str, effort: Effort) -> Time {
        let (warm_up_seconds, seconds) = match variant {
            "+hierarchical" | "sherman" => effort.pick((0.003, 0.006), (0.03, 0.15)),
            "+on-chip" => effort.pick((0.003, 0.006), (0.05, 0.2)),
            _ => effort.pick((0.005, 0.01), (0.1, 0.4)),
        };
        Time { warm_up_seconds, seconds }
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
    RunSpec {
        variant: Some(variant.to_owned()),
        fabric: FabricKind::Sim,
        nic: Some("cx5-100g".to_owned()),
        colocate: true,
        workload,
        distribution,
        zipf_ranks: Some(RANKS),
        keys: Some(effort.pick(1_000_000, 10_000_000)),
        cache_bytes: Some(500_000_000),
        memory_nodes: 8,
        compute_nodes: 8,
        threads: Some(22),
        clients: Some(CLIENTS),
        amount: Some(Amount::Seconds(time.seconds)),
        warm_up_seconds: Some(time.warm_up_seconds),
        ..RunSpec::default()
    }
}

/// The run of a spec.
pub(super) fn run(spec: RunSpec) -> Run {
    Run::Index(Box::new(spec))
}

/// A prediction.
pub(super) fn predicted(
    panel: impl Into<String>,
    point: impl Into<String>,
    paper: Option<f64>,
    ours: f64,
    source: &'static str,
) -> Comparison {
    Comparison {
        panel: panel.into(),
        point: point.into(),
        paper,
        ours,
        standing: Standing::Predicted,
        source,
    }
}

/// How often the hottest key is asked for, in percent.
pub(super) fn hottest_share(record: &Record, point: impl Into<String>) -> Comparison {
    let share = Distribution::Zipf { theta: record.theta }.share_of_hottest(record.zipf_ranks);
    Comparison {
        panel: "Share of the hottest key, % of operations".to_owned(),
        point: point.into(),
        paper: Some(100.0 * ZIPF.share_of_hottest(RANKS)),
        ours: 100.0 * share,
        standing: Standing::Given,
        source: "zipf 0.99 over the 1e9 keys of the paper",
    }
}

/// Shares of operations, in percent: those for which `holds`.
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

/// What was measured of one kind of operation; nothing where there was none.
pub(super) fn puts(record: &Record) -> Measured {
    record.by_operation.put.clone().unwrap_or_default()
}

/// Throughput, median and 99th percentile of a step over the step before it, the latencies the other way round.
pub(super) fn factors(before: &Record, after: &Record) -> [(&'static str, f64); 3] {
    [
        ("throughput", after.mops / before.mops),
        ("p50 (shorter)", before.latency_us.p50 / after.latency_us.p50),
        ("p99 (shorter)", before.latency_us.p99 / after.latency_us.p99),
    ]
}
