//! Catfish, Figure 8: several READs in flight.

use super::builders::{predicted, spatial_run};
use super::catfish_cluster::{latency_us, spec};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::spec::spatial_variant::Variant;
use crate::workload::rectangles::Scale;

pub(super) const FIGURE: Figure = Figure {
    name: "catfish-fig8",
    title: "Catfish, Figure 8: offloading with multi-issue",
    setting: "One client that searches by READs without think time, ConnectX-5: one READ in flight, or those of all \
              children of a node that intersect the window. The size of the paper's nodes is not known; here they have \
              42 entries in 1,984 bytes. A search spends as much CPU time of the client as a request spends of the \
              server, which Figure 7 determines.",
    claim: "Multi-issue shortens a search by 15 % at scale 0.01.",
    key: "",
    cause: "",
    runs,
    compare,
};

const SCALES: [f64; 4] = [1e-5, 1e-4, 1e-3, 1e-2];
const SOURCE: &str = "Catfish §IV-C";

fn runs(effort: Effort) -> Vec<Run> {
    let of_scale = |scale| {
        [Variant::Offloading, Variant::MultiIssue]
            .map(|variant| spatial_run(spec(variant, "cx5-100g", Scale::Edge(scale), 1, effort)))
    };
    SCALES.into_iter().flat_map(of_scale).collect()
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (scale, pair) in SCALES.into_iter().zip(records.chunks(2)) {
        let (one, many) = (latency_us(&pair[0]), latency_us(&pair[1]));
        let paper = (scale > 5e-3).then_some(15.13);
        all.push(predicted(
            "Latency saved, %",
            format!("scale {scale}"),
            paper,
            100.0 * (1.0 - many / one),
            SOURCE,
        ));
        for (how, ours) in [("one READ in flight", one), ("multi-issue", many)] {
            all.push(predicted("Mean latency, us", format!("{how}, scale {scale}"), None, ours, SOURCE));
        }
    }
    all.sort_by(|one, other| one.panel.cmp(&other.panel));
    all
}
