//! Verification of the tree by id: every node belongs to the index and has the right hash and level, records are in
//! order and below the right child, payloads are whole, and the records are those of the items of the R*-tree.

use super::head::{ROOTS_BYTES, roots_of};
use super::records::blob::BlobWalk;
use super::records::node::RecordNode;
use super::records::page::{StoredPayload, StoredRecord, blobs_layout, decode_blob};
use super::tree::layout::NodeRef;
use super::verify::Verifier;
use crate::error::IndexError;
use farwood_fabric::{Fabric, Words, read_bytes};

/// A node to visit, the level of its parent, and the words that may be below it: at least the first, less than the
/// second.
struct Expected {
    node: u64,
    below: Option<u8>,
    words: (u64, Option<u64>),
}

/// The word and the edges of an item.
pub(super) type ItemKey = (u64, [u64; 4]);

impl<F: Fabric> Verifier<'_, F> {
    /// Visits the tree by id. `items`: those of the R*-tree. [1 RT for each node, and 1]
    pub(super) async fn check_records(&mut self, mut items: Vec<ItemKey>) -> Result<(), IndexError> {
        let head = self.tree.head;
        let words = self.client.post(read_bytes(head.part::<Words>(0), ROOTS_BYTES)).await?;
        let Ok(words) = words.check(&()) else { unreachable!("words are never torn") };
        let Some((_, root)) = roots_of(&words) else {
            self.note(&head.to_string(), "it does not name the tree by id of its root".to_owned());
            return Ok(());
        };
        let mut found = Vec::new();
        let mut stack = vec![Expected { node: root, below: None, words: (0, None) }];
        while let Some(expected) = stack.pop() {
            self.visit_record_node(&expected, &mut stack, &mut found).await?;
        }
        items.sort_unstable();
        found.sort_unstable();
        if items != found {
            let (items, records) = (items.len(), found.len());
            let what = format!("the {records} records are not those of the {items} items");
            self.note(&head.to_string(), what);
        }
        self.report.records = found.len() as u64;
        Ok(())
    }

    async fn visit_record_node(
        &mut self,
        expected: &Expected,
        stack: &mut Vec<Expected>,
        found: &mut Vec<ItemKey>,
    ) -> Result<(), IndexError> {
        let layout = self.tree.layout;
        let Some((at, bytes)) = self.record_bytes(expected.node).await? else { return Ok(()) };
        match RecordNode::decode(&bytes, &layout, expected.below) {
            Err(what) => self.note(&at, what),
            Ok(RecordNode::Inner(level, children)) => {
                for (position, child) in children.iter().enumerate() {
                    let least = if position == 0 { expected.words.0 } else { child.least };
                    let above = children.get(position + 1).map_or(expected.words.1, |next| Some(next.least));
                    stack.push(Expected { node: child.word, below: Some(level), words: (least, above) });
                }
                if children.is_empty() {
                    self.note(&at, "it has no children".to_owned());
                }
            }
            Ok(RecordNode::Page(records)) => {
                let (least, above) = expected.words;
                for StoredRecord { id, bounds, payload } in records {
                    let word = id.word();
                    if word < least || above.is_some_and(|above| word >= above) {
                        self.note(&at, format!("the record of {id} belongs into another page"));
                    }
                    found.push((word, bounds.edges().map(f64::to_bits)));
                    if let StoredPayload::Blob(root, bytes) = payload
                        && let Err(what) = self.check_blob(root, bytes).await?
                    {
                        self.note(&at, format!("the payload of {id}: {what}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads a node of the tree by id or of a blob, and notes where it is; `None`: there is none, which is noted.
    async fn record_bytes(&mut self, word: u64) -> Result<Option<(String, Vec<u8>)>, IndexError> {
        let head = self.tree.head.to_string();
        let Some(node) = NodeRef::from_word(word) else {
            self.note(&head, format!("a reference of the tree by id is {word:#x}"));
            return Ok(None);
        };
        let at = self.tree.layout.at(node).to_string();
        if !self.seen.insert(node.offset()) {
            self.note(&at, "it has two parents".to_owned());
            return Ok(None);
        }
        let Some(copy) = self.fetch(node).await? else {
            self.note(&at, format!("it is not {node:?}, or not whole"));
            return Ok(None);
        };
        self.reached.add(self.tree.layout.at(node));
        Ok(Some((at, copy.to_vec())))
    }

    async fn check_blob(&mut self, root: u64, bytes: u32) -> Result<Result<(), String>, IndexError> {
        let layout = self.tree.layout;
        let mut walk = match BlobWalk::new(&layout, root, bytes) {
            Ok(walk) => walk,
            Err(what) => return Ok(Err(what)),
        };
        while !walk.wanted().is_empty() {
            let (level, mut nodes) = (walk.level(), Vec::new());
            for &node in walk.wanted() {
                let Some((_, bytes)) = self.record_bytes(node.word()).await? else {
                    return Ok(Err(format!("it is not whole, {node:?} is missing")));
                };
                if let Err(what) = decode_blob(&bytes, &blobs_layout(&layout), level) {
                    return Ok(Err(what));
                }
                nodes.push(bytes);
            }
            if let Err(what) = walk.add(nodes.iter().map(Vec::as_slice)) {
                return Ok(Err(what));
            }
        }
        Ok(walk.payload().map(drop))
    }
}
