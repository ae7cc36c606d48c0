//! Lookups of several records at once: what one node of the tree by id contributes, and the records of items. All
//! functions are pure.
//!
//! The words that a lookup wants descend together: each node divides its words among its children, so a lookup reads
//! each node once, however many of its records it wants.

use super::super::tree::filter::entries;
use super::super::tree::layout::{Layout, NodeRef, damage_of, head_of};
use super::super::tree::rectangle::Item;
use super::page::{StoredRecord, child_for, children_of, records_layout, records_with};
use std::collections::BTreeMap;

/// A node to read: its reference, the level of its parent, and the words that are wanted below it, sorted and
/// different.
pub(in crate::catfish) struct WantedNode {
    pub(in crate::catfish) node: NodeRef,
    pub(in crate::catfish) below: Option<u8>,
    pub(in crate::catfish) words: Vec<u64>,
}

impl WantedNode {
    /// The root of a lookup of `words`.
    pub(in crate::catfish) fn root(node: NodeRef, mut words: Vec<u64>) -> Self {
        words.sort_unstable();
        words.dedup();
        Self { node, below: None, words }
    }
}

/// The stored records with the words that a lookup wants.
#[derive(Debug, Default)]
pub(in crate::catfish) struct FoundRecords(BTreeMap<u64, Vec<StoredRecord>>);

impl FoundRecords {
    /// Adds what a copy of a wanted node has: records of a page, or children of an inner node, which `wanted` gets.
    ///
    /// # Errors
    /// Describes the damage of the node.
    pub(in crate::catfish) fn add(
        &mut self,
        copy: &[u8],
        layout: &Layout,
        from: &WantedNode,
        wanted: &mut Vec<WantedNode>,
    ) -> Result<(), String> {
        let head = head_of(&copy);
        let damage = damage_of(copy).or_else(|| head.contradiction(&records_layout(layout), from.below));
        damage.map_or(Ok(()), Err)?;
        if head.level == 0 {
            let is_wanted = |word| from.words.binary_search(&word).is_ok();
            for record in records_with(copy, layout, head.entries, is_wanted)? {
                self.0.entry(record.id.word()).or_default().push(record);
            }
            return Ok(());
        }
        let children = children_of(entries(&copy, head.entries))?;
        let of_child = |word: &u64| child_for(&children, *word);
        for words in from.words.chunk_by(|one, other| of_child(one) == of_child(other)) {
            let child = children.get(of_child(&words[0])).and_then(|child| NodeRef::from_word(child.word));
            let node = child.ok_or("it has no children")?;
            wanted.push(WantedNode { node, below: Some(head.level), words: words.to_vec() });
        }
        Ok(())
    }

    /// The records of a word.
    pub(in crate::catfish) fn with_word(mut self, word: u64) -> Vec<StoredRecord> {
        self.0.remove(&word).unwrap_or_default()
    }

    /// The records of items that a search of the same version found, in their order.
    ///
    /// # Errors
    /// Describes an item without a record.
    pub(in crate::catfish) fn of_items(mut self, items: &[Item]) -> Result<Vec<StoredRecord>, String> {
        let record = |item: &Item| {
            let of_word = self.0.entry(item.id).or_default();
            // Records with the same word and the same bounds are as many equal items.
            let position = of_word.iter().position(|record| record.bounds == item.bounds);
            let missing = || format!("it has no record of item {} at {}", item.id, item.bounds);
            position.map(|position| of_word.remove(position)).ok_or_else(missing)
        };
        items.iter().map(record).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tree::layout::{Scheme, bytes_of};
    use super::super::super::tree::rectangle::Rectangle;
    use super::super::RecordId;
    use super::super::page::{StoredPayload, page_image};
    use super::*;
    use farwood_fabric::NodeId;

    fn record(id: &str, x: f64) -> StoredRecord {
        let bounds = Rectangle::point([x, 0.0]).unwrap();
        StoredRecord {
            id: RecordId::from(id),
            bounds,
            payload: StoredPayload::Inline(id.as_bytes().to_vec()),
        }
    }

    /// Texts that start with "same" have one word.
    #[test]
    fn records_of_one_word_are_those_of_its_items() {
        let layout = Layout { blocks: 5, node: NodeId(0), index: 1, scheme: Scheme::Lines, ring_bytes: 4096 };
        let at = NodeRef::new(64, 1);
        let records = [record("same a", 1.0), record("same b", 2.0), record("same c", 2.0)];
        let words = page_image(&layout, at, &records);
        let page = bytes_of(words.iter().copied(), words.len());
        let word = records[0].id.word();
        let found = |words: Vec<u64>| {
            let mut found = FoundRecords::default();
            found.add(&page, &layout, &WantedNode::root(at, words), &mut Vec::new()).unwrap();
            found
        };
        assert_eq!(found(vec![word, word]).with_word(word), records);
        assert!(found(vec![word + 1]).with_word(word).is_empty());
        let item = |x: f64| Item { bounds: Rectangle::point([x, 0.0]).unwrap(), id: word };
        let of_items = found(vec![word]).of_items(&[item(2.0), item(1.0), item(2.0)]).unwrap();
        let ids: Vec<_> = of_items.iter().map(|record| record.id.to_string()).collect();
        assert_eq!(ids, ["same b", "same a", "same c"]);
        let missing = found(vec![word]).of_items(&[item(2.0), item(2.0), item(2.0)]).unwrap_err();
        assert!(missing.contains("no record of item"), "{missing}");
        let mut damaged = page.clone();
        damaged[100] ^= 1;
        let added =
            FoundRecords::default().add(&damaged, &layout, &WantedNode::root(at, vec![word]), &mut vec![]);
        assert!(added.unwrap_err().contains("hash"));
    }
}
