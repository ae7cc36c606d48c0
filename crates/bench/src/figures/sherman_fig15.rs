//! Sherman, Figure 15: sensitivity to the length of keys and to the index cache.

use farwood_index::consistency::Consistency;
use farwood_index::lock::LOCK_BYTES;
use farwood_index::sherman::layout::{Layout, NODE_BYTES, Sizes};
use farwood_index::sherman::options::Leaves;
use farwood_sim::CAPABILITIES;

use super::builders::{Time, ZIPF, predicted, run};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::sherman_cluster::spec;
use crate::record::Record;
use crate::run::{KeySource, RunSpec};
use crate::workload::Workload;
use crate::workload::distribution::Distribution;

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-fig15",
    title: "Sherman, Figure 15: sensitivity to key size and index cache",
    setting: "Set-up of Table 1, write-intensive. Key size: leaves of 32 entries, so that nodes grow with keys (the \
              smallest multiple of 64 B that holds 32 of the variant's entries), values of 8 B. The paper loads 200 \
              million entries; here the number goes from 20 million with keys of 16 B to 2 million with keys of 1 KiB \
              (a tenth with --quick), and popularity is drawn over 200 million ranks. Cache: the paper loads 1e9 \
              entries; the cache is scaled with the keys, so that 4 MB here correspond to 400 MB. The measured phase \
              starts with the nodes that the warm-up has cached. A cached node takes only the memory of its children, \
              22 B for each leaf. The paper's panel (b) contradicts its other numbers: with keys of 1 KiB and skew it \
              has 1.4 times the throughput of FG+, which is the same as with short keys, about 0.48 M/s in total. \
              Then the hottest leaf is written every 90 us. A READ and a WRITE of its 33 KB take 5.4 us of a link, so \
              no bandwidth explains this period.",
    claim: "Sherman's advantage over FG+ grows with the key size with uniform keys (1.17 to 1.47 times) and is 1.4 \
              times under skew; a cache of 400 MB hits 98 %.",
    key: "",
    cause: "A cached leaf takes 22 B; 400 MB would hold 98 % of the leaves with about 17 B for each. The \
              paper's result for keys of 1 KiB under skew contradicts its own throughput of short keys.",
    runs,
    compare,
};

/// Bytes of a key, and thousands of loaded keys, so that all trees are much larger than a chunk.
const KEYS: [(usize, u64); 4] = [(16, 20_000), (64, 10_000), (256, 5_000), (1024, 2_000)];
const DISTRIBUTIONS: [(Distribution, &str); 2] = [(Distribution::Uniform, "uniform"), (ZIPF, "zipf 0.99")];
const VARIANTS: [(&str, Leaves); 2] = [("fg+", Leaves::Sorted), ("sherman", Leaves::TwoLevel)];
/// Entries of a leaf for all lengths of keys.
pub(super) const LEAF_CAPACITY: usize = 32;
/// The paper's keys.
const RANKS: u64 = 200_000_000;
/// The paper's cache budgets for 1e9 keys, in million bytes.
const CACHE_MB: [usize; 6] = [100, 200, 300, 400, 500, 800];

fn runs(effort: Effort) -> Vec<Run> {
    let mut runs = Vec::new();
    for (distribution, _) in DISTRIBUTIONS {
        for (key_bytes, thousands) in KEYS {
            for (variant, leaves) in VARIANTS {
                let time = time(distribution, variant, effort);
                runs.push(run(RunSpec {
                    key_source: KeySource::Integers(key_bytes),
                    node_bytes: Some(node_bytes((key_bytes, 8), leaves, LEAF_CAPACITY)),
                    keys: Some(thousands * effort.pick(100, 1000)),
                    zipf_ranks: Some(RANKS),
                    ..spec(variant, Workload::WriteIntensive, distribution, time, effort)
                }));
            }
        }
    }
    for cache_mb in CACHE_MB {
        let spec =
            spec("sherman", Workload::WriteIntensive, Distribution::Uniform, Time::calm(effort), effort);
        let cache_bytes = cache_mb * effort.pick(1_000, 10_000);
        runs.push(run(RunSpec { cache_bytes: Some(cache_bytes), ..spec }));
    }
    runs
}

