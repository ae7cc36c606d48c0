//! Sherman, Figure 10: the contribution of each technique under skew.

use super::builders::{Time, ZIPF, predicted, run};
use super::figure::{Comparison, Effort, Figure, Run};
use super::sherman_cluster::{STEPS, factors, hottest_share, puts, spec};
use crate::record::Record;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-fig10",
    title: "Sherman, Figure 10: contributions of the techniques, zipf 0.99",
    setting: "Set-up of Table 1. Each step from FG+ to Sherman adds one technique. Latencies are those of all \
              operations; half of the operations of the write-intensive mix are lookups, so its median can fall \
              between the two kinds, and the median of puts is shown as well. The paper prints factors and two \
              medians, but not the values of its plots. The paper's throughput and 99th percentile of each step are \
              those of FG in Table 1, times the printed factors. FG+ itself deviates, and with it the step from FG+ to \
              +combine and every ratio to FG+; papers.md explains why.",
    runs,
    compare,
};

const MIXES: [Workload; 3] = [Workload::WriteOnly, Workload::WriteIntensive, Workload::ReadIntensive];
/// Positions in [`MIXES`] and in [`STEPS`].
const WRITE_ONLY: usize = 0;
const WRITE_INTENSIVE: usize = 1;
const READ_INTENSIVE: usize = 2;
const COMBINE: usize = 1;
const HIERARCHICAL: usize = 3;
const SHERMAN: usize = 4;

/// Throughput, p50 and p99 of each step relative to the one before it, write-intensive.
const PAPER: [[Option<f64>; 3]; 4] = [
    [Some(3.37), Some(1.14), Some(3.18)],
    [Some(3.06), None, Some(3.48)],
    [Some(2.22), Some(1.12), Some(2.68)],
    [Some(1.03), Some(7.3 / 6.9), None],
];
/// Throughput of each step, write-intensive: that of Table 1 times the factors.
const PAPER_MOPS: [f64; 5] = [0.34, 1.15, 3.51, 7.78, 8.02];
/// 99th percentile of each step, write-intensive: that of Table 1 times the factors.
const PAPER_P99_US: [f64; 5] = [19_890.0, 6255.0, 1797.0, 671.0, 659.0];
const SOURCE: &str = "Sherman §5.2.1";
const SOURCE_PRODUCT: &str = "Table 1, and by the factors of §5.2.1";

fn runs(effort: Effort) -> Vec<Run> {
    let of_mix = |workload: Workload| {
        STEPS.iter().map(move |(variant, _)| {
            let time = match workload {
                Workload::ReadIntensive => Time::calm(effort),
                _ => Time::contended(variant, effort),
            };
            run(spec(variant, workload, ZIPF, time, effort))
        })
    };
    MIXES.into_iter().flat_map(of_mix).collect()
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |mix: usize, step: usize| &records[mix * STEPS.len() + step];
    let mut all = vec![hottest_share(&records[0], "all mixes")];
    for (mix, papers) in [(WRITE_ONLY, [24.7, 1.2, 35.8]), (WRITE_INTENSIVE, [23.6, 1.4, 30.2])] {
        for ((what, ours), paper) in factors(of(mix, 0), of(mix, SHERMAN)).into_iter().zip(papers) {
            let point = format!("{}, {what}", MIXES[mix]);
            all.push(predicted("sherman over fg+, times", point, Some(paper), ours, SOURCE));
        }
    }
    for (at, papers) in PAPER.into_iter().enumerate() {
        let (before, after) = (of(WRITE_INTENSIVE, at), of(WRITE_INTENSIVE, at + 1));
        for ((what, ours), paper) in factors(before, after).into_iter().zip(papers) {
            let point = format!("{}, {what}", STEPS[at + 1].1);
            all.push(predicted(
                "A step over the step before, write-intensive, times",
                point,
                paper,
                ours,
                SOURCE,
            ));
        }
    }
    all.extend((0..STEPS.len()).map(|step| {
        let paper = Some(PAPER_MOPS[step]);
        let panel = "Throughput, write-intensive, million operations per second";
        predicted(panel, STEPS[step].1, paper, of(WRITE_INTENSIVE, step).mops, SOURCE_PRODUCT)
    }));
    for mix in [WRITE_ONLY, READ_INTENSIVE] {
        let panel = format!("Throughput, {}, million operations per second", MIXES[mix]);
        all.extend((0..STEPS.len()).map(|step| {
            predicted(panel.clone(), STEPS[step].1, None, of(mix, step).mops, "Sherman, Figure 10")
        }));
    }
    all.extend(medians(&of));
    all.extend(tails(&of));
    all
}

fn medians<'a>(of: &impl Fn(usize, usize) -> &'a Record) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (mix, name) in MIXES.iter().enumerate() {
        for (step, (_, point)) in STEPS.iter().enumerate() {
            let paper = match (mix, step) {
                (WRITE_INTENSIVE, HIERARCHICAL) => Some(7.3),
                (WRITE_INTENSIVE, SHERMAN) => Some(6.9),
                _ => None,
            };
            let panel = format!("Median latency, {name}, us");
            all.push(predicted(panel, *point, paper, of(mix, step).latency_us.p50, SOURCE));
        }
    }
    for (step, (_, point)) in STEPS.iter().enumerate() {
        let ours = puts(of(WRITE_INTENSIVE, step)).latency_us.p50;
        all.push(predicted("Median latency of puts, write-intensive, us", *point, None, ours, SOURCE));
    }
    let of_reads = [HIERARCHICAL, SHERMAN].map(|step| of(READ_INTENSIVE, step).latency_us.p50);
    let longer = 1000.0 * (of_reads[1] - of_reads[0]);
    let panel = "Median of sherman over that of +hierarchical, read-intensive, ns";
    all.push(predicted(panel, "longer by", Some(100.0), longer, SOURCE));
    all
}

fn tails<'a>(of: &impl Fn(usize, usize) -> &'a Record) -> Vec<Comparison> {
    let p99 = |mix: usize, step: usize| of(mix, step).latency_us.p99;
    let mut all = Vec::new();
    for (mix, name) in MIXES.iter().enumerate() {
        for (step, (_, point)) in STEPS.iter().enumerate() {
            let (paper, source) = match (mix, step) {
                (WRITE_INTENSIVE, _) => (Some(PAPER_P99_US[step]), SOURCE_PRODUCT),
                (READ_INTENSIVE, 0) => (Some(15.3), SOURCE),
                (READ_INTENSIVE, COMBINE) => (Some(12.9), SOURCE),
                _ => (None, SOURCE),
            };
            all.push(predicted(
                format!("99th percentile, {name}, us"),
                *point,
                paper,
                p99(mix, step),
                source,
            ));
        }
    }
    let panel = "99th percentile (shorter), read-intensive, times";
    let factor = p99(READ_INTENSIVE, 0) / p99(READ_INTENSIVE, COMBINE);
    all.push(predicted(panel, "+combine over fg+", Some(15.3 / 12.9), factor, SOURCE));
    let factor = p99(READ_INTENSIVE, 0) / p99(READ_INTENSIVE, SHERMAN);
    all.push(predicted(panel, "sherman over fg+ (25 % shorter)", Some(1.0 / 0.75), factor, SOURCE));
    all
}
