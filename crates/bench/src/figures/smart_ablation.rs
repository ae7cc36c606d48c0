//! SMART's factor analysis: from ART, one technique after the other.

use super::sherman_cluster::predicted;
use super::smart_cluster::{KeyKind, runs as runs_of, smart, spec};
use super::{Comparison, Effort, Figure, Run};
use crate::record::Record;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-ablation",
    title: "SMART: contributions of the techniques",
    setting: "Set-up of the YCSB figure, integer keys. From ART to SMART one technique is added after the other; for \
              each the slides print what it brings under one workload. ART here locks inner nodes for every change \
              of a slot and writes a new leaf for every update; its locks are those of SMART's inner nodes, queued \
              within a compute node.",
    runs,
    compare,
};

const STEPS: [&str; 6] =
    ["art", "+lock-free", "+in-place", "+rear-lock", "+read-delegation", "+write-combining"];
const WORKLOADS: [Workload; 4] = [Workload::Load, Workload::YcsbA, Workload::YcsbB, Workload::YcsbC];
/// For each step after the first: its workload's position, and what it brings.
const PAPER: [(usize, f64); 5] = [(0, 1.5), (2, 1.5), (1, 3.0), (3, 1.1), (1, 1.1)];
const SOURCE: &str = "SMART, slides";

fn runs(effort: Effort) -> Vec<Run> {
    let of_workload = |workload: Workload| {
        STEPS.into_iter().map(move |step| spec(smart(step), workload, KeyKind::Integer, effort))
    };
    runs_of(WORKLOADS.into_iter().flat_map(of_workload))
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |workload: usize, step: usize| &records[workload * STEPS.len() + step];
    let mut all = Vec::new();
    for (before, (workload, paper)) in PAPER.into_iter().enumerate() {
        let gain = of(workload, before + 1).mops / of(workload, before).mops;
        let point = format!("{}, {}", STEPS[before + 1], WORKLOADS[workload]);
        let panel = "A step over the step before, on the workload that the slides show, times";
        all.push(predicted(panel, point, Some(paper), gain, SOURCE));
    }
    for (at, workload) in WORKLOADS.into_iter().enumerate() {
        for (step, name) in STEPS.into_iter().enumerate() {
            let panel = format!("Throughput, {workload}, million operations a second");
            all.push(predicted(panel, name, None, of(at, step).mops, SOURCE));
        }
    }
    for (at, workload) in WORKLOADS.into_iter().enumerate() {
        for (step, name) in STEPS.into_iter().enumerate() {
            let panel = format!("Median latency, {workload}, us");
            all.push(predicted(panel, name, None, of(at, step).latency_us.p50, SOURCE));
        }
    }
    all
}
