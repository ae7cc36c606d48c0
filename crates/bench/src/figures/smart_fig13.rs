//! SMART, Figure 13: scalability with the number of clients.

use super::builders::{predicted, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::smart_cluster::{Clients, KeyKind, PAPER, SYSTEMS, spec};
use crate::record::Record;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "smart-fig13",
    title: "SMART, Figure 13: scalability",
    setting: "Set-up of Figure 11, YCSB A, integer keys. All systems have the same clients: as in the artifact, 8 to \
              56 threads on each of 16 compute nodes, with 2 clients each.",
    claim: "The slides do not show this figure; the artifact measures the throughput over the number of clients.",
    key: "",
    cause: "",
    runs,
    compare,
};

const THREADS: [u64; 7] = [8, 16, 24, 32, 40, 48, 56];

fn runs(effort: Effort) -> Vec<Run> {
    let of_system = |(_, compared)| {
        let clients = THREADS.map(Clients::of_16);
        clients.into_iter().map(move |of| spec(compared, Workload::YcsbA, KeyKind::Integer, of, effort))
    };
    runs_of(SYSTEMS.into_iter().flat_map(of_system))
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let curves = || SYSTEMS.iter().map(|(name, _)| *name).zip(records.chunks(THREADS.len()));
    let mut all = Vec::new();
    for (name, curve) in curves() {
        let best = curve.iter().map(|record| record.mops).fold(0.0, f64::max);
        let last = curve.last().map_or(0.0, |record| record.mops);
        all.push(predicted(
            "Throughput of the most clients relative to the highest",
            name,
            None,
            last / best,
            PAPER,
        ));
    }
    for (panel, value) in [
        ("Throughput, million operations per second", (|record| record.mops) as fn(&Record) -> f64),
        ("P99 latency, us", |record| record.latency_us.p99),
    ] {
        for (name, curve) in curves() {
            for record in curve {
                let point = format!("{name}, {} clients", record.clients);
                let comparison = predicted(panel, point, None, value(record), PAPER);
                all.push(comparison.on_curve(name, "clients", record.clients as f64));
            }
        }
    }
    all
}
