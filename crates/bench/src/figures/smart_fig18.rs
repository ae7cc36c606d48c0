//! SMART, Figure 18: sensitivity to the skew, and to the sizes of keys and values.

use super::builders::{predicted, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::smart_cluster::{
    Clients, ComparedSystem, KeyKind, LEAF_CAPACITY, PAPER, SYSTEMS, cache_bytes, spec, with_leaves,
};
use crate::record::Record;
use crate::run::{KeySource, RunSpec};
use crate::workload::Workload;
use crate::workload::distribution::Distribution;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-fig18",
    title: "SMART, Figure 18: skew, and sizes of keys and values",
    setting: "16 threads on each of 16 compute nodes with 2 clients each, 2 memory nodes, integer keys, as in the \
              artifact. (a) Half lookups, half updates, over the skew; set-up of Figure 11. (b, c) YCSB C with a \
              cache of 6,000 MB for 60 million keys, over the size of keys and of values; leaves of Sherman have 32 \
              entries, so they grow with both.",
    claim: "The slides do not show this figure; the artifact varies the skew, and the sizes of keys and values.",
    key: "",
    cause: "",
    runs,
    compare,
};

const THETAS: [f64; 6] = [0.5, 0.6, 0.7, 0.8, 0.9, 0.99];
const KEYS: [usize; 6] = [8, 16, 32, 64, 128, 256];
const VALUES: [usize; 8] = [8, 16, 32, 64, 128, 256, 512, 1024];
const CLIENTS: Clients = Clients::of_16(16);
/// Megabytes of cache for 60 million keys, over sizes of keys and values.
const LARGE_CACHE_MB: u64 = 6_000;

fn runs(effort: Effort) -> Vec<Run> {
    let skews = |compared| THETAS.into_iter().map(move |theta| over_skew(compared, theta, effort));
    let keys = |compared| KEYS.into_iter().map(move |bytes| over_size(compared, (bytes, 8), effort));
    let values = |compared| VALUES.into_iter().map(move |bytes| over_size(compared, (8, bytes), effort));
    let systems = || SYSTEMS.into_iter().map(|(_, compared)| compared);
    let specs = systems().flat_map(skews).chain(systems().flat_map(keys)).chain(systems().flat_map(values));
    runs_of(specs)
}

fn over_skew(compared: ComparedSystem, theta: f64, effort: Effort) -> RunSpec {
    let spec = spec(compared, Workload::YcsbA, KeyKind::Integer, CLIENTS, effort);
    RunSpec { distribution: Distribution::Zipf { theta }, ..spec }
}

fn over_size(compared: ComparedSystem, (key_bytes, value_bytes): (usize, usize), effort: Effort) -> RunSpec {
    let spec = spec(compared, Workload::YcsbC, KeyKind::Integer, CLIENTS, effort);
    let spec = RunSpec {
        cache_bytes: Some(cache_bytes(spec.keys.unwrap_or(0), LARGE_CACHE_MB)),
        key_source: KeySource::Integers(key_bytes),
        value_bytes,
        ..spec
    };
    with_leaves(spec, LEAF_CAPACITY)
}

/// One of the figure's parts: the quantity that varies, and its values.
struct Part<'p> {
    panel: &'static str,
    axis: &'static str,
    at: &'p [f64],
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let numbers = |sizes: &[usize]| sizes.iter().map(|bytes| *bytes as f64).collect::<Vec<_>>();
    let (keys, values) = (numbers(&KEYS), numbers(&VALUES));
    let parts = [
        Part { panel: "(a) Throughput over the skew", axis: "zipf", at: &THETAS },
        Part { panel: "(b) Throughput over the size of keys", axis: "bytes of a key", at: &keys },
        Part { panel: "(c) Throughput over the size of values", axis: "bytes of a value", at: &values },
    ];
    let (mut rest, mut all) = (records, Vec::new());
    for part in &parts {
        let (of_part, others) = rest.split_at(SYSTEMS.len() * part.at.len());
        all.extend(points(part, of_part));
        rest = others;
    }
    all
}

fn points(part: &Part<'_>, records: &[Record]) -> Vec<Comparison> {
    let panel = format!("{}, million operations per second", part.panel);
    let mut all = Vec::new();
    for ((name, _), curve) in SYSTEMS.into_iter().zip(records.chunks(part.at.len())) {
        for (record, at) in curve.iter().zip(part.at) {
            let point = format!("{name}, {} {at}", part.axis);
            let comparison = predicted(panel.clone(), point, None, record.mops, PAPER);
            all.push(comparison.on_curve(name, part.axis, *at));
        }
    }
    all
}
