//! Sphinx: the filter by itself, over its bytes, with second chance and with random eviction.

use super::builders::{by_panel, predicted, round_trips, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::sphinx_cluster::{KeyKind, SPHINX, SYSTEMS, WORKERS, spec};
use crate::record::Record;
use crate::run::RunSpec;
use crate::spec::sphinx_overrides::SphinxOverrides;
use crate::workload::Workload;
use farwood_index::sphinx::Eviction;

pub(super) const FIGURE: Figure = Figure {
    name: "sphinx-filter",
    title: "Sphinx: the filter by itself",
    setting: "Set-up of Figure 4, YCSB-C, with an eighth to twice the paper's bytes of the filter. A search is misled \
              if the filter has a prefix that has no node. Random eviction replaces any entry of the two buckets.",
    claim: "A check of the filter is wrong in less than 1 % of the cases, and most searches take three round trips.",
    key: "",
    cause: "A search asks the filter for several prefixes that are longer than that of the deepest node, so it is \
            misled more often than a check is wrong.",
    runs,
    compare,
};

/// Bytes of the filter in eighths of the paper's.
const EIGHTHS: [(usize, &str); 5] =
    [(1, "an eighth"), (2, "a quarter"), (4, "half"), (8, "the paper's bytes"), (16, "twice")];
const EVICTIONS: [Eviction; 2] = [Eviction::SecondChance, Eviction::Random];
const SOURCE: &str = "Sphinx, §III-B";

fn runs(effort: Effort) -> Vec<Run> {
    let of_keys = |keys: KeyKind| {
        EIGHTHS.into_iter().flat_map(move |(eighths, _)| {
            EVICTIONS.map(|eviction| {
                let spec = spec(SYSTEMS[SPHINX], Workload::YcsbC, keys, WORKERS, effort);
                let sphinx = SphinxOverrides { eviction: Some(eviction), ..spec.sphinx };
                let cache_bytes = spec.cache_bytes.map(|bytes| bytes * eighths / 8);
                RunSpec { sphinx, cache_bytes, ..spec }
            })
        })
    };
    runs_of(KeyKind::PAPERS.into_iter().flat_map(of_keys))
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut all = Vec::new();
    let mut records = records.iter();
    for kind in KeyKind::PAPERS {
        for (_, size) in EIGHTHS {
            for eviction in EVICTIONS {
                let Some(record) = records.next() else { return by_panel(all) };
                let point = format!("{size}, {}", eviction.name());
                let misled = record.retries.as_ref().map_or(0, |retries| retries.misled);
                let share = 100.0 * misled as f64 / record.operations.max(1) as f64;
                let mut push = |what: &str, value: f64| {
                    let panel = format!("{what}, {}", kind.name());
                    all.push(predicted(panel, point.clone(), None, value, SOURCE));
                };
                push("Round trips of a search", round_trips(record));
                push("Misled searches, %", share);
                push("Throughput, million operations per second", record.mops);
            }
        }
    }
    by_panel(all)
}
