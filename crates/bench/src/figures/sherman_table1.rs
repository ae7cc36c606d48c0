//! Sherman, Table 1: a tree with plain one-sided locks, FG+ and Sherman.

use super::builders::{Time, ZIPF, predicted, ranged, run};
use super::figure::{CalibrationStatus, Comparison, Effort, Figure};
use super::run::Run;
use super::sherman_cluster::{factors, hottest_share, spec};
use crate::record::{Latency, Record};
use crate::run::{FailedCas, RunSpec};
use crate::workload::Workload;
use crate::workload::distribution::Distribution;

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-table1",
    title: "Sherman, Table 1: index performance of FG, FG+ and Sherman",
    setting: "8 machines, each a memory node and a compute node with 22 clients on 22 threads; ConnectX-5; keys and \
              values of 8 B, nodes of 1 KiB filled to 80 %, 500 MB of index cache. The paper loads 1e9 keys; here it \
              is 10 million (1 million with --quick), and popularity is drawn over 1e9 ranks, which are hashed to the \
              keys. The locks of fg and fg+ are in their nodes, as in trees before Sherman (its §4.3), and so share \
              few of the NIC's atomic slots. The table shows the paper's own implementation of FG with an index \
              cache; for FG+ and Sherman the paper prints ratios. Under skew, the values of fg and fg+ with writes \
              are ranges: a failed CAS in host memory takes 148 ns (fitted to Figure 2) at one end, and 333 ns (like \
              a successful one) at the other; sherman-fig10 describes why.",
    claim: "FG serves 31.8 million operations per second with reads and 18.7 with half writes, and collapses to 0.34 \
              under skew.",
    key: "",
    cause: "The 90th and 99th percentiles of uniform runs are shorter here, because queues are the only noise of the \
              model. Under skew, the duration of a failed CAS decides throughput and tail: with the longer one, both \
              are within 8 % of the paper's.",
    runs,
    compare,
};

const VARIANTS: [&str; 3] = ["fg", "fg+", "sherman"];
/// The number of first variants whose locks are in nodes.
const IN_NODES: usize = 2;

/// A column of the table: workload, distribution, and the paper's values of FG.
struct Cell {
    workload: Workload,
    distribution: Distribution,
    name: &'static str,
    mops: f64,
    /// 50th, 90th and 99th percentile in microseconds.
    latency_us: [f64; 3],
}

const CELLS: [Cell; 4] = [
    Cell {
        workload: Workload::ReadIntensive,
        distribution: Distribution::Uniform,
        name: "read-intensive, uniform",
        mops: 31.8,
        latency_us: [4.9, 6.4, 14.9],
    },
    Cell {
        workload: Workload::ReadIntensive,
        distribution: ZIPF,
        name: "read-intensive, zipf 0.99",
        mops: 32.9,
        latency_us: [4.7, 6.2, 15.3],
    },
    Cell {
        workload: Workload::WriteIntensive,
        distribution: Distribution::Uniform,
        name: "write-intensive, uniform",
        mops: 18.7,
        latency_us: [9.5, 14.3, 19.0],
    },
    Cell {
        workload: Workload::WriteIntensive,
        distribution: ZIPF,
        name: "write-intensive, zipf 0.99",
        mops: 0.34,
        latency_us: [10.0, 68.7, 19_890.0],
    },
];

/// Positions of cells in [`CELLS`].
const READ_UNIFORM: usize = 0;
const WRITE_UNIFORM: usize = 2;
const WRITE_ZIPF: usize = 3;

fn runs(effort: Effort) -> Vec<Run> {
    let of_variant = |variant: &'static str| {
        CELLS
            .iter()
            .map(move |cell| run(spec(variant, cell.workload, cell.distribution, time(cell, effort), effort)))
    };
    let cell = &CELLS[WRITE_ZIPF];
    let slow = VARIANTS[..IN_NODES].iter().map(|variant| {
        let spec = spec(variant, cell.workload, cell.distribution, time(cell, effort), effort);
        run(RunSpec { failed_cas: FailedCas::LikeSuccess, ..spec })
    });
    VARIANTS.into_iter().flat_map(of_variant).chain(slow).collect()
}

fn time(cell: &Cell, effort: Effort) -> Time {
    // Under contention an operation may take 20 ms, and the measured phase has to be long beside that.
    if cell.workload == Workload::WriteIntensive && cell.distribution == ZIPF {
        Time::contended("fg", effort)
    } else {
        Time::calm(effort)
    }
}

