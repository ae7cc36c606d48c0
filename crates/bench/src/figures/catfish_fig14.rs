//! Catfish, Figure 14: real segments.

use std::path::PathBuf;

use super::builders::{predicted, spatial_run};
use super::catfish_cluster::{CLIENTS, SCHEMES, THINK_NS, kops, latency_us, spec};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::spec::spatial::SpatialSpec;
use crate::workload::rectangles::{RectangleSource, Scale};

pub(super) const FIGURE: Figure = Figure {
    name: "catfish-fig14",
    title: "Catfish, Figure 14: real segments",
    setting: "Set-up of Figure 10, with 1.7 million segments of the Earth's coastlines instead of the 1.9 million \
              street segments of rea02; `data/fetch-segments` fetches them from a package. Their \
              rectangles cover 0.002 of the area in which they lie, those of rea02 0.12. They are inserted in the \
              paper's order: regions of 20,000 in random order, and in each region row by row from north to south. \
              Windows are centred on segments and have 50 to 150 results, 100 on average.",
    claim: "On real streets, Catfish has up to 2.23 times the throughput of fast messaging and 4.28 times that of \
              offloading.",
    key: "",
    cause: "Coastlines replace the streets. The answers of 100 segments fill the link, which messages and READs \
              share, and offloading is too fast for the reasons of Figure 10.",
    runs,
    compare,
};

/// Largest ratios to fast messaging, offloading and TCP: throughput, and latency.
const PAPER: [[f64; 2]; 3] = [[2.23, 2.32], [4.28, 3.47], [27.25, 56.09]];
const SOURCE: &str = "Catfish §V-C";
/// The segments, relative to the root of the repository.
const SEGMENTS: &str = "data/segments.csv";

fn runs(effort: Effort) -> Vec<Run> {
    let mut runs = Vec::new();
    for clients in CLIENTS {
        for scheme in &SCHEMES {
            let spec = spec(scheme.variant, scheme.nic, Scale::Hundred, clients, effort);
            let source = match effort {
                Effort::Quick => spec.source.clone(),
                Effort::Full => RectangleSource::File(PathBuf::from(SEGMENTS), u64::MAX),
            };
            runs.push(spatial_run(SpatialSpec { source, think_ns: THINK_NS, ..spec }));
        }
    }
    runs
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = Vec::new();
    let of = |clients: usize, scheme: usize| &records[clients * SCHEMES.len() + scheme];
    for (panel, value) in [("Throughput, kops", kops as fn(&Record) -> f64), ("Mean latency, us", latency_us)]
    {
        for (at, clients) in CLIENTS.into_iter().enumerate() {
            for (scheme, named) in SCHEMES.iter().enumerate() {
                let point = format!("{}, {clients} clients", named.name);
                all.push(predicted(panel, point, None, value(of(at, scheme)), SOURCE));
            }
        }
    }
    let schemes = [(2, "fast messaging"), (3, "RDMA offloading"), (0, "TCP/IP")];
    for ((scheme, name), [throughput, latency]) in schemes.into_iter().zip(PAPER) {
        let most = |gain: &dyn Fn(usize) -> f64| (0..CLIENTS.len()).map(gain).fold(0.0, f64::max);
        let ours = most(&|at| kops(of(at, 4)) / kops(of(at, scheme)));
        let panel = "Largest advantage of Catfish over another scheme, as a factor";
        all.push(predicted(panel, format!("throughput, {name}"), Some(throughput), ours, SOURCE));
        let ours = most(&|at| latency_us(of(at, scheme)) / latency_us(of(at, 4)));
        all.push(predicted(panel, format!("latency (shorter), {name}"), Some(latency), ours, SOURCE));
    }
    all
}
