//! SMART's slides: read and write amplification, the bytes that an operation transfers per byte of its entry.

use farwood_index::ordered::System;
use farwood_index::sherman::options::Leaves;

use super::builders::{predicted, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::sherman_fig15::{LEAF_CAPACITY, node_bytes};
use super::smart_cluster::{ComparedSystem, SHERMAN, quiet, smart};
use crate::record::{Measured, Record};
use crate::run::RunSpec;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-amplification",
    title: "SMART: read and write amplification",
    setting: "Lookups and updates of uniform keys by 8 clients, all inner nodes cached, keys of 8 B, leaves of 32 \
              entries in the B+ trees; the B+ tree is FG+ with the same cache. The measured value is all bytes of \
              READs and WRITEs divided by the bytes of key and value. The slides count whole entries, so that a READ \
              of a leaf with 32 entries counts as 32. They do not count versions and checksums, which take 40 B in a \
              leaf of the radix tree here and 18 B in the slides' layout: with these bytes, the amplification of an \
              entry of 16 B is 3.5 and 2.1. Values of 64 B and of 1 KiB show that this overhead does not grow with \
              the value: with large values the amplification is the number of entries, as in the slides.",
    claim: "A radix tree reads and writes one entry for each entry; a B+ tree reads 32, and Sherman reads 33 and \
              writes one.",
    key: "",
    cause: "The slides count entries. This figure counts all bytes of READs and WRITEs, including versions and \
              checksums, which are as large as an entry of 16 B.",
    runs,
    compare,
};

const SYSTEMS: [(&str, ComparedSystem); 3] = [
    ("B+ tree", ComparedSystem { system: System::Sherman, variant: "fg+" }),
    ("Sherman", SHERMAN),
    ("radix tree", smart("smart")),
];
const VALUES: [usize; 3] = [8, 64, 1024];
const KEY_BYTES: usize = 8;
/// Amplification of reads and of writes, in the order of [`SYSTEMS`].
const PAPER: [[f64; 3]; 2] = [[32.0, 33.0, 1.0], [32.0, 1.0, 1.0]];
const SOURCE: &str = "SMART, slides";

fn runs(effort: Effort) -> Vec<Run> {
    let of_values = |value_bytes: usize| {
        SYSTEMS.into_iter().map(move |(_, compared)| {
            let leaves = if compared == SHERMAN { Leaves::TwoLevel } else { Leaves::Sorted };
            let sized = compared.system == System::Sherman;
            let node_bytes = sized.then(|| node_bytes((KEY_BYTES, value_bytes), leaves, LEAF_CAPACITY));
            RunSpec { value_bytes, node_bytes, ..quiet(compared, Workload::YcsbA, effort) }
        })
    };
    runs_of(VALUES.into_iter().flat_map(of_values))
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let read = |of: &Measured| of.bytes_per_op.as_ref().map_or(0.0, |bytes| bytes.read);
    let written = |of: &Measured| of.bytes_per_op.as_ref().map_or(0.0, |bytes| bytes.written);
    let mut all = Vec::new();
    for (at, (what, bytes)) in [
        ("Read amplification, times", &read as &dyn Fn(&Measured) -> f64),
        ("Write amplification, times", &written),
    ]
    .into_iter()
    .enumerate()
    {
        for (values, value_bytes) in VALUES.into_iter().enumerate() {
            for (system, (name, _)) in SYSTEMS.into_iter().enumerate() {
                let record = &records[values * SYSTEMS.len() + system];
                let of = if at == 0 { &record.by_operation.get } else { &record.by_operation.put };
                let moved = of.as_ref().map_or(0.0, bytes);
                let paper = (value_bytes == 8).then_some(PAPER[at][system]);
                let point = format!("{name}, values of {value_bytes} B");
                all.push(predicted(what, point, paper, moved / (KEY_BYTES + value_bytes) as f64, SOURCE));
            }
        }
    }
    all
}
