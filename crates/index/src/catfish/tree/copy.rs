//! A copy of a node, as a search reads it. Pure.

use super::filter::{entries, matching};
use super::layout::{Entry, Head, Layout, NodeRef, damage_of, entry_of, head_of};
use super::nearest::{Near, Nearest};
use super::rectangle::{Item, Query};

/// An entry that a query needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hit {
    /// An item of a leaf.
    Item(Item),
    /// A child of an inner node, and the level of that node.
    Child(NodeRef, u8),
}

/// A copy that is not torn, whose head can belong to the index.
#[derive(Clone, Copy, Debug)]
pub struct NodeCopy<'b> {
    bytes: &'b [u8],
    head: Head,
}

impl<'b> NodeCopy<'b> {
    /// A copy of a node below one of level `below` (`None`: of any level).
    ///
    /// # Errors
    /// Describes why the node cannot belong to an index with this layout.
    #[inline]
    pub fn new(bytes: &'b [u8], layout: &Layout, below: Option<u8>) -> Result<Self, String> {
        let head = head_of(&bytes);
        head.contradiction(layout, below).map_or(Ok(Self { bytes, head }), Err)
    }

    /// As [`new`](Self::new), and checks the hash of the node.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[inline]
    pub fn verified(bytes: &'b [u8], layout: &Layout, below: Option<u8>) -> Result<Self, String> {
        damage_of(bytes).map_or_else(|| Self::new(bytes, layout, below), Err)
    }

    /// The level of the node.
    #[inline]
    pub fn level(&self) -> u8 {
        self.head.level
    }

    /// The `count` nearest items of a leaf to `point`; of an inner node none.
    ///
    /// # Errors
    /// The word of a child that is not a reference.
    pub fn nearest(&self, point: [f64; 2], count: usize) -> Result<Vec<Near>, u64> {
        let mut search = Nearest::new(point, count, NodeRef::new(64, 1));
        search.add_entries(self.level(), self.entries())?;
        Ok(search.found())
    }

    /// Its entries.
    #[inline]
    pub(in crate::catfish) fn entries(&'b self) -> impl Iterator<Item = Entry> + 'b {
        entries(&self.bytes, self.head.entries)
    }

    /// Calls `found` with the entries that the query needs.
    ///
    /// # Errors
    /// Describes a child that is not a reference.
    #[inline]
    pub fn search(&self, query: &Query, mut found: impl FnMut(Hit)) -> Result<(), String> {
        let (level, mut damage) = (self.head.level, None);
        matching(&self.bytes, (level, self.head.entries), query, |position| {
            let entry = entry_of(&self.bytes, position);
            match (level, NodeRef::from_word(entry.word)) {
                (0, _) => found(Hit::Item(Item { bounds: entry.bounds, id: entry.word })),
                (_, Some(child)) => found(Hit::Child(child, level)),
                (_, None) => damage = Some(format!("child {position} is {:#x}", entry.word)),
            }
        });
        damage.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Scheme, image};
    use super::super::rectangle::{Rectangle, Relation};
    use super::*;
    use farwood_fabric::NodeId;

    fn layout() -> Layout {
        Layout { blocks: 1, node: NodeId(0), index: 9, scheme: Scheme::Pair, ring_bytes: 1024 }
    }

    fn node(level: u8, words: &[u64]) -> Vec<u8> {
        let bounds = Rectangle::new([0.0, 0.0], [1.0, 1.0]).unwrap();
        let entries: Vec<_> = words.iter().map(|&word| Entry { bounds, word }).collect();
        image(&layout(), NodeRef::new(64, 1), level, &entries)
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    fn search(bytes: &[u8]) -> Result<Vec<Hit>, String> {
        let query = Query { window: Rectangle::point([0.5, 0.5]).unwrap(), relation: Relation::Intersects };
        let mut hits = Vec::new();
        NodeCopy::verified(bytes, &layout(), None)?.search(&query, |hit| hits.push(hit))?;
        Ok(hits)
    }

    #[test]
    fn the_level_distinguishes_items_from_children() {
        let child = NodeRef::new(128, 5);
        assert_eq!(search(&node(3, &[child.word()])), Ok(vec![Hit::Child(child, 3)]));
        let items = search(&node(0, &[7])).unwrap();
        assert!(matches!(items[..], [Hit::Item(Item { id: 7, .. })]), "{items:?}");
    }

    #[test]
    fn damage_is_described() {
        assert!(search(&node(1, &[7])).unwrap_err().contains("child 0 is 0x7"));
        let mut bytes = node(0, &[7]);
        bytes[70] ^= 1;
        assert!(search(&bytes).unwrap_err().contains("hash"));
        assert!(NodeCopy::new(&bytes, &layout(), None).is_ok(), "the hash is not checked");
        let copy = node(0, &[7]);
        assert!(NodeCopy::new(&copy, &layout(), Some(2)).unwrap_err().contains("level 0"));
    }
}
