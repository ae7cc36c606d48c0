//! What lookups cost with less and less cache, of SMART and of Sherman.

use super::sherman_cluster::predicted;
use super::smart_cluster::{Contestant, SHERMAN, by_panel, quiet, runs as runs_of, smart};
use super::{Comparison, Effort, Figure, Run};
use crate::record::Record;
use crate::run::RunSpec;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-cache",
    title: "SMART and Sherman: lookups over the size of the cache",
    setting: "Lookups of uniform integer keys by 8 clients of one compute node, with a cache for all inner nodes and \
              with less. What all inner nodes take is what the largest cache holds at the end; the share of it that a \
              cache is, is in the point's name. The slides show one size of cache; public measurements of the \
              artifact find 2.6 to 5 round trips where caches are small.",
    runs,
    compare,
};

/// A system, and its caches in millibytes for each key: enough for all inner nodes, less and less of what they take,
/// down to a thousandth, and none.
struct Curve {
    name: &'static str,
    who: Contestant,
    caches: [u64; CACHES],
}

const CACHES: usize = 9;
const CURVES: [Curve; 2] = [
    Curve {
        name: "SMART",
        who: smart("smart"),
        caches: [400_000, 30_000, 12_000, 6_000, 3_000, 1_200, 600, 60, 0],
    },
    Curve { name: "Sherman", who: SHERMAN, caches: [400_000, 350, 140, 70, 35, 14, 7, 1, 0] },
];
const SOURCE: &str = "SMART, slides";

fn runs(effort: Effort) -> Vec<Run> {
    let of_curve = |Curve { who, caches, .. }: Curve| {
        caches.into_iter().map(move |millibytes| {
            let spec = quiet(who, Workload::YcsbC, effort);
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
