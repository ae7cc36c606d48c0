//! Fuzzing: decoding and searching arbitrary bytes of far memory neither panics nor loops forever.

use super::cached::CachedInner;
use super::inner::Added;
use super::layout::{COUNT, FLAGS, INDEX, LEVEL, Layout, Sizes};
use super::leaf::Change;
use super::node::{Node, RawNode};
use super::options::Leaves;
use crate::consistency::Consistency;
use farwood_fabric::{Object, Remote};
use proptest::prelude::*;

const NUMBER: u64 = 5;

fn layouts() -> impl Strategy<Value = Layout> {
    let leaves = prop_oneof![Just(Leaves::Sorted), Just(Leaves::TwoLevel)];
    let consistency = prop_oneof![
        Just(Consistency::Versions),
        Just(Consistency::ByteVersions),
        Just(Consistency::Checksum)
    ];
    let sizes = (prop_oneof![Just(8usize), 9..40usize], 0..24usize);
    (sizes, leaves, consistency).prop_map(|((key_bytes, value_bytes), leaves, consistency)| {
        let sizes = Sizes { key_bytes, value_bytes, node_bytes: 512 };
        let of_entries = consistency == Consistency::ByteVersions;
        let leaves = if of_entries { Leaves::TwoLevel } else { leaves };
        Layout::new(sizes, leaves, consistency, NUMBER).expect("these sizes fit")
    })
}

/// Arbitrary bytes with a header that passes the check more often than random bytes would, and with repeated words, so
/// that keys and versions are sometimes equal.
fn nodes() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![3 => Just(0u64), 3 => Just(2 << 32 | 2), 2 => 0..300u64, 2 => any::<u64>()];
    let header = (0..3u8, 0..4u8, 0..40u16);
    (prop::collection::vec(word, 64), header).prop_map(|(words, (level, flags, count))| {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes[LEVEL] = level;
        bytes[FLAGS] = flags;
        bytes[COUNT..COUNT + 2].copy_from_slice(&count.to_le_bytes());
        bytes[INDEX..INDEX + 8].copy_from_slice(&NUMBER.to_le_bytes());
        bytes
    })
}

fn search_inner(node: &mut Node<'_, Vec<u8>>, key: &[u8], at: Remote<RawNode>) {
    let cached = CachedInner::copy(at, node);
    if cached.covers(key) {
        let _ = cached.child(cached.child_covering(key));
    }
    assert!(node.child_covering(key) <= node.count());
    if node.add_child(key, at) == Added::Full {
        node.split_inner(at);
    }
}

fn search_leaf(node: &mut Node<'_, Vec<u8>>, key: &[u8], value: &[u8], at: Remote<RawNode>) {
    let mut slots = Vec::new();
    if node.find(key).is_ok() && node.sorted_slots(&mut slots).is_ok() {
        assert!(slots.iter().all(|&slot| usize::from(slot) < node.capacity()));
    }
    for change in [Change::Remove, Change::Update(value), Change::Insert(value), Change::Put(value)] {
        let _ = node.place(key, change);
    }
    if slots.len() == node.capacity() {
        let _ = node.split_leaf(at, key, value);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn arbitrary_bytes_cause_no_panic(
        layout in layouts(),
        bytes in nodes(),
        key in prop::collection::vec(any::<u8>(), 40),
    ) {
        let _ = RawNode::check(&bytes, &layout);
        let (key, value) = (&key[..layout.key_bytes], vec![1; layout.value_bytes]);
        let at = Remote::from_word(4096).expect("it is not null");
        if let Ok(mut node) = Node::decode(&layout, bytes) {
            let _ = (node.is_left_of(key), node.is_right_of(key), node.sibling(), node.version());
            match node.level() {
                0 => search_leaf(&mut node, key, &value, at),
                _ => search_inner(&mut node, key, at),
            }
        }
    }
}
