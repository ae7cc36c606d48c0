//! Sphinx, Figure 6: memory at the memory nodes.

use super::builders::{by_panel, predicted, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::sphinx_cluster::{ART, KeyKind, SMART, SOURCE, SPHINX, SYSTEMS, WORKERS, spec};
use crate::record::Record;
use crate::run::RunSpec;
use crate::spec::smart_overrides::SmartOverrides;
use crate::workload::Workload;
use farwood_index::smart::{Allocation, NodeSizing};

pub(super) const FIGURE: Figure = Figure {
    name: "sphinx-fig6",
    title: "Sphinx, Figure 6: memory at the memory nodes",
    setting: "Set-up of Figure 4: 192 workers insert all keys, and then the tree is traversed. The value is the size \
              of the nodes, leaves and hash tables of the tree, not of the chunks of 8 MiB that hold them, of which a \
              small tree fills few. Hash tables grow by splitting, so their size per entry depends on the state of the \
              growth: they are between a third and nine tenths full. In the comparison of SMART with ART, SMART \
              allocates 256 slots per inner node, and both round every allocation up to 256 B, as in SMART's \
              artifact. The paper says that SMART consumes 2.1 to 3.0 times more, which may be the ratio or the \
              difference; both readings are compared.",
    claim: "Sphinx's hash tables take 3.3 and 4.9 % more memory than ART, and SMART takes 2.1 to 3.0 times more.",
    key: "",
    cause: "",
    runs,
    compare,
};

/// The size of Sphinx's tables relative to ART in percent, in the order of [`KeyKind::PAPERS`].
const TABLES: [f64; 2] = [3.3, 4.9];
/// Least and largest ratio of SMART to ART; the paper does not state the kind of keys.
const PREALLOCATED: [f64; 2] = [2.1, 3.0];
/// The systems whose memory the paper shows, with Sphinx's leaves.
const SHOWN: [usize; 2] = [ART, SPHINX];
/// The systems of SMART's artifact, which rounds allocations up: ART and SMART.
const ROUNDED: [&str; 2] = ["art", "smart"];
/// Runs of one kind of keys.
const RUNS: usize = SHOWN.len() + ROUNDED.len();

fn runs(effort: Effort) -> Vec<Run> {
    let of_keys = |keys: KeyKind| {
        let load = move |compared: usize| spec(SYSTEMS[compared], Workload::Load, keys, WORKERS, effort);
        let rounded = move |variant: &str| RunSpec {
            variant: Some(variant.to_owned()),
            smart: SmartOverrides {
                node_sizing: (variant == "smart").then_some(NodeSizing::Preallocated),
                allocation: Some(Allocation::Steps256),
                ..SmartOverrides::default()
            },
            ..load(SMART)
        };
        SHOWN.into_iter().map(load).chain(ROUNDED.into_iter().map(rounded))
    };
    runs_of(KeyKind::PAPERS.into_iter().flat_map(of_keys))
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let bytes =
        |keys: usize, compared: usize| records[keys * RUNS + compared].index_bytes.unwrap_or(0) as f64;
    let mut all = Vec::new();
    for (keys, kind) in KeyKind::PAPERS.into_iter().enumerate() {
        let [art, sphinx, art_rounded, smart] = [0, 1, 2, 3].map(|compared| bytes(keys, compared));
        let more = 100.0 * (sphinx / art - 1.0);
        let panel = "Sphinx over ART, % more";
        all.push(predicted(panel, kind.name(), Some(TABLES[keys]), more, SOURCE));
        for (which, paper) in ["the paper's least", "the paper's largest"].into_iter().zip(PREALLOCATED) {
            let point = format!("{}, {which}", kind.name());
            all.push(predicted("SMART over ART, times", point, Some(paper), smart / art_rounded, SOURCE));
        }
        for (which, paper) in ["the paper's least", "the paper's largest"].into_iter().zip(PREALLOCATED) {
            let point = format!("{}, {which}", kind.name());
            let more = smart / art_rounded - 1.0;
            all.push(predicted("SMART over ART, times more", point, Some(paper), more, SOURCE));
        }
        let names = ["ART", "Sphinx", "ART, rounded up", "SMART, rounded up"];
        for (at, name) in names.into_iter().enumerate() {
            let point = format!("{name}, {}", kind.name());
            let each = bytes(keys, at) / records[keys * RUNS + at].keys as f64;
            all.push(predicted("Bytes of a key", point, None, each, SOURCE));
        }
    }
    by_panel(all)
}
