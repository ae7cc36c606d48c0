//! The cluster that SMART is measured on, and what its figures share.

use farwood_index::ordered::System;

use super::sherman_cluster::{ZIPF, run};
use super::{Comparison, Effort, Run};
use crate::run::{Amount, FabricKind, KeySource, RunSpec};
use crate::workload::Workload;
use crate::workload::distribution::Distribution;
use crate::workload::keys::KeyLength;

/// Ranks over which popularity is drawn, however many keys are loaded: the artifact's keys.
pub(super) const RANKS: u64 = 60_000_000;
/// Bytes of a compute node's cache for each key: 600 MB for 60 million.
pub(super) const CACHE_BYTES_PER_KEY: u64 = 10;
/// Compute nodes, and clients of each, a thread for each.
const COMPUTE_NODES: usize = 16;
const CLIENTS_EACH: u64 = 32;

/// A system and its variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contestant {
    pub(super) system: System,
    pub(super) variant: &'static str,
}

/// Sherman as its paper has it.
pub(super) const SHERMAN: Contestant = Contestant { system: System::Sherman, variant: "sherman" };

/// A step of SMART's.
pub(super) const fn smart(variant: &'static str) -> Contestant {
    Contestant { system: System::Smart, variant }
}

/// What keys are.
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

    /// The keys as `system` wants them: words are padded where keys have one length.
    fn source(self, system: System) -> KeySource {
        match (self, system) {
            (KeyKind::Integer, _) => KeySource::Integers(8),
            (KeyKind::String, System::Sherman) => KeySource::Words(KeyLength::Padded(32)),
            (KeyKind::String, System::Smart | System::Sphinx) => KeySource::Words(KeyLength::Any),
        }
    }

    /// Keys that are loaded.
    fn count(self, effort: Effort) -> u64 {
        match self {
            KeyKind::Integer => effort.pick(100_000, 1_000_000),
            // Of 274,937; the rest is for inserts.
            KeyKind::String => effort.pick(50_000, 200_000),
        }
    }
}

/// A run of `who` on 16 compute nodes of 32 threads, and 2 memory nodes.
pub(super) fn spec(who: Contestant, workload: Workload, keys: KeyKind, effort: Effort) -> RunSpec {
    let count = keys.count(effort);
    // Where updates meet at hot keys, clients wait for each other for milliseconds.
    let (warm_up_seconds, seconds) = match workload {
        Workload::YcsbA => effort.pick((0.001, 0.002), (0.004, 0.012)),
        _ => effort.pick((0.0003, 0.0005), (0.001, 0.003)),
    };
    RunSpec {
        index: who.system,
        variant: Some(who.variant.to_owned()),
        fabric: FabricKind::Sim,
        nic: Some("cx6-100g".to_owned()),
        workload,
        distribution: ZIPF,
        zipf_ranks: Some(RANKS),
        keys: Some(count),
        key_source: keys.source(who.system),
        cache_bytes: Some((count * CACHE_BYTES_PER_KEY) as usize),
        memory_nodes: 2,
        compute_nodes: COMPUTE_NODES,
        threads: Some(CLIENTS_EACH as usize),
        clients: Some(COMPUTE_NODES as u64 * CLIENTS_EACH),
        amount: (workload != Workload::Load).then_some(Amount::Seconds(seconds)),
        warm_up_seconds: Some(warm_up_seconds),
        // The beginning of a load is the same however many keys there are, and nothing beside tens of millions.
        warm_up_keys: if workload == Workload::Load { count / 2 } else { 0 },
        ..RunSpec::default()
    }
}

/// A run of one compute node whose few clients do not meet: what operations cost, and no speed.
pub(super) fn quiet(who: Contestant, workload: Workload, effort: Effort) -> RunSpec {
    RunSpec {
        compute_nodes: 1,
        threads: Some(8),
        clients: Some(8),
        distribution: Distribution::Uniform,
        zipf_ranks: None,
        cache_bytes: Some(1 << 30),
        amount: Some(Amount::Seconds(effort.pick(0.002, 0.01))),
        warm_up_seconds: Some(0.001),
        ..spec(who, workload, KeyKind::Integer, effort)
    }
}

/// Comparisons with those of one panel behind each other, the panels in the order in which they came.
pub(super) fn by_panel(comparisons: Vec<Comparison>) -> Vec<Comparison> {
    let mut panels: Vec<String> = Vec::new();
    for comparison in &comparisons {
        if !panels.contains(&comparison.panel) {
            panels.push(comparison.panel.clone());
        }
    }
    let mut sorted = comparisons;
    sorted.sort_by_key(|comparison| panels.iter().position(|panel| *panel == comparison.panel));
    sorted
}

/// The runs of all specs.
pub(super) fn runs(specs: impl IntoIterator<Item = RunSpec>) -> Vec<Run> {
    specs.into_iter().map(run).collect()
}