/// The records of the table.
struct Cells<'r>(&'r [Record]);

impl<'r> Cells<'r> {
    /// The record of a cell with the fitted duration of a failed CAS.
    fn of(&self, variant: usize, column: usize) -> &'r Record {
        &self.0[variant * CELLS.len() + column]
    }

    /// The record of a cell with the long duration of a failed CAS, if the cell depends on it.
    fn slow(&self, variant: usize, column: usize) -> &'r Record {
        if column == WRITE_ZIPF && variant < IN_NODES {
            &self.0[VARIANTS.len() * CELLS.len() + variant]
        } else {
            self.of(variant, column)
        }
    }

    /// A comparison with the value of a cell, or with the range of its values.
    fn compare(
        &self,
        (variant, column): (usize, usize),
        (panel, point): (&str, String),
        paper: Option<f64>,
        value: impl Fn(&Record) -> f64,
    ) -> Comparison {
        let comparison = predicted(panel, point, paper, value(self.of(variant, column)), "Sherman, Table 1");
        ranged(comparison, value(self.slow(variant, column)))
    }

    /// Ratios of Sherman to FG+, write-intensive: throughput; median and 99th percentile inverted.
    fn ratios(&self, column: usize, skew: &str, papers: [f64; 3]) -> Vec<Comparison> {
        let fast = factors(self.of(1, column), self.of(2, column));
        let slow = factors(self.slow(1, column), self.slow(2, column));
        let of = |(((what, ours), (_, slow)), paper)| {
            let (panel, source) =
                ("sherman over fg+, write-intensive, times", "Sherman §5.2, Figures 10 and 11");
            ranged(predicted(panel, format!("{skew}, {what}"), Some(paper), ours, source), slow)
        };
        fast.into_iter().zip(slow).zip(papers).map(of).collect()
    }
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let cells = Cells(records);
    let mut comparisons = vec![hottest_share(cells.of(0, 1), "zipf 0.99")];
    for (at, variant) in VARIANTS.iter().enumerate() {
        for (column, cell) in CELLS.iter().enumerate() {
            let paper = (at == 0).then_some(cell.mops);
            let names = ("Throughput, million operations per second", format!("{variant}, {}", cell.name));
            comparisons.push(cells.compare((at, column), names, paper, |record| record.mops));
        }
    }
    for at in 0..VARIANTS.len() {
        for column in 0..CELLS.len() {
            comparisons.extend(latencies(&cells, at, column));
        }
    }
    comparisons.extend(cells.ratios(WRITE_ZIPF, "zipf 0.99", [23.6, 1.4, 30.2]));
    comparisons.extend(cells.ratios(WRITE_UNIFORM, "uniform", [1.15, 1.19, 1.27]));
    let names = ("fg write-intensive, uniform over skewed", "throughput".to_owned());
    let paper = Some(CELLS[WRITE_UNIFORM].mops / CELLS[WRITE_ZIPF].mops);
    let uniform = cells.of(0, WRITE_UNIFORM).mops;
    comparisons.push(cells.compare((0, WRITE_ZIPF), names, paper, |record| uniform / record.mops));
    comparisons
}

/// A percentile: its name, and its value.
type Percentile = (&'static str, fn(&Latency) -> f64);

/// The percentiles of a cell.
fn latencies(cells: &Cells<'_>, variant: usize, column: usize) -> Vec<Comparison> {
    let papers = if variant == 0 { CELLS[column].latency_us.map(Some) } else { [None; 3] };
    let percentiles: [Percentile; 3] =
        [("p50", |latency| latency.p50), ("p90", |latency| latency.p90), ("p99", |latency| latency.p99)];
    let of = |((quantile, value), paper): (Percentile, Option<f64>)| {
        let names = ("Latency, us", format!("{}, {}, {quantile}", VARIANTS[variant], CELLS[column].name));
        let comparison = cells.compare((variant, column), names, paper, |record| value(&record.latency_us));
        // The only value of an index to which a constant (the CPU time of an operation) was fitted.
        let fitted = variant == 0 && column == READ_UNIFORM && quantile == "p50";
        let status = if fitted { CalibrationStatus::Fitted } else { comparison.status };
        Comparison { status, ..comparison }
    };
    percentiles.into_iter().zip(papers).map(of).collect()
}
