//! SMART's YCSB figures: the 99th percentile over the throughput, with the client counts of the artifact.

use super::builders::{by_panel, predicted, runs_of};
use super::figure::{Comparison, Effort};
use super::run::Run;
use super::smart_cluster::{Clients, KeyKind, PAPER, SLIDES, SYSTEMS, spec};
use crate::record::Record;
use crate::workload::Workload;

/// Client counts of a curve: every second one of the artifact's eight, with the largest.
const COUNTS: usize = 4;
pub(super) const WORKLOADS: [Workload; 5] =
    [Workload::Load, Workload::YcsbA, Workload::YcsbB, Workload::YcsbC, Workload::YcsbD];

/// The clients of each system, in the order of [`SYSTEMS`], for each of [`WORKLOADS`].
pub(super) type ClientCounts = [[[Clients; COUNTS]; WORKLOADS.len()]; SYSTEMS.len()];

/// The clients of these numbers of threads on each of 16 compute nodes.
pub(super) const fn of_16(threads: [u64; COUNTS]) -> [Clients; COUNTS] {
    let [first, second, third, last] = threads;
    [Clients::of_16(first), Clients::of_16(second), Clients::of_16(third), Clients::of_16(last)]
}

/// Printed ratios of SMART to Sherman under a workload.
pub(super) struct PrintedRatio {
    pub(super) workload: Workload,
    pub(super) throughput: f64,
    pub(super) latency: f64,
}

pub(super) fn runs(keys: KeyKind, counts: &ClientCounts, effort: Effort) -> Vec<Run> {
    let of_workload = |(at, workload): (usize, Workload)| {
        SYSTEMS.into_iter().zip(counts).flat_map(move |((_, compared), counts)| {
            counts[at].into_iter().map(move |clients| spec(compared, workload, keys, clients, effort))
        })
    };
    runs_of(WORKLOADS.into_iter().enumerate().flat_map(of_workload))
}

/// The records of one workload: a curve of each system.
struct Curves<'r>([&'r [Record]; SYSTEMS.len()]);

impl<'r> Curves<'r> {
    /// The record of the highest throughput of a system.
    fn best(&self, system: usize) -> &'r Record {
        let faster = |one: &&Record, other: &&Record| one.mops.total_cmp(&other.mops);
        self.0[system].iter().max_by(faster).expect("each curve has points")
    }

    /// The record of the most clients of a system in the artifact.
    fn last(&self, system: usize) -> &'r Record {
        self.0[system].last().expect("each curve has points")
    }
}

const SMART: usize = 0;
const ART: usize = 1;
const SHERMAN: usize = 2;

pub(super) fn compare(
    records: &[Record],
    counts: &ClientCounts,
    printed: &[PrintedRatio],
) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (at, workload) in WORKLOADS.into_iter().enumerate() {
        let curve = |system: usize| {
            let from = (at * SYSTEMS.len() + system) * COUNTS;
            &records[from..from + COUNTS]
        };
        let curves = Curves([SMART, ART, SHERMAN].map(curve));
        all.extend(ratios(&curves, workload, printed));
        all.extend(points(&curves, at, workload, counts));
    }
    let (ratios, points): (Vec<_>, Vec<_>) = all.into_iter().partition(|c| c.curve.is_none());
    by_panel(ratios.into_iter().chain(points).collect())
}

fn ratios(curves: &Curves<'_>, workload: Workload, printed: &[PrintedRatio]) -> Vec<Comparison> {
    let printed = printed.iter().find(|ratio| ratio.workload == workload);
    let (throughput, latency) = (printed.map(|ratio| ratio.throughput), printed.map(|ratio| ratio.latency));
    let [smart, art, sherman] = [SMART, ART, SHERMAN].map(|system| curves.best(system));
    let most = [SMART, SHERMAN].map(|system| curves.last(system).latency_us.p99);
    let ratio = |panel: &str, paper, ours| predicted(panel, workload.name(), paper, ours, SLIDES);
    vec![
        ratio("SMART over Sherman, highest throughput, times", throughput, smart.mops / sherman.mops),
        ratio(
            "SMART over Sherman, P99 at the highest throughput (shorter), times",
            latency,
            sherman.latency_us.p99 / smart.latency_us.p99,
        ),
        ratio("SMART over Sherman, P99 at the most clients (shorter), times", latency, most[1] / most[0]),
        ratio("SMART over ART, highest throughput, times", None, smart.mops / art.mops),
    ]
}

fn points(curves: &Curves<'_>, at: usize, workload: Workload, counts: &ClientCounts) -> Vec<Comparison> {
    let of_system = |system: usize| {
        let name = SYSTEMS[system].0;
        curves.0[system].iter().zip(counts[system][at]).map(move |(record, clients)| {
            let point = format!("{name}, {clients}, {:.2} M/s", record.mops);
            predicted(format!("P99 latency, {workload}, us"), point, None, record.latency_us.p99, PAPER)
                .on_curve(name, "million operations per second", record.mops)
        })
    };
    [SMART, ART, SHERMAN].into_iter().flat_map(of_system).collect()
}
