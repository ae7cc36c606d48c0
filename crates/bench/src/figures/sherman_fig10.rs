//! Sherman, Figure 10: the contribution of each technique under skew.

use super::builders::{Time, ZIPF, predicted, ranged, run};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::sherman_cluster::{STEPS, factors, hottest_share, puts, spec};
use crate::record::Record;
use crate::run::{FailedCas, RunSpec};
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-fig10",
    title: "Sherman, Figure 10: contributions of the techniques, zipf 0.99",
    setting: "Set-up of Table 1. Each step from FG+ to Sherman adds one technique. Latencies are those of all \
              operations; half of the operations of the write-intensive mix are lookups, so its median can fall \
              between the two kinds, and the median of puts is shown as well. The paper prints factors and two \
              medians, but not the values of its plots. The paper's throughput and 99th percentile of each step are \
              those of FG in Table 1, times the printed factors. With locks in nodes (FG+, +combine), nearly all \
              clients repeat failed CASes on one word, and the duration of a failed CAS in host memory decides the \
              result: 148 ns is fitted to Figure 2, 333 ns is that of a successful CAS. Under skew these two steps, \
              and every ratio to them, are therefore ranges between the results of both. The paper's own numbers \
              contradict each other here: by Figure 2, the hottest lock is taken and released every 20.7 us under \
              full contention, but by the throughput of FG+ every 139 us, although the tree adds only a READ and a \
              WRITE between the CAS and the release.",
    claim: "Under skew, Sherman has 23.6 times the throughput of FG+ and a 99th percentile that is 30.2 times \
              shorter; command combination alone gives 3.37 times.",
    key: "",
    cause: "The deviations are in the two steps with locks in nodes. With the duration of a failed CAS that Figure 2 \
              gives, +combine agrees and FG+ is 2.2 times too fast; with that of a successful CAS, FG+ agrees and \
              +combine has less than half of the paper's throughput. No duration meets both: an update of FG+ waits \
              three times in a card that is full of failed CASes, and +combine saves one of the three, so it gains \
              1.5 times at most. A gain of 3.37 needs another difference between the measured FG+ and +combine, which \
              the paper does not state. Later steps agree.",
    runs,
    compare,
};

const MIXES: [Workload; 3] = [Workload::WriteOnly, Workload::WriteIntensive, Workload::ReadIntensive];
/// The mixes whose steps with locks in nodes run with both durations of a failed CAS.
const CONTENDED: [Workload; 2] = [Workload::WriteOnly, Workload::WriteIntensive];
/// The number of first steps whose locks are in nodes.
const IN_NODES: usize = 2;
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
    let slow = CONTENDED.into_iter().flat_map(|workload| {
        STEPS[..IN_NODES].iter().map(move |(variant, _)| {
            let spec = spec(variant, workload, ZIPF, Time::contended(variant, effort), effort);
            run(RunSpec { failed_cas: FailedCas::LikeSuccess, ..spec })
        })
    });
    MIXES.into_iter().flat_map(of_mix).chain(slow).collect()
}

/// The records of the figure.
struct Steps<'r>(&'r [Record]);

