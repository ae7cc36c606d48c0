//! Sphinx, Figure 6: memory at the memory nodes.

use super::sherman_cluster::predicted;
use super::smart_cluster::by_panel;
use super::sphinx_cluster::{
    ART, CONTESTANTS, KeyKind, SMART, SOURCE, SPHINX, WORKERS, runs as runs_of, spec,
};
use super::{Comparison, Effort, Figure, Run};
use crate::record::Record;
use crate::run::RunSpec;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "sphinx-fig6",
    title: "Sphinx, Figure 6: memory at the memory nodes",
    setting: "Set-up of Figure 4: all keys are inserted by 192 workers, and then the tree is walked. What counts is \
              what the nodes, leaves and hash tables take that the walk finds, and not the chunks of 8 MiB that they \
              lie in, of which a small tree fills few. Hash tables grow by splitting, so what they take beside their \
              entries depends on where in its growth a table is: they are between a third and nine tenths full. SMART \
              gives each inner node room for 256 children, as its artifact does.",
    runs,
    compare,
};

/// By the order of [`KeyKind::ALL`]: what Sphinx's tables add to ART, percent.
const TABLES: [f64; 2] = [3.3, 4.9];
/// SMART over ART, at least and at most: the paper does not say of which keys.
const PREALLOCATED: [f64; 2] = [2.1, 3.0];
/// The systems whose memory the paper shows.
const SHOWN: [usize; 3] = [ART, SMART, SPHINX];

fn runs(effort: Effort) -> Vec<Run> {
    let of_keys = |keys: KeyKind| {
        SHOWN.into_iter().map(move |who| RunSpec {
            preallocate: who == SMART,
            ..spec(CONTESTANTS[who], Workload::Load, keys, WORKERS, effort)
        })
    };
    runs_of(KeyKind::ALL.into_iter().flat_map(of_keys))
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let bytes = |keys: usize, who: usize| records[keys * SHOWN.len() + who].index_bytes.unwrap_or(0) as f64;
    let mut all = Vec::new();
    for (keys, kind) in KeyKind::ALL.into_iter().enumerate() {
        let [art, smart, sphinx] = [0, 1, 2].map(|who| bytes(keys, who));
        let more = 100.0 * (sphinx / art - 1.0);
        let panel = "Sphinx over ART, % more";
        all.push(predicted(panel, kind.name(), Some(TABLES[keys]), more, SOURCE));
        for (which, paper) in
            ["the least of the paper's", "the most of the paper's"].into_iter().zip(PREALLOCATED)
        {
            let point = format!("{}, {which}", kind.name());
            all.push(predicted("SMART over ART, times", point, Some(paper), smart / art, SOURCE));
        }
        for (at, who) in SHOWN.into_iter().enumerate() {
            let point = format!("{}, {}", CONTESTANTS[who].name, kind.name());
            let each = bytes(keys, at) / records[keys * SHOWN.len() + at].keys as f64;
            all.push(predicted("Bytes of a key", point, None, each, SOURCE));
        }
    }
    by_panel(all)
}
