//! The cluster of Sphinx's evaluation (its §V-A).

use crate::spec::smart_overrides::SmartOverrides;
use crate::spec::sphinx_overrides::SphinxOverrides;
use farwood_index::ordered::System;
use farwood_index::smart::{CachePolicy, NodeSizing};
use farwood_index::sphinx::{LeafLocks, NodeReads, ScanStarts};

use super::builders::{LoadedKeys, Time, simulated};
use super::figure::Effort;
use crate::run::{KeySource, RunSpec};
use crate::workload::Workload;
use crate::workload::keys::KeyLength;

/// The paper's keys.
const RANKS: u64 = 60_000_000;
/// Number of machines, each a memory node and a compute node.
const MACHINES: u16 = 3;
/// Largest number of threads of a compute node; workers are coroutines.
const THREADS_MAX: u64 = 28;
/// Workers of all compute nodes in figures that do not vary them: the most that the paper shows.
pub(super) const WORKERS: u64 = 192;
pub(super) const SOURCE: &str = "Sphinx, §V";
const VALUE_BYTES: usize = 64;

/// The card of the figures: the paper's machines have a dual-port card of 2 x 100 Gb/s. The paper does not say whether
/// both ports are used. SMART's published code, with which Sphinx is compared, opens one.
pub(super) const ONE_PORT: &str = "cx6-100g";
/// A card whose one port is as fast as both.
pub(super) const BOTH_PORTS: &str = "cx6-200g";

/// The options of the paper's Sphinx.
pub(super) const AS_IN_PAPER: SphinxOverrides = SphinxOverrides {
    node_reads: Some(NodeReads::Whole),
    leaf_locks: Some(LeafLocks::Contended),
    scan_starts: Some(ScanStarts::Root),
    eviction: None,
};

/// A system of the paper's comparison, and the cache of its compute nodes in units of 20 MB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ComparedSystem {
    pub(super) name: &'static str,
    system: System,
    variant: &'static str,
    caches: u64,
    smart: SmartOverrides,
}

/// SMART as its paper describes it.
const WHOLE: SmartOverrides =
    SmartOverrides { node_sizing: Some(NodeSizing::Preallocated), allocation: None, cache_policy: None };
/// SMART as its published code has it.
const TYPED: SmartOverrides = SmartOverrides {
    node_sizing: Some(NodeSizing::Typed),
    allocation: None,
    cache_policy: Some(CachePolicy::FirstIn),
};
const NOT_SMART: SmartOverrides = SmartOverrides { node_sizing: None, allocation: None, cache_policy: None };

const fn smart(name: &'static str, caches: u64, smart: SmartOverrides) -> ComparedSystem {
    ComparedSystem { name, system: System::Smart, variant: "smart", caches, smart }
}

const fn sphinx(name: &'static str, caches: u64, variant: &'static str) -> ComparedSystem {
    ComparedSystem { name, system: System::Sphinx, variant, caches, smart: NOT_SMART }
}

/// The systems in the paper's order, SMART in two readings; the others are compared with the last.
pub(super) const SYSTEMS: [ComparedSystem; 6] = [
    sphinx("ART", 0, "art"),
    smart("SMART, whole nodes", 1, WHOLE),
    smart("SMART+C, whole nodes", 10, WHOLE),
    smart("SMART, typed", 1, TYPED),
    smart("SMART+C, typed", 10, TYPED),
    sphinx("Sphinx", 1, "sphinx"),
];
pub(super) const ART: usize = 0;
pub(super) const SMART: usize = 1;
pub(super) const SPHINX: usize = 5;

/// A reading of the paper's SMART.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) name: &'static str,
    /// SMART and SMART+C, by their numbers in [`SYSTEMS`].
    pub(super) smarts: [usize; 2],
}

impl Reading {
    /// The paper's text: SMART has memory for 256 slots in each inner node, and reads and caches all of them. And the
    /// published code: it reads and caches the slots in use, and its
    /// cache evicts first in, first out.
    pub(super) const BOTH: [Reading; 2] =
        [Reading { name: "whole nodes", smarts: [1, 2] }, Reading { name: "typed", smarts: [3, 4] }];

    /// The systems that Sphinx is compared with.
    pub(super) fn others(self) -> [usize; 3] {
        let [smart, smart_c] = self.smarts;
        [ART, smart, smart_c]
    }
}

/// The kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    U64,
    /// Keys of eight letters, each one of 64: three full levels, as those of the paper's 60 million integers.
    Letters,
    Email,
}

impl KeyKind {
    /// The paper's kinds.
    pub(super) const PAPERS: [KeyKind; 2] = [KeyKind::U64, KeyKind::Email];
    /// All kinds.
    pub(super) const ALL: [KeyKind; 3] = [KeyKind::U64, KeyKind::Letters, KeyKind::Email];

    pub(super) fn name(self) -> &'static str {
        match self {
            KeyKind::U64 => "u64",
            KeyKind::Letters => "letters",
            KeyKind::Email => "e-mail",
        }
    }

    /// The number of keys: a 256th of the paper's, so that a tree of integers is as full and one level lower; of
    /// letters a 64th, so that a node of the third level has as many children as in the paper.
    fn count(self) -> u64 {
        match self {
            KeyKind::U64 | KeyKind::Email => RANKS / 256,
            KeyKind::Letters => RANKS / 64,
        }
    }

    fn source(self) -> KeySource {
        // A quarter is for inserts.
        let count = (self.count() + self.count() / 4) as u32;
        match self {
            KeyKind::U64 => KeySource::Integers(8),
            KeyKind::Letters => KeySource::Letters(count),
            KeyKind::Email => KeySource::Emails(count, KeyLength::Any),
        }
    }

    /// The bytes that correspond to 20 MB of cache if this number of keys is loaded: 20 MB are 4.2 % of the bytes of 60
    /// million integers, and 1.8 % of those of the addresses. Of keys of letters, the nodes of the full levels are a
    /// 16th of the paper's.
    fn cache_bytes(self, keys: u64) -> u64 {
        match self {
            KeyKind::U64 => keys * 8 * 42 / 1_000,
            KeyKind::Letters => 20_000_000 / 16 * keys / self.count(),
            KeyKind::Email => keys * 1_893 * 18 / 100_000,
        }
    }
}

/// A run with this number of workers. Sphinx reads whole nodes, and each of its clients competes for the lock of a
/// leaf, as in the paper.
pub(super) fn spec(
    compared: ComparedSystem,
    workload: Workload,
    keys: KeyKind,
    workers: u64,
    effort: Effort,
) -> RunSpec {
    let count = effort.pick(keys.count() / 16, keys.count());
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
        smart: compared.smart,
        sphinx: if compared.variant == "sphinx" { AS_IN_PAPER } else { SphinxOverrides::default() },
        ..simulated(compared.system, compared.variant, ONE_PORT, workload, loaded, time)
    }
}
