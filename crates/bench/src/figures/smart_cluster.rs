//! The cluster of SMART's evaluation.

use farwood_index::ordered::System;

use super::builders::{LoadedKeys, Time, simulated};
use super::figure::Effort;
use crate::run::{Amount, KeySource, RunSpec};
use crate::workload::Workload;
use crate::workload::distribution::Distribution;
use crate::workload::keys::KeyLength;

/// The artifact's keys.
pub(super) const RANKS: u64 = 60_000_000;
/// Bytes of a compute node's cache per key: 600 MB for 60 million.
pub(super) const CACHE_BYTES_PER_KEY: u64 = 10;
const COMPUTE_NODES: usize = 16;
/// Clients of a compute node, with one thread each.
const CLIENTS_EACH: u64 = 32;

/// An index and its variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ComparedSystem {
    pub(super) system: System,
    pub(super) variant: &'static str,
}

/// Sherman as in its paper.
pub(super) const SHERMAN: ComparedSystem = ComparedSystem { system: System::Sherman, variant: "sherman" };

/// A step from ART to SMART.
pub(super) const fn smart(variant: &'static str) -> ComparedSystem {
    ComparedSystem { system: System::Smart, variant }
}

/// The kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    Integer,
    String,
}

impl KeyKind {
    pub(super) const ALL: [KeyKind; 2] = [KeyKind::Integer, KeyKind::String];

    pub(super) fn name(self) -> &'static str {
        match self {
            KeyKind::Integer => "integer keys",
            KeyKind::String => "string keys",
        }
    }

    /// The keys of `system`: words are padded if its keys have one length.
    fn source(self, system: System) -> KeySource {
        match (self, system) {
            (KeyKind::Integer, _) => KeySource::Integers(8),
            (KeyKind::String, System::Sherman) => KeySource::Words(KeyLength::Padded(32)),
            (KeyKind::String, System::Smart | System::Sphinx) => KeySource::Words(KeyLength::Any),
        }
    }

    /// Number of loaded keys.
    fn count(self, effort: Effort) -> u64 {
        match self {
            KeyKind::Integer => effort.pick(100_000, 1_000_000),
            // The other words of the 274,937 are for inserts.
            KeyKind::String => effort.pick(50_000, 200_000),
        }
    }
}

/// A run on 16 compute nodes of 32 threads, and 2 memory nodes.
pub(super) fn spec(compared: ComparedSystem, workload: Workload, keys: KeyKind, effort: Effort) -> RunSpec {
    let count = keys.count(effort);
    // Concurrent updates of hot keys wait for each other for milliseconds.
    let time = match workload {
        Workload::YcsbA => Time::of(effort, (0.001, 0.002), (0.004, 0.012)),
        _ => Time::of(effort, (0.0003, 0.0005), (0.001, 0.003)),
    };
    let loaded = LoadedKeys { count, ranks: RANKS };
    RunSpec {
        key_source: keys.source(compared.system),
        cache_bytes: Some((count * CACHE_BYTES_PER_KEY) as usize),
        memory_nodes: 2,
        compute_nodes: COMPUTE_NODES,
        threads: Some(CLIENTS_EACH as usize),
        clients: Some(COMPUTE_NODES as u64 * CLIENTS_EACH),
        ..simulated(compared.system, compared.variant, "cx6-100g", workload, loaded, time)
    }
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
        amount: Some(Amount::Seconds(effort.pick(0.002, 0.01))),
        warm_up_seconds: Some(0.001),
        ..spec(compared, workload, KeyKind::Integer, effort)
    }
}
