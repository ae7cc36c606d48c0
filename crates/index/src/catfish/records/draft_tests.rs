//! Drafts of the tree by id, against a map.

use super::super::tree::layout::{Layout, NodeRef, Scheme, bytes_of};
use super::super::tree::rectangle::Rectangle;
use super::draft::RecordDraft;
use super::finished::FinishedRecords;
use super::node::{RecordNode, StoredRecordNodes, read_blob, visit_blob};
use super::page::{StoredPayload, StoredRecord, blobs_layout, decode_blob, page_image, records_of};
use super::{Record, RecordId};
use crate::error::IndexError;
use farwood_fabric::NodeId;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The bytes of stored nodes.
struct Stored {
    layout: Layout,
    nodes: BTreeMap<u64, Vec<u8>>,
}

impl StoredRecordNodes for Stored {
    fn load_node(&self, word: u64, below: Option<u8>) -> Result<(NodeRef, RecordNode), IndexError> {
        let node = RecordNode::decode(&self.nodes[&word], &self.layout, below).unwrap();
        Ok((NodeRef::from_word(word).unwrap(), node))
    }

    fn load_blob(&self, node: NodeRef, level: u8) -> Result<Vec<u8>, IndexError> {
        let bytes = &self.nodes[&node.word()];
        decode_blob(bytes, &blobs_layout(&self.layout), level).unwrap();
        Ok(bytes.clone())
    }
}

/// A tree in memory.
struct Tree {
    stored: Stored,
    root: NodeRef,
    slots: u64,
}

impl Tree {
    fn new() -> Self {
        let layout =
            Layout { blocks: 5, node: NodeId(0), index: 1, scheme: Scheme::Lines, ring_bytes: 1 << 16 };
        let root = NodeRef::new(64, 1);
        let mut tree = Self { stored: Stored { layout, nodes: BTreeMap::new() }, root, slots: 1 };
        tree.store(root, page_image(&layout, root, &[]));
        tree
    }

    fn store(&mut self, at: NodeRef, words: Vec<u64>) {
        let count = words.len();
        self.stored.nodes.insert(at.word(), bytes_of(words, count));
    }

    fn commit(&mut self, finished: FinishedRecords) {
        let slots: Vec<_> =
            (1..=finished.slots() as u64).map(|slot| NodeRef::new(64 * (self.slots + slot), 1)).collect();
        self.slots += slots.len() as u64;
        let placed = finished.place(&self.stored.layout.clone(), &slots);
        for (at, words) in placed.nodes {
            self.store(at, words);
        }
        for gone in placed.retired {
            assert!(self.stored.nodes.remove(&gone.word()).is_some(), "each node is retired once");
        }
        self.root = placed.root;
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut RecordDraft<'_, Stored>) -> T) -> T {
        let mut draft = RecordDraft::of(&self.stored.layout, &self.stored, self.root);
        let done = change(&mut draft);
        let finished = draft.finish();
        self.commit(finished);
        done
    }

    fn record(&self, stored: &StoredRecord, seen: &mut usize) -> Record {
        let payload = match &stored.payload {
            StoredPayload::Inline(payload) => payload.clone(),
            StoredPayload::Blob(root, bytes) => {
                visit_blob(&self.stored.layout, &self.stored, (*root, *bytes), |_| *seen += 1).unwrap();
                read_blob(&self.stored.layout, &self.stored, (*root, *bytes)).unwrap()
            }
        };
        Record { id: stored.id.clone(), bounds: stored.bounds, payload }
    }

    /// Checks the tree below a node, whose words are at least `least` and less than `above`; yields its records.
    fn walk(
        &self,
        (word, below): (u64, Option<u8>),
        (least, above): (u64, Option<u64>),
        seen: &mut usize,
    ) -> Vec<Record> {
        *seen += 1;
        let (_, node) = self.stored.load_node(word, below).unwrap();
        assert!(below.is_none() || !node.is_empty(), "an empty node");
        match node {
            RecordNode::Page(records) => {
                for record in &records {
                    let word = record.id.word();
                    assert!(word >= least && above.is_none_or(|above| word < above), "{word} is misplaced");
                }
                records.iter().map(|record| self.record(record, seen)).collect()
            }
            RecordNode::Inner(level, children) => {
                let mut records = Vec::new();
                for (position, child) in children.iter().enumerate() {
                    let least = if position == 0 { least } else { child.least };
                    let above = children.get(position + 1).map_or(above, |next| Some(next.least));
                    records.extend(self.walk((child.word, Some(level)), (least, above), seen));
                }
                records
            }
        }
    }

    /// All records; checks every invariant.
    fn records(&self) -> BTreeMap<RecordId, Record> {
        let mut seen = 0;
        let records = self.walk((self.root.word(), None), (0, None), &mut seen);
        assert_eq!(seen, self.stored.nodes.len(), "every node is reachable");
        let count = records.len();
        let records: BTreeMap<_, _> = records.into_iter().map(|record| (record.id.clone(), record)).collect();
        assert_eq!(records.len(), count, "every id is there once");
        records
    }

    fn get(&self, id: &RecordId) -> Option<Record> {
        let draft = RecordDraft::of(&self.stored.layout, &self.stored, self.root);
        let stored = draft.get(id).unwrap()?;
        Some(self.record(&stored, &mut 0))
    }
}

