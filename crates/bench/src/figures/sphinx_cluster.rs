//! The cluster of Sphinx's evaluation (its §V-A).

use farwood_index::ordered::System;

use super::builders::{LoadedKeys, Time, simulated};
use super::figure::Effort;
use crate::run::{KeySource, RunSpec};
use crate::workload::Workload;
use crate::workload::keys::KeyLength;

/// The paper's keys.
const RANKS: u64 = 60_000_000;
/// Number of loaded keys: a 256th, so that a tree of integers is as full as the paper's, but one level lower.
const KEYS: u64 = RANKS / 256;
/// Number of machines, each a memory node and a compute node.
const MACHINES: u16 = 3;
/// Largest number of threads of a compute node; workers are coroutines.
const THREADS_MAX: u64 = 28;
/// Workers of all compute nodes in figures that do not vary them: the most that the paper shows.
pub(super) const WORKERS: u64 = 192;
pub(super) const SOURCE: &str = "Sphinx, §V";
const VALUE_BYTES: usize = 64;

/// A system of the paper's comparison, and the cache of its compute nodes in units of 20 MB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ComparedSystem {
    pub(super) name: &'static str,
    system: System,
    variant: &'static str,
    caches: u64,
}

/// The systems in the paper's order; the others are compared with the last.
pub(super) const SYSTEMS: [ComparedSystem; 4] = [
    ComparedSystem { name: "ART", system: System::Sphinx, variant: "art", caches: 0 },
    ComparedSystem { name: "SMART", system: System::Smart, variant: "smart", caches: 1 },
    ComparedSystem { name: "SMART+C", system: System::Smart, variant: "smart", caches: 10 },
    ComparedSystem { name: "Sphinx", system: System::Sphinx, variant: "sphinx", caches: 1 },
];
pub(super) const ART: usize = 0;
pub(super) const SMART: usize = 1;
pub(super) const SPHINX: usize = 3;

/// The kinds of keys.
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
            // A quarter is for inserts.
            KeyKind::Email => KeySource::Emails((KEYS + KEYS / 4) as u32, KeyLength::Any),
        }
    }

    /// The bytes that correspond to 20 MB of cache if this number of keys is loaded: 20 MB are 4.2 % of the bytes of 60
    /// million integers, and 1.8 % of those of the addresses.
    fn cache_bytes(self, keys: u64) -> u64 {
        match self {
            KeyKind::U64 => keys * 8 * 42 / 1_000,
            KeyKind::Email => keys * 1_893 * 18 / 100_000,
        }
    }
}

/// A run with this number of workers.
pub(super) fn spec(
    compared: ComparedSystem,
    workload: Workload,
    keys: KeyKind,
    workers: u64,
    effort: Effort,
) -> RunSpec {
    let count = effort.pick(KEYS / 16, KEYS);
    // Concurrent updates of hot keys wait for each other.
    let time = match workload {
        Workload::YcsbE => Time::of(effort, (0.0005, 0.001), (0.002, 0.01)),
        _ => Time::of(effort, (0.0005, 0.001), (0.004, 0.012)),
    };
    let loaded = LoadedKeys { count, ranks: RANKS };
    RunSpec {
        colocate: true,
        key_source: keys.source(),
        value_bytes: VALUE_BYTES,
        cache_bytes: Some((compared.caches * keys.cache_bytes(count)) as usize),
        memory_nodes: MACHINES,
        compute_nodes: usize::from(MACHINES),
        threads: Some((workers / u64::from(MACHINES)).min(THREADS_MAX) as usize),
        clients: Some(workers),
        ..simulated(compared.system, compared.variant, "cx6-200g", workload, loaded, time)
    }
}
