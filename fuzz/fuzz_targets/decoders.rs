//! The decoders of objects in far memory: for arbitrary bytes none panics, neither in the check nor in an access to an
//! object that passed it. `fuzz/run 60 decoders`
#![no_main]

use farwood_fabric::{LockWord, Memory, NodeId, Object, Packed, PoolShape, Remote, SealedWord};
use farwood_index::catfish::layout::NodeRef;
use farwood_index::consistency::Consistency;
use farwood_index::memory::overflow::{self, Link};
use farwood_index::radix::inner::{Inner, InnerFormat, NodeHeader, RawInner};
use farwood_index::radix::leaf::{Leaf, LeafFormat, RawLeaf};
use farwood_index::radix::reverse::Reverse;
use farwood_index::radix::slot::NodeSlot;
use farwood_index::sherman::layout::{Layout, Sizes};
use farwood_index::sherman::node::{Node, RawNode};
use farwood_index::sherman::options::Leaves;
use farwood_index::sphinx::table::layout::{BucketHeader, DepthPointer, RawBuckets, RawSubtable, TableEntry};
use libfuzzer_sys::fuzz_target;

const SIZES: Sizes = Sizes { key_bytes: 8, value_bytes: 8, node_bytes: 256 };
const INDEX: u64 = 1;

/// A word of far memory: pointers, lock words, slots, entries of tables.
fn word(word: u64) {
    if let Some(pointer) = Remote::<u64>::from_word(word) {
        let part = pointer.part::<u64>(word);
        assert_eq!(part.node(), pointer.node());
        let _ = Packed::accepts(part);
    }
    let at = Remote::new(NodeId(0), Memory::Host, 256).expect("offset 256 is a legal one");
    let sealed = SealedWord::new(at);
    let _ = (sealed.open(word), sealed.open_pointer::<u64>(word), LockWord::from_word(word).holder());
    let _ = (NodeSlot::from_word(word).child(), Reverse::from_word(word).is_linked());
    let header = NodeHeader::from_word(word);
    let _ = (header.state(), header.size(), header.depth());
    let _ = TableEntry::from_word(word).and_then(TableEntry::node);
    let _ = (DepthPointer::<RawSubtable>::from_word(word), BucketHeader::from_word(word).depth());
    let _ = NodeRef::from_word(word).map(NodeRef::offset);
}

/// A node of Sherman. The first bytes are made those of a node, so that the decoder passes some.
fn node(bytes: &[u8], consistency: Consistency, leaves: Leaves) {
    let Ok(layout) = Layout::new(SIZES, leaves, consistency, INDEX) else { return };
    let mut copy = vec![0; layout.node_bytes];
    let length = bytes.len().min(copy.len());
    copy[..length].copy_from_slice(&bytes[..length]);
    copy[24..32].copy_from_slice(&INDEX.to_le_bytes());
    let _ = RawNode::check(&copy, &layout);
    let Ok(node) = Node::decode(&layout, copy) else { return };
    let _ = (node.sibling(), node.lower(), node.upper(), node.version());
    if node.level() > 0 {
        let child = node.child_covering(&[0x55; 8]);
        let _ = (0..=node.count()).map(|at| node.child(at)).nth(child);
    } else {
        let _ = (node.find(&[0x55; 8]), node.used(), node.sorted_slots(&mut Vec::new()));
    }
}

/// Objects of radix trees and overflow objects: words, whole.
fn objects(bytes: &[u8]) {
    if bytes.len() >= 72 && RawInner::check(&bytes[..72], &InnerFormat { number: 1 }).is_ok() {
        let _ = Inner::new(&bytes[..72]).children();
    }
    if bytes.len() >= 64 && RawLeaf::check(bytes, &LeafFormat { number: 1 }).is_ok() {
        let leaf = Leaf::new(bytes);
        let _ = (leaf.key(), leaf.value(), leaf.state(), leaf.link());
    }
    if bytes.len() >= 64 {
        let _ = (overflow::stored_slot_bytes(bytes), Link::from_bytes(bytes), RawBuckets::check(bytes, &1));
        let _ = PoolShape::from_header(NodeId(0), &bytes[..64]);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let whole = &bytes[..bytes.len() / 8 * 8];
    for chunk in whole.chunks_exact(8) {
        word(u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
    }
    for consistency in [Consistency::Versions, Consistency::Checksum] {
        for leaves in [Leaves::Sorted, Leaves::TwoLevel] {
            node(bytes, consistency, leaves);
        }
    }
    objects(whole);
});
