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
        // An earlier image is freed before another one is made.
        self.0 = None;
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
        range_size: 0,
        batched_scans: false,
        cache_bytes: if without_puts { None } else { spec.cache_bytes },
        compute_nodes: 0,
        threads: None,
        clients: None,
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
                RunSpec { clients: Some(12), compute_nodes: 3, ..first.clone() },
                RunSpec { cache_bytes: Some(200_000), distribution: Distribution::Uniform, ..first.clone() },
            ];
            simulate_in(&first, Some(&mut kept), &mut |_| {}).unwrap();
            for other in others {
                let world_key = kept.0.as_ref().unwrap().key.clone();
                let in_kept = simulate_in(&other, Some(&mut kept), &mut |_| {}).unwrap();
                assert_eq!(kept.0.as_ref().unwrap().key, world_key, "the pool was used");
                assert_eq!(result(in_kept), result(simulate(&other, &mut |_| {}).unwrap()), "{index}");
            }
            let larger = RunSpec { keys: Some(4_000), ..first };
            let in_kept = simulate_in(&larger, Some(&mut kept), &mut |_| {}).unwrap();
            assert_eq!(in_kept.keys, 4_000, "other keys are loaded");
        }
    }
}
