//! SMART, Figure 16: locks of leaves under contention.

use super::builders::{predicted, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::smart_cluster::{CLIENTS, KeyKind, PAPER, smart, spec};
use crate::record::Record;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-fig16",
    title: "SMART, Figure 16: locks of leaves",
    setting: "YCSB A with the runs of Figure 15: HOCL is the step `+in-place`, E-HOCL (a lock in the leaf) is \
              `+rear-lock`, and RDWC (read delegation and write combining) is SMART. The artifact's number of clients \
              for this figure is not known; the figure has those of Figure 15.",
    claim: "The slides do not show this figure; the artifact counts failed attempts at locks.",
    key: "",
    cause: "",
    runs,
    compare,
};

const LOCKS: [(&str, &str); 3] =
    [("HOCL", "+in-place"), ("E-HOCL", "+rear-lock"), ("RDWC", "+write-combining")];

fn runs(effort: Effort) -> Vec<Run> {
    let of_lock = |(_, variant)| spec(smart(variant), Workload::YcsbA, KeyKind::Integer, CLIENTS, effort);
    runs_of(LOCKS.into_iter().map(of_lock))
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (panel, value) in [
        ("Throughput, million operations per second", (|record| record.mops) as fn(&Record) -> f64),
        ("Failed attempts at a lock for each operation", failures),
    ] {
        for ((name, _), record) in LOCKS.into_iter().zip(records) {
            all.push(predicted(panel, name, None, value(record), PAPER));
        }
    }
    all
}

fn failures(record: &Record) -> f64 {
    record.retries.as_ref().map_or(0.0, |retries| retries.lock as f64) / record.operations.max(1) as f64
}
