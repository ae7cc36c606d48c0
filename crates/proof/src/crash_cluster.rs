//! A simulated world whose compute nodes crash during operations on trees, or drop operations in progress.

use farwood_fabric::{Client, Fabric as _, NodeId};
use farwood_index::IndexError;
use farwood_sim::fault::{CrashPoint, Fault, FaultRule, FaultTrigger};
use farwood_sim::{SimFabric, World};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

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

/// Times between the last poll of an operation and its drop. At the drop, the posted verb has not left the client, is
/// in flight, or is answered.
pub const DROP_DELAYS_NS: [u64; 3] = [0, 1_000, 50_000];
/// Virtual time in which an operation ends after another was dropped, nanoseconds. A client that waits for a lock
/// checks after 2 ms for the first time whether its holder is alive.
pub const WAIT_NS_MAX: u64 = 500_000;

/// A moment at which an operation is dropped.
#[derive(Clone, Copy, Debug)]
pub struct DropPoint {
    /// Polls before the drop.
    pub polls: u64,
    /// Nanoseconds between the last poll and the drop.
    pub delay_ns: u64,
    /// Nanoseconds after the drop in which the compute node cannot reach any memory node.
    pub partition_ns: u64,
}

/// Three compute nodes, each with its handle of the tree.
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

    /// Runs `work` on a compute node, and drops it at `point`; returns whether it ended earlier.
    pub fn drop_at(
        &self,
        node: usize,
        point: DropPoint,
        work: &impl AsyncFn(&T, &Client<SimFabric>) -> Result<(), IndexError>,
    ) -> bool {
        let (client, ended) = (self.world.client(node), Cell::new(None));
        let mut group = self.world.task_group();
        group.spawn(&client, async {
            let mut work = pin!(work(&self.trees[node], &client));
            let mut left = point.polls;
            let early = poll_fn(|context| match work.as_mut().poll(context) {
                Poll::Ready(done) => Poll::Ready(Some(done)),
                Poll::Pending => {
                    left -= 1;
                    if left == 0 { Poll::Ready(None) } else { Poll::Pending }
                }
            });
            let early = early.await;
            if early.is_none() && point.delay_ns > 0 {
                client.fabric().sleep(point.delay_ns).await;
            }
            if early.is_none() && point.partition_ns > 0 {
                self.partition(node, point.partition_ns);
                client.fabric().sleep(1).await;
            }
            ended.set(Some(early.is_some_and(|done| done.is_ok())));
        });
        group.run_until(self.world.now() + TIME_MAX);
        drop(group);
        ended.get().expect("the operation succeeds or is dropped")
    }

    /// Keeps a compute node from reaching any memory node.
    fn partition(&self, compute_node: usize, nanoseconds: u64) {
        for node in (0..self.world.spec().memory_nodes).map(NodeId) {
            let fault = Fault::Partition { compute_node, node, nanoseconds };
            self.world.add_rule(FaultRule { when: FaultTrigger::Time(self.world.now()), fault });
        }
    }

    /// Runs `work` on a compute node until it ends, in at most [`WAIT_NS_MAX`] of virtual time.
    pub fn perform_soon<R>(
        &self,
        node: usize,
        work: impl AsyncFnOnce(&T, &Client<SimFabric>) -> Result<R, IndexError>,
    ) -> R {
        let (client, begun) = (self.world.client(node), self.world.now());
        let done = self.world.block_on(work(&self.trees[node], &client)).expect("the operation succeeds");
        let waited = self.world.now() - begun;
        assert!(waited <= WAIT_NS_MAX, "compute node {node} waited {waited} ns");
        done
    }

    /// Makes a compute node crash at one of its next verbs: 1 is the next.
    pub fn crash_at(&self, node: usize, verb: u64, point: CrashPoint) {
        let when = FaultTrigger::Verb { compute_node: node, number: self.world.sent(node) + verb };
        self.world.add_rule(FaultRule { when, fault: Fault::Crash { compute_node: node, point } });
    }
}
