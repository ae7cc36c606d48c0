//! As many removals as insertions, many times the size of the tree: the memory of the tree does not grow.

use farwood_fabric::{Client, NodeId, chunks};
use farwood_index::sherman::layout::Sizes;
use farwood_index::sherman::{Sherman, ShermanConfig, ShermanVariant};
use farwood_testkit::Harness as _;
use farwood_testkit::harness::TestRng;
use farwood_testkit::loopback::{Loopback, LoopbackFabric};

const KEYS: u64 = 10_000;
/// Changes of each kind, per key of the tree.
const TIMES: u64 = 10;
const CACHE_BYTES: usize = 1 << 20;
const SIZES: Sizes = Sizes { key_bytes: 8, value_bytes: 8, node_bytes: 512 };

struct Churned {
    loopback: Loopback,
    client: Client<LoopbackFabric>,
    tree: Sherman,
}

impl Churned {
    fn new(variant: ShermanVariant) -> Self {
        let loopback = Loopback::default();
        let client = loopback.client();
        let config = ShermanConfig { sizes: SIZES, options: variant.features(), ..ShermanConfig::default() };
        let tree = loopback.block_on(Sherman::create(&client, "churn", config, CACHE_BYTES));
        Self { tree: tree.expect("a tree is created"), loopback, client }
    }

    fn insert(&self, key: u64) {
        let bytes = key.to_be_bytes();
        let inserted = self.tree.insert(&self.client, &bytes, &bytes);
        assert!(self.loopback.block_on(inserted).expect("an insert").inserted(), "{key} is new");
    }

    fn remove(&self, key: u64) {
        let bytes = key.to_be_bytes();
        let removed = self.tree.remove(&self.client, &bytes);
        assert!(self.loopback.block_on(removed).expect("a removal").removed(), "{key} was present");
    }

    /// Counts the nodes of the tree; checks its invariants, and that no other node is allocated.
    fn nodes(&self, keys: u64) -> u64 {
        let walk = self.loopback.block_on(self.tree.walk(&self.client)).expect("a walk");
        assert_eq!((walk.problems, walk.entries, walk.half_linked, walk.half_merged), (vec![], keys, 0, 0));
        let nodes: u64 = walk.nodes.iter().sum();
        assert_eq!(self.tree.nodes_allocated() + 1, nodes.cast_signed(), "the root was allocated before");
        nodes
    }

    /// Number of chunks that were taken.
    fn chunks(&self) -> u64 {
        let nodes = 0..self.loopback.shape().nodes;
        let taken = nodes.map(|node| self.loopback.block_on(chunks::taken(&self.client, NodeId(node))));
        taken.map(|taken| taken.expect("a READ")).sum()
    }
}

/// A key from a number: different numbers give different keys, spread over all bits.
fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[test]
fn random_insertions_and_removals_need_no_further_memory() {
    for variant in [ShermanVariant::Sherman, ShermanVariant::Combine] {
        let churned = Churned::new(variant);
        let mut keys: Vec<u64> = (0..KEYS).map(spread).collect();
        for &key in &keys {
            churned.insert(key);
        }
        let (nodes, chunks) = (churned.nodes(KEYS), churned.chunks());
        let mut random = TestRng::new(7);
        for number in KEYS..KEYS + TIMES * KEYS {
            let gone = random.below(KEYS) as usize;
            churned.remove(keys[gone]);
            keys[gone] = spread(number);
            churned.insert(keys[gone]);
        }
        let after = churned.nodes(KEYS);
        assert!(after * 10 <= nodes * 11, "{variant}: {nodes} nodes became {after}");
        assert_eq!(churned.chunks(), chunks, "{variant}");
    }
}

/// Keys are inserted at one end and removed at the other, so that every leaf is emptied.
#[test]
fn a_sliding_window_of_keys_needs_no_further_memory() {
    let churned = Churned::new(ShermanVariant::Sherman);
    for key in 0..KEYS {
        churned.insert(key);
    }
    let (nodes, chunks) = (churned.nodes(KEYS), churned.chunks());
    for key in KEYS..KEYS + TIMES * KEYS {
        churned.insert(key);
        churned.remove(key - KEYS);
    }
    let after = churned.nodes(KEYS);
    assert!(after * 10 <= nodes * 11, "{nodes} nodes became {after}");
    assert_eq!(churned.chunks(), chunks);
}

/// A tree that is emptied becomes one leaf, and its memory is free for other compute nodes.
#[test]
fn an_emptied_tree_frees_its_memory_for_other_compute_nodes() {
    let churned = Churned::new(ShermanVariant::Sherman);
    for key in 0..KEYS {
        churned.insert(spread(key));
    }
    let (nodes, chunks) = (churned.nodes(KEYS), churned.chunks());
    for key in 0..KEYS {
        churned.remove(spread(key));
    }
    let left = churned.nodes(0);
    assert!(left <= 3, "{nodes} nodes became {left}");
    churned.loopback.block_on(churned.tree.leave(&churned.client)).expect("the compute node leaves");
    let client = churned.loopback.separate_client();
    let tree =
        churned.loopback.block_on(Sherman::open(&client, "churn", CACHE_BYTES)).expect("the tree exists");
    for key in (0..KEYS).map(|key| spread(key).to_be_bytes()) {
        churned.loopback.block_on(tree.put(&client, &key, &key)).expect("a put");
    }
    // The tree takes one further chunk, because the slots of roots are not reused.
    assert_eq!(churned.chunks(), chunks + 1, "the other compute node reuses the freed memory");
}
