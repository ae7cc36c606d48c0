//! The effects of injected faults on the operations of a simulated run.
//!
//! A fault can make operations fail: a memory node is unreachable, or the identity of a compute node has expired. Such
//! an operation is counted, and its client goes on. A key whose insert failed may be present or absent. All other
//! errors end the run.

use std::cell::RefCell;
use std::collections::BTreeSet;

use farwood_fabric::FabricError;
use farwood_index::IndexError;
use farwood_sim::World;

use crate::record::timeline::FaultInjected;
use crate::spec::fault::describe;
use crate::workload::Operation;
use crate::{Error, Result};

/// The faults of a run and the keys whose inserts they made fail.
pub(super) struct FaultEffects<'a> {
    world: &'a World,
    uncertain_ranks: RefCell<BTreeSet<u64>>,
}

/// The result of an operation in a run with faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultOutcome {
    /// The answer is right.
    Done,
    /// A fault made the operation fail.
    Failed,
    /// A fault made the operation fail, and all later operations of the compute node fail, too.
    Expired,
}

impl<'a> FaultEffects<'a> {
    pub(super) fn new(world: &'a World) -> Self {
        Self { world, uncertain_ranks: RefCell::default() }
    }

    /// The outcome of an operation.
    ///
    /// # Errors
    /// The error of the operation, if no fault explains it.
    pub(super) fn outcome(&self, operation: Operation, result: Result<()>) -> Result<FaultOutcome> {
        let Err(error) = result else { return Ok(FaultOutcome::Done) };
        if matches!(error, Error::MissingKey(rank) if self.uncertain_ranks.borrow().contains(&rank)) {
            return Ok(FaultOutcome::Done);
        }
        let Some(outcome) = explained(&error).filter(|_| self.world.met().faults() > 0) else {
            return Err(error);
        };
        if let Operation::Insert { rank, .. } = operation {
            self.uncertain_ranks.borrow_mut().insert(rank);
        }
        Ok(outcome)
    }

    /// The faults that happened, with their times since `begin`.
    pub(super) fn injected(&self, begin: u64) -> Vec<FaultInjected> {
        let injected = self.world.injected_faults().into_iter();
        let of = |fault: farwood_sim::fault::InjectedFault| FaultInjected {
            fault: describe(fault.fault),
            seconds: fault.time.saturating_sub(begin) as f64 / 1e9,
        };
        injected.map(of).collect()
    }

    /// A compute node that has neither crashed nor expired.
    pub(super) fn survivor(&self) -> usize {
        let nodes = 0..self.world.spec().compute_nodes;
        nodes.into_iter().find(|node| !self.world.gone(*node)).unwrap_or(0)
    }
}

/// The outcome of an operation that ends with an error which a fault can cause.
fn explained(error: &Error) -> Option<FaultOutcome> {
    let fabric = match error {
        // A frozen compute node can hold a lock for longer than clients wait.
        Error::Index(IndexError::LockHeld { .. }) => return Some(FaultOutcome::Failed),
        Error::Index(IndexError::Fabric(error)) | Error::Fabric(error) => error,
        _ => return None,
    };
    match fabric {
        FabricError::NodeLost { .. } => Some(FaultOutcome::Failed),
        FabricError::Revoked(_) => Some(FaultOutcome::Expired),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_fabric::NodeId;
    use farwood_sim::fault::{Fault, FaultRule, FaultTrigger};
    use farwood_sim::{NicModel, WorldSpec};

    const GET: Operation = Operation::Get { rank: 7 };

    fn lost() -> Result<()> {
        let source = FabricError::NodeLost { node: NodeId(0), why: String::new() };
        Err(IndexError::from(source).into())
    }

    fn world() -> World {
        World::new(WorldSpec::small(NicModel::named("cx5-100g").unwrap())).unwrap()
    }

    #[test]
    fn only_a_fault_explains_an_unreachable_memory_node() {
        let world = world();
        let effects = FaultEffects::new(&world);
        assert!(effects.outcome(GET, lost()).is_err(), "no fault has happened");
        let fault = Fault::Slow { node: NodeId(0), times: 2 };
        world.add_rule(FaultRule { when: FaultTrigger::Time(1000), fault });
        let client = world.client(0);
        world.block_on(async { farwood_fabric::Fabric::sleep(client.fabric(), 2000).await });
        assert_eq!(effects.outcome(GET, lost()).unwrap(), FaultOutcome::Failed);
        assert_eq!(effects.outcome(GET, Ok(())).unwrap(), FaultOutcome::Done);
        let wrong = Err(Error::WrongAnswer(String::new()));
        assert!(effects.outcome(GET, wrong).is_err(), "no fault explains a wrong answer");
        let injected = effects.injected(400);
        assert_eq!((injected[0].fault.as_str(), injected[0].seconds), ("slow:2x:memory=0", 6e-7));
        assert!(effects.outcome(GET, Err(Error::MissingKey(7))).is_err(), "the key was inserted");
        let insert = Operation::Insert { rank: 7, version: 1 };
        assert_eq!(effects.outcome(insert, lost()).unwrap(), FaultOutcome::Failed);
        assert_eq!(effects.outcome(GET, Err(Error::MissingKey(7))).unwrap(), FaultOutcome::Done);
        assert!(effects.outcome(GET, Err(Error::MissingKey(8))).is_err(), "another key");
    }
}
