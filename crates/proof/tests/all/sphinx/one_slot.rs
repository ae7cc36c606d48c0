//! A client that reads one slot of a node follows an entry of the hash table to a node that was replaced.

use farwood_fabric::Client;
use farwood_index::mutant::Mutant;
use farwood_index::sphinx::{NodeReads, Sphinx, SphinxConfig};
use farwood_testkit::harness::Harness as _;
use farwood_testkit::loopback::{Loopback, LoopbackFabric};

/// Enough for all prefixes.
const FILTER_BYTES: usize = 1 << 10;
const SLOT_READ: &str = "radix: one slot read instead of a node";
const SLOT_UNPROVEN: &str = "radix: one slot of a node did not suffice";
/// Children of a node of 256 slots, and those with which it shrinks to 48.
const MANY: u8 = 60;
const FEW: u8 = 36;
/// A byte that was not used when the node had 256 slots.
const NEW: u8 = 200;

fn key(byte: u8) -> [u8; 4] {
    [9, byte, 1, 2]
}

/// A node with 256 slots that was replaced, and whose entry in the hash table was not; and a compute node that has read
/// slots of it.
struct Replaced {
    world: Loopback,
    client: Client<LoopbackFabric>,
    tree: Sphinx,
}

impl Replaced {
    fn new() -> Self {
        let world = Loopback::default();
        let (one, other) = (world.client(), world.client());
        let config = SphinxConfig::default();
        assert_eq!(config.options.node_reads, NodeReads::OneSlot);
        let mut first = world.block_on(Sphinx::create(&one, "slots", config, FILTER_BYTES)).expect("a tree");
        for byte in 0..MANY {
            world.block_on(first.put(&one, &key(byte), &[byte])).expect("a put");
        }
        let tree = world.block_on(Sphinx::open(&other, "slots", FILTER_BYTES)).expect("the tree");
        let replaced = Self { world, client: other, tree };
        // The first round teaches the filter the prefix.
        for _ in 0..2 {
            (0..MANY).for_each(|byte| assert_eq!(replaced.get(byte), Some(vec![byte])));
        }
        first.mutant(Mutant::EntryForgotten);
        for byte in FEW..MANY {
            replaced.world.block_on(first.remove(&one, &key(byte))).expect("a removal");
        }
        // A client without a filter begins at the root, and leaves the entry in the table alone.
        let third = replaced.world.client();
        let from_root = replaced.world.block_on(Sphinx::open(&third, "slots", 0)).expect("the tree");
        replaced.world.block_on(from_root.put(&third, &key(NEW), &[NEW])).expect("a put");
        assert_eq!(replaced.world.marked(SLOT_UNPROVEN), 0);
        replaced
    }

    fn get(&self, byte: u8) -> Option<Vec<u8>> {
        let found = self.world.block_on(self.tree.get(&self.client, &key(byte))).expect("a get");
        found.map(|value| value.to_vec())
    }
}

#[test]
fn a_slot_of_a_replaced_node_is_not_believed() {
    let replaced = Replaced::new();
    assert!(replaced.world.marked(SLOT_READ) >= u64::from(MANY));
    assert_eq!(replaced.get(NEW), Some(vec![NEW]));
    assert_eq!(replaced.world.marked(SLOT_UNPROVEN), 1, "the entry led to the replaced node");
    for byte in 0..=u8::MAX {
        let expected = (byte < FEW || byte == NEW).then(|| vec![byte]);
        assert_eq!(replaced.get(byte), expected, "{byte}");
    }
}

/// The canary: a client that believes the slot misses a key.
#[test]
fn a_client_that_believes_the_slot_is_noticed() {
    let mut replaced = Replaced::new();
    replaced.tree.mutant(Mutant::SlotTrusted);
    assert_eq!(replaced.get(NEW), None);
}
