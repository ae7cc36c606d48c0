//! The error of a lock timeout names the operation, and the compute node that holds the global lock.

use farwood_fabric::{
    Client, ClientId, Doorbell, Fabric, FabricError, Memory, NodeId, PoolShape, Remote, Words,
};
use farwood_index::lock::{
    GlobalLock, LocalLocks, LockMemory, LockOptions, LockPauses, LockWidth, NodeLocks, Release,
};
use farwood_index::ordered::{Ordered, OrderedConfig};
use farwood_index::sherman::{ShermanConfig, ShermanVariant, layout::Sizes};
use farwood_index::smart::SmartConfig;
use farwood_index::{Decision, IndexError};
use farwood_proof::hooked::{Hooked, PostHook};
use farwood_sim::{NicModel, SimFabric, World, WorldSpec};
use farwood_testkit::Harness as _;
use farwood_testkit::loopback::{Loopback, LoopbackFabric};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::Poll;

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
    let shape = first.fabric().shape();
    let [other, node] = two_nodes(&shape);
    let locks = [(); 2].map(|()| NodeLocks::new(OPTIONS, shape, NODE_BYTES));
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

const CACHE_BYTES: usize = 1 << 20;
const KEY: &[u8] = &[7; 8];

/// Never answers the posts that follow a decision: the client keeps the lock of the leaf.
struct Stopped<'d> {
    has_decided: &'d Cell<bool>,
}

impl<F: Fabric> PostHook<F> for Stopped<'_> {
    async fn submit(&self, fabric: &F, doorbell: Doorbell) -> Result<Doorbell, FabricError> {
        if self.has_decided.get() {
            return pending().await;
        }
        fabric.submit(doorbell).await
    }
}

/// Runs `blocked` while `client` holds the lock of the leaf of [`KEY`].
async fn with_locked_leaf<T>(
    tree: &Ordered,
    client: &Client<LoopbackFabric>,
    blocked: impl Future<Output = T>,
) -> T {
    let has_decided = Cell::new(false);
    let hook = Stopped { has_decided: &has_decided };
    let client = Client::new(Hooked { fabric: client.fabric(), hook });
    let mut decide = |_: Option<&[u8]>| {
        has_decided.set(true);
        Decision::Keep
    };
    let mut modified = pin!(tree.modify(&client, KEY, &mut decide));
    poll_fn(|context| {
        assert!(modified.as_mut().poll(context).is_pending(), "the client keeps the lock");
        if has_decided.get() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    blocked.await
}

#[test]
fn a_conditional_removal_that_waits_too_long_is_named_a_removal() {
    let sherman = ShermanConfig {
        sizes: Sizes { key_bytes: 8, value_bytes: 8, node_bytes: 1024 },
        options: ShermanVariant::RECOMMENDED.features(),
        ..ShermanConfig::default()
    };
    for config in [OrderedConfig::Sherman(sherman), OrderedConfig::Smart(SmartConfig::default())] {
        let world = Loopback::default();
        let (client, other) = (world.client(), world.separate_client());
        let tree = world.block_on(Ordered::create(&client, "locked", config, CACHE_BYTES)).expect("a tree");
        world.block_on(tree.put(&client, KEY, &[0; 8])).expect("a put");
        let others = world.block_on(Ordered::open(&other, "locked", CACHE_BYTES)).expect("the tree");
        let mut accept = |_: Option<&[u8]>| true;
        let removed = others.remove_if(&other, KEY, &mut accept);
        let removed = world.block_on(with_locked_leaf(&tree, &client, removed));
        assert!(matches!(removed, Err(IndexError::LockHeld { operation: "remove", .. })), "{removed:?}");
    }
}
