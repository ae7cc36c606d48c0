//! Inner nodes: sorted separators and children. A WRITE always writes the whole node.

use super::layout::POINTER_BYTES;
use super::node::{Fences, Node, RawNode};
use crate::key::compare;
use farwood_fabric::{Remote, u64_at};
use std::cmp::Ordering;
use std::ops::{Deref, DerefMut};

/// The outcome of adding a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The child is added.
    Yes,
    /// The node has the separator of the child already.
    Already,
    /// The node is full.
    Full,
}

impl<B: Deref<Target = [u8]>> Node<'_, B> {
    /// Key `at` of an inner node: the lower fence of child `at + 1`.
    #[inline]
    pub fn separator(&self, at: usize) -> &[u8] {
        &self.bytes[self.layout.separator(at)]
    }

    /// Child `at`, 0 being the leftmost.
    #[inline]
    pub fn child(&self, at: usize) -> Remote<RawNode> {
        // Cannot fail: `Node::decode` refuses a node with a null child.
        self.child_word(at).expect("a decoded node has all its children")
    }

    /// Child `at` of a node that is not decoded yet.
    pub(super) fn child_word(&self, at: usize) -> Option<Remote<RawNode>> {
        let word = &self.bytes[self.layout.child(at)];
        Remote::from_word(u64_at(word, 0))
    }

    /// The number of the child that covers `key`: the count of separators that are at most `key`.
    pub fn child_covering(&self, key: &[u8]) -> usize {
        self.separators_where(|separator| compare(separator, key) != Ordering::Greater)
    }

    /// The number of leading separators that satisfy `low`, which holds for all separators up to some position and for
    /// none after it.
    fn separators_where(&self, low: impl Fn(&[u8]) -> bool) -> usize {
        let (mut from, mut to) = (0, self.count());
        while from < to {
            let middle = usize::midpoint(from, to);
            if low(self.separator(middle)) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }
}

impl<B: DerefMut<Target = [u8]>> Node<'_, B> {
    fn set_child(&mut self, at: usize, child: Remote<RawNode>) {
        let range = self.layout.child(at);
        self.bytes[range].copy_from_slice(&child.word().to_le_bytes());
    }

    /// Appends a child to a node that is not full.
    pub fn push_child(&mut self, separator: &[u8], child: Remote<RawNode>) {
        let count = self.count();
        assert!(count < self.layout.inner_capacity, "the caller counted the children");
        let range = self.layout.separator(count);
        self.bytes[range].copy_from_slice(separator);
        self.set_child(count + 1, child);
        self.set_count(count + 1);
    }

    /// Sets child 0 of a new node.
    pub fn set_leftmost(&mut self, child: Remote<RawNode>) {
        self.set_child(0, child);
    }

    /// Adds `child`, whose lower fence is `separator`.
    pub fn add_child(&mut self, separator: &[u8], child: Remote<RawNode>) -> Added {
        let count = self.count();
        let at = self.child_covering(separator);
        // The lower fence of a child is a separator. That of the leftmost child is the lower fence of the node.
        let there = if at > 0 { self.separator(at - 1) } else { self.lower() };
        if there == separator {
            return Added::Already;
        }
        if count == self.layout.inner_capacity {
            return Added::Full;
        }
        let (start, end) = (self.layout.separator(at).start, self.layout.separator(count).start);
        let step = self.layout.key_bytes + POINTER_BYTES;
        self.bytes.copy_within(start..end, start + step);
        let range = self.layout.separator(at);
        self.bytes[range].copy_from_slice(separator);
        self.set_child(at + 1, child);
        self.set_count(count + 1);
        Added::Yes
    }
}

impl<B: DerefMut<Target = [u8]>> Node<'_, B> {
    /// Removes child `at`, which is not the leftmost: the child to its left covers its keys now.
    pub fn remove_child(&mut self, at: usize) {
        assert!(at > 0 && at <= self.count(), "a node begins where its leftmost child begins");
        let count = self.count();
        let (gone, end) = (self.layout.separator(at - 1).start, self.layout.separator(count).start);
        self.bytes.copy_within(self.layout.separator(at).start..end, gone);
        self.set_count(count - 1);
    }

    /// Moves all children of the right sibling `right` to this node, which has space for them. Neither is sealed.
    pub fn absorb_inner<R: Deref<Target = [u8]>>(&mut self, right: &Node<'_, R>) {
        self.push_child(right.lower(), right.child(0));
        for key in 0..right.count() {
            self.push_child(right.separator(key), right.child(key + 1));
        }
        self.set_upper(right.upper());
        self.set_sibling(right.sibling());
    }
}

