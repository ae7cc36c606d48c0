//! `crashes`: a client crashes at every verb of an operation, and the others continue.

use crate::costs::{Call, LOADED, STEP};
use crate::world::{Lab, key, value};
use crate::{FarIndex, LabResult};
use farwood_fabric::Client;
use farwood_sim::fault::{CrashPoint, Fault, FaultRule, FaultTrigger};
use farwood_sim::{NicModel, RunOutcome, SimFabric, Tracing, WorldSpec};
use std::cell::RefCell;

/// The compute node that crashes, and one that checks what it left.
const CRASHING: usize = 1;
const CHECKING: usize = 2;
/// Virtual time in which an operation ends, nanoseconds.
const TIME_MAX: u64 = 500_000_000;
const POINTS: [CrashPoint; 3] = [CrashPoint::Before, CrashPoint::At, CrashPoint::After];
/// Number of the value that is stored by the operation that is interrupted, and after it.
const INTERRUPTED: u64 = 70_000;
const LATER: u64 = 80_000;

/// The crash points of an operation that were tried.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    pub(crate) call: Call,
    pub(crate) verbs: u64,
    /// What the other clients found wrong, with the crash point.
    pub(crate) problems: Vec<String>,
}

/// Crashes a client at every verb of every operation.
pub(crate) fn run_all<I: FarIndex>(mutant: Option<&str>) -> LabResult<Vec<Tried>> {
    Call::ALL.into_iter().filter(|call| *call != Call::Scan).map(|call| crash_in::<I>(call, mutant)).collect()
}

fn crash_in<I: FarIndex>(call: Call, mutant: Option<&str>) -> LabResult<Tried> {
    let whole = loaded::<I>(mutant)?;
    perform(&whole, CRASHING, async |index: &I, client: &Client<SimFabric>| {
        call.perform(index, client, INTERRUPTED).await
    })
    .unwrap_or_else(|what| panic!("{}: {what}", call.name()));
    let verbs = whole.world.sent(CRASHING);
    let mut problems = Vec::new();
    for number in 1..=verbs {
        for point in POINTS {
            let lab = loaded::<I>(mutant)?;
            let when = FaultTrigger::Verb { compute_node: CRASHING, number };
            let fault = Fault::Crash { compute_node: CRASHING, point };
            lab.world.add_rule(FaultRule { when, fault });
            let interrupted = perform(&lab, CRASHING, async |index: &I, client: &Client<SimFabric>| {
                call.perform(index, client, INTERRUPTED).await
            });
            let checked = interrupted.and_then(|()| check(&lab, call));
            if let Err(what) = checked {
                problems.push(format!("verb {number} of {verbs}, {point:?}: {what}"));
            }
        }
    }
    Ok(Tried { call, verbs, problems })
}

/// A network with an index that has every other key.
fn loaded<I: FarIndex>(mutant: Option<&str>) -> LabResult<Lab<I>> {
    let card = NicModel::named("cx5-100g").expect("the simulator has this NIC");
    let spec = WorldSpec { tracing: Tracing::Off, ..WorldSpec::small(card) };
    let lab = Lab::<I>::new(spec, 2 * LOADED * STEP, mutant)?;
    let client = lab.world.client(0);
    lab.world.block_on(crate::costs::load(&lab.indexes[0], &client))?;
    Ok(lab)
}

/// Runs `work` at a compute node until it ends, or the compute node crashes.
fn perform<I: FarIndex>(
    lab: &Lab<I>,
    node: usize,
    work: impl AsyncFnOnce(&I, &Client<SimFabric>) -> LabResult<()>,
) -> std::result::Result<(), String> {
    let client = lab.world.client(node);
    let failed = RefCell::new(None);
    let mut group = lab.world.task_group();
    group.spawn(&client, async {
        if let Err(error) = work(&lab.indexes[node], &client).await {
            failed.replace(Some(error.to_string()));
        }
    });
    let ended = group.run_until(lab.world.now() + TIME_MAX);
    drop(group);
    match (failed.into_inner(), ended) {
        (Some(error), _) => Err(format!("an operation of compute node {node} failed: {error}")),
        (None, RunOutcome::Done) => Ok(()),
        (None, _) => Err(format!("compute node {node} waits forever")),
    }
}

/// Checks what a crashed client left: all other keys, one of two values of its key, which stays, and that the key can
/// be changed.
fn check<I: FarIndex>(lab: &Lab<I>, call: Call) -> std::result::Result<(), String> {
    let problem = RefCell::new(None);
    let report = |what: String| {
        problem.borrow_mut().get_or_insert(what);
    };
    perform(lab, CHECKING, async |index: &I, client: &Client<SimFabric>| {
        for number in Call::loaded() {
            let found = index.get(client, &key::<I>(number)).await?;
            if number != call.number() && found != Some(value::<I>(number)) {
                report(format!("key {number}, which no client changed, has {found:?}"));
            }
        }
        let changed = key::<I>(call.number());
        let found = index.get(client, &changed).await?;
        if !call.may_leave(INTERRUPTED).map(|number| number.map(value::<I>)).contains(&found) {
            report(format!("the key of the operation has {found:?}"));
        }
        let again = index.get(client, &changed).await?;
        if again != found {
            report(format!("the key of the operation had {found:?}, and then {again:?}"));
        }
        let existed = index.put(client, &changed, &value::<I>(LATER)).await?;
        if existed != found.is_some() {
            report(format!("a get found {found:?}, and a put says that the key was present: {existed}"));
        }
        let stored = index.get(client, &changed).await?;
        if stored != Some(value::<I>(LATER)) {
            report(format!("a put stored a value, and a get found {stored:?}"));
        }
        if !index.remove(client, &changed).await? {
            report("a put stored a value, and a remove did not find it".to_owned());
        }
        if let Some(found) = index.get(client, &changed).await? {
            report(format!("the key was removed, and has {found:?}"));
        }
        if let [first, ..] = &index.verify(client).await?[..] {
            report(format!("an invariant does not hold: {first}"));
        }
        Ok(())
    })?;
    problem.into_inner().map_or(Ok(()), Err)
}
