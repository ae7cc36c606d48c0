//! SMART, Figure 11: YCSB with integer keys.

use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::smart_cluster::{Clients, KeyKind};
use super::smart_curves::{self, ClientCounts, PrintedRatio, of_16};
use crate::record::Record;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-fig11",
    title: "SMART, Figure 11: YCSB, integer keys",
    setting: "Up to 16 compute nodes and 2 memory nodes. As in the artifact, each thread has 2 clients, and each \
              system has its own numbers of compute nodes and threads: every second one of the artifact's eight, with \
              the largest. Leaves of Sherman have 32 entries. A 48th of the artifact's 60 million keys and 600 MB of \
              cache, so that the cache per key is the same, and each of the two memory nodes has about half of \
              Sherman's leaves; popularity (zipf 0.99) is drawn over 60 million ranks. LOAD begins with a 256th of \
              the artifact's 5 million loaded keys and ends with a 256th of 60 million: the tree is as full as the \
              artifact's, and one level lower. It ends when the first client finds no key left. The slides print the \
              largest ratios of the systems, and those for A and C, but not the values of their plots, nor which \
              points they compare: the figure has the latency at the highest throughput of each system, and at its \
              most clients.",
    claim: "SMART has up to 6.1 times the throughput of Sherman on YCSB A and 2.8 times on C, with similar or shorter \
              latencies.",
    key: "",
    cause: "On C, SMART's highest throughput is that of 48 threads on each compute node. With 24 threads it has 95 % \
            of that, and a 99th percentile of 18 us; Sherman's is 19 us at its highest throughput. In LOAD, inserts \
            of 16 compute nodes lose slots through copies that lack the inserts of the others.",
    runs,
    compare,
};

/// The slides' ratios.
const PRINTED: [PrintedRatio; 2] = [
    PrintedRatio { workload: Workload::YcsbA, throughput: 6.1, latency: 1.4 },
    PrintedRatio { workload: Workload::YcsbC, throughput: 2.8, latency: 1.0 },
];

const COUNTS: ClientCounts = [
    [
        of_16([8, 12, 16, 24]),
        of_16([4, 10, 18, 24]),
        of_16([8, 16, 22, 28]),
        of_16([8, 12, 24, 48]),
        of_16([8, 16, 24, 36]),
    ],
    [
        of_16([6, 12, 20, 23]),
        of_16([2, 4, 6, 9]),
        of_16([6, 12, 16, 24]),
        of_16([8, 12, 24, 40]),
        of_16([6, 10, 16, 24]),
    ],
    [
        of_16([4, 8, 10, 13]),
        [Clients::new(4, 7), Clients::new(4, 9), Clients::new(2, 20), Clients::new(2, 22)],
        of_16([6, 12, 14, 16]),
        of_16([6, 10, 13, 16]),
        of_16([6, 10, 14, 16]),
    ],
];

fn runs(effort: Effort) -> Vec<Run> {
    smart_curves::runs(KeyKind::Integer, &COUNTS, effort)
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    smart_curves::compare(records, &COUNTS, &PRINTED)
}
