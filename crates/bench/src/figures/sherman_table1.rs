//! Sherman, Table 1: a tree with plain one-sided locks, FG+ and Sherman.

use super::builders::{Time, ZIPF, predicted, run};
use super::figure::{CalibrationStatus, Comparison, Effort, Figure, Run};
use super::sherman_cluster::{factors, hottest_share, spec};
use crate::record::{Latency, Record};
use crate::workload::Workload;
use crate::workload::distribution::Distribution;

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-table1",
    title: "Sherman, Table 1: index performance of FG, FG+ and Sherman",
    setting: "8 machines, each a memory node and a compute node with 22 clients on 22 threads; ConnectX-5; keys and \
              values of 8 B, nodes of 1 KiB filled to 80 %, 500 MB of index cache. The paper loads 1e9 keys; here it \
              is 10 million (1 million with --quick), and popularity is drawn over 1e9 ranks, which are hashed to the \
              keys. The locks of fg and fg+ are in their nodes, as in trees before Sherman (its §4.3), and so share \
              few of the NIC's atomic slots. The table shows the paper's own implementation of FG with an index cache; \
              for FG+ and Sherman the paper prints ratios.",
    runs,
    compare,
};

const VARIANTS: [&str; 3] = ["fg", "fg+", "sherman"];

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
    VARIANTS.into_iter().flat_map(of_variant).collect()
}

fn time(cell: &Cell, effort: Effort) -> Time {
    // Under contention an operation may take 20 ms, and the measured phase has to be long beside that.
    if cell.workload == Workload::WriteIntensive && cell.distribution == ZIPF {
        Time::contended("fg", effort)
    } else {
        Time::calm(effort)
    }
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |variant: usize, cell: usize| &records[variant * CELLS.len() + cell];
    let mut comparisons = vec![hottest_share(of(0, WRITE_ZIPF), "zipf 0.99")];
    for (at, variant) in VARIANTS.iter().enumerate() {
        for (column, cell) in CELLS.iter().enumerate() {
            let paper = (at == 0).then_some(cell.mops);
            let point = format!("{variant}, {}", cell.name);
            comparisons.push(table1(
                "Throughput, million operations per second",
                point,
                paper,
                of(at, column).mops,
            ));
        }
    }
    for (at, variant) in VARIANTS.iter().enumerate() {
        for (column, cell) in CELLS.iter().enumerate() {
            let papers = if at == 0 { cell.latency_us.map(Some) } else { [None; 3] };
            let Latency { p50, p90, p99, .. } = of(at, column).latency_us;
            for ((quantile, ours), paper) in
                [("p50", p50), ("p90", p90), ("p99", p99)].into_iter().zip(papers)
            {
                let point = format!("{variant}, {}, {quantile}", cell.name);
                let comparison = table1("Latency, us", point, paper, ours);
                // The only value of an index to which a constant (the CPU time of an operation) was fitted.
                let fitted = at == 0 && column == READ_UNIFORM && quantile == "p50";
                let status = if fitted { CalibrationStatus::Fitted } else { comparison.status };
                comparisons.push(Comparison { status, ..comparison });
            }
        }
    }
    comparisons.extend(ratios(of(1, WRITE_ZIPF), of(2, WRITE_ZIPF), "zipf 0.99", [23.6, 1.4, 30.2]));
    comparisons.extend(ratios(of(1, WRITE_UNIFORM), of(2, WRITE_UNIFORM), "uniform", [1.15, 1.19, 1.27]));
    let collapse = of(0, WRITE_UNIFORM).mops / of(0, WRITE_ZIPF).mops;
    let paper = Some(CELLS[WRITE_UNIFORM].mops / CELLS[WRITE_ZIPF].mops);
    comparisons.push(table1(
        "fg write-intensive, uniform over skewed",
        "throughput".to_owned(),
        paper,
        collapse,
    ));
    comparisons
}

fn table1(panel: &str, point: String, paper: Option<f64>, ours: f64) -> Comparison {
    predicted(panel, point, paper, ours, "Sherman, Table 1")
}

/// Ratios of Sherman to FG+, write-intensive: throughput; median and 99th percentile inverted.
fn ratios(fg_plus: &Record, sherman: &Record, skew: &str, papers: [f64; 3]) -> Vec<Comparison> {
    let of = |((what, ours), paper): ((&str, f64), f64)| {
        let (panel, source) = ("sherman over fg+, write-intensive, times", "Sherman §5.2, Figures 10 and 11");
        predicted(panel, format!("{skew}, {what}"), Some(paper), ours, source)
    };
    factors(fg_plus, sherman).into_iter().zip(papers).map(of).collect()
}
