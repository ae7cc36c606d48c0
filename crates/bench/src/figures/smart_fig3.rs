//! SMART, Figure 3: radix trees and B+ trees on far memory, before the paper's techniques.

use super::builders::{predicted, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::smart_cluster::{
    Clients, ComparedSystem, KeyKind, LEAF_CAPACITY, PAPER, SHERMAN, cache_bytes, smart, spec, with_leaves,
};
use crate::record::Record;
use crate::run::RunSpec;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-fig3",
    title: "SMART, Figure 3: ART and Sherman on far memory",
    setting: "YCSB C, values of 64 B, e-mail addresses in 32 B, 8 compute nodes, 2 clients on each thread, as in the \
              artifact; keys and popularity as in Figure 12. (a) Without cache, over the number of clients, with 1 \
              and 2 memory nodes; Sherman's leaves have 32 entries. (b) Without cache, 32 threads and 1 memory node, \
              over the entries of Sherman's leaves; integer keys as well. (c) Over caches of 0 to 600 MB for 60 \
              million keys. (d) Over the number of clients, with 600 MB.",
    claim: "The slides do not show this figure; the artifact compares ART with Sherman, without a cache and with one.",
    key: "",
    cause: "",
    runs,
    compare,
};

const ART: ComparedSystem = smart("art");
const SYSTEMS: [(&str, ComparedSystem); 2] = [("ART", ART), ("Sherman", SHERMAN)];
const MEMORY_NODES: [u16; 2] = [1, 2];
/// Threads of each compute node in (a).
const THREADS: [u64; 5] = [4, 8, 16, 24, 32];
/// Entries of a leaf in (b).
const SPANS: [usize; 4] = [8, 16, 32, 64];
const KEYS: [(KeyKind, &str); 2] = [(KeyKind::Integer, "integer keys"), (KeyKind::String, "string keys")];
const CACHES_MB: [u64; 7] = [0, 100, 200, 300, 400, 500, 600];
/// Threads of each compute node in (d).
const ART_THREADS: [u64; 13] = [1, 2, 3, 4, 5, 6, 8, 12, 16, 20, 24, 32, 40];
const SHERMAN_THREADS: [u64; 7] = [1, 2, 3, 4, 5, 6, 8];
const VALUE_BYTES: usize = 64;

/// A run of this number of threads on each of 8 compute nodes, and this cache for 60 million keys.
fn of(compared: ComparedSystem, keys: KeyKind, threads: u64, cache_mb: u64, effort: Effort) -> RunSpec {
    let spec = spec(compared, Workload::YcsbC, keys, Clients::new(8, threads), effort);
    let cache_bytes = Some(cache_bytes(spec.keys.unwrap_or(0), cache_mb));
    let spec = RunSpec { value_bytes: VALUE_BYTES, memory_nodes: 1, cache_bytes, ..spec };
    with_leaves(spec, LEAF_CAPACITY)
}

fn runs(effort: Effort) -> Vec<Run> {
    let mut specs = Vec::new();
    for (_, compared) in SYSTEMS {
        for memory_nodes in MEMORY_NODES {
            let of_threads = |threads| of(compared, KeyKind::String, threads, 0, effort);
            specs.extend(THREADS.map(|threads| RunSpec { memory_nodes, ..of_threads(threads) }));
        }
    }
    for (keys, _) in KEYS {
        specs.push(of(ART, keys, 32, 0, effort));
        specs.extend(SPANS.map(|entries| with_leaves(of(SHERMAN, keys, 32, 0, effort), entries)));
    }
    for (_, compared) in SYSTEMS {
        specs.extend(CACHES_MB.map(|megabytes| of(compared, KeyKind::String, 32, megabytes, effort)));
    }
    let (art, sherman) = (ART_THREADS.to_vec(), SHERMAN_THREADS.to_vec());
    for (threads, compared) in [(art, ART), (sherman, SHERMAN)] {
        specs.extend(threads.into_iter().map(|each| of(compared, KeyKind::String, each, 600, effort)));
    }
    runs_of(specs)
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let (of_clients, rest) = records.split_at(SYSTEMS.len() * MEMORY_NODES.len() * THREADS.len());
    let (of_spans, rest) = rest.split_at(KEYS.len() * (1 + SPANS.len()));
    let (of_caches, of_latency) = rest.split_at(SYSTEMS.len() * CACHES_MB.len());
    let mut all = over_clients(of_clients);
    all.extend(over_spans(of_spans));
    all.extend(over_caches(of_caches));
    all.extend(latencies(of_latency));
    all
}

fn over_clients(records: &[Record]) -> Vec<Comparison> {
    let lines = SYSTEMS.iter().flat_map(|(name, _)| MEMORY_NODES.map(|nodes| format!("{name}, {nodes} MN")));
    let mut all = Vec::new();
    for (name, curve) in lines.zip(records.chunks(THREADS.len())) {
        for record in curve {
            let panel = "(a) Throughput without cache, million operations per second";
            let point = format!("{name}, {} clients", record.clients);
            let comparison = predicted(panel, point, None, record.mops, PAPER);
            all.push(comparison.on_curve(name.clone(), "clients", record.clients as f64));
        }
    }
    all
}

fn over_spans(records: &[Record]) -> Vec<Comparison> {
    let names =
        || std::iter::once("ART".to_owned()).chain(SPANS.map(|span| format!("Sherman, {span} entries")));
    let mut all = Vec::new();
    for ((_, keys), of_keys) in KEYS.into_iter().zip(records.chunks(1 + SPANS.len())) {
        for (name, record) in names().zip(of_keys) {
            let panel = format!("(b) Throughput without cache, {keys}, million operations per second");
            all.push(predicted(panel, name, None, record.mops, PAPER));
        }
    }
    all
}

fn over_caches(records: &[Record]) -> Vec<Comparison> {
    let mut all = Vec::new();
    for ((name, _), curve) in SYSTEMS.into_iter().zip(records.chunks(CACHES_MB.len())) {
        for (record, megabytes) in curve.iter().zip(CACHES_MB) {
            let panel = "(c) Throughput over the cache, million operations per second";
            let point = format!("{name}, {megabytes} MB for 60 million keys");
            let comparison = predicted(panel, point, None, record.mops, PAPER);
            all.push(comparison.on_curve(name, "MB of cache for 60 million keys", megabytes as f64));
        }
    }
    all
}

fn latencies(records: &[Record]) -> Vec<Comparison> {
    let (art, sherman) = records.split_at(ART_THREADS.len());
    let mut all = Vec::new();
    for (name, curve) in [("ART", art), ("Sherman", sherman)] {
        for record in curve {
            let point = format!("{name}, {} clients, {:.2} M/s", record.clients, record.mops);
            let comparison = predicted("(d) P99 latency, us", point, None, record.latency_us.p99, PAPER);
            all.push(comparison.on_curve(name, "million operations per second", record.mops));
        }
    }
    all
}