impl<'r> Steps<'r> {
    /// The record of a step with the fitted duration of a failed CAS.
    fn of(&self, mix: usize, step: usize) -> &'r Record {
        &self.0[mix * STEPS.len() + step]
    }

    /// The record of a step with the long duration of a failed CAS, if the step depends on it.
    fn slow(&self, mix: usize, step: usize) -> &'r Record {
        if mix < CONTENDED.len() && step < IN_NODES {
            &self.0[MIXES.len() * STEPS.len() + mix * IN_NODES + step]
        } else {
            self.of(mix, step)
        }
    }

    /// A comparison with the value of a step, or with the range of its values.
    fn compare(
        &self,
        (mix, step): (usize, usize),
        panel: impl Into<String>,
        (paper, source): (Option<f64>, &'static str),
        value: impl Fn(&Record) -> f64,
    ) -> Comparison {
        let comparison = predicted(panel, STEPS[step].1, paper, value(self.of(mix, step)), source);
        ranged(comparison, value(self.slow(mix, step)))
    }

    /// The factors from step `before` to step `after`, with the paper's.
    fn factors(
        &self,
        mix: usize,
        [before, after]: [usize; 2],
        (panel, name): (&str, &str),
        papers: [Option<f64>; 3],
    ) -> Vec<Comparison> {
        let fast = factors(self.of(mix, before), self.of(mix, after));
        let slow = factors(self.slow(mix, before), self.slow(mix, after));
        let of = |(((what, ours), (_, slow)), paper)| {
            ranged(predicted(panel, format!("{name}, {what}"), paper, ours, SOURCE), slow)
        };
        fast.into_iter().zip(slow).zip(papers).map(of).collect()
    }
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let steps = Steps(records);
    let of = |mix: usize, step: usize| steps.of(mix, step);
    let mut all = vec![hottest_share(&records[0], "all mixes")];
    for (mix, papers) in [(WRITE_ONLY, [24.7, 1.2, 35.8]), (WRITE_INTENSIVE, [23.6, 1.4, 30.2])] {
        let (panel, name) = ("sherman over fg+, times", MIXES[mix].name());
        all.extend(steps.factors(mix, [0, SHERMAN], (panel, name), papers.map(Some)));
    }
    for (at, papers) in PAPER.into_iter().enumerate() {
        let panel = "A step over the step before, write-intensive, times";
        all.extend(steps.factors(WRITE_INTENSIVE, [at, at + 1], (panel, STEPS[at + 1].1), papers));
    }
    all.extend((0..STEPS.len()).map(|step| {
        let panel = "Throughput, write-intensive, million operations per second";
        let paper = (Some(PAPER_MOPS[step]), SOURCE_PRODUCT);
        steps.compare((WRITE_INTENSIVE, step), panel, paper, |record| record.mops)
    }));
    for mix in [WRITE_ONLY, READ_INTENSIVE] {
        let panel = format!("Throughput, {}, million operations per second", MIXES[mix]);
        all.extend((0..STEPS.len()).map(|step| {
            let paper = (None, "Sherman, Figure 10");
            steps.compare((mix, step), panel.clone(), paper, |record| record.mops)
        }));
    }
    all.extend(medians(&steps));
    all.extend(tails(&steps));
    let longer = |step: usize| 1000.0 * of(READ_INTENSIVE, step).latency_us.p50;
    let panel = "Median of sherman over that of +hierarchical, read-intensive, ns";
    let ours = longer(SHERMAN) - longer(HIERARCHICAL);
    all.push(predicted(panel, "longer by", Some(100.0), ours, SOURCE));
    all
}

fn medians(steps: &Steps<'_>) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (mix, name) in MIXES.iter().enumerate() {
        for step in 0..STEPS.len() {
            let paper = match (mix, step) {
                (WRITE_INTENSIVE, HIERARCHICAL) => Some(7.3),
                (WRITE_INTENSIVE, SHERMAN) => Some(6.9),
                _ => None,
            };
            let panel = format!("Median latency, {name}, us");
            all.push(steps.compare((mix, step), panel, (paper, SOURCE), |record| record.latency_us.p50));
        }
    }
    all.extend((0..STEPS.len()).map(|step| {
        let panel = "Median latency of puts, write-intensive, us";
        steps.compare((WRITE_INTENSIVE, step), panel, (None, SOURCE), |record| puts(record).latency_us.p50)
    }));
    all
}

fn tails(steps: &Steps<'_>) -> Vec<Comparison> {
    let p99 = |mix: usize, step: usize| steps.of(mix, step).latency_us.p99;
    let mut all = Vec::new();
    for (mix, name) in MIXES.iter().enumerate() {
        for (step, paper_us) in PAPER_P99_US.into_iter().enumerate() {
            let paper = match (mix, step) {
                (WRITE_INTENSIVE, _) => (Some(paper_us), SOURCE_PRODUCT),
                (READ_INTENSIVE, 0) => (Some(15.3), SOURCE),
                (READ_INTENSIVE, COMBINE) => (Some(12.9), SOURCE),
                _ => (None, SOURCE),
            };
            let panel = format!("99th percentile, {name}, us");
            all.push(steps.compare((mix, step), panel, paper, |record| record.latency_us.p99));
        }
    }
    let panel = "99th percentile (shorter), read-intensive, times";
    let factor = p99(READ_INTENSIVE, 0) / p99(READ_INTENSIVE, COMBINE);
    all.push(predicted(panel, "+combine over fg+", Some(15.3 / 12.9), factor, SOURCE));
    let factor = p99(READ_INTENSIVE, 0) / p99(READ_INTENSIVE, SHERMAN);
    all.push(predicted(panel, "sherman over fg+ (25 % shorter)", Some(1.0 / 0.75), factor, SOURCE));
    all
}
