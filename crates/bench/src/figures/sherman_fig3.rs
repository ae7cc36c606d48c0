//! Sherman, Figure 3: WRITEs per second over their size.

use farwood_fabric::Memory;

use super::figure::{CalibrationStatus, Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::sim_run::micro::{Cluster, Load, Verb, VerbsSpec, Words};

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-fig3",
    title: "Sherman, Figure 3: WRITEs over their size",
    setting: "Inbound: 7 compute nodes write to one memory node. Outbound: one compute node writes to 7 memory nodes. \
              22 threads each, with a post of 16 WRITEs in flight, which is fewer than the NIC's request memory holds; \
              ConnectX-5. Up to 128 B the paper states more than 50 M/s, and the model has 55; at 256 B the value is \
              the rate at 12.5 GB/s with 42 B of headers per WRITE.",
    claim: "A card writes more than 50 million small WRITEs per second, up to 128 B; the link bounds larger ones.",
    key: "",
    cause: "",
    runs,
    compare,
};

const SIZES: [usize; 8] = [16, 32, 64, 128, 256, 512, 1024, 2048];

fn runs(effort: Effort) -> Vec<Run> {
    let run = |bytes, memory_nodes, compute_nodes| {
        let load =
            Load { verb: Verb::Write, memory: Memory::Host, words: Words::Own, bytes, depth: 1, batch: 16 };
        let cluster = Cluster::new("cx5-100g", memory_nodes, compute_nodes, 22);
        Run::Verbs(VerbsSpec { cluster, load, beside: None, seconds: effort.pick(0.0002, 0.002) })
    };
    let inbound = SIZES.into_iter().map(|bytes| run(bytes, 1, 7));
    inbound.chain(SIZES.into_iter().map(|bytes| run(bytes, 7, 1))).collect()
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |(at, record): (usize, &Record)| {
        let direction = if at < SIZES.len() { "Inbound" } else { "Outbound" };
        // From 256 B on, the paper's curve shows the bandwidth of the link, without a number.
        let paper = (record.value_bytes <= 128).then_some(50.0);
        Comparison {
            panel: format!("{direction} WRITEs, million per second"),
            point: format!("{} B", record.value_bytes),
            paper,
            ours: record.mops,
            ours_to: None,
            curve: None,
            status: CalibrationStatus::Reported,
            source: if record.value_bytes <= 128 {
                "Sherman, Figure 3: more than 50"
            } else {
                "Sherman, Figure 3"
            },
        }
    };
    records.iter().enumerate().map(of).collect()
}
