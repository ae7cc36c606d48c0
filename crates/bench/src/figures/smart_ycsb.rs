//! SMART's evaluation: YCSB against Sherman and ART on far memory, integer and string keys.

use super::sherman_cluster::predicted;
use super::smart_cluster::{Contestant, KeyKind, SHERMAN, by_panel, runs as runs_of, smart, spec};
use super::{Comparison, Effort, Figure, Run};
use crate::record::Record;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-ycsb",
    title: "SMART: YCSB, against Sherman and ART",
    setting: "16 compute nodes and 2 memory nodes, as the artifact has them, each compute node with 32 clients on 32 \
              threads, which is our choice: the slides do not say it. Of the artifact's 60 million keys and 600 MB of \
              cache a 60th, so that a key has as much cache as there; popularity (zipf 0.99) is drawn over 60 million \
              ranks. String keys are the English words that come with Farwood, a few hundred thousand, as they are, \
              and filled up to 32 B for Sherman, whose keys have one length. The slides print how far apart the \
              systems are at most, and for A and C; what they plot is not printed. Latency is the median of all \
              operations. LOAD counts the second half of the keys: the first thousands meet at a few nodes, which is a \
              third of the time to a million keys and nothing of that to 60 million.",
    runs,
    compare,
};

const SYSTEMS: [(&str, Contestant); 3] =
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
            SYSTEMS.into_iter().map(move |(_, who)| spec(who, workload, keys, effort))
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
                add("Throughput, million operations a second", record.mops);
                add("Median latency, us", record.latency_us.p50);
                add("Round trips of an operation", trips);
            }
        }
    }
    by_panel(all)
}
