//! SMART's evaluation: YCSB against Sherman and ART on far memory, integer and string keys.

use super::builders::{by_panel, predicted, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::smart_cluster::{ComparedSystem, KeyKind, SHERMAN, smart, spec};
use crate::record::Record;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-ycsb",
    title: "SMART: YCSB, against Sherman and ART",
    setting: "16 compute nodes and 2 memory nodes, as in the artifact, each compute node with 32 clients on 32 \
              threads, which the slides do not state. A 60th of the artifact's 60 million keys and 600 MB of cache, so \
              that the cache per key is the same; popularity (zipf 0.99) is drawn over 60 million ranks. String keys \
              are the English words of Farwood, a few hundred thousand, unchanged, and padded to 32 B for Sherman, \
              whose keys have one length. The slides print the largest ratios of the systems, and those for A and C, \
              but not the values of their plots. Latency is the median of all operations. LOAD measures the second \
              half of the keys: the inserts of the first thousands conflict at a few nodes, which takes a third of the \
              time for a million keys and a negligible part for 60 million.",
    claim: "SMART has up to 6.1 times the throughput of Sherman on YCSB A and 2.8 times on C, with similar or shorter \
              latencies.",
    key: "",
    cause: "The throughput of A agrees. A million keys of Sherman fill three chunks of 8 MiB, so that one of \
              the two memory nodes has two thirds of the leaves, and its link bounds C; with both links equally \
              loaded, the ratio would be 3. The slides do not state which latency they compare; here it is the \
              median with equal client counts, and the clients that combine writes wait for each other on A.",
    runs,
    compare,
};

const SYSTEMS: [(&str, ComparedSystem); 3] =
    [("Sherman", SHERMAN), ("ART", smart("art")), ("SMART", smart("smart"))];
const SHERMANS: usize = 0;
const ARTS: usize = 1;
const SMARTS: usize = 2;
const WORKLOADS: [Workload; 5] =
    [Workload::Load, Workload::YcsbA, Workload::YcsbB, Workload::YcsbC, Workload::YcsbD];
const SOURCE: &str = "SMART, slides";

fn runs(effort: Effort) -> Vec<Run> {
    let of_keys = |keys: KeyKind| {
        WORKLOADS.into_iter().flat_map(move |workload| {
            SYSTEMS.into_iter().map(move |(_, compared)| spec(compared, workload, keys, effort))
        })
    };
    runs_of(KeyKind::ALL.into_iter().flat_map(of_keys))
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |keys: usize, workload: usize, system: usize| {
        &records[(keys * WORKLOADS.len() + workload) * SYSTEMS.len() + system]
    };
    let mut all = Vec::new();
    for (keys, kind) in KeyKind::ALL.into_iter().enumerate() {
        for (at, workload) in WORKLOADS.into_iter().enumerate() {
            let (paper, latency) = match (kind, workload) {
                (KeyKind::Integer, Workload::YcsbA) => (Some(6.1), Some(1.4)),
                (KeyKind::Integer, Workload::YcsbC) => (Some(2.8), Some(1.0)),
                _ => (None, None),
            };
            let [sherman, art, smart] = [SHERMANS, ARTS, SMARTS].map(|system| of(keys, at, system));
            let point = format!("{workload}, {}", kind.name());
            let mut add = |panel: &str, paper, ours| {
                all.push(predicted(panel, point.clone(), paper, ours, SOURCE));
            };
            add("SMART over Sherman, throughput, times", paper, smart.mops / sherman.mops);
            let shorter = sherman.latency_us.p50 / smart.latency_us.p50;
            add("SMART over Sherman, latency (shorter), times", latency, shorter);
            add("SMART over ART, throughput, times", None, smart.mops / art.mops);
        }
    }
    for (keys, kind) in KeyKind::ALL.into_iter().enumerate() {
        for (at, workload) in WORKLOADS.into_iter().enumerate() {
            for (system, (name, _)) in SYSTEMS.into_iter().enumerate() {
                let record = of(keys, at, system);
                let trips = record.round_trips.as_ref().map_or(0.0, |trips| trips.mean);
                let point = format!("{name}, {workload}");
                let mut add = |what: &str, ours| {
                    all.push(predicted(
                        format!("{what}, {}", kind.name()),
                        point.clone(),
                        None,
                        ours,
                        SOURCE,
                    ));
                };
                add("Throughput, million operations per second", record.mops);
                add("Median latency, us", record.latency_us.p50);
                add("Round trips of an operation", trips);
            }
        }
    }
    by_panel(all)
}
