//! Sphinx, Figure 4: YCSB against SMART, with as much cache and ten times as much, and ART.

use super::sherman_cluster::predicted;
use super::smart_cluster::by_panel;
use super::sphinx_cluster::{
    ART, CONTESTANTS, KeyKind, SMART, SOURCE, SPHINX, WORKERS, round_trips, runs as runs_of, spec,
};
use super::{Comparison, Effort, Figure, Run};
use crate::record::Record;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "sphinx-fig4",
    title: "Sphinx, Figure 4: YCSB",
    setting: "3 machines, each a memory node and a compute node on one card of 200 Gb/s; 192 workers, the most of \
              the paper's Figure 5, on 28 threads of each machine: the paper says neither for this figure. Of its \
              60 million keys a 256th: the tree of integers is as full as the paper's at each level and one level \
              lower. Caches are the same shares of the keys' bytes: 4.2 % (u64) and 1.8 % (e-mail), ten times that \
              for SMART+C; popularity (zipf 0.99) is drawn over 60 million ranks. E-mail addresses are made up, \
              with the paper's lengths. Values have 64 B. LOAD counts the second half of the keys, for the first \
              thousands meet at a few nodes. D updates what it reads, as the paper has it. SMART's nodes are as \
              large as they need to be: its artifact gives each room for 256 children, and reads of it as many as \
              its type says. ART has no cache, and reads one node or leaf after the other where it scans, which is \
              an assumption. The paper prints how far apart the systems are at least and at most, and no \
              throughput.",
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

/// Sphinx over the others on LOAD and A to D, at least and at most, by the order of [`KeyKind::ALL`].
const GAINS: [[f64; 2]; 2] = [[1.2, 3.6], [1.9, 7.3]];
/// The three others over ART on E, at least and at most, with both kinds of keys.
const GAINS_OF_SCANS: [f64; 2] = [2.3, 3.1];

fn runs(effort: Effort) -> Vec<Run> {
    let of_keys = |keys: KeyKind| {
        WORKLOADS.into_iter().flat_map(move |workload| {
            CONTESTANTS.into_iter().map(move |who| spec(who, workload, keys, WORKERS, effort))
        })
    };
    runs_of(KeyKind::ALL.into_iter().flat_map(of_keys))
}

/// The least and the greatest.
fn ends(numbers: impl Iterator<Item = f64>) -> [f64; 2] {
    numbers.fold([f64::INFINITY, 0.0], |[least, most], number| [least.min(number), most.max(number)])
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |keys: usize, workload: usize, who: usize| {
        &records[(keys * WORKLOADS.len() + workload) * CONTESTANTS.len() + who]
    };
    let gain = |keys: usize, workload: usize, who: usize, over: usize| {
        of(keys, workload, who).mops / of(keys, workload, over).mops
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
        let gains = (SMART..=SPHINX).map(|who| gain(keys, scans, who, ART));
        for (which, paper, ours) in named(GAINS_OF_SCANS, ends(gains)) {
            let panel = "Sphinx, SMART and SMART+C over ART, E, times";
            all.push(predicted(panel, format!("{which}, {}", kind.name()), Some(paper), ours, SOURCE));
        }
    }
    for (keys, kind) in KeyKind::ALL.into_iter().enumerate() {
        for (at, workload) in WORKLOADS.into_iter().enumerate() {
            for (over, other) in CONTESTANTS[ART..SPHINX].iter().enumerate() {
                let point = format!("over {}, {workload}", other.name);
                let panel = format!("Sphinx over the others, {}, times", kind.name());
                all.push(predicted(panel, point, None, gain(keys, at, SPHINX, over), SOURCE));
            }
        }
    }
    for (keys, kind) in KeyKind::ALL.into_iter().enumerate() {
        for (at, workload) in WORKLOADS.into_iter().enumerate() {
            for (who, contestant) in CONTESTANTS.into_iter().enumerate() {
                let record = of(keys, at, who);
                let point = format!("{}, {workload}", contestant.name);
                let mut add = |what: &str, ours| {
                    let panel = format!("{what}, {}", kind.name());
                    all.push(predicted(panel, point.clone(), None, ours, SOURCE));
                };
                add("Throughput, million operations a second", record.mops);
                add("Mean latency, us", record.latency_us.mean);
                add("Round trips of an operation", round_trips(record));
            }
        }
    }
    by_panel(all)
}

/// The two ends, each with its name: the paper's and ours.
fn named(paper: [f64; 2], ours: [f64; 2]) -> [(&'static str, f64, f64); 2] {
    [("at least", paper[0], ours[0]), ("at most", paper[1], ours[1])]
}
