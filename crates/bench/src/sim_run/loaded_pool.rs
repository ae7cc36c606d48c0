//! The pool of the last run, for runs that begin with the same loaded index.

use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_sim::{PoolImage, SimFabric, World};

use crate::Result;
use crate::spec::ordered::{FailedCas, RunSpec};
use crate::spec::simulated::WarmUpEnd;
use crate::workload::distribution::Distribution;

/// A loaded pool that later runs can copy instead of loading the same keys again.
#[derive(Debug, Default)]
pub struct KeptPool(Option<LoadedPool>);

#[derive(Debug)]
struct LoadedPool {
    key: String,
    image: PoolImage,
}

impl KeptPool {
    /// Whether a run of `spec` would begin with the kept pool, or with an equal one of one of the `later` runs.
    pub fn serves<'s>(&self, spec: &RunSpec, mut later: impl Iterator<Item = &'s RunSpec>) -> bool {
        let key = key_of(spec);
        self.0.as_ref().is_some_and(|kept| kept.key == key) || later.any(|later| key_of(later) == key)
    }

    /// Frees a pool with which a run of `spec` would not begin.
    pub(super) fn free_other(&mut self, spec: &RunSpec) {
        self.0 = self.0.take().filter(|kept| kept.key == key_of(spec));
    }

    /// Copies the pool that a run begins with to its world, if it is kept; otherwise yields false.
    pub(super) fn restore(&self, spec: &RunSpec, world: &World) -> bool {
        let kept = self.0.as_ref().filter(|kept| kept.key == key_of(spec));
        if let Some(kept) = kept {
            world.restore(&kept.image);
        }
        kept.is_some()
    }

    /// Keeps the loaded pool of a run, instead of an earlier one.
    pub(super) fn keep(&mut self, spec: &RunSpec, world: &World, client: &Client<SimFabric>) -> Result<()> {
        let image = world.image(client).map_err(IndexError::from)?;
        self.0 = Some(LoadedPool { key: key_of(spec), image });
        Ok(())
    }
}

/// The parameters that change the loaded pool: those of the run, without the ones that only change the measurement.
fn key_of(spec: &RunSpec) -> String {
    let without_puts = spec.warm_up_puts == 0;
    let loading = RunSpec {
        operation_ns: None,
        failed_cas: FailedCas::default(),
        colocate: false,
        distribution: if without_puts { Distribution::Uniform } else { spec.distribution },
        zipf_ranks: if without_puts { None } else { spec.zipf_ranks },
        range_size: if without_puts { 0 } else { spec.range_size },
        cache_bytes: if without_puts { None } else { spec.cache_bytes },
        compute_nodes: 0,
        threads: None,
        clients: if without_puts { None } else { spec.clients },
        amount: None,
        warm_up_seconds: None,
        warm_up_end: WarmUpEnd::default(),
        warm_up_keys: 0,
        faults: Vec::new(),
        timeline_ms: None,
        rate: None,
        ..spec.clone()
    };
    format!("{loading:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::record::machine::Machine;
    use crate::sim_run::{simulate, simulate_in};
    use crate::spec::fabric::FabricKind;
    use crate::workload::Workload;
    use farwood_index::ordered::System;

    fn spec(index: System) -> RunSpec {
        RunSpec {
            index,
            fabric: FabricKind::Sim,
            workload: Workload::YcsbA,
            keys: Some(3_000),
            memory_nodes: 2,
            compute_nodes: 2,
            clients: Some(8),
            ..RunSpec::default()
        }
    }

    /// The record without what depends on the machine.
    fn result(record: Record) -> String {
        format!("{:?}", Record { simulated_verbs_per_second: None, machine: Machine::default(), ..record })
    }

    #[test]
    fn a_run_in_a_kept_pool_has_the_record_of_a_run_that_loads() {
        for index in [System::Sherman, System::Smart, System::Sphinx] {
            let mut kept = KeptPool::default();
            let first = spec(index);
            let others = [
                RunSpec { clients: Some(12), compute_nodes: 3, threads: Some(2), ..first.clone() },
                RunSpec { cache_bytes: Some(200_000), distribution: Distribution::Uniform, ..first.clone() },
                RunSpec { range_size: 20, operation_ns: Some(100.0), rate: Some(100_000), ..first.clone() },
                RunSpec { colocate: true, warm_up_seconds: Some(0.001), ..first.clone() },
            ];
            simulate_in(&first, Some(&mut kept), &mut |_| {}).unwrap();
            for other in others {
                assert!(kept.serves(&other, std::iter::empty()), "{index}");
                let in_kept = simulate_in(&other, Some(&mut kept), &mut |_| {}).unwrap();
                assert_eq!(result(in_kept), result(simulate(&other, &mut |_| {}).unwrap()), "{index}");
            }
        }
    }

    #[test]
    fn a_pool_that_a_run_would_load_otherwise_is_not_used() {
        let first = RunSpec { workload: Workload::YcsbE, ..spec(System::Smart) };
        let mut kept = KeptPool::default();
        simulate_in(&first, Some(&mut kept), &mut |_| {}).unwrap();
        let others = [
            RunSpec { batched_scans: !first.batched_scans, ..first.clone() },
            RunSpec { keys: Some(4_000), ..first.clone() },
            RunSpec { seed: 2, ..first.clone() },
        ];
        for other in others {
            assert!(!kept.serves(&other, std::iter::empty()) && kept.serves(&other, [&other].into_iter()));
            let in_kept = simulate_in(&other, Some(&mut kept), &mut |_| {}).unwrap();
            assert_eq!(result(in_kept), result(simulate(&other, &mut |_| {}).unwrap()));
        }
    }
}
