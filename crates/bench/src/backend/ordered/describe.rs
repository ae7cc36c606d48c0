//! The description of an ordered index in records.

use farwood_index::ordered::{Ordered, System};
use serde_json::{Map, Value};

use crate::Result;
use crate::record::Record;
use crate::record::machine::{commit, profile};
use crate::spec::ordered::{FILL, RunSpec};
use crate::workload::keys::Keys;
use crate::workload::{Workload, WorkloadSpec};

/// The number of keys loaded before the measured phase.
pub(crate) fn loaded_keys(workload: &WorkloadSpec) -> u64 {
    if workload.workload == Workload::Load { workload.preloaded_keys } else { workload.keys }
}

/// The record of a run without its results.
pub(crate) fn describe(
    spec: &RunSpec,
    keys: &Keys,
    workload: &WorkloadSpec,
    index: &Ordered,
) -> Result<Record> {
    let mut options: Map<String, Value> =
        index.describe().into_iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    if spec.index == System::Sherman {
        options.insert("node_bytes".to_owned(), Value::from(spec.sizes(keys).node_bytes));
        options.insert("fill".to_owned(), Value::from(FILL));
    }
    options.insert("cache_bytes_max".to_owned(), Value::from(spec.cache_bytes(keys, workload)));
    if let Some(mean) = keys.key_bytes_mean() {
        options.insert("key_bytes_mean".to_owned(), Value::from(mean));
    }
    Ok(Record {
        index: spec.index.name().to_owned(),
        variant: Some(spec.variant_name()?.to_owned()),
        options,
        consistency: Some(index.consistency().to_owned()),
        ..describe_run(spec, keys, workload)
    })
}

/// The record of a run without its results and its index.
pub fn describe_run(spec: &RunSpec, keys: &Keys, workload: &WorkloadSpec) -> Record {
    let distribution = workload.effective_distribution();
    Record {
        fabric: spec.fabric.name().to_owned(),
        workload: workload.workload.name().to_owned(),
        distribution: distribution.name().to_owned(),
        theta: distribution.theta(),
        zipf_ranks: workload.effective_zipf_ranks(),
        keys: workload.keys,
        key_bytes: keys.key_bytes() as u64,
        value_bytes: spec.value_bytes as u64,
        compute_nodes: spec.compute_nodes as u64,
        threads: spec.threads() as u64,
        clients: workload.clients,
        warm_up_seconds: Some(spec.warm_up_seconds()),
        seed: spec.seed,
        commit: commit(),
        profile: profile(),
        ..Record::default()
    }
}
