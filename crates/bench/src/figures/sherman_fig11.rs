//! Sherman, Figure 11: the contribution of each technique with uniform keys.

use super::builders::{Time, predicted, run};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::sherman_cluster::{STEPS, factors, spec};
use crate::record::Record;
use crate::workload::Workload;
use crate::workload::distribution::Distribution;

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-fig11",
    title: "Sherman, Figure 11: contributions of the techniques, uniform",
    setting: "Set-up of Table 1, uniform. Each step from FG+ to Sherman adds one technique. Latencies are those of all \
              operations. The paper prints the factors between the first and the last step.",
    claim: "With uniform keys, Sherman has 1.24 and 1.15 times the throughput of FG+, and a shorter 99th percentile.",
    key: "",
    cause: "The 99th percentile of write-only runs improves less here than in the paper (2.01 times), because queues \
              are the only noise of the model.",
    runs,
    compare,
};

const MIXES: [Workload; 3] = [Workload::WriteOnly, Workload::WriteIntensive, Workload::ReadIntensive];

fn runs(effort: Effort) -> Vec<Run> {
    let of_mix = |workload: Workload| {
        STEPS.iter().map(move |(variant, _)| {
            run(spec(variant, workload, Distribution::Uniform, Time::calm(effort), effort))
        })
    };
    MIXES.into_iter().flat_map(of_mix).collect()
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |mix: usize, step: usize| &records[mix * STEPS.len() + step];
    let source = "Sherman §5.2.2";
    let mut all = Vec::new();
    let papers = [[Some(1.24), Some(1.24), Some(2.01)], [Some(1.15), Some(1.19), Some(1.27)], [None; 3]];
    for (mix, papers) in papers.into_iter().enumerate() {
        for ((what, ours), paper) in factors(of(mix, 0), of(mix, STEPS.len() - 1)).into_iter().zip(papers) {
            all.push(predicted(
                "sherman over fg+, times",
                format!("{}, {what}", MIXES[mix]),
                paper,
                ours,
                source,
            ));
        }
    }
    for (panel, value) in [
        ("Throughput, million operations per second", (|r| r.mops) as fn(&Record) -> f64),
        ("Median latency, us", |r| r.latency_us.p50),
        ("99th percentile, us", |r| r.latency_us.p99),
    ] {
        for (mix, name) in MIXES.iter().enumerate() {
            all.extend(STEPS.iter().enumerate().map(|(step, (_, point))| {
                let ours = value(of(mix, step));
                predicted(panel, format!("{name}, {point}"), None, ours, "Sherman, Figure 11")
            }));
        }
    }
    all
}
