//! Another client changes the value of a key each time that `modify` releases the lock of its leaf, to remove the entry
//! or to move the value to another leaf: `modify` tries again, and its tries are bounded.

use farwood_fabric::{Client, Doorbell, Fabric, FabricError};
use farwood_index::ordered::{Ordered, OrderedConfig};
use farwood_index::smart::SmartConfig;
use farwood_index::{Decision, IndexError};
use farwood_proof::hooked::{Hooked, PostHook};
use farwood_testkit::Harness as _;
use farwood_testkit::loopback::{Loopback, LoopbackFabric};
use std::cell::Cell;

const CACHE_BYTES: usize = 1 << 20;
const KEY: &[u8] = b"key";
/// Tries of an operation, more than a tree of this size needs without contention.
const TRIES_MAX: u32 = 10_000;

/// Puts another value after the first post that follows a decision. This post releases the lock of the leaf.
struct Rival<'t> {
    tree: &'t Ordered,
    client: Client<LoopbackFabric>,
    decisions: &'t Cell<u32>,
    changes: Cell<u32>,
}

impl<F: Fabric> PostHook<F> for Rival<'_> {
    async fn submit(&self, fabric: &F, doorbell: Doorbell) -> Result<Doorbell, FabricError> {
        let answer = fabric.submit(doorbell).await?;
        if self.changes.get() < self.decisions.get() {
            self.changes.set(self.decisions.get());
            let value = u64::from(self.changes.get()).to_le_bytes();
            self.tree.put(&self.client, KEY, &value).await.expect("a put");
        }
        Ok(answer)
    }
}

/// Modifies a key whose value changes after each decision.
fn expect_exhaustion(decision: &Decision) {
    let world = Loopback::default();
    let client = world.client();
    let config = OrderedConfig::Smart(SmartConfig::default());
    let tree = world.block_on(Ordered::create(&client, "rivals", config, CACHE_BYTES)).expect("a tree");
    world.block_on(tree.put(&client, KEY, &[0; 8])).expect("a put");
    let other = world.separate_client();
    let others = world.block_on(Ordered::open(&other, "rivals", CACHE_BYTES)).expect("the tree");
    let decisions = Cell::new(0);
    let hook = Rival { tree: &others, client: other, decisions: &decisions, changes: Cell::new(0) };
    let hooked = Client::new(Hooked { fabric: client.fabric(), hook });
    let mut decide = |value: Option<&[u8]>| {
        assert!(value.is_some(), "the key is present");
        decisions.set(decisions.get() + 1);
        assert!(decisions.get() <= TRIES_MAX, "the tries are bounded");
        decision.clone()
    };
    let modified = world.block_on(tree.modify(&hooked, KEY, &mut decide));
    assert!(matches!(modified, Err(IndexError::Exhausted { operation: "modify", .. })), "{modified:?}");
}

#[test]
fn removals_of_a_value_that_changes_are_bounded() {
    expect_exhaustion(&Decision::Remove);
}

#[test]
fn moves_of_a_value_that_changes_are_bounded() {
    expect_exhaustion(&Decision::Store(vec![1; 100]));
}
