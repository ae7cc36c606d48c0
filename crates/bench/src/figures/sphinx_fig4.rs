//! Sphinx, Figure 4: YCSB, compared with SMART with the same and ten times the cache, and with ART.

use super::builders::{by_panel, predicted, round_trips, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::sphinx_cluster::{ART, BOTH_PORTS, KeyKind, Reading, SOURCE, SPHINX, SYSTEMS, WORKERS, spec};
use crate::record::Record;
use crate::run::RunSpec;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "sphinx-fig4",
    title: "Sphinx, Figure 4: YCSB",
    setting: "3 machines, each a memory node and a compute node on one port of 100 Gb/s; 192 workers, the most of \
              the paper's Figure 5, on 28 threads of each machine; the paper states neither for this figure, and \
              its card has two ports. u64: a 256th of its 60 million keys; the tree of integers is as full as the \
              paper's at each level and one level lower. Letters: a 64th, as keys of 8 letters of 64; three full \
              levels, as in the paper. E-mail: a 256th; generated addresses with the paper's lengths. Caches are \
              the same share of the keys' bytes as in the paper, 4.2 % (u64) and 1.8 % (e-mail), and with letters \
              the same share of the nodes of the full levels; SMART+C has ten times as much. Popularity (zipf \
              0.99) is drawn over 60 million ranks. Values have 64 B. LOAD measures the second half of the keys, \
              because the inserts of the first thousands conflict at a few nodes. D updates the keys that it \
              reads, as in the paper. SMART in two readings: whole nodes, as the paper's text says, which \
              allocate, read and cache 256 slots; and typed, as SMART's published code, which reads and caches the \
              slots in use, evicts first in, first out, and does not cache the root. ART has no cache, and reads one \
              node or leaf after the other in scans, which is an assumption. Sphinx reads whole nodes, its workers \
              compete for leaf locks without local queues, and its scans start at the root. \
              The paper prints the least and the largest ratio of the systems, and no throughput.",
    claim: "Sphinx has 1.2 to 3.6 times the throughput of ART, SMART and SMART+C with integers and 1.9 to 7.3 times \
              with e-mail addresses.",
    key: "",
    cause: "No reading of SMART meets all claims. With whole nodes, SMART's caches hold few nodes and its scans read \
              2 KiB for each node, so Sphinx is ahead on B to D, and on E by far more than in the paper. With typed \
              nodes, the cache of SMART+C holds most of the tree above the leaves, and SMART+C is ahead of Sphinx on \
              LOAD and A to D. A tree of a 256th of the keys is one level lower, which helps ART and SMART.",
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

/// Least and largest ratio of Sphinx to the others on LOAD and A to D, with integers and with e-mail addresses.
const GAINS: [[f64; 2]; 2] = [[1.2, 3.6], [1.9, 7.3]];
/// Least and largest ratio of the three others to ART on E, with both kinds of keys.
const GAINS_OF_SCANS: [f64; 2] = [2.3, 3.1];

/// The workloads of LOAD and A to D, and the first of those that mostly read, by their numbers in [`WORKLOADS`].
const WITHOUT_SCANS: usize = WORKLOADS.len() - 1;
const READS_FROM: usize = 2;

fn runs(effort: Effort) -> Vec<Run> {
    let of = move |keys: KeyKind, workload: Workload| {
        SYSTEMS.into_iter().map(move |compared| spec(compared, workload, keys, WORKERS, effort))
    };
    let of_keys = |keys| WORKLOADS.into_iter().flat_map(move |workload| of(keys, workload));
    let both_ports =
        |keys| of(keys, Workload::YcsbC).map(|spec| RunSpec { nic: Some(BOTH_PORTS.to_owned()), ..spec });
    let all = KeyKind::ALL.into_iter();
    runs_of(all.clone().flat_map(of_keys).chain(all.flat_map(both_ports)))
}

/// The least and the largest number.
fn ends(numbers: impl Iterator<Item = f64>) -> [f64; 2] {
    numbers.fold([f64::INFINITY, 0.0], |[least, most], number| [least.min(number), most.max(number)])
}

/// The paper's least and largest ratio for these keys.
fn gains_of(keys: KeyKind) -> [f64; 2] {
    GAINS[usize::from(keys == KeyKind::Email)]
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |keys: usize, workload: usize, compared: usize| {
        &records[(keys * WORKLOADS.len() + workload) * SYSTEMS.len() + compared]
    };
    let both_ports = |keys: usize, compared: usize| {
        &records[(KeyKind::ALL.len() * WORKLOADS.len() + keys) * SYSTEMS.len() + compared]
    };
    let gain = |keys: usize, workload: usize, compared: usize, over: usize| {
        of(keys, workload, compared).mops / of(keys, workload, over).mops
    };
    let mut all = Vec::new();
    for (keys, kind) in KeyKind::ALL.into_iter().enumerate() {
        for reading in Reading::BOTH {
            for (which, from) in [("LOAD and A to D", 0), ("B to D", READS_FROM)] {
                let gains = (from..WITHOUT_SCANS)
                    .flat_map(|at| reading.others().map(|over| gain(keys, at, SPHINX, over)));
                for (end, paper, ours) in named(gains_of(kind), ends(gains)) {
                    let panel = format!("Sphinx over the others, {which}, times");
                    let point = format!("{end}, {}, {}", kind.name(), reading.name);
                    all.push(predicted(panel, point, Some(paper), ours, SOURCE));
                }
            }
            let [smart, smart_c] = reading.smarts;
            let gains = [smart, smart_c, SPHINX].map(|compared| gain(keys, WITHOUT_SCANS, compared, ART));
            for (end, paper, ours) in named(GAINS_OF_SCANS, ends(gains.into_iter())) {
                let panel = "Sphinx, SMART and SMART+C over ART, E, times";
                let point = format!("{end}, {}, {}", kind.name(), reading.name);
                all.push(predicted(panel, point, Some(paper), ours, SOURCE));
            }
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
        for (at, compared) in SYSTEMS.into_iter().enumerate() {
            let point = format!("{}, {}", compared.name, kind.name());
            let panel = "Throughput of C with one port of 200 Gb/s, million operations per second";
            all.push(predicted(panel, point, None, both_ports(keys, at).mops, SOURCE));
        }
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
