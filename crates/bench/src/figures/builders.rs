//! Builders of the runs and comparisons of figures.

use farwood_index::ordered::System;

use super::figure::{Comparison, Effort, Run, Standing};
use crate::record::Record;
use crate::run::{Amount, FabricKind, RunSpec};
use crate::spec::spatial::SpatialSpec;
use crate::workload::Workload;
use crate::workload::distribution::{Distribution, THETA_DEFAULT};

/// Zipf with theta 0.99, the key distribution in the evaluations of the ordered indexes.
pub(super) const ZIPF: Distribution = Distribution::Zipf { theta: THETA_DEFAULT };

/// Virtual seconds of the warm-up and of the measured phase.
#[derive(Clone, Copy)]
pub(super) struct Time {
    pub(super) warm_up_seconds: f64,
    pub(super) seconds: f64,
}

impl Time {
    /// Warm-up and measured phase of each effort.
    pub(super) fn of(effort: Effort, quick: (f64, f64), full: (f64, f64)) -> Time {
        let (warm_up_seconds, seconds) = effort.pick(quick, full);
        Time { warm_up_seconds, seconds }
    }
}

/// The loaded keys of a run, and the keys of the paper's run.
#[derive(Clone, Copy)]
pub(super) struct LoadedKeys {
    pub(super) count: u64,
    /// The number of ranks over which popularity is drawn, so that the hottest key has the paper's share.
    pub(super) ranks: u64,
}

/// A simulated run with zipf 0.99. A load measures the second half of its keys: the beginning of a load takes a time
/// that does not depend on the number of keys, and that is negligible with the tens of millions of keys of the papers.
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

/// The run of a spec.
pub(super) fn run(spec: RunSpec) -> Run {
    Run::Index(Box::new(spec))
}

/// The runs of all specs.
pub(super) fn runs_of(specs: impl IntoIterator<Item = RunSpec>) -> Vec<Run> {
    specs.into_iter().map(run).collect()
}

/// The run of a spec of a spatial index.
pub(super) fn spatial_run(spec: SpatialSpec) -> Run {
    Run::Spatial(Box::new(spec))
}

/// A prediction.
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
        standing: Standing::Predicted,
        source,
    }
}

/// Sorts comparisons by panel, the panels in the order of their first comparisons.
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

/// Mean round trips of an operation.
pub(super) fn round_trips(record: &Record) -> f64 {
    record.round_trips.as_ref().map_or(0.0, |trips| trips.mean)
}
