//! Runs: the systems of a spec, measured alternately on a real fabric, with one record for each.
//!
//! A run on the simulator is [`simulate`] or [`simulate_spatial`].

mod compare;

pub use crate::backend::JOBS;
pub use crate::driver::processes::WorkerCommand;
pub use crate::driver::progress::Stage;
pub use crate::driver::protocol::Amount;
pub use crate::sim_run::{
    CARD_FILE_HEADING, CachesBefore, CardValue, KeptPool, NicMeasurement, NicMetric, NicPoint, NicTarget,
    TracedOperation, TracedRun, Verb, card_of, card_values, check_measured, nic_model, simulate, simulate_in,
    simulate_spatial, trace, with_network,
};
pub use crate::spec::fabric::FabricKind;
pub use crate::spec::fault::TimedFault;
pub use crate::spec::node_files::NodeFiles;
pub use crate::spec::ordered::{FILL, FailedCas, NIC_DEFAULT, RunSpec};
pub use crate::spec::simulated::WarmUpEnd;
pub use crate::spec::spatial::{RECTANGLES_DEFAULT, SpatialSpec};
pub use crate::spec::spatial_variant::Variant;
pub use crate::spec::{CLIENTS_MAX, COMPUTE_NODES_MAX, THREADS_MAX};
pub use crate::workload::keys::KeySource;
pub use farwood_fabric::Memory;
pub use farwood_sim::TraceEvent;
pub use farwood_sim::trace::sequence as trace_text;

use crate::Result;
use crate::backend::ordered::OrderedBackend;
use crate::backend::spatial::SpatialBackend;
use crate::backend::{Backend, check_peers, peers_of, spatial};
use crate::record::Record;
use crate::workload::Workload;
use compare::{Plan, compare};

/// Measures the index of `spec` and its peers; yields the index's record first. `worker` starts processes that call
/// [`serve`](crate::driver::worker::serve) with [`JOBS`]. The pool and the processes of the run are removed even after
/// an error.
///
/// # Errors
/// An invalid spec, errors of the pool or of an index, a wrong answer, a process that died.
pub fn run(
    spec: &RunSpec,
    worker: &WorkerCommand,
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<Vec<Record>> {
    spec.check()?;
    check_peers(spec)?;
    if spec.fabric == FabricKind::Sim {
        return Ok(vec![simulate(spec, progress)?]);
    }
    let loading = &mut |done, all| progress(Stage::Loading { done, all });
    let ours = OrderedBackend::open(spec, worker, loading)?;
    let peers = peers_of(spec, &ours, worker, loading)?;
    let warm_up_seconds = if spec.workload == Workload::Load { 0.0 } else { spec.warm_up_seconds() };
    let plan = Plan { warm_up_seconds, rounds: spec.rounds(), amount: spec.amount() };
    compare(&with_peers(&ours, &peers), plan, &|| ours.memory(), worker, progress)
}

/// Measures the spatial index of `spec` and its peers; yields the index's record first. `worker` starts processes that
/// call [`serve`](crate::driver::worker::serve) with [`JOBS`]; they run `farwood serve` if the variant needs a server.
///
/// # Errors
/// An invalid spec, errors of the pool or of the index, a wrong answer, a process that died.
pub fn run_spatial(
    spec: &SpatialSpec,
    worker: &WorkerCommand,
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<Vec<Record>> {
    spec.check()?;
    if spec.fabric == FabricKind::Sim {
        return Ok(vec![simulate_spatial(spec, progress)?]);
    }
    spatial::check_peers(spec)?;
    let loading = &mut |done, all| progress(Stage::Loading { done, all });
    let ours = SpatialBackend::open(spec, worker, loading)?;
    let peers = spatial::peers_of(spec, &ours)?;
    let plan = Plan { warm_up_seconds: spec.warm_up_seconds(), rounds: spec.rounds(), amount: spec.amount() };
    compare(&with_peers(&ours, &peers), plan, &|| ours.store.pool.memory(), worker, progress)
}

fn with_peers<'b>(ours: &'b dyn Backend, peers: &'b [Box<dyn Backend + 'b>]) -> Vec<&'b dyn Backend> {
    std::iter::once(ours).chain(peers.iter().map(|peer| &**peer)).collect()
}
