//! SMART, Figure 14: scans over the size of values.

use super::builders::{predicted, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::smart_cluster::{Clients, KeyKind, LEAF_CAPACITY, PAPER, SHERMAN, smart, spec, with_leaves};
use crate::record::Record;
use crate::run::RunSpec;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-fig14",
    title: "SMART, Figure 14: scans over the size of values",
    setting: "Set-up of Figure 11, YCSB E (scans of up to 100 keys, 5 % inserts), integer keys, 8 threads on each of \
              16 compute nodes with 2 clients each, as in the artifact. The artifact's SMART scans dense integers, \
              whose last byte differs; the keys here are spread over all 64 bits, as for the other workloads.",
    claim: "The slides do not show this figure; the artifact measures scans over the size of values.",
    key: "",
    cause: "",
    runs,
    compare,
};

const VALUES: [usize; 6] = [8, 16, 32, 64, 128, 256];
const SYSTEMS: [&str; 2] = ["SMART", "Sherman"];
const CLIENTS: Clients = Clients::of_16(8);

fn runs(effort: Effort) -> Vec<Run> {
    let of_system = |compared| {
        VALUES.into_iter().map(move |value_bytes| {
            let spec = spec(compared, Workload::YcsbE, KeyKind::Integer, CLIENTS, effort);
            with_leaves(RunSpec { value_bytes, ..spec }, LEAF_CAPACITY)
        })
    };
    runs_of([smart("smart"), SHERMAN].into_iter().flat_map(of_system))
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (panel, value) in [
        ("Throughput, million operations per second", (|record| record.mops) as fn(&Record) -> f64),
        ("Median latency, us", |record| record.latency_us.p50),
        ("P99 latency, us", |record| record.latency_us.p99),
    ] {
        for (name, curve) in SYSTEMS.into_iter().zip(records.chunks(VALUES.len())) {
            for (record, value_bytes) in curve.iter().zip(VALUES) {
                let point = format!("{name}, values of {value_bytes} B");
                let comparison = predicted(panel, point, None, value(record), PAPER);
                all.push(comparison.on_curve(name, "bytes of a value", value_bytes as f64));
            }
        }
    }
    all
}
