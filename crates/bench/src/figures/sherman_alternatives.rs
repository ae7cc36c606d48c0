//! Sherman §3.2.3 and §4.3: forms of locks and of versions that the paper describes and its figures do not compare.

use farwood_index::consistency::Consistency;
use farwood_index::lock::LockWidth;

use super::builders::{Time, ZIPF, predicted, round_trips, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::sherman_cluster::spec;
use crate::record::Record;
use crate::run::RunSpec;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-alternatives",
    title: "Sherman §3.2.3, §4.3: forms of locks and versions",
    setting: "The cluster and the tree of Table 1, write-intensive, zipf 0.99. fg+ has a hash over each leaf (Figure \
              4a of the paper) or a pair of versions around it (Figure 4b). Sherman's locks have 64 bits, the default \
              here, or 16 bits, as in the paper: then four times as many fit the card, and a client takes and \
              releases them by masked CAS. Sherman's entries have versions of one byte (18 B an entry) or of four \
              bytes (24 B).",
    claim: "The paper describes these forms, and prints no number for them.",
    key: "",
    cause: "",
    runs,
    compare,
};

struct Alternative {
    name: &'static str,
    variant: &'static str,
    lock_width: LockWidth,
    consistency: Option<Consistency>,
}

const ALTERNATIVES: [Alternative; 5] = [
    Alternative { name: "fg+, hashes", variant: "fg+", lock_width: LockWidth::Word, consistency: None },
    Alternative {
        name: "fg+, node versions",
        variant: "fg+",
        lock_width: LockWidth::Word,
        consistency: Some(Consistency::Versions),
    },
    Alternative { name: "sherman", variant: "sherman", lock_width: LockWidth::Word, consistency: None },
    Alternative {
        name: "sherman, 16-bit locks",
        variant: "sherman",
        lock_width: LockWidth::Packed,
        consistency: None,
    },
    Alternative {
        name: "sherman, entries of 24 B",
        variant: "sherman",
        lock_width: LockWidth::Word,
        consistency: Some(Consistency::Versions),
    },
];

fn runs(effort: Effort) -> Vec<Run> {
    runs_of(ALTERNATIVES.iter().map(|alternative| RunSpec {
        lock_width: alternative.lock_width,
        consistency: alternative.consistency,
        ..spec(
            alternative.variant,
            Workload::WriteIntensive,
            ZIPF,
            Time::contended(alternative.variant, effort),
            effort,
        )
    }))
}

/// A panel: its title, and its value of a run.
type Panel = (&'static str, fn(&Record) -> f64);

fn compare(records: &[Record]) -> Vec<Comparison> {
    let panels: [Panel; 4] = [
        ("Throughput, million operations per second", |record| record.mops),
        ("99th percentile, us", |record| record.latency_us.p99),
        ("Round trips per operation", round_trips),
        ("Bytes written per operation", |record| {
            record.bytes_per_op.as_ref().map_or(0.0, |bytes| bytes.written)
        }),
    ];
    let of_panel = |(panel, value): Panel| {
        ALTERNATIVES.iter().zip(records).map(move |(alternative, record)| {
            predicted(panel, alternative.name, None, value(record), "no value in the paper")
        })
    };
    panels.into_iter().flat_map(of_panel).collect()
}
