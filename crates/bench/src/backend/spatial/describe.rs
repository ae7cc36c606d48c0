//! The description of a spatial index in records.

use serde_json::{Map, Value};

use crate::driver::protocol::Round;
use crate::record::machine::{commit, profile};
use crate::record::measurement::CostTotals;
use crate::record::{Record, Spatial};
use crate::spec::spatial::{FILL, SpatialSpec};
use crate::workload::rectangles::{POWER, Scale};

/// Adds the results of the searches of `round` to `record`, which has the other results already.
pub(crate) fn with_searches(spec: &SpatialSpec, record: Record, round: &Round) -> Record {
    let searches = record.by_operation.search.as_ref().map_or(0, |search| search.operations);
    Record { spatial: Some(spatial(spec, &round.measurement.costs(), searches)), ..record }
}

/// The record of a run without its results.
pub(crate) fn describe(spec: &SpatialSpec, loaded: u64, consistency: &str) -> Record {
    let mut options = Map::new();
    let mut option = |name: &str, value: Value| options.insert(name.to_owned(), value);
    option("node_bytes", Value::from(spec.node_bytes()));
    option("fill", Value::from(FILL));
    let variant = spec.variant;
    if variant.messages() {
        option("notice", Value::from(if variant.is_polling() { "polling" } else { "event" }));
    }
    if variant.reads() {
        option("multi_issue", Value::from(variant.is_multi_issue()));
    }
    if let Some(rule) = variant.rule() {
        let settings = SpatialSpec::back_off(rule);
        option("rule", Value::from(format!("{rule:?}").to_lowercase()));
        option("window", Value::from(settings.window));
        option("threshold", Value::from(settings.threshold));
    }
    Record {
        index: "catfish".to_owned(),
        variant: Some(variant.name().to_owned()),
        options,
        consistency: Some(consistency.to_owned()),
        fabric: spec.fabric.name().to_owned(),
        workload: spec.mix.name().to_owned(),
        distribution: if spec.scale == Scale::PowerLaw { "power-law" } else { "uniform" }.to_owned(),
        theta: if spec.scale == Scale::PowerLaw { POWER } else { 0.0 },
        keys: loaded,
        key_bytes: 32,
        value_bytes: 8,
        compute_nodes: spec.compute_nodes as u64,
        threads: spec.threads() as u64,
        clients: spec.clients(),
        seed: spec.seed,
        commit: commit(),
        profile: profile(),
        ..Record::default()
    }
}

/// The results of the searches of a run.
pub(crate) fn spatial(spec: &SpatialSpec, costs: &CostTotals, searches: u64) -> Spatial {
    let share = |part: u64| part as f64 / searches.max(1) as f64;
    Spatial {
        scale: spec.scale.to_string(),
        think_us: spec.think_ns as f64 / 1e3,
        share_offloaded: share(costs.offloaded),
        found_mean: share(costs.found),
        server_busy: None,
        server_gbps: None,
    }
}
