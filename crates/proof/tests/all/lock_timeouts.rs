//! The error of a lock timeout names the compute node that holds the global lock.

use farwood_fabric::{Client, ClientId, Fabric as _, Memory, NodeId, PoolShape, Remote, Words};
use farwood_index::IndexError;
use farwood_index::lock::{
    GlobalLock, LocalLocks, LockMemory, LockOptions, LockPauses, LockWidth, NodeLocks, Release,
};
use farwood_sim::{NicModel, SimFabric, World, WorldSpec};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Locks in the nodes, with a local lock on which clients spin: the simulator completes no alarm, with which a client
/// ends its wait in a queue.
const OPTIONS: LockOptions = LockOptions {
    memory: LockMemory::Node,
    width: LockWidth::Word,
    release: Release::Faa,
    local: LocalLocks::Spinning,
    pauses: LockPauses::LongWait,
};

const NODE_BYTES: usize = 64;
const SECOND: u64 = 1_000_000_000;

/// Two nodes that one local lock guards, with a global lock in each.
fn two_nodes(shape: &PoolShape) -> [Remote<Words>; 2] {
    let count = GlobalLock::count(OPTIONS, shape);
    let mut nodes = BTreeMap::new();
    for offset in (1 << 20..).step_by(NODE_BYTES) {
        let node = Remote::new(NodeId(0), Memory::Host, offset).expect("48 bits of offset are enough");
        if let Some(other) = nodes.insert(GlobalLock::of(OPTIONS, count, node).index(), node) {
            return [other, node];
        }
    }
    unreachable!("there are more nodes than locks")
}

/// Acquires the lock of `node`, keeps it for `nanoseconds`, and releases it; yields the holder that a timeout names.
async fn hold(
    client: &Client<SimFabric>,
    locks: &NodeLocks,
    node: Remote<Words>,
    nanoseconds: u64,
) -> Result<(), Option<ClientId>> {
    let held = match locks.acquire(client, node, "test").await {
        Ok(held) => held,
        Err(IndexError::LockHeld { holder, .. }) => return Err(holder),
        Err(error) => panic!("{error}"),
    };
    client.fabric().sleep(nanoseconds).await;
    held.give_up().await.expect("the lock is released");
    Ok(())
}

/// Compute node 1 holds a global lock, for which the first client of compute node 0 waits with the local lock. The
/// second client has waited for the local lock since before, so that its time ends first.
#[test]
fn a_client_that_waited_for_the_local_lock_names_the_compute_node_that_holds_the_global_one() {
    let world = World::new(WorldSpec::small(NicModel::named("cx5-100g").unwrap())).expect("a world");
    let (first, second, foreign) = (world.client(0), world.client(0), world.client(1));
    let shape = *first.fabric().shape();
    let [other, node] = two_nodes(&shape);
    let locks = [(); 2].map(|()| NodeLocks::new(OPTIONS, &shape, NODE_BYTES));
    let holder = Some(foreign.fabric().identity());
    let ended = RefCell::new(Vec::new());
    let mut group = world.task_group();
    group.spawn_at(first.fabric().sim_thread(), async {
        hold(&first, &locks[0], other, SECOND).await.expect("the lock is free");
        let waited = hold(&first, &locks[0], node, 0).await;
        ended.borrow_mut().push(("first", waited));
    });
    group.spawn_at(second.fabric().sim_thread(), async {
        second.fabric().sleep(SECOND / 10).await;
        let waited = hold(&second, &locks[0], node, 0).await;
        ended.borrow_mut().push(("second", waited));
    });
    group.spawn_at(foreign.fabric().sim_thread(), async {
        hold(&foreign, &locks[1], node, 60 * SECOND).await.expect("the lock is free");
    });
    group.run().expect("the clients end");
    drop(group);
    assert_eq!(ended.into_inner(), [("second", Err(holder)), ("first", Err(holder))]);
}
