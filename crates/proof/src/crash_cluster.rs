//! A world whose compute nodes die while they work on trees.

use farwood_fabric::Client;
use farwood_index::IndexError;
use farwood_sim::fault::{CrashPoint, Fault, Rule, When};
use farwood_sim::{SimFabric, World};

/// Who dies first.
pub const FIRST_CRASH: usize = 1;
/// Who dies while it goes on.
pub const SECOND_CRASH: usize = 2;
/// Who is left.
pub const SURVIVOR: usize = 0;
/// Where a verb can be when its compute node dies.
pub const CRASH_POINTS: [CrashPoint; 3] = [CrashPoint::Before, CrashPoint::At, CrashPoint::After];
/// Virtual time in which an operation is done or its compute node dead, nanoseconds.
pub const TIME_MAX: u64 = 1_000_000_000;

/// Three compute nodes, and the tree as each of them sees it.
pub struct CrashCluster<T> {
    /// The world that they are in.
    pub world: World,
    /// A tree for each compute node.
    pub trees: Vec<T>,
}

impl<T> CrashCluster<T> {
    /// Does something on a compute node until it is done, or the compute node dead. Yields how many verbs it took.
    pub fn perform(
        &self,
        node: usize,
        work: &impl AsyncFn(&T, &Client<SimFabric>) -> Result<(), IndexError>,
    ) -> u64 {
        let before = self.world.sent(node);
        let client = self.world.client(node);
        let mut crew = self.world.crew();
        crew.spawn(&client, async {
            work(&self.trees[node], &client).await.expect("only its death ends it");
        });
        crew.run_until(self.world.now() + TIME_MAX);
        drop(crew);
        self.world.sent(node) - before
    }

    /// A compute node is to die at a verb that it sends, counted from the next.
    pub fn crash_at(&self, node: usize, verb: u64, point: CrashPoint) {
        let when = When::Verb { compute_node: node, number: self.world.sent(node) + verb };
        self.world.add_rule(Rule { when, fault: Fault::Crash { compute_node: node, point } });
    }
}
