//! A simulated world whose compute nodes crash while they work on trees.

use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_sim::fault::{CrashPoint, Fault, FaultRule, FaultTrigger};
use farwood_sim::{SimFabric, World};

/// The compute node that crashes first.
pub const FIRST_CRASH: usize = 1;
/// The compute node that crashes second.
pub const SECOND_CRASH: usize = 2;
/// The compute node that never crashes.
pub const SURVIVOR: usize = 0;
/// The moments of a verb at which its compute node can crash.
pub const CRASH_POINTS: [CrashPoint; 3] = [CrashPoint::Before, CrashPoint::At, CrashPoint::After];
/// Virtual time in which an operation ends or its compute node crashes, nanoseconds.
pub const TIME_MAX: u64 = 1_000_000_000;

/// Three compute nodes, and the tree as each of them sees it.
pub struct CrashCluster<T> {
    /// The simulated network with its machines.
    pub world: World,
    /// The tree of each compute node.
    pub trees: Vec<T>,
}

impl<T> CrashCluster<T> {
    /// Runs `work` on a compute node until it ends or the compute node crashes. Yields the number of verbs sent.
    pub fn perform(
        &self,
        node: usize,
        work: &impl AsyncFn(&T, &Client<SimFabric>) -> Result<(), IndexError>,
    ) -> u64 {
        let before = self.world.sent(node);
        let client = self.world.client(node);
        let mut group = self.world.task_group();
        group.spawn(&client, async {
            work(&self.trees[node], &client)
                .await
                .expect("the operation succeeds unless its compute node crashes");
        });
        group.run_until(self.world.now() + TIME_MAX);
        drop(group);
        self.world.sent(node) - before
    }

    /// Lets a compute node crash at one of its next verbs: 1 is the next.
    pub fn crash_at(&self, node: usize, verb: u64, point: CrashPoint) {
        let when = FaultTrigger::Verb { compute_node: node, number: self.world.sent(node) + verb };
        self.world.add_rule(FaultRule { when, fault: Fault::Crash { compute_node: node, point } });
    }
}
