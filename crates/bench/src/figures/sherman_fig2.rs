//! Sherman, Figure 2: exclusive locks by CAS and FAA under increasing contention.

use farwood_index::lock::{LocalLocks, LockMemory, LockOptions, LockPauses, LockWidth, Release};

use super::figure::{CalibrationStatus, Comparison, Effort, Figure};
use super::run::Run;
use crate::record::Record;
use crate::sim_run::micro::{Cluster, LocksSpec};

pub(super) const FIGURE: Figure = Figure {
    name: "sherman-fig2",
    title: "Sherman, Figure 2: exclusive locks under contention",
    setting: "154 threads on 7 compute nodes take (CAS) and release (FAA) 10,240 locks in the host memory of one \
              memory node, zipf with increasing skew; ConnectX-5. Locks are adjacent words of 64 bits, in the order of \
              popularity. The paper prints only the last point of the curve; the time of a failed CAS was fitted to \
              it. At that point the hottest lock (9.8 % of all acquisitions) is taken and released every 20.7 us. The \
              paper's FG+ needs 139 us for the same steps with a READ and a WRITE between them (sherman-fig10), which \
              contradicts this figure.",
    claim: "Under skew, locks in host memory that fail CASes collapse to 0.494 million acquisitions per second.",
    key: "",
    cause: "",
    runs,
    compare,
};

/// The skews of the paper, and the throughput if it prints it.
const POINTS: [(f64, Option<f64>); 5] =
    [(0.0, None), (0.8, None), (0.9, None), (0.95, None), (0.99, Some(0.494))];

const OPTIONS: LockOptions = LockOptions {
    memory: LockMemory::Host,
    width: LockWidth::Word,
    release: Release::Faa,
    local: LocalLocks::None,
    pauses: LockPauses::None,
};

fn runs(effort: Effort) -> Vec<Run> {
    let run = |(theta, _)| {
        Run::Locks(LocksSpec {
            cluster: Cluster::new("cx5-100g", 1, 7, 22),
            locks: 10_240,
            options: OPTIONS,
            theta,
            seconds: effort.pick(0.005, 0.1),
            warm_up_seconds: effort.pick(0.002, 0.02),
        })
    };
    POINTS.into_iter().map(run).collect()
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for ((_, paper), record) in POINTS.into_iter().zip(records) {
        comparisons.push(Comparison {
            panel: "Throughput, million locks taken and released per second".to_owned(),
            point: format!("skew {}", record.theta),
            paper,
            ours: record.mops,
            ours_to: None,
            curve: None,
            status: if paper.is_some() { CalibrationStatus::Fitted } else { CalibrationStatus::Reported },
            source: "Sherman, Figure 2",
        });
    }
    for record in records {
        comparisons.push(Comparison {
            panel: "Median latency, us".to_owned(),
            point: format!("skew {}", record.theta),
            paper: None,
            ours: record.latency_us.p50,
            ours_to: None,
            curve: None,
            status: CalibrationStatus::Reported,
            source: "Sherman, Figure 2",
        });
    }
    comparisons
}