impl<'l, B: DerefMut<Target = [u8]>> Node<'l, B> {
    /// Moves the upper half of a full inner node to a new right sibling, whose address is `at`. The middle
    /// separator becomes the fence between them; the new node's lower fence goes to the parent.
    pub fn split_inner(&mut self, at: Remote<RawNode>) -> Node<'l, Vec<u8>> {
        let count = self.count();
        let middle = count / 2;
        let fence = self.separator(middle).to_vec();
        let fences = Fences { lower: &fence, upper: self.upper() };
        let mut right = Node::empty(self.layout, self.level(), fences, self.sibling());
        right.set_leftmost(self.child(middle + 1));
        for key in middle + 1..count {
            let child = self.child(key + 1);
            right.push_child(self.separator(key), child);
        }
        self.set_count(middle);
        self.set_upper(Some(&fence));
        self.set_sibling(Some(at));
        right
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Layout, Sizes};
    use super::super::options::Leaves;
    use super::*;
    use crate::consistency::Consistency;
    use std::collections::BTreeMap;

    fn layout() -> Layout {
        let sizes = Sizes { key_bytes: 12, value_bytes: 8, node_bytes: 256 };
        Layout::new(sizes, Leaves::TwoLevel, Consistency::Versions, 1).unwrap()
    }

    fn key(number: u64) -> Vec<u8> {
        [&number.to_be_bytes()[..], &[7; 4]].concat()
    }

    fn at(number: u64) -> Remote<RawNode> {
        Remote::from_word(number * 64 + 64).unwrap()
    }

    type Model = BTreeMap<Vec<u8>, Remote<RawNode>>;

    fn filled(layout: &Layout) -> (Node<'_, Vec<u8>>, Model) {
        let mut node = Node::empty(layout, 1, Fences { lower: &[0; 12], upper: None }, None);
        node.set_leftmost(at(0));
        let mut model = BTreeMap::from([(vec![0; 12], at(0))]);
        for number in (1..).map(|number| number * 37 % 101 + 1) {
            match node.add_child(&key(number), at(number)) {
                Added::Yes => assert!(model.insert(key(number), at(number)).is_none()),
                Added::Already => unreachable!("the numbers differ"),
                Added::Full => break,
            }
        }
        assert_eq!(node.count(), layout.inner_capacity);
        (node, model)
    }

    fn agrees<B: Deref<Target = [u8]>>(node: &Node<'_, B>, model: &Model) {
        for number in 0..120 {
            let probe = key(number);
            if !node.is_left_of(&probe) && !node.is_right_of(&probe) {
                let expected = model.range(..=probe.clone()).next_back().unwrap().1;
                assert_eq!(node.child(node.child_covering(&probe)), *expected, "{number}");
            }
        }
    }

    #[test]
    fn children_are_found_by_key() {
        let layout = layout();
        let (mut node, model) = filled(&layout);
        agrees(&node, &model);
        let taken = node.separator(2).to_vec();
        assert_eq!(node.add_child(&taken, at(999)), Added::Already);
        assert_eq!(
            node.add_child(&[0; 12], at(999)),
            Added::Already,
            "the node has the leftmost child already"
        );
        agrees(&node, &model);
    }

    #[test]
    fn a_merge_reverts_a_split() {
        let layout = layout();
        let (mut left, model) = filled(&layout);
        let whole: Vec<_> = (0..=left.count()).map(|child| left.child(child)).collect();
        let right = left.split_inner(at(500));
        left.absorb_inner(&right);
        assert_eq!((left.upper(), left.sibling()), (None, None));
        assert_eq!((0..=left.count()).map(|child| left.child(child)).collect::<Vec<_>>(), whole);
        agrees(&left, &model);
    }

    #[test]
    fn the_left_neighbour_covers_the_keys_of_a_removed_child() {
        let layout = layout();
        let (mut node, mut model) = filled(&layout);
        while node.count() > 0 {
            let child = 1 + node.count() * 7 % node.count().max(1);
            let separator = node.separator(child - 1).to_vec();
            node.remove_child(child);
            model.remove(&separator);
            agrees(&node, &model);
        }
    }

    #[test]
    fn a_split_loses_no_child() {
        let layout = layout();
        let (mut left, model) = filled(&layout);
        let right = left.split_inner(at(500));
        assert_eq!(left.upper(), Some(right.lower()));
        assert_eq!((left.sibling(), right.sibling(), right.upper()), (Some(at(500)), None, None));
        assert_eq!(left.count() + right.count() + 1, layout.inner_capacity);
        agrees(&left, &model);
        agrees(&right, &model);
    }
}
