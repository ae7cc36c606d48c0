//! SMART, Figure 17: efficiency of the cache.

use farwood_index::smart::NodeSizing;

use super::builders::{predicted, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::smart_cluster::{
    CLIENTS, KeyKind, PAPER, cache_bytes, node_sizing, smart, spec, with_node_sizing,
};
use crate::record::Record;
use crate::run::RunSpec;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-fig17",
    title: "SMART, Figure 17: efficiency of the cache",
    setting: "Set-up of Figure 12, YCSB C, e-mail addresses, 24 threads on each of 16 compute nodes with 2 clients \
              each. As in the artifact, caches of 150 to 300 MB for 60 million keys, which are 2.5 to 5 B a key. The \
              baseline has nodes of 4, 16, 48 and 256 slots; SMART has the nodes of the other figures. Both search \
              their cache by prefix, which is a step of its own in the artifact.",
    claim: "The slides do not show this figure; the artifact measures the hit ratio of small caches.",
    key: "",
    cause: "A copy in the cache holds only the occupied slots of its node, so the sizes of the nodes make no \
            difference here.",
    runs,
    compare,
};

const CACHES_MB: [u64; 4] = [150, 200, 250, 300];
const SYSTEMS: [&str; 2] = ["Baseline", "SMART"];
const VARIANT: &str = "smart";

fn runs(effort: Effort) -> Vec<Run> {
    let of_sizing = |sizing: NodeSizing| {
        CACHES_MB.into_iter().map(move |megabytes| {
            let spec = spec(smart(VARIANT), Workload::YcsbC, KeyKind::String, CLIENTS, effort);
            let cache_bytes = Some(cache_bytes(spec.keys.unwrap_or(0), megabytes));
            with_node_sizing(RunSpec { cache_bytes, ..spec }, sizing)
        })
    };
    runs_of([NodeSizing::Fitting, node_sizing(VARIANT)].into_iter().flat_map(of_sizing))
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (panel, value) in [
        ("Throughput, million operations per second", (|record| record.mops) as fn(&Record) -> f64),
        ("Hit ratio of the cache, %", hits),
    ] {
        for (name, curve) in SYSTEMS.into_iter().zip(records.chunks(CACHES_MB.len())) {
            for (record, megabytes) in curve.iter().zip(CACHES_MB) {
                let point = format!("{name}, {megabytes} MB for 60 million keys");
                let comparison = predicted(panel, point, None, value(record), PAPER);
                all.push(comparison.on_curve(name, "MB of cache for 60 million keys", megabytes as f64));
            }
        }
    }
    all
}

fn hits(record: &Record) -> f64 {
    100.0 * record.cache.as_ref().map_or(0.0, |cache| cache.hit_ratio)
}
