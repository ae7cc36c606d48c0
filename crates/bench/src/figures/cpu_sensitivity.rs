//! The throughput of the indexes over the CPU time that the simulator charges for an operation.

use farwood_index::ordered::System;

use super::builders::{LoadedKeys, Time, by_panel, predicted, runs_of, simulated};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::run::RunSpec;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "cpu-sensitivity",
    title: "Throughput over the CPU time of an operation",
    setting: "8 machines, each a memory node and a compute node of 22 threads with one client each; 200,000 keys of \
              8 B, zipf 0.99 over 200,000 ranks; ConnectX-5. `cpu.operation_ns` of the NIC model is 0, 1.25, 2.5 and \
              5 us. It is charged once for each operation, besides the CPU time of posts and polls. Its value of \
              2.5 us was fitted to the median of Sherman's lookup (Table 1 of its paper), and is charged to every \
              index, because no source measures it for SMART or Sphinx.",
    claim: "No paper states the CPU time of an operation; this figure shows how much the results depend on it.",
    key: "",
    cause: "",
    runs,
    compare,
};

const SYSTEMS: [(&str, System, &str); 3] = [
    ("Sherman", System::Sherman, "sherman"),
    ("SMART", System::Smart, "smart"),
    ("Sphinx", System::Sphinx, "sphinx"),
];
const WORKLOADS: [(&str, Workload); 2] = [("YCSB-C", Workload::YcsbC), ("YCSB-A", Workload::YcsbA)];
/// Nanoseconds of CPU time.
const OPERATION_NS: [f64; 4] = [0.0, 1250.0, 2500.0, 5000.0];
const KEYS: u64 = 200_000;
const SOURCE: &str = "the simulator";

fn runs(effort: Effort) -> Vec<Run> {
    let of_workload = |(_, workload)| {
        SYSTEMS.into_iter().flat_map(move |(_, system, variant)| {
            OPERATION_NS
                .into_iter()
                .map(move |operation_ns| spec(system, variant, workload, operation_ns, effort))
        })
    };
    runs_of(WORKLOADS.into_iter().flat_map(of_workload))
}

fn spec(system: System, variant: &str, workload: Workload, operation_ns: f64, effort: Effort) -> RunSpec {
    let keys = LoadedKeys { count: effort.pick(KEYS / 10, KEYS), ranks: KEYS };
    let time = Time::of(effort, (0.0002, 0.0005), (0.001, 0.004));
    RunSpec {
        colocate: true,
        memory_nodes: 8,
        compute_nodes: 8,
        threads: Some(22),
        clients: Some(176),
        operation_ns: Some(operation_ns),
        ..simulated(system, variant, "cx5-100g", workload, keys, time)
    }
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = Vec::new();
    let of_workloads = records.chunks(SYSTEMS.len() * OPERATION_NS.len());
    for ((workload, _), records) in WORKLOADS.into_iter().zip(of_workloads) {
        let (sherman, _) = records.split_at(OPERATION_NS.len());
        for ((name, ..), records) in SYSTEMS.into_iter().zip(records.chunks(OPERATION_NS.len())) {
            for (at, (operation_ns, record)) in OPERATION_NS.into_iter().zip(records).enumerate() {
                let us = operation_ns / 1000.0;
                let value = |panel: String, ours| {
                    predicted(panel, format!("{name}, {us} us"), None, ours, SOURCE).on_curve(
                        name,
                        "CPU time of an operation, us",
                        us,
                    )
                };
                all.push(value(format!("{workload}: million operations per second"), record.mops));
                let relative = record.mops / sherman[at].mops;
                all.push(value(format!("{workload}: throughput relative to Sherman, times"), relative));
            }
        }
    }
    by_panel(all)
}
