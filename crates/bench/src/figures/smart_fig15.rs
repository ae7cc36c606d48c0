//! SMART, Figure 15: factor analysis; each step from ART adds one technique.

use super::builders::{predicted, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::smart_cluster::{CLIENTS, KeyKind, PAPER, SLIDES, smart, spec};
use super::smart_curves::WORKLOADS;
use crate::record::Record;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-fig15",
    title: "SMART, Figure 15: contributions of the techniques",
    setting: "Set-up of Figure 11, integer keys, 24 threads on each of 16 compute nodes with 2 clients each, as in \
              the artifact. Each step from ART to SMART adds one technique; for each step the slides print its gain \
              under one workload.",
    claim: "Each technique of SMART gains 1.1 to 3.0 times on the workload for which it is made.",
    key: "",
    cause: "The hottest key bounds +in-place and +rear-lock on A. A lock that is handed over within a compute node \
            waits for the answer to the write-back, and a compare-and-swap of another compute node takes hardly \
            longer, so the hand-over gains little. One write of +write-combining serves all clients of a compute node.",
    runs,
    compare,
};

const STEPS: [&str; 6] =
    ["art", "+lock-free", "+in-place", "+rear-lock", "+read-delegation", "+write-combining"];
/// For each step after the first: the position of its workload, and its gain.
const GAINS: [(usize, f64); 5] = [(0, 1.5), (2, 1.5), (1, 3.0), (3, 1.1), (1, 1.1)];

fn runs(effort: Effort) -> Vec<Run> {
    let of_workload = |workload| {
        STEPS.into_iter().map(move |step| spec(smart(step), workload, KeyKind::Integer, CLIENTS, effort))
    };
    runs_of(WORKLOADS.into_iter().flat_map(of_workload))
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |workload: usize, step: usize| &records[workload * STEPS.len() + step];
    let mut all = Vec::new();
    for (before, (workload, paper)) in GAINS.into_iter().enumerate() {
        let gain = of(workload, before + 1).mops / of(workload, before).mops;
        let point = format!("{}, {}", STEPS[before + 1], WORKLOADS[workload]);
        let panel = "Ratio of a step to the step before, on the workload of the slides";
        all.push(predicted(panel, point, Some(paper), gain, SLIDES));
    }
    for (what, value) in [
        ("Throughput, million operations per second", (|record| record.mops) as fn(&Record) -> f64),
        ("Median latency, us", |record| record.latency_us.p50),
        ("P99 latency, us", |record| record.latency_us.p99),
    ] {
        for (at, workload) in WORKLOADS.into_iter().enumerate() {
            for (step, name) in STEPS.into_iter().enumerate() {
                let panel = format!("{what}, {workload}");
                all.push(predicted(panel, name, None, value(of(at, step)), PAPER));
            }
        }
    }
    all
}