fn time(distribution: Distribution, variant: &str, effort: Effort) -> Time {
    if distribution == Distribution::Uniform {
        return Time { warm_up_seconds: 0.0005, seconds: effort.pick(0.002, 0.01) };
    }
    let Time { warm_up_seconds, seconds } = Time::contended(variant, effort);
    Time { warm_up_seconds, seconds: seconds / 2.0 }
}

/// Bytes of the smallest node that holds `entries` entries, with the scheme that the simulator chooses, and a
/// lock, which not all variants put there.
pub(super) fn node_bytes((key_bytes, value_bytes): (usize, usize), leaves: Leaves, entries: usize) -> usize {
    let fits = |node_bytes: &usize| {
        let sizes = Sizes { key_bytes, value_bytes, node_bytes: *node_bytes };
        let scheme = match leaves {
            Leaves::Sorted => Consistency::Checksum,
            Leaves::TwoLevel => Consistency::for_nodes(*node_bytes, &CAPABILITIES),
        };
        Layout::with_lock(sizes, leaves, scheme, 0, LOCK_BYTES)
            .is_ok_and(|layout| layout.leaf_capacity >= entries)
    };
    NODE_BYTES.step_by(64).find(fits).expect("the entries fit into the largest node")
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |distribution: usize, size: usize, variant: usize| {
        &records[(distribution * KEYS.len() + size) * VARIANTS.len() + variant]
    };
    let source = "Sherman §5.6.1";
    let mut all = Vec::new();
    for (distribution, (_, name)) in DISTRIBUTIONS.iter().enumerate() {
        for (size, (key_bytes, _)) in KEYS.iter().enumerate() {
            let paper = match (*name, key_bytes) {
                ("uniform", 16) => Some(1.17),
                ("uniform", 1024) => Some(1.47),
                ("zipf 0.99", 1024) => Some(1.4),
                _ => None,
            };
            let ours = of(distribution, size, 1).mops / of(distribution, size, 0).mops;
            all.push(predicted(
                "sherman over fg+, times",
                format!("{name}, keys of {key_bytes} B"),
                paper,
                ours,
                source,
            ));
        }
    }
    let flat = of(1, KEYS.len() - 1, 0).mops / of(1, 0, 0).mops;
    let panel = "fg+ under skew, keys of 1 KiB over keys of 16 B";
    all.push(predicted(panel, "throughput", Some(1.0), flat, source));
    for (distribution, (_, name)) in DISTRIBUTIONS.iter().enumerate() {
        for (variant, (named, _)) in VARIANTS.iter().enumerate() {
            for (size, (key_bytes, _)) in KEYS.iter().enumerate() {
                let panel = format!("Throughput over key size, {name}, million operations per second");
                let ours = of(distribution, size, variant).mops;
                all.push(predicted(
                    panel,
                    format!("{named}, {key_bytes} B"),
                    None,
                    ours,
                    "Sherman, Figure 15",
                ));
            }
        }
    }
    let caches = &records[DISTRIBUTIONS.len() * KEYS.len() * VARIANTS.len()..];
    for (cache_mb, record) in CACHE_MB.iter().zip(caches) {
        let ratio = 100.0 * record.cache.as_ref().map_or(0.0, |cache| cache.hit_ratio);
        let paper = (*cache_mb == 400).then_some(98.0);
        all.push(predicted(
            "Hit ratio of the index cache, %",
            format!("{cache_mb} MB for 1e9 keys"),
            paper,
            ratio,
            "Sherman §5.6.2",
        ));
    }
    for (cache_mb, record) in CACHE_MB.iter().zip(caches) {
        let panel = "Throughput over cache size, uniform, million operations per second";
        all.push(predicted(
            panel,
            format!("{cache_mb} MB for 1e9 keys"),
            None,
            record.mops,
            "Sherman, Figure 15",
        ));
    }
    all
}
