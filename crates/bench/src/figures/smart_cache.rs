//! The cost of lookups over the size of the cache, in SMART and Sherman.

use super::builders::{by_panel, predicted, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::smart_cluster::{ComparedSystem, SHERMAN, quiet, smart};
use crate::record::Record;
use crate::run::RunSpec;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-cache",
    title: "SMART and Sherman: lookups over the size of the cache",
    setting: "Lookups of uniform integer keys by 8 clients of one compute node, with a cache for all inner nodes and \
              with smaller ones. The name of each point has the share of its cache in what the largest cache uses at \
              the end for all inner nodes: their copies and the table of them. The slides show one size of cache; \
              public measurements of the artifact find 2.6 to 5 round trips with small caches.",
    claim: "The slides show one size of cache; this figure varies it.",
    key: "",
    cause: "",
    runs,
    compare,
};

/// A system, and its caches in thousandths of a byte per key: enough for all inner nodes, decreasing parts of that, and
/// none.
struct Curve {
    name: &'static str,
    compared: ComparedSystem,
    caches: [u64; CACHES],
}

const CACHES: usize = 9;
const CURVES: [Curve; 2] = [
    Curve {
        name: "SMART",
        compared: smart("smart"),
        caches: [400_000, 30_000, 12_000, 6_000, 3_000, 1_200, 600, 60, 0],
    },
    Curve { name: "Sherman", compared: SHERMAN, caches: [400_000, 350, 140, 70, 35, 14, 7, 1, 0] },
];
const SOURCE: &str = "SMART, slides";

fn runs(effort: Effort) -> Vec<Run> {
    let of_curve = |Curve { compared, caches, .. }: Curve| {
        caches.into_iter().map(move |millibytes| {
            let spec = quiet(compared, Workload::YcsbC, effort);
            let cache_bytes = (spec.keys.unwrap_or(0) * millibytes / 1000) as usize;
            RunSpec { cache_bytes: Some(cache_bytes), ..spec }
        })
    };
    runs_of(CURVES.into_iter().flat_map(of_curve))
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (records, Curve { name, caches, .. }) in records.chunks(CACHES).zip(CURVES) {
        let whole = records[0].cache.as_ref().map_or(0, |cache| cache.bytes).max(1);
        for (record, millibytes) in records.iter().zip(caches) {
            let budget = (record.keys * millibytes / 1000).min(whole);
            let share = 100.0 * budget as f64 / whole as f64;
            let point = format!("{name}, {:.3} B a key, {share:.1} %", budget as f64 / record.keys as f64);
            let trips = record.round_trips.as_ref().map_or(0.0, |trips| trips.mean);
            let bytes = record.bytes_per_op.as_ref().map_or(0.0, |bytes| bytes.read);
            all.push(predicted("Round trips of a lookup", point.clone(), None, trips, SOURCE));
            all.push(predicted("Bytes read by a lookup", point, None, bytes, SOURCE));
        }
    }
    by_panel(all)
}