fn id() -> impl Strategy<Value = RecordId> {
    prop_oneof![
        4 => (0..300u64).prop_map(|number| RecordId::Number(number << 56 | number)),
        4 => (0..300u64).prop_map(|number| RecordId::from(&*format!("text {number}"))),
        1 => (0..3u64).prop_map(|number| RecordId::from(&*format!("same {number}"))),
    ]
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let lengths = prop_oneof![6 => 0..40usize, 3 => 200..400usize, 1 => 1_300..9_000usize];
    (lengths, any::<u8>()).prop_map(|(length, byte)| (0..length).map(|at| byte ^ at as u8).collect())
}

fn bounds(at: u32) -> Rectangle {
    Rectangle::new([at.into(), -1.0], [f64::from(at) + 0.5, 2.0]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// The tree holds the same records as a map after any changes, and keeps its invariants.
    #[test]
    fn a_tree_holds_the_records_of_a_map(
        batches in prop::collection::vec(
            prop::collection::vec((id(), 0..9u32, any::<u32>(), payload()), 1..60),
            1..30,
        ),
    ) {
        let (mut tree, mut map) = (Tree::new(), BTreeMap::<RecordId, Record>::new());
        for (number, batch) in batches.into_iter().enumerate() {
            let removes = if number % 3 == 2 { 7 } else { 2 };
            tree.change(|draft| {
                for (id, kind, at, payload) in batch {
                    let old = map.get(&id).map(|record| record.bounds);
                    if kind < removes {
                        let removed = draft.remove(&id).unwrap();
                        assert_eq!(removed.map(|record| record.bounds), old);
                        map.remove(&id);
                    } else if kind == 8 {
                        assert_eq!(draft.set_bounds(&id, bounds(at)).unwrap(), old);
                        map.entry(id).and_modify(|record| record.bounds = bounds(at));
                    } else {
                        let record = Record { id: id.clone(), bounds: bounds(at), payload };
                        let replaced = draft.put(&record).unwrap();
                        assert_eq!(replaced.map(|record| record.bounds), old);
                        map.insert(id, record);
                    }
                }
            });
            prop_assert_eq!(&tree.records(), &map);
        }
        for id in map.keys() {
            prop_assert_eq!(&tree.get(id), &map.get(id).cloned());
        }
        for id in map.into_keys() {
            prop_assert!(tree.change(|draft| draft.remove(&id).unwrap().is_some()));
        }
        prop_assert_eq!((tree.records().len(), tree.stored.nodes.len()), (0, 1));
    }

    /// A tree that was loaded at once holds the records, and takes changes.
    #[test]
    fn a_loaded_tree_holds_the_records(
        records in prop::collection::vec((id(), payload()), 0..600),
        fill in 0.3..1.0f64,
    ) {
        let record = |(id, payload): (RecordId, Vec<u8>)| Record { id, bounds: bounds(1), payload };
        let map: BTreeMap<_, _> = records.into_iter().map(record).map(|one| (one.id.clone(), one)).collect();
        let mut sorted: Vec<_> = map.values().cloned().collect();
        sorted.sort_by(|one, other| (one.id.word(), &one.id).cmp(&(other.id.word(), &other.id)));
        let mut tree = Tree::new();
        let draft = RecordDraft::of(&tree.stored.layout, &tree.stored, tree.root);
        let finished = draft.load(sorted, fill).unwrap();
        tree.commit(finished);
        prop_assert_eq!(&tree.records(), &map);
        // Smaller words than any before split the first page of each level.
        let small = |word: u64| {
            Record { id: RecordId::Number(word), bounds: bounds(2), payload: vec![2; 250] }
        };
        for word in 300..500 {
            tree.change(|draft| draft.put(&small(word)).unwrap());
        }
        prop_assert_eq!(tree.records().len(), map.len() + 200);
        for word in 300..500 {
            prop_assert!(tree.get(&RecordId::Number(word)).is_some());
            tree.change(|draft| draft.remove(&RecordId::Number(word)).unwrap());
        }
        prop_assert_eq!(&tree.records(), &map);
        for (number, (id, one)) in map.iter().enumerate() {
            if number % 2 == 0 {
                tree.change(|draft| draft.remove(id).unwrap());
            } else {
                tree.change(|draft| draft.put(&Record { payload: vec![1; 300], ..one.clone() }).unwrap());
            }
        }
        prop_assert_eq!(tree.records().len(), map.len() / 2);
    }
}

#[test]
fn ids_with_one_hash_beyond_a_node_are_refused() {
    let tree = Tree::new();
    let record = |number: usize| Record {
        id: RecordId::from(&*format!("same {number}")),
        bounds: bounds(0),
        payload: vec![7; 100],
    };
    let mut draft = RecordDraft::of(&tree.stored.layout, &tree.stored, tree.root);
    let refused = (0..100).find_map(|number| draft.put(&record(number)).err());
    assert!(matches!(refused, Some(IndexError::SameHash)), "{refused:?}");
}

#[test]
fn a_damaged_page_is_described() {
    let layout = Tree::new().stored.layout;
    let at = NodeRef::new(64, 1);
    let record =
        |id: RecordId| StoredRecord { id, bounds: bounds(3), payload: StoredPayload::Inline(vec![9; 11]) };
    let records = [record(RecordId::Number(4)), record(RecordId::from("oak"))];
    let words = page_image(&layout, at, &records);
    let bytes = bytes_of(words.iter().copied(), words.len());
    assert_eq!(records_of(&bytes, &layout, 2).unwrap(), records);
    assert!(records_of(&bytes, &layout, 3).unwrap_err().contains("counts 3"));
    for position in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[position] ^= flip;
            let _ = records_of(&bytes, &layout, 2);
        }
    }
}
