//! Sherman §4.3: CASes per second in device memory.

use farwood_fabric::Memory;

use super::figure::{CalibrationStatus, Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::sim_run::micro::{Cluster, Load, Verb, VerbsSpec, Words};

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-on-chip",
    title: "Sherman §4.3: CASes in device memory",
    setting: "8 compute nodes of 22 threads, one memory node, each CAS in flight on its own word, in device and in \
              host memory; ConnectX-5.",
    claim: "The card's on-chip memory executes about 110 million CASes per second.",
    key: "",
    cause: "",
    runs,
    compare,
};

const MEMORIES: [Memory; 2] = [Memory::Device, Memory::Host];

fn runs(effort: Effort) -> Vec<Run> {
    let run = |memory| {
        let load = Load { verb: Verb::Cas, memory, words: Words::Own, bytes: 8, depth: 8, batch: 1 };
        let cluster = Cluster::new("cx5-100g", 1, 8, 22);
        Run::Verbs(VerbsSpec { cluster, load, beside: None, seconds: effort.pick(0.0002, 0.002) })
    };
    MEMORIES.into_iter().map(run).collect()
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |(point, paper, source), record: &Record| Comparison {
        panel: "CASes, million per second".to_owned(),
        point: format!("{point} memory"),
        paper: Some(paper),
        ours: record.mops,
        ours_to: None,
        curve: None,
        status: CalibrationStatus::MicroBenchmark,
        source,
    };
    let papers = [("device", 110.0, "Sherman §4.3: about 110"), ("host", 50.0, "RCuckoo")];
    papers.into_iter().zip(records).map(|(paper, record)| of(paper, record)).collect()
}
