//! Sherman, Figure 12: range queries, alone and with concurrent writers.

use super::builders::{Time, ZIPF, predicted, run};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::sherman_cluster::{hottest_share, spec};
use crate::record::Record;
use crate::run::RunSpec;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-fig12",
    title: "Sherman, Figure 12: range queries",
    setting: "Set-up of Table 1; a range begins at a key drawn with zipf 0.99. Range-write: 88 clients insert and 88 \
              scan; the comparison is of the scans. 12.3 million keys are loaded (1 million with --quick), whose \
              leaves fill the same number of chunks of each memory node in both trees: with 10 million, one memory \
              node has a fifth more of FG+'s leaves than its share, and scans wait for its link. Leaves of Sherman \
              hold 54 entries of 18 B here, as in the authors' code (departures D2 and D10), and those of FG+ 60; the \
              links are saturated, so leaves read per second are compared as well. The model charges no CPU time for \
              the unsorted leaves of a scan.",
    claim: "Range queries of FG+ are at most 2 % faster than Sherman's without writers, and Sherman's are up to 1.82 \
              times as fast beside writers.",
    key: "",
    cause: "Without writers the values agree. The paper gives no point for its 1.82, the largest gain beside \
              writers; the largest here is at 100 keys, where FG+'s scans wait behind failed CASes in the \
              processing units of the cards. With ranges of 1,000 keys the links are full, and Sherman reads 12 \
              % more leaves, because they hold 43 entries on average, and FG+'s 48.",
    runs,
    compare,
};

const MIXES: [Workload; 2] = [Workload::RangeOnly, Workload::RangeWrite];
const SIZES: [u32; 4] = [100, 200, 500, 1000];
const VARIANTS: [&str; 2] = ["fg+", "sherman"];

fn runs(effort: Effort) -> Vec<Run> {
    let mut runs = Vec::new();
    for workload in MIXES {
        for range_size in SIZES {
            for variant in VARIANTS {
                let spec = spec(variant, workload, ZIPF, time(workload, effort), effort);
                let keys = Some(effort.pick(1_000_000, 12_300_000));
                runs.push(run(RunSpec { keys, range_size, ..spec }));
            }
        }
    }
    runs
}

/// The times of a workload. Writers wait for each other, but the measured scans do not.
fn time(workload: Workload, effort: Effort) -> Time {
    match workload {
        Workload::RangeOnly => Time::of(effort, (0.0005, 0.001), (0.003, 0.01)),
        _ => Time::of(effort, (0.001, 0.002), (0.02, 0.05)),
    }
}

/// Range queries in millions per second.
fn mops(record: &Record) -> f64 {
    record.by_operation.scan.as_ref().map_or(0.0, |scan| scan.mops)
}

/// Leaves read by range queries in millions per second.
fn leaves(record: &Record) -> f64 {
    let reads =
        record.by_operation.scan.as_ref().and_then(|scan| scan.verbs_per_op.as_ref()).map(|verbs| verbs.read);
    mops(record) * reads.unwrap_or(0.0)
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |mix: usize, size: usize, variant: usize| {
        &records[(mix * SIZES.len() + size) * VARIANTS.len() + variant]
    };
    let source = "Sherman §5.3";
    let mut all = vec![hottest_share(&records[0], "all mixes")];
    let over = |mix, size| mops(of(mix, size, 1)) / mops(of(mix, size, 0));
    for (size, keys) in SIZES.iter().enumerate() {
        let paper = [(100, 1.02), (1000, 1.0)].iter().find(|(of, _)| of == keys).map(|(_, paper)| *paper);
        all.push(predicted(
            "fg+ over sherman, range-only, times",
            format!("{keys} keys"),
            paper,
            1.0 / over(0, size),
            source,
        ));
    }
    for (size, keys) in SIZES.iter().enumerate() {
        all.push(predicted(
            "sherman over fg+, range-write, times",
            format!("{keys} keys"),
            None,
            over(1, size),
            source,
        ));
    }
    let best = (0..SIZES.len()).map(|size| over(1, size)).fold(0.0, f64::max);
    all.push(predicted("sherman over fg+, range-write, times", "the most", Some(1.82), best, source));
    for (mix, name) in MIXES.iter().enumerate() {
        for (size, keys) in SIZES.iter().enumerate() {
            let panel = "sherman over fg+, leaves read by ranges per second, times";
            let ours = leaves(of(mix, size, 1)) / leaves(of(mix, size, 0));
            all.push(predicted(panel, format!("{name}, {keys} keys"), None, ours, source));
        }
    }
    for (mix, name) in MIXES.iter().enumerate() {
        for (size, keys) in SIZES.iter().enumerate() {
            for (variant, named) in VARIANTS.iter().enumerate() {
                let panel = format!("Range queries, {name}, million per second");
                let ours = mops(of(mix, size, variant));
                all.push(predicted(panel, format!("{named}, {keys} keys"), None, ours, "Sherman, Figure 12"));
            }
        }
    }
    all
}
