//! Catfish, Figure 10: throughput of searches.

use super::catfish_cluster::{
    FAST_MESSAGING, Printed, TCP_1G, THROUGHPUT, compare_curves, compare_first, compare_pair, kops,
    offloaded_shares, runs_of,
};
use super::figure::{CalibrationStatus, Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::workload::rectangles::SpatialMix;

pub(super) const FIGURE: Figure = Figure {
    name: "catfish-fig10",
    title: "Catfish, Figure 10: throughput of searches",
    setting: "One server of 28 cores, 8 client machines, 2 million rectangles with edges up to 0.0001, bulk-loaded; \
              ConnectX-5, and for TCP/IP the NIC models tcp-1g and tcp-40g. Each client thinks 65.8 us between two \
              requests, by Little's law from the paper's throughput and latency of Catfish at 256 clients. The CPU \
              time of a request is fitted to Figure 7, and a client that searches by READs spends the same; the \
              clients of a machine share its 28 cores. Each run measures 0.2 s after 0.1 s of \
              warm-up, instead of 10,000 requests per client. papers.md explains the deviations.",
    claim: "Catfish serves 1,239 thousand searches per second, up to 3.28 times as many as fast messaging and 3.09 \
              times as many as offloading.",
    key: "Throughput, kops",
    cause: "Offloading is too fast here, because a node has 2 KB; catfish-nodes has larger ones. Fast messaging is \
              ahead of TCP over 1 Gb/s, and in the paper behind it.",
    runs,
    compare,
};

/// The values in the text of the paper.
const PAPER: Printed = Printed {
    source: "Catfish §V-B",
    catfish: [Some(1_239.35), Some(779.89), Some(1_124.84)],
    fast_messaging: [None; 3],
    gains: [3.28, 3.09, 16.46],
};

fn runs(effort: Effort) -> Vec<Run> {
    runs_of(SpatialMix::Search, effort)
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = compare_curves(records, THROUGHPUT, &PAPER);
    all.extend(compare_first(records, kops, |_, _| true, PAPER.source));
    let reversed = (TCP_1G, FAST_MESSAGING);
    all.push(compare_pair(records, reversed, kops, PAPER.source));
    all.extend(offloaded_shares(records));
    all.into_iter().map(calibrated).collect()
}

/// The think time was derived from one point.
fn calibrated(comparison: Comparison) -> Comparison {
    let is_point =
        comparison.panel == "Throughput, kops, scale 0.00001" && comparison.point == "Catfish, 256 clients";
    if is_point { Comparison { status: CalibrationStatus::Fitted, ..comparison } } else { comparison }
}
