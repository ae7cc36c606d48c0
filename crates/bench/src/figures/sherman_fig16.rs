//! Sherman, Figure 16: the hierarchical on-chip lock, step by step.

use farwood_index::lock::{LocalLocks, LockMemory, LockOptions, LockPauses, LockWidth, Release};
use farwood_index::sherman::options::HAND_OVER_MAX;

use super::builders::predicted;
use super::figure::{CalibrationStatus, Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::sim_run::micro::{Cluster, LocksSpec};

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-fig16",
    title: "Sherman, Figure 16: the hierarchical on-chip lock, step by step",
    setting: "176 threads on 8 compute nodes take and release 10,240 locks of one memory node, zipf 0.99; ConnectX-5. \
              Locks are words of 64 bits, released by WRITE, with the code that locks the tree. The time of a failed \
              CAS in device memory was fitted to the first step, the local hand-over to the last one; the other steps \
              are predictions.",
    claim: "On-chip memory, a local lock table and hand-over each make locks faster: 2.89, 3.85 and 2.34 times the \
              throughput.",
    key: "",
    cause: "The factors of throughput agree. The 99th percentile with a local table is twice the paper's: without a \
              queue, the model's clients take the local lock in random order, and nothing bounds the wait of the last \
              one.",
    runs,
    compare,
};

/// The steps: name, memory of the locks, and coordination of local clients.
const STEPS: [(&str, LockMemory, LocalLocks); 5] = [
    ("base", LockMemory::Host, LocalLocks::None),
    ("+on-chip", LockMemory::Device, LocalLocks::None),
    ("+hierarchical", LockMemory::Device, LocalLocks::Spinning),
    ("+wait queue", LockMemory::Device, LocalLocks::Queued { hand_over_max: 0 }),
    ("+hand-over", LockMemory::Device, LocalLocks::Queued { hand_over_max: HAND_OVER_MAX }),
];

fn runs(effort: Effort) -> Vec<Run> {
    let run = |(_, memory, local)| {
        let pauses = LockPauses::None;
        let options = LockOptions { memory, width: LockWidth::Word, release: Release::Write, local, pauses };
        Run::Locks(LocksSpec {
            cluster: Cluster::new("cx5-100g", 1, 8, 22),
            locks: 10_240,
            options,
            theta: 0.99,
            seconds: effort.pick(0.005, 0.1),
            warm_up_seconds: effort.pick(0.002, 0.02),
        })
    };
    STEPS.into_iter().map(run).collect()
}

/// The ratio of a step's value to that of the step before.
fn step(point: &'static str, what: &str, paper: f64, ours: f64, status: CalibrationStatus) -> Comparison {
    Comparison {
        panel: format!("{what} of a step over the step before, times"),
        point: point.to_owned(),
        paper: Some(paper),
        ours,
        ours_to: None,
        curve: None,
        status,
        source: "Sherman §5.7",
    }
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mops = |at: usize| records[at].mops / records[at - 1].mops;
    let p50 = |at: usize| records[at - 1].latency_us.p50 / records[at].latency_us.p50;
    let p99 = |at: usize| records[at - 1].latency_us.p99 / records[at].latency_us.p99;
    let (fitted, predicted) = (CalibrationStatus::Fitted, CalibrationStatus::Predicted);
    let mut comparisons = vec![
        step("+on-chip", "Throughput", 2.89, mops(1), fitted),
        step("+hierarchical", "Throughput", 3.85, mops(2), predicted),
        step("+hand-over", "Throughput", 2.34, mops(4), fitted),
        step("+on-chip", "Median latency (shorter)", 3.01, p50(1), predicted),
        step("+hierarchical", "Median latency (shorter)", 5.39, p50(2), predicted),
        step("+on-chip", "99th percentile (shorter)", 2.88, p99(1), predicted),
        step("+hierarchical", "99th percentile (shorter)", 3.65, p99(2), predicted),
        step("+hand-over", "99th percentile (shorter)", 3.19, p99(4), predicted),
    ];
    for ((name, ..), record) in STEPS.iter().zip(records) {
        let paper = match *name {
            "+hierarchical" => Some(414.0),
            "+wait queue" => Some(372.0),
            _ => None,
        };
        comparisons.push(absolute("99th percentile, us", name, paper, record.latency_us.p99));
    }
    for ((name, ..), record) in STEPS.iter().zip(records) {
        let what = "Throughput, million locks taken and released per second";
        comparisons.push(absolute(what, name, None, record.mops));
    }
    comparisons
}

fn absolute(panel: &str, point: &str, paper: Option<f64>, ours: f64) -> Comparison {
    let (panel, point) = (panel.to_owned(), point.to_owned());
    predicted(panel, point, paper, ours, "Sherman §5.7")
}
