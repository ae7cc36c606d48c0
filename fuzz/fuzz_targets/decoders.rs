//! The decoders of objects in far memory: for arbitrary bytes none panics, neither in the check nor in an access to an
//! object that passed it. `fuzz/run 60 decoders`
#![no_main]

use farwood_fabric::client_table::{AttachedClient, CLIENT_SLOT_BYTES};
use farwood_fabric::directory::{DIRECTORY_ENTRY_BYTES, Entry};
use farwood_fabric::{LockWord, Memory, NodeId, Object, Packed, PoolShape, Remote, SealedWord};
use farwood_index::catfish::layout::{self, ExpectedNode, NodeRef, Scheme};
use farwood_index::catfish::{Hit, NodeCopy, Query, Rectangle, Relation};
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
use farwood_transport::shm::{JournaledWrite, Mapping};
use libfuzzer_sys::fuzz_target;
use std::fs::File;
use std::sync::LazyLock;

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
    for is_typed in [false, true] {
        let format = InnerFormat { number: 1, is_typed };
        if bytes.len() >= 72 && RawInner::check(&bytes[..72], &format).is_ok() {
            let node = Inner::new(&bytes[..72]);
            // A client reads a copy that lacks slots in use again.
            let _ = (!node.is_short()).then(|| node.children());
        }
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

/// An entry of the directory and a slot of the client table, as they are, and with what makes the decoders read on: a
/// state and a seal that match.
fn tables(bytes: &[u8]) {
    let mut slot = [0; CLIENT_SLOT_BYTES];
    let length = bytes.len().min(slot.len());
    slot[..length].copy_from_slice(&bytes[..length]);
    let _ = AttachedClient::decode(7, &slot);
    let mut entry = [0; DIRECTORY_ENTRY_BYTES];
    let length = bytes.len().min(entry.len());
    entry[..length].copy_from_slice(&bytes[..length]);
    let _ = Entry::decode(7, &entry);
    let at = Remote::new(NodeId(0), Memory::Host, 256 + 7 * DIRECTORY_ENTRY_BYTES as u64).expect("an offset");
    let state = SealedWord::new(at).seal(u64::from(bytes.first().copied().unwrap_or(2) % 5));
    entry[..8].copy_from_slice(&state.to_le_bytes());
    let seal = Entry::seal_of(&entry);
    entry[16..24].copy_from_slice(&seal.to_le_bytes());
    if let Ok(Some(entry)) = Entry::decode(7, &entry) {
        assert!(!entry.name.chars().any(char::is_control) && entry.open_bit() == 1 << 7);
        let _ = (farwood_index::ordered::describe(&entry), farwood_index::catfish::describe(&entry));
    }
}

/// A node of Catfish, as it is, and with versions, index and level that make the decoders read on.
fn spatial(bytes: &[u8]) {
    let node = NodeId(0);
    let layout = layout::Layout { blocks: 2, node, index: INDEX, scheme: Scheme::Pair, ring_bytes: 1024 };
    let mut copy = vec![0; layout.node_bytes()];
    let length = bytes.len().min(copy.len());
    copy[..length].copy_from_slice(&bytes[..length]);
    spatial_copy(&copy, &layout);
    copy[8] %= 3;
    (copy[10], copy[11]) = (copy[10] % 16, 0);
    copy[16..24].copy_from_slice(&INDEX.to_le_bytes());
    spatial_copy(&copy, &layout);
}

fn spatial_copy(copy: &[u8], layout: &layout::Layout) {
    let words = [&copy[..8], &copy[copy.len() - 8..]];
    let [first, _] = words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    if let Some(node) = NodeRef::from_word(first << 32 | 2) {
        let passed = [Scheme::Pair, Scheme::Lines]
            .map(|scheme| layout::RawNode::check(copy, &ExpectedNode::new(node, scheme)).is_ok());
        assert!(passed[0] || !passed[1], "a node whose lines all match has both versions");
    }
    let _ = NodeCopy::verified(copy, layout, None);
    farwood_index::catfish::decode_records_of(copy, layout);
    for below in [None, Some(1)] {
        let Ok(node) = NodeCopy::new(copy, layout, below) else { continue };
        for relation in [Relation::Intersects, Relation::Within, Relation::Contains] {
            let window = Rectangle::new([-1.0, -1.0], [1.0, 1.0]).expect("a rectangle");
            let _ = node.search(&Query { window, relation }, |hit| match hit {
                Hit::Item(item) => assert!(node.level() == 0 && item.bounds.min() == item.bounds.min()),
                Hit::Child(child, level) => assert!(child.generation() > 0 && level == node.level()),
            });
        }
        let _ = node.nearest([0.5, f64::MAX], 3);
    }
}

/// Memory of 4 KiB for the WRITEs of a journal.
static MEMORY: LazyLock<Mapping> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("farwood-fuzz-{}", std::process::id()));
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).open(&path).expect("a temporary file");
    let _ = std::fs::remove_file(&path);
    file.set_len(4096).expect("a file of 4 KiB");
    Mapping::new(&file, 4096).expect("a mapping")
});

/// A buffer of the journal, as it is, and with a state that matches.
fn journal(bytes: &[u8]) {
    let Some((words, data)) = bytes.split_at_checked(32) else { return };
    let words = words.as_chunks().0;
    let [state, node, offset, length] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]));
    let target = [node, offset, length];
    assert!(JournaledWrite::data_bytes(target) <= 256 << 10);
    let data = &data[..JournaledWrite::data_bytes(target).min(data.len())];
    let _ = JournaledWrite::decode(state, target, data);
    let Ok(node) = usize::try_from(node) else { return };
    let write = JournaledWrite { node, offset, bytes: data };
    let target = [node as u64, offset, data.len() as u64];
    assert_eq!(JournaledWrite::decode(write.state(), target, data), Some(write));
    let fits = offset.checked_add(data.len() as u64).is_some_and(|end| end <= 4096);
    assert_eq!(MEMORY.write_up(offset, data).is_ok(), fits);
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
    tables(bytes);
    spatial(bytes);
    journal(bytes);
});
