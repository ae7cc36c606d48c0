//! Catfish, Figure 12: throughput of searches with 10 % inserts.

use super::catfish_cluster::{
    CLIENTS, Printed, THROUGHPUT, compare_curves, compare_first, kops, offloaded_shares, runs_of,
};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::workload::rectangles::SpatialMix;

pub(super) const FIGURE: Figure = Figure {
    name: "catfish-fig12",
    title: "Catfish, Figure 12: throughput of 90 % searches and 10 % inserts",
    setting: "Set-up of Figure 10. A tenth of the requests inserts a rectangle of the scale of the searches; as in the \
              paper, their positions are mirrored into four quadrants. Inserts go to the server in all schemes, \
              where one thread at a time changes the tree.",
    claim: "With 10 % inserts Catfish has up to 3.3 times the throughput of fast messaging and 13.7 times that of \
              offloading.",
    key: "Throughput, kops",
    cause: "A commit contains the changes of all clients that wait (decision 62), so the server's processor bounds the \
              throughput of fast messaging, as in the paper. In the paper, offloading becomes slower because inserts \
              conflict with its READs; here no READ is torn, because stored nodes do not change.",
    runs,
    compare,
};

const PAPER: Printed = Printed {
    source: "Catfish §V-B",
    catfish: [None; 3],
    fast_messaging: [None; 3],
    gains: [3.3, 13.67, 14.22],
};

fn runs(effort: Effort) -> Vec<Run> {
    runs_of(SpatialMix::Mixed, effort)
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = compare_curves(records, THROUGHPUT, &PAPER);
    // With 256 clients the paper shows Catfish first only at the smallest scale: inserts use most of the server's CPU
    // time at the other scales.
    let in_paper =
        |scale_index: usize, clients: u64| scale_index == 0 || clients < CLIENTS[CLIENTS.len() - 1];
    all.extend(compare_first(records, kops, in_paper, PAPER.source));
    all.extend(offloaded_shares(records));
    all
}
