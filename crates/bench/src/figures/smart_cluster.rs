//! The cluster of SMART's evaluation, with the settings of its published artifact (`exp/params`).

use std::fmt;

use farwood_index::ordered::System;
use farwood_index::sherman::options::Leaves;
use farwood_index::smart::NodeSizing;

use super::builders::{LoadedKeys, Time, simulated};
use super::figure::Effort;
pub(super) use super::sherman_fig15::LEAF_CAPACITY;
use super::sherman_fig15::node_bytes;
use crate::run::{Amount, KeySource, RunSpec};
use crate::spec::smart_overrides::SmartOverrides;
use crate::workload::Workload;
use crate::workload::distribution::Distribution;
use crate::workload::keys::KeyLength;

/// The artifact's keys.
pub(super) const RANKS: u64 = 60_000_000;
/// The source of values that are not printed in the slides.
pub(super) const PAPER: &str = "SMART, Evaluation";
/// The source of printed values.
pub(super) const SLIDES: &str = "SMART, slides";
/// Megabytes of a compute node's cache in most of the artifact's figures, for [`RANKS`] keys.
const CACHE_MB: u64 = 600;
/// Number of keys in the tree at the end of LOAD, and at its beginning: a 256th of the artifact's, so that a tree of
/// integers is as full as the artifact's, but one level lower.
const LOAD_KEYS: u64 = RANKS / 256;
const PRELOADED_KEYS: u64 = 5_000_000 / 256;
/// Coroutines of each thread, in each of the artifact's figures but one.
const COROUTINES: u64 = 2;
/// Bytes of a string key.
const STRING_BYTES: usize = 32;

/// An index and its variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ComparedSystem {
    pub(super) system: System,
    pub(super) variant: &'static str,
}

/// Sherman as in its paper.
pub(super) const SHERMAN: ComparedSystem = ComparedSystem { system: System::Sherman, variant: "sherman" };

/// The systems of most figures.
pub(super) const SYSTEMS: [(&str, ComparedSystem); 3] =
    [("SMART", smart("smart")), ("ART", smart("art")), ("Sherman", SHERMAN)];

/// A step from ART to SMART.
pub(super) const fn smart(variant: &'static str) -> ComparedSystem {
    ComparedSystem { system: System::Smart, variant }
}

/// Sizes of the inner nodes of a variant of SMART, in all figures. The artifact's ART has nodes of 4, 16, 48 and 256
/// slots; the steps after it have seven sizes, and grow in place.
pub(super) fn node_sizing(variant: &str) -> NodeSizing {
    if variant == "art" { NodeSizing::Fitting } else { NodeSizing::Typed }
}

/// The run with these sizes of inner nodes.
pub(super) fn with_node_sizing(spec: RunSpec, sizing: NodeSizing) -> RunSpec {
    RunSpec { smart: SmartOverrides { node_sizing: Some(sizing), ..spec.smart }, ..spec }
}

/// The clients of a run: its compute nodes, and the threads of each, with [`COROUTINES`] clients on each thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clients {
    compute_nodes: u64,
    threads: u64,
}

impl Clients {
    /// The clients of this number of threads on each of `compute_nodes`.
    pub(super) const fn new(compute_nodes: u64, threads: u64) -> Clients {
        Clients { compute_nodes, threads }
    }

    /// The clients of this number of threads on each of 16 compute nodes.
    pub(super) const fn of_16(threads: u64) -> Clients {
        Clients::new(16, threads)
    }

    /// Number of clients.
    pub(super) fn count(self) -> u64 {
        self.compute_nodes * self.threads * COROUTINES
    }
}

impl fmt::Display for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} x {COROUTINES} clients", self.compute_nodes, self.threads)
    }
}

/// The clients of the factor analysis, and of figures of one system.
pub(super) const CLIENTS: Clients = Clients::of_16(24);

/// The kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    Integer,
    String,
}

