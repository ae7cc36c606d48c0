//! The lifecycle of a run: backends start, warm up, and are measured in alternating rounds.

use farwood_transport::shm::Pages;

use crate::Result;
use crate::backend::{Backend, Running};
use crate::driver::processes::WorkerCommand;
use crate::driver::progress::Stage;
use crate::driver::protocol::{Amount, Order, Round};
use crate::record::Record;
use crate::record::machine::Machine;

/// The phases of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// 0: no warm-up.
    pub(super) warm_up_seconds: f64,
    pub(super) rounds: usize,
    pub(super) amount: Amount,
}

/// Measures `backends`, of which the first is the index; `memory` yields the bytes of its pool and their pages. The
/// record of each backend is that of its round of median throughput.
pub(super) fn compare(
    backends: &[&dyn Backend],
    plan: Plan,
    memory: &dyn Fn() -> Result<(u64, Option<Pages>)>,
    worker: &WorkerCommand,
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<Vec<Record>> {
    let (running, mut rounds) = measure(backends, plan, worker, progress)?;
    let (bytes, pages) = memory()?;
    let pages = pages.map_or_else(String::new, |pages| pages.to_string());
    let machine = Machine { pages, ..Machine::here() };
    let mut records = Vec::new();
    for ((backend, Running { record, processes, resources }), rounds) in
        backends.iter().zip(running).zip(&mut rounds)
    {
        processes.end()?;
        drop(resources);
        let mut record = backend.finish(record, &median(rounds));
        record.machine = machine.clone();
        if record.peer.is_none() {
            record.memory_node_bytes = Some(bytes);
        }
        records.push(record);
    }
    if let [ours, first, ..] = &mut records[..] {
        ours.ratio = Some(ours.mops / first.mops);
    }
    Ok(records)
}

/// Starts the backends, warms them up, and measures them in alternation; yields the rounds of each.
fn measure(
    backends: &[&dyn Backend],
    plan: Plan,
    worker: &WorkerCommand,
    progress: &mut dyn FnMut(Stage<'_>),
) -> Result<(Vec<Running>, Vec<Vec<Round>>)> {
    let mut running: Vec<Running> = Vec::new();
    for (number, backend) in backends.iter().enumerate() {
        if number > 0 {
            progress(Stage::Warming { backend: &backend.label() });
        }
        running.push(backend.start(worker)?);
    }
    if plan.warm_up_seconds > 0.0 {
        for backend in &mut running {
            progress(Stage::Warming { backend: &backend.record.label() });
            backend.processes.order(Order::WarmUp(plan.warm_up_seconds))?;
        }
    }
    let mut rounds: Vec<Vec<Round>> = running.iter().map(|_| Vec::new()).collect();
    for round in 1..=plan.rounds {
        for (backend, done) in running.iter_mut().zip(&mut rounds) {
            let name = backend.record.label();
            progress(Stage::Measuring { backend: &name, round, rounds: plan.rounds });
            done.push(backend.processes.measure(Order::Measure(plan.amount))?);
        }
    }
    Ok((running, rounds))
}

/// The round of median throughput.
fn median(rounds: &mut Vec<Round>) -> Round {
    rounds.sort_by(|a, b| a.mops().total_cmp(&b.mops()));
    rounds.swap_remove(rounds.len() / 2)
}
