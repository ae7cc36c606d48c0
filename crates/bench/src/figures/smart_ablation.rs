//! SMART's factor analysis: each step from ART adds one technique.

use super::builders::{predicted, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::smart_cluster::{KeyKind, smart, spec};
use crate::record::Record;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-ablation",
    title: "SMART: contributions of the techniques",
    setting: "Set-up of the YCSB figure, integer keys. Each step from ART to SMART adds one technique; for each step \
              the slides print its gain under one workload. ART here locks inner nodes for every change of a slot and \
              writes a new leaf for every update; its locks are those of SMART's inner nodes, queued within a compute \
              node.",
    claim: "Each technique of SMART gains 1.1 to 3.0 times on the workload for which it is made.",
    key: "",
    cause: "ART and the steps before the rear lock hold the lock of a node for each update here, and do not hand \
              locks over, so the gains are distributed differently over the steps. The slides do not state the number \
              of clients.",
    runs,
    compare,
};

const STEPS: [&str; 6] =
    ["art", "+lock-free", "+in-place", "+rear-lock", "+read-delegation", "+write-combining"];
const WORKLOADS: [Workload; 4] = [Workload::Load, Workload::YcsbA, Workload::YcsbB, Workload::YcsbC];
/// For each step after the first: the position of its workload, and its gain.
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
        let panel = "Ratio of a step to the step before, on the workload of the slides";
        all.push(predicted(panel, point, Some(paper), gain, SOURCE));
    }
    for (at, workload) in WORKLOADS.into_iter().enumerate() {
        for (step, name) in STEPS.into_iter().enumerate() {
            let panel = format!("Throughput, {workload}, million operations per second");
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