impl KeyKind {
    /// The source of `count` loaded keys, and of a quarter more for inserts.
    fn source(self, count: u64) -> KeySource {
        match self {
            KeyKind::Integer => KeySource::Integers(8),
            KeyKind::String => KeySource::Emails((count + count / 4) as u32, KeyLength::Padded(STRING_BYTES)),
        }
    }
}

/// A run with 2 memory nodes, leaves of 32 entries in Sherman, and a cache of 600 MB for 60 million keys.
pub(super) fn spec(
    compared: ComparedSystem,
    workload: Workload,
    keys: KeyKind,
    clients: Clients,
    effort: Effort,
) -> RunSpec {
    let count = count(workload, effort);
    let time = match workload {
        // Concurrent updates of hot keys wait for each other for milliseconds.
        Workload::YcsbA => Time::of(effort, (0.001, 0.002), (0.004, 0.012)),
        Workload::YcsbE => Time::of(effort, (0.0005, 0.001), (0.002, 0.01)),
        _ => Time::of(effort, (0.0003, 0.0005), (0.001, 0.003)),
    };
    let loaded = LoadedKeys { count, ranks: RANKS };
    let is_load = workload == Workload::Load;
    let spec = RunSpec {
        key_source: keys.source(count),
        cache_bytes: Some(cache_bytes(count, CACHE_MB)),
        memory_nodes: 2,
        compute_nodes: clients.compute_nodes as usize,
        threads: Some(clients.threads as usize),
        clients: Some(clients.count()),
        preloaded_keys: if is_load { effort.pick(PRELOADED_KEYS / 4, PRELOADED_KEYS) } else { 0 },
        ..simulated(compared.system, compared.variant, "cx6-100g", workload, loaded, time)
    };
    let spec = with_leaves(RunSpec { warm_up_keys: 0, ..spec }, LEAF_CAPACITY);
    match compared.system {
        System::Smart => with_node_sizing(spec, node_sizing(compared.variant)),
        System::Sherman | System::Sphinx => spec,
    }
}

/// Number of keys in the tree, for LOAD at its end.
fn count(workload: Workload, effort: Effort) -> u64 {
    match workload {
        Workload::Load => effort.pick(LOAD_KEYS / 4, LOAD_KEYS),
        _ => keys(effort),
    }
}

/// Number of loaded keys of all workloads but LOAD. Sherman's leaves of 32 entries of 16 B or 40 B then fill about 4 or
/// 8 chunks of 8 MiB, so that each memory node has about half of the leaves, as with the artifact's keys.
pub(super) fn keys(effort: Effort) -> u64 {
    effort.pick(RANKS / 480, RANKS / 48)
}

/// The bytes of cache of `keys` keys that correspond to these megabytes for [`RANKS`] keys.
pub(super) fn cache_bytes(keys: u64, megabytes: u64) -> usize {
    (keys * megabytes * 1_000_000 / RANKS) as usize
}

/// The run with leaves of `entries` entries, if the system is a B-link tree.
pub(super) fn with_leaves(spec: RunSpec, entries: usize) -> RunSpec {
    let key_bytes = match spec.key_source {
        KeySource::Integers(key_bytes) => key_bytes,
        _ => STRING_BYTES,
    };
    let bytes = || node_bytes((key_bytes, spec.value_bytes), Leaves::TwoLevel, entries);
    RunSpec { node_bytes: (spec.index == System::Sherman).then(bytes), ..spec }
}

/// A run of one compute node with few clients and no conflicts, which measures costs and not speed.
pub(super) fn quiet(compared: ComparedSystem, workload: Workload, effort: Effort) -> RunSpec {
    RunSpec {
        compute_nodes: 1,
        threads: Some(8),
        clients: Some(8),
        distribution: Distribution::Uniform,
        zipf_ranks: None,
        cache_bytes: Some(1 << 30),
        node_bytes: None,
        keys: Some(effort.pick(100_000, 1_000_000)),
        amount: Some(Amount::Seconds(effort.pick(0.002, 0.01))),
        warm_up_seconds: Some(0.001),
        ..spec(compared, workload, KeyKind::Integer, CLIENTS, effort)
    }
}
