//! Functions that build the runs of a figure, and its comparisons of measured with printed values.

use farwood_index::ordered::System;

use super::figure::{CalibrationStatus, Comparison, Effort};
use super::run::Run;
use crate::record::Record;
use crate::run::{Amount, FabricKind, RunSpec};
use crate::spec::spatial::SpatialSpec;
use crate::workload::Workload;
use crate::workload::distribution::{Distribution, THETA_DEFAULT};

/// Zipf with theta 0.99, the key distribution in the evaluations of Sherman, SMART and Sphinx.
pub(super) const ZIPF: Distribution = Distribution::Zipf { theta: THETA_DEFAULT };

/// The virtual time of the warm-up and of the measured phase, in seconds.
#[derive(Clone, Copy)]
pub(super) struct Time {
    pub(super) warm_up_seconds: f64,
    pub(super) seconds: f64,
}

impl Time {
    /// Picks the pair (warm-up, measured phase) that belongs to `effort`.
    pub(super) fn of(effort: Effort, quick: (f64, f64), full: (f64, f64)) -> Time {
        let (warm_up_seconds, seconds) = effort.pick(quick, full);
        Time { warm_up_seconds, seconds }
    }
}

/// The number of keys that a run loads, and of the paper's run.
#[derive(Clone, Copy)]
pub(super) struct LoadedKeys {
    /// Keys that the run loads.
    pub(super) count: u64,
    /// Keys of the paper's run. Zipf ranks are drawn from this many, so that the most popular key receives the same
    /// share of operations as in the paper.
    pub(super) ranks: u64,
}

/// Specifies a simulated run with zipf 0.99. A run of [`Workload::Load`] measures only the second half of its inserts:
/// the first inserts into an empty tree cost a fixed time. This time is negligible in the papers' runs, which insert
/// tens of millions of keys, but not in this shorter run.
pub(super) fn simulated(
    index: System,
    variant: &str,
    nic: &str,
    workload: Workload,
    keys: LoadedKeys,
    time: Time,
) -> RunSpec {
    let is_load = workload == Workload::Load;
    RunSpec {
        index,
        variant: Some(variant.to_owned()),
        fabric: FabricKind::Sim,
        nic: Some(nic.to_owned()),
        workload,
        distribution: ZIPF,
        zipf_ranks: Some(keys.ranks),
        keys: Some(keys.count),
        amount: (!is_load).then_some(Amount::Seconds(time.seconds)),
        warm_up_seconds: Some(time.warm_up_seconds),
        warm_up_keys: if is_load { keys.count / 2 } else { 0 },
        ..RunSpec::default()
    }
}

/// Wraps the spec of an ordered index as a run of a figure.
pub(super) fn run(spec: RunSpec) -> Run {
    Run::Index(Box::new(spec))
}

/// Wraps specs of ordered indexes as the runs of a figure, in the same order.
pub(super) fn runs_of(specs: impl IntoIterator<Item = RunSpec>) -> Vec<Run> {
    specs.into_iter().map(run).collect()
}

/// Wraps the spec of a spatial index as a run of a figure.
pub(super) fn spatial_run(spec: SpatialSpec) -> Run {
    Run::Spatial(Box::new(spec))
}

/// Compares a measured value with the value that the paper prints, if any. No constant of the NIC model was fitted to
/// this value, so the measured value is a prediction.
pub(super) fn predicted(
    panel: impl Into<String>,
    point: impl Into<String>,
    paper: Option<f64>,
    ours: f64,
    source: &'static str,
) -> Comparison {
    Comparison {
        panel: panel.into(),
        point: point.into(),
        paper,
        ours,
        ours_to: None,
        curve: None,
        status: CalibrationStatus::Predicted,
        source,
    }
}

/// Adds the value with the other duration of a failed CAS, if it is another one.
pub(super) fn ranged(comparison: Comparison, ours_to: f64) -> Comparison {
    if (ours_to - comparison.ours).abs() > 0.0 { comparison.to(ours_to) } else { comparison }
}

/// Groups comparisons by panel; the panels keep the order of their first comparisons.
pub(super) fn by_panel(comparisons: Vec<Comparison>) -> Vec<Comparison> {
    let mut panels: Vec<String> = Vec::new();
    for comparison in &comparisons {
        if !panels.contains(&comparison.panel) {
            panels.push(comparison.panel.clone());
        }
    }
    let mut sorted = comparisons;
    sorted.sort_by_key(|comparison| panels.iter().position(|panel| *panel == comparison.panel));
    sorted
}

/// The mean number of round trips of an operation in a run.
pub(super) fn round_trips(record: &Record) -> f64 {
    record.round_trips.as_ref().map_or(0.0, |trips| trips.mean)
}
