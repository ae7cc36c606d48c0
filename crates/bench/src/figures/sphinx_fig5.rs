//! Sphinx, Figure 5: throughput and latency over the number of workers.

use super::builders::{by_panel, predicted, runs_of};
use super::figure::{Comparison, Effort, Figure};
use super::run::Run;
use super::sphinx_cluster::{KeyKind, Reading, SOURCE, SPHINX, SYSTEMS, spec};
use crate::record::Record;
use crate::workload::Workload;

pub(super) const FIGURE: Figure = Figure {
    name: "sphinx-fig5",
    title: "Sphinx, Figure 5: from 6 to 192 workers",
    setting: "Set-up of Figure 4, YCSB-A, SMART in two readings, 6 to 192 workers on 3 machines. The paper prints the \
              largest ratios of Sphinx to the others.",
    claim: "Sphinx has up to 2.6 times the throughput of the others with integers, and up to 6.1 times with e-mail \
              addresses.",
    key: "",
    cause: "The reasons are those of Figure 4. In addition, the updates of the hottest key follow each other, which \
              bounds Sphinx at about 12 million operations per second. With a fixed number of workers, the ratio of \
              mean latencies is the inverse of that of throughputs, so that 11.7 and 6.1 do not belong together.",
    runs,
    compare,
};

const WORKERS: [u64; 6] = [6, 12, 24, 48, 96, 192];
/// Largest ratio of Sphinx to the others, in the order of [`KeyKind::PAPERS`]: throughput, and mean latency.
const PAPER: [[f64; 2]; 2] = [[2.6, 2.2], [6.1, 11.7]];

fn runs(effort: Effort) -> Vec<Run> {
    let of_keys = |keys: KeyKind| {
        WORKERS.into_iter().flat_map(move |workers| {
            SYSTEMS.into_iter().map(move |compared| spec(compared, Workload::YcsbA, keys, workers, effort))
        })
    };
    runs_of(KeyKind::PAPERS.into_iter().flat_map(of_keys))
}

fn compare(records: &[Record]) -> Vec<Comparison> {
    let of = |keys: usize, workers: usize, compared: usize| {
        &records[(keys * WORKERS.len() + workers) * SYSTEMS.len() + compared]
    };
    let mut all = Vec::new();
    for (keys, kind) in KeyKind::PAPERS.into_iter().enumerate() {
        let [throughput, latency] = PAPER[keys];
        for reading in Reading::BOTH {
            let most = |gain: &dyn Fn(&Record, &Record) -> f64| {
                let gains = (0..WORKERS.len()).flat_map(|at| {
                    reading.others().map(|other| gain(of(keys, at, SPHINX), of(keys, at, other)))
                });
                gains.fold(0.0, f64::max)
            };
            let panel = "Sphinx over the others, at most, times";
            let ours = most(&|sphinx, other| sphinx.mops / other.mops);
            let point = format!("throughput, {}, {}", kind.name(), reading.name);
            all.push(predicted(panel, point, Some(throughput), ours, SOURCE));
            let ours = most(&|sphinx, other| other.latency_us.mean / sphinx.latency_us.mean);
            let point = format!("mean latency (shorter), {}, {}", kind.name(), reading.name);
            all.push(predicted(panel, point, Some(latency), ours, SOURCE));
        }
    }
    for (keys, kind) in KeyKind::PAPERS.into_iter().enumerate() {
        for (at, workers) in WORKERS.into_iter().enumerate() {
            for (at_system, compared) in SYSTEMS.into_iter().enumerate() {
                let (record, point) =
                    (of(keys, at, at_system), format!("{}, {workers} workers", compared.name));
                let panel = format!("Throughput, million operations per second, {}", kind.name());
                all.push(predicted(panel, point.clone(), None, record.mops, SOURCE));
                let panel = format!("Mean latency, us, {}", kind.name());
                all.push(predicted(panel, point, None, record.latency_us.mean, SOURCE));
            }
        }
    }
    by_panel(all)
}
