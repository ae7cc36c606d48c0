//! Sphinx, Figure 4: YCSB, compared with SMART with the same and ten times the cache, and with ART.

use super::builders::{by_panel, predicted, round_trips, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::sphinx_cluster::{ART, KeyKind, SMART, SOURCE, SPHINX, SYSTEMS, WORKERS, spec};
use crate::record::Record;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "sphinx-fig4",
    title: "Sphinx, Figure 4: YCSB",
    setting: "3 machines, each a memory node and a compute node on one NIC of 200 Gb/s; 192 workers, the most of the \
              paper's Figure 5, on 28 threads of each machine; the paper states neither for this figure. A 256th of \
              its 60 million keys: the tree of integers is as full as the paper's at each level and one level lower. \
              Caches are the same shares of the keys' bytes: 4.2 % (u64) and 1.8 % (e-mail), ten times that for \
              SMART+C; popularity (zipf 0.99) is drawn over 60 million ranks. E-mail addresses are generated, with the \
              paper's lengths. Values have 64 B. LOAD measures the second half of the keys, because the inserts of the \
              first thousands conflict at a few nodes. D updates the keys that it reads, as in the paper. SMART's \
              nodes are as large as their children require; its artifact allocates 256 slots per node, and reads as \
              many as the type of the node has. ART has no cache, and reads one node or leaf after the other in scans, \
              which is an assumption. The paper prints the least and the largest ratio of the systems, and no \
              throughput.",
    claim: "Sphinx has 1.2 to 3.6 times the throughput of ART, SMART and SMART+C with integers and 1.9 to 7.3 times \
              with e-mail addresses.",
    key: "",
    cause: "SMART's cached nodes are as large as their children require here, so its caches hold most of the tree \
              above the leaves. The paper's text gives SMART 256 slots per node; its published code reads as many as \
              the node has. A tree of a 256th of the keys is one level lower, which helps ART and SMART.",
    runs,
    compare,
};

const WORKLOADS: [Workload; 6] = [
    Workload::Load,
    Workload::YcsbA,
    Workload::YcsbB,
    Workload::YcsbC,
    Workload::YcsbDUpdate,
    Workload::YcsbE,
];

/// Least and largest ratio of Sphinx to the others on LOAD and A to D, in the order of [`KeyKind::ALL`].
const GAINS: [[f64; 2]; 2] = [[1.2, 3.6], [1.9, 7.3]];
/// Least and largest ratio of the three others to ART on E, with both kinds of keys.
const GAINS_OF_SCANS: [f64; 2] = [2.3, 3.1];

fn runs(effort: Effort) -> Vec<Run> {
    let of_keys = |keys: KeyKind| {
        WORKLOADS.into_iter().flat_map(move |workload| {
            SYSTEMS.into_iter().map(move |compared| spec(compared, workload, keys, WORKERS, effort))
        })
    };
    runs_of(KeyKind::ALL.into_iter().flat_map(of_keys))
}

/// The least and the largest number.
fn ends(numbers: impl Iterator<Item = f64>) -> [f64; 2] {
    numbers.fold([f64::INFINITY, 0.0], |[least, most], number| [least.min(number), most.max(number)])
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |keys: usize, workload: usize, compared: usize| {
        &records[(keys * WORKLOADS.len() + workload) * SYSTEMS.len() + compared]
    };
    let gain = |keys: usize, workload: usize, compared: usize, over: usize| {
        of(keys, workload, compared).mops / of(keys, workload, over).mops
    };
    let (scans, others) = (WORKLOADS.len() - 1, 0..WORKLOADS.len() - 1);
    let mut all = Vec::new();
    for (keys, kind) in KeyKind::ALL.into_iter().enumerate() {
        let gains = others.clone().flat_map(|at| (ART..SPHINX).map(move |over| gain(keys, at, SPHINX, over)));
        for (which, paper, ours) in named(GAINS[keys], ends(gains)) {
            let panel = "Sphinx over the others, LOAD and A to D, times";
            all.push(predicted(panel, format!("{which}, {}", kind.name()), Some(paper), ours, SOURCE));
        }
    }
    for (keys, kind) in KeyKind::ALL.into_iter().enumerate() {
        let gains = (SMART..=SPHINX).map(|compared| gain(keys, scans, compared, ART));
        for (which, paper, ours) in named(GAINS_OF_SCANS, ends(gains)) {
            let panel = "Sphinx, SMART and SMART+C over ART, E, times";
            all.push(predicted(panel, format!("{which}, {}", kind.name()), Some(paper), ours, SOURCE));
        }
    }
    for (keys, kind) in KeyKind::ALL.into_iter().enumerate() {
        for (at, workload) in WORKLOADS.into_iter().enumerate() {
            for (over, other) in SYSTEMS[ART..SPHINX].iter().enumerate() {
                let point = format!("over {}, {workload}", other.name);
                let panel = format!("Sphinx over the others, {}, times", kind.name());
                all.push(predicted(panel, point, None, gain(keys, at, SPHINX, over), SOURCE));
            }
        }
    }
    for (keys, kind) in KeyKind::ALL.into_iter().enumerate() {
        for (at, workload) in WORKLOADS.into_iter().enumerate() {
            for (at_system, compared) in SYSTEMS.into_iter().enumerate() {
                let record = of(keys, at, at_system);
                let point = format!("{}, {workload}", compared.name);
                let mut add = |what: &str, ours| {
                    let panel = format!("{what}, {}", kind.name());
                    all.push(predicted(panel, point.clone(), None, ours, SOURCE));
                };
                add("Throughput, million operations per second", record.mops);
                add("Mean latency, us", record.latency_us.mean);
                add("Round trips of an operation", round_trips(record));
            }
        }
    }
    by_panel(all)
}

/// The least and the largest value of the paper and ours, each with its name.
fn named(paper: [f64; 2], ours: [f64; 2]) -> [(&'static str, f64, f64); 2] {
    [("at least", paper[0], ours[0]), ("at most", paper[1], ours[1])]
}
