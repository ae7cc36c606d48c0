//! Catfish, Figure 13: latency of requests, of which 10 % are inserts.

use super::catfish_cluster::{
    LATENCY, LATENCY_OF_ALL, LATENCY_OF_INSERTS, Printed, compare_curves, compare_points, runs_of,
};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::workload::rectangles::SpatialMix;

pub(super) const FIGURE: Figure = Figure {
    name: "catfish-fig13",
    title: "Catfish, Figure 13: latency beside inserts",
    setting: "The runs of Figure 12. The caption says that the requests are 90 % searches and 10 % inserts, and not \
              whether the latency is that of searches or of all requests: both are here, and that of inserts.",
    claim: "Beside inserts, Catfish's latency is up to 7.55 times shorter than fast messaging's and 58 times shorter \
              than TCP's.",
    key: "",
    cause: "Searches of fast messaging wait for the server's processor; those of offloading do not, and no insert \
              disturbs them, because stored nodes do not change.",
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
    let mut all = compare_curves(records, LATENCY, &PAPER);
    all.extend(compare_curves(records, LATENCY_OF_ALL, &PAPER));
    all.extend(compare_points(records, LATENCY_OF_INSERTS, &PAPER));
    all
}
