//! The cluster that Sphinx is measured on (its §V-A), and what its figures share.

use farwood_index::ordered::System;

use super::sherman_cluster::{ZIPF, run};
use super::{Effort, Run};
use crate::record::Record;
use crate::run::{Amount, FabricKind, KeySource, RunSpec};
use crate::workload::Workload;

/// The paper's keys, over which popularity is drawn, however many are loaded.
const RANKS: u64 = 60_000_000;
/// Keys that are loaded: a 256th, so that a tree of integers is as full as the paper's, one level lower.
const KEYS: u64 = RANKS / 256;
/// Machines, each a memory node and a compute node.
const MACHINES: u16 = 3;
/// Threads of a compute node, at most; workers are coroutines.
const THREADS_MAX: u64 = 28;
/// Workers of all compute nodes where the figure is not about them: the most that the paper shows.
pub(super) const WORKERS: u64 = 192;
pub(super) const SOURCE: &str = "Sphinx, §V";
const VALUE_BYTES: usize = 64;

/// A system as the paper compares it, and how many times 20 MB of cache a compute node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contestant {
    pub(super) name: &'static str,
    system: System,
    variant: &'static str,
    caches: u64,
}

/// In the paper's order: the last is what the others are compared with.
pub(super) const CONTESTANTS: [Contestant; 4] = [
    Contestant { name: "ART", system: System::Sphinx, variant: "art", caches: 0 },
    Contestant { name: "SMART", system: System::Smart, variant: "smart", caches: 1 },
    Contestant { name: "SMART+C", system: System::Smart, variant: "smart", caches: 10 },
    Contestant { name: "Sphinx", system: System::Sphinx, variant: "sphinx", caches: 1 },
];
pub(super) const ART: usize = 0;
pub(super) const SMART: usize = 1;
pub(super) const SPHINX: usize = 3;

/// What keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    U64,
    Email,
}

impl KeyKind {
    pub(super) const ALL: [KeyKind; 2] = [KeyKind::U64, KeyKind::Email];

    pub(super) fn name(self) -> &'static str {
        match self {
            KeyKind::U64 => "u64",
            KeyKind::Email => "e-mail",
        }
    }

    fn source(self) -> KeySource {
        match self {
            KeyKind::U64 => KeySource::Integers(8),
            // A quarter is left to insert.
            KeyKind::Email => KeySource::Emails((KEYS + KEYS / 4) as u32),
        }
    }

    /// Bytes of 20 MB of cache where there are so many keys: 20 MB are 4.2 % of 60 million integers' bytes, and 1.8 %
    /// of the addresses'.
    fn cache_bytes(self, keys: u64) -> u64 {
        match self {
            KeyKind::U64 => keys * 8 * 42 / 1_000,
            KeyKind::Email => keys * 1_893 * 18 / 100_000,
        }
    }
}

/// A run of `who` by so many workers.
pub(super) fn spec(
    who: Contestant,
    workload: Workload,
    keys: KeyKind,
    workers: u64,
    effort: Effort,
) -> RunSpec {
    let count = effort.pick(KEYS / 16, KEYS);
    // Where updates meet at hot keys, workers wait for each other.
    let (warm_up_seconds, seconds) = match workload {
        Workload::YcsbE => effort.pick((0.0005, 0.001), (0.002, 0.01)),
        _ => effort.pick((0.0005, 0.001), (0.004, 0.012)),
    };
    RunSpec {
        index: who.system,
        variant: Some(who.variant.to_owned()),
        fabric: FabricKind::Sim,
        nic: Some("cx6-200g".to_owned()),
        colocate: true,
        workload,
        distribution: ZIPF,
        zipf_ranks: Some(RANKS),
        keys: Some(count),
        key_source: keys.source(),
        value_bytes: VALUE_BYTES,
        cache_bytes: Some((who.caches * keys.cache_bytes(count)) as usize),
        memory_nodes: MACHINES,
        compute_nodes: usize::from(MACHINES),
        threads: Some((workers / u64::from(MACHINES)).min(THREADS_MAX) as usize),
        clients: Some(workers),
        amount: (workload != Workload::Load).then_some(Amount::Seconds(seconds)),
        warm_up_seconds: Some(warm_up_seconds),
        // The beginning of a load is the same however many keys there are, and nothing beside 60 million.
        warm_up_keys: if workload == Workload::Load { count / 2 } else { 0 },
        ..RunSpec::default()
    }
}

/// The runs of all specs.
pub(super) fn runs(specs: impl IntoIterator<Item = RunSpec>) -> Vec<Run> {
    specs.into_iter().map(run).collect()
}

/// Round trips of an operation, on average.
pub(super) fn round_trips(record: &Record) -> f64 {
    record.round_trips.as_ref().map_or(0.0, |trips| trips.mean)
}
