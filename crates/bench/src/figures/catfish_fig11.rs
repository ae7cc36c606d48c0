//! Catfish, Figure 11: latency of searches.

use super::catfish_cluster::{CATFISH, LATENCY, OFFLOADING, Printed, compare_curves, compare_pair, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::workload::rectangles::SpatialMix;

pub(super) const FIGURE: Figure = Figure {
    name: "catfish-fig11",
    title: "Catfish, Figure 11: latency of searches",
    setting: "The runs of Figure 10. The paper's throughput and latency of fast messaging contradict Little's law for \
              any think time: 256 clients at 299 us and, by the factor of 3.28, at about 378 kops.",
    claim: "Catfish answers in 141 us with 256 clients, 3.25 times faster than fast messaging.",
    key: "",
    cause: "Fast messaging takes 1.5 times as long as in the paper, whose throughput and latency of it contradict \
              Little's law. Offloading is too fast for the reasons of Figure 10.",
    runs,
    compare,
};

/// The values in the text of the paper.
const PAPER: Printed = Printed {
    source: "Catfish §V-B",
    catfish: [Some(140.73), Some(180.66), Some(161.58)],
    fast_messaging: [Some(299.10), Some(321.52), Some(302.91)],
    gains: [3.25, 3.07, 24.46],
};

fn runs(effort: Effort) -> Vec<Run> {
    runs_of(SpatialMix::Search, effort)
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = compare_curves(records, LATENCY, &PAPER);
    all.push(compare_pair(records, (OFFLOADING, CATFISH), LATENCY.merit, PAPER.source));
    all
}
