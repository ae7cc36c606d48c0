//! Catfish, Figure 13: latency of searches with 10 % inserts.

use super::catfish_cluster::{LATENCY, Printed, compare_curves, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::workload::rectangles::SpatialMix;

pub(super) const FIGURE: Figure = Figure {
    name: "catfish-fig13",
    title: "Catfish, Figure 13: latency of searches beside inserts",
    setting: "The runs of Figure 12.",
    claim: "Beside inserts, Catfish's latency is up to 7.55 times shorter than fast messaging's and 58 times shorter \
              than TCP's.",
    key: "",
    cause: "This figure shows searches only. Searches of fast messaging wait for the server's processor; those of \
              offloading wait for nothing, because stored nodes do not change, so that offloading has the shortest \
              latency.",
    runs,
    compare,
};

const PAPER: Printed = Printed {
    source: "Catfish §V-B",
    catfish: [None; 3],
    fast_messaging: [None; 3],
    gains: [7.55, 1.90, 58.09],
};

fn runs(effort: Effort) -> Vec<Run> {
    runs_of(SpatialMix::Mixed, effort)
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    compare_curves(records, LATENCY, &PAPER)
}
