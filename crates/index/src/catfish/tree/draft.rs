//! A draft of changes: the new nodes, and the nodes that they replace. All functions are pure.
//!
//! A stored node never changes. A draft copies the nodes that it changes, from the leaf up to the root, and the server
//! stores the copies in other slots, and then the new root ([`server`](super::super::server)). Insertion and deletion
//! are those of the R*-tree, with forced reinsertion, within one draft: readers never see a tree from which an entry is
//! missing because it is being reinserted.
//!
//! A draft takes any number of changes, one after the other. It copies each stored node once: a later change finds the
//! copy and changes it in place. A node that one change adds and a later one removes needs no slot.

use super::layout::{Entry, LEVELS_MAX, Layout, NodeRef};
use super::rectangle::{Item, Rectangle};
use super::rstar::{Children, choose_subtree, farthest, split};
use crate::error::IndexError;

/// Reads stored nodes.
pub(in crate::catfish) trait StoredNodes {
    /// Loads the node that `word` names, and returns its reference, level and entries. `below`: the level of its
    /// parent. Every word of an inner node's entry is a reference.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if there is no such node; the errors of the fabric.
    fn load(&self, word: u64, below: Option<u8>) -> Result<(NodeRef, u8, Vec<Entry>), IndexError>;
}

/// Marks the word by which inner nodes of a draft name a new node: no reference has generation 0.
const FRESH: u64 = 1 << 31;

/// The word that names new node `number` of a draft.
pub(in crate::catfish) fn fresh(number: usize) -> u64 {
    FRESH | number as u64
}

/// The number of the new node that `word` names; `None`: it names a stored node.
pub(in crate::catfish) fn as_fresh(word: u64) -> Option<usize> {
    (word >> 32 == 0 && word & FRESH != 0).then_some((word & !FRESH) as usize)
}

#[derive(Clone, Debug, Default)]
struct FreshNode {
    level: u8,
    entries: Vec<Entry>,
}

impl FreshNode {
    fn bounds(&self) -> Option<Rectangle> {
        Rectangle::around(self.entries.iter().map(|entry| &entry.bounds))
    }

    fn rectangles(&self) -> Vec<Rectangle> {
        self.entries.iter().map(|entry| entry.bounds).collect()
    }

    /// Removes the entries at `positions`; yields them in that order.
    fn take(&mut self, positions: &[usize]) -> Vec<Entry> {
        let taken: Vec<_> = positions.iter().map(|&position| self.entries[position]).collect();
        let mut positions = positions.to_vec();
        positions.sort_unstable();
        for position in positions.into_iter().rev() {
            self.entries.swap_remove(position);
        }
        taken
    }
}

/// Changes that are not committed yet.
pub(in crate::catfish) struct Draft<'s, S> {
    layout: &'s Layout,
    stored: &'s S,
    nodes: Vec<FreshNode>,
    root: u64,
    /// The root with which the draft began.
    root_before: u64,
    /// Visits of new nodes.
    visits: u64,
    /// Stored nodes that the new tree does not contain.
    retired: Vec<NodeRef>,
}

/// The treatment of a node that holds too few entries after a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::catfish) enum Underfull {
    /// The node is removed, and its entries are reinserted.
    Dissolve,
    /// The node stays until a later removal in it, unless it is empty: the pool has too few free slots.
    Keep,
}

/// A path from the root: each node with the position of the child that follows.
type Path = Vec<(usize, usize)>;

/// Levels at which entries of overfull nodes were reinserted during one insertion, as bits.
#[derive(Default)]
struct Reinserted(u64);

impl Reinserted {
    /// Whether this is the first reinsertion at the level.
    fn first_at(&mut self, level: u8) -> bool {
        let before = self.0;
        self.0 |= 1 << level;
        before != self.0
    }
}

impl<'s, S: StoredNodes> Draft<'s, S> {
    /// A draft that begins with the tree under `root`.
    pub(in crate::catfish) fn of(layout: &'s Layout, stored: &'s S, root: NodeRef) -> Self {
        let root = root.word();
        Self { layout, stored, nodes: Vec::new(), root, root_before: root, visits: 0, retired: Vec::new() }
    }

    /// Gives an item other bounds. Returns `false`, and does not change the draft, if there is no such item.
    ///
    /// # Errors
    /// As [`StoredNodes::load`]. The draft then holds a part of the change, and must not be committed.
    pub(in crate::catfish) fn update(&mut self, item: &Item, bounds: Rectangle) -> Result<bool, IndexError> {
        let found = self.remove(item, Underfull::Dissolve)?;
        if found {
            self.insert(&Item { bounds, id: item.id })?;
        }
        Ok(found)
    }

    /// The number of times that a change has visited a node that the draft had copied or added before.
    pub(in crate::catfish) const fn visits(&self) -> u64 {
        self.visits
    }

    /// Copies the root unless the draft has another one already. The root then names the commit: no other commit has
    /// the same.
    ///
    /// # Errors
    /// As [`StoredNodes::load`].
    pub(in crate::catfish) fn renew_root(&mut self) -> Result<(), IndexError> {
        if self.root == self.root_before { self.open_root().map(drop) } else { Ok(()) }
    }

    /// Adds an item.
    ///
    /// # Errors
    /// As [`StoredNodes::load`].
    pub(in crate::catfish) fn insert(&mut self, item: &Item) -> Result<(), IndexError> {
        let entry = Entry { bounds: item.bounds, word: item.id };
        self.insert_at(entry, 0, &mut Reinserted::default())
    }

    /// Removes an item. If several equal items exist, one of them is removed. Returns `false`, and does not change the
    /// draft, if there is none. With [`Underfull::Keep`], the draft has at most one new node per level.
    ///
    /// # Errors
    /// As [`StoredNodes::load`].
    pub(in crate::catfish) fn remove(
        &mut self,
        item: &Item,
        underfull: Underfull,
    ) -> Result<bool, IndexError> {
        let mut positions = Vec::new();
        if !self.find((self.root, None), item, &mut positions)? {
            return Ok(false);
        }
        let mut at = self.open_root()?;
        let mut path = Path::new();
        let position = positions.pop().expect("the item has a position in its leaf");
        for position in positions {
            path.push((at, position));
            at = self.open_child(at, position)?;
        }
        self.nodes[at].entries.swap_remove(position);
        self.condense(at, path, underfull)?;
        Ok(true)
    }

    /// The node that `word` names, copied into the draft.
    fn open(&mut self, word: u64, below: Option<u8>) -> Result<usize, IndexError> {
        if let Some(number) = as_fresh(word) {
            self.visits += 1;
            return Ok(number);
        }
        let (node, level, entries) = self.stored.load(word, below)?;
        self.retired.push(node);
        self.nodes.push(FreshNode { level, entries });
        Ok(self.nodes.len() - 1)
    }

    fn open_root(&mut self) -> Result<usize, IndexError> {
        let root = self.open(self.root, None)?;
        self.root = fresh(root);
        Ok(root)
    }

    fn open_child(&mut self, parent: usize, position: usize) -> Result<usize, IndexError> {
        let FreshNode { level, entries } = &self.nodes[parent];
        let child = self.open(entries[position].word, Some(*level))?;
        self.nodes[parent].entries[position].word = fresh(child);
        Ok(child)
    }

    /// Inserts an entry into a node of `level` (R*-tree: Insert, ChooseSubtree).
    fn insert_at(&mut self, entry: Entry, level: u8, reinserted: &mut Reinserted) -> Result<(), IndexError> {
        let mut at = self.open_root()?;
        let mut path = Path::new();
        while self.nodes[at].level > level {
            let children = self.nodes[at].rectangles();
            let kind = if self.nodes[at].level == 1 { Children::Leaves } else { Children::InnerNodes };
            let position = choose_subtree(&children, &entry.bounds, kind);
            path.push((at, position));
            at = self.open_child(at, position)?;
        }
        self.nodes[at].entries.push(entry);
        self.treat_overflow(at, path, reinserted)
    }

    /// Splits or reinserts entries of a node that is overfull, and updates its ancestors (R*-tree: OverflowTreatment).
    fn treat_overflow(
        &mut self,
        mut at: usize,
        mut path: Path,
        reinserted: &mut Reinserted,
    ) -> Result<(), IndexError> {
        loop {
            let level = self.nodes[at].level;
            let overfull = self.nodes[at].entries.len() > self.layout.entries_max();
            if overfull && !path.is_empty() && reinserted.first_at(level) {
                let positions = farthest(&self.nodes[at].rectangles(), self.layout.reinserted());
                let taken = self.nodes[at].take(&positions);
                self.update_bounds(at, &path);
                for entry in taken {
                    self.insert_at(entry, level, reinserted)?;
                }
                return Ok(());
            }
            let sibling = overfull.then(|| self.split(at));
            match (path.pop(), sibling) {
                (None, None) => return Ok(()),
                (None, Some(sibling)) => {
                    self.grow(at, sibling);
                    return Ok(());
                }
                (Some((parent, position)), sibling) => {
                    self.update_bounds(at, &[(parent, position)]);
                    if let Some(sibling) = sibling {
                        let entry = self.entry_for(sibling);
                        self.nodes[parent].entries.push(entry);
                    }
                    at = parent;
                }
            }
        }
    }

    /// Splits a node in two; yields the new one.
    fn split(&mut self, at: usize) -> usize {
        let node = &mut self.nodes[at];
        let (level, entries) = (node.level, std::mem::take(&mut node.entries));
        let rectangles: Vec<_> = entries.iter().map(|entry| entry.bounds).collect();
        let (one, other) = split(&rectangles, self.layout.entries_least());
        let pick = |positions: Vec<usize>| positions.into_iter().map(|position| entries[position]).collect();
        node.entries = pick(one);
        self.nodes.push(FreshNode { level, entries: pick(other) });
        self.nodes.len() - 1
    }

    fn entry_for(&self, node: usize) -> Entry {
        let bounds = self.nodes[node].bounds().expect("a node with a parent has entries");
        Entry { bounds, word: fresh(node) }
    }

    /// Adds a root above the current root and its new sibling.
    fn grow(&mut self, root: usize, sibling: usize) {
        let level = self.nodes[root].level + 1;
        assert!(level < LEVELS_MAX, "a tree has fewer levels than a number of entries has bits");
        let entries = vec![self.entry_for(root), self.entry_for(sibling)];
        self.nodes.push(FreshNode { level, entries });
        self.root = fresh(self.nodes.len() - 1);
    }

    /// Updates the bounds of a node in its ancestors along `path`.
    fn update_bounds(&mut self, mut at: usize, path: &[(usize, usize)]) {
        for &(parent, position) in path.iter().rev() {
            self.nodes[parent].entries[position].bounds = self.entry_for(at).bounds;
            at = parent;
        }
    }

    /// Finds an item below a node (Guttman: FindLeaf): the position in each node on the path to it.
    fn find(
        &self,
        (word, below): (u64, Option<u8>),
        item: &Item,
        positions: &mut Vec<usize>,
    ) -> Result<bool, IndexError> {
        let loaded;
        let (level, entries) = if let Some(number) = as_fresh(word) {
            (self.nodes[number].level, &self.nodes[number].entries)
        } else {
            loaded = self.stored.load(word, below)?;
            (loaded.1, &loaded.2)
        };
        for (position, entry) in entries.iter().enumerate() {
            positions.push(position);
            let found = match level {
                0 => entry.word == item.id && entry.bounds == item.bounds,
                _ => {
                    entry.bounds.contains(&item.bounds)
                        && self.find((entry.word, Some(level)), item, positions)?
                }
            };
            if found {
                return Ok(true);
            }
            positions.pop();
        }
        Ok(false)
    }

    /// Removes nodes that hold too few entries, reinserts their entries, and shortens a tree whose root has one child
    /// (Guttman: CondenseTree).
    fn condense(&mut self, mut at: usize, mut path: Path, underfull: Underfull) -> Result<(), IndexError> {
        let least = match underfull {
            Underfull::Dissolve => self.layout.entries_least(),
            Underfull::Keep => 1,
        };
        let mut orphans = Vec::new();
        while let Some((parent, position)) = path.pop() {
            if self.nodes[at].entries.len() < least {
                let level = self.nodes[at].level;
                orphans.extend(
                    std::mem::take(&mut self.nodes[at].entries).into_iter().map(|entry| (entry, level)),
                );
                self.nodes[parent].entries.swap_remove(position);
            } else {
                self.update_bounds(at, &[(parent, position)]);
            }
            at = parent;
        }
        // Entries of the highest levels come first, so the tree does not become higher than necessary.
        for (entry, level) in orphans.into_iter().rev() {
            self.insert_at(entry, level, &mut Reinserted::default())?;
        }
        self.shorten()
    }

    /// Replaces a root that has one child by that child, and an inner root without children by a leaf.
    fn shorten(&mut self) -> Result<(), IndexError> {
        loop {
            let root = self.open_root()?;
            match self.nodes[root].entries.as_slice() {
                [] => {
                    self.nodes[root].level = 0;
                    return Ok(());
                }
                [only] if self.nodes[root].level > 0 => self.root = only.word,
                _ => return Ok(()),
            }
            if as_fresh(self.root).is_none() {
                return Ok(());
            }
        }
    }

    /// Finishes the draft, and orders its nodes: children before parents. Each node needs a slot.
    pub(in crate::catfish) fn finish(self) -> FinishedDraft {
        let mut order = Vec::new();
        if let Some(root) = as_fresh(self.root) {
            self.order(root, &mut order);
        }
        FinishedDraft { nodes: self.nodes, order, root: self.root, retired: self.retired }
    }

    fn order(&self, at: usize, order: &mut Vec<usize>) {
        if self.nodes[at].level > 0 {
            for child in self.nodes[at].entries.iter().filter_map(|entry| as_fresh(entry.word)) {
                self.order(child, order);
            }
        }
        order.push(at);
    }
}

/// A finished draft, whose nodes have no slots yet.
pub(in crate::catfish) struct FinishedDraft {
    nodes: Vec<FreshNode>,
    order: Vec<usize>,
    root: u64,
    retired: Vec<NodeRef>,
}

/// A draft whose nodes have slots.
pub(in crate::catfish) struct PlacedDraft {
    /// Nodes to be stored, children before parents: reference, level, entries.
    pub(in crate::catfish) nodes: Vec<(NodeRef, u8, Vec<Entry>)>,
    /// The root of the new tree.
    pub(in crate::catfish) root: NodeRef,
    /// Nodes that the new tree does not contain.
    pub(in crate::catfish) retired: Vec<NodeRef>,
}

impl FinishedDraft {
    /// The number of slots that the draft needs.
    pub(in crate::catfish) fn slots(&self) -> usize {
        self.order.len()
    }

    /// Gives each node one of the slots.
    pub(in crate::catfish) fn place(mut self, slots: &[NodeRef]) -> PlacedDraft {
        assert_eq!(slots.len(), self.order.len(), "each node has a slot");
        let mut names = vec![None; self.nodes.len()];
        for (&number, &slot) in self.order.iter().zip(slots) {
            names[number] = Some(slot);
        }
        let name = |word| match as_fresh(word) {
            Some(number) => names[number].expect("each node of the tree has a slot"),
            None => NodeRef::from_word(word).expect("inner nodes name nodes"),
        };
        let nodes = self.order.iter().zip(slots).map(|(&number, &slot)| {
            let FreshNode { level, mut entries } = std::mem::take(&mut self.nodes[number]);
            if level > 0 {
                for entry in &mut entries {
                    entry.word = name(entry.word).word();
                }
            }
            (slot, level, entries)
        });
        let nodes = nodes.collect();
        PlacedDraft { nodes, root: name(self.root), retired: self.retired }
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::Change;
    use super::super::layout::Scheme;
    use super::*;
    use farwood_fabric::NodeId;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A tree in a map.
    struct MapTree {
        layout: Layout,
        nodes: BTreeMap<u64, (u8, Vec<Entry>)>,
        root: NodeRef,
        slots: u64,
    }

    impl StoredNodes for BTreeMap<u64, (u8, Vec<Entry>)> {
        fn load(&self, word: u64, _: Option<u8>) -> Result<(NodeRef, u8, Vec<Entry>), IndexError> {
            let (level, entries) = self[&word].clone();
            Ok((NodeRef::from_word(word).expect("inner nodes name nodes"), level, entries))
        }
    }

    impl MapTree {
        fn new(blocks: usize) -> Self {
            let layout =
                Layout { blocks, node: NodeId(0), index: 1, scheme: Scheme::Lines, ring_bytes: 1024 };
            let root = NodeRef::new(64, 1);
            Self { layout, nodes: BTreeMap::from([(root.word(), (0, Vec::new()))]), root, slots: 1 }
        }

        fn change(
            &mut self,
            change: impl FnOnce(&mut Draft<'_, BTreeMap<u64, (u8, Vec<Entry>)>>) -> bool,
        ) -> bool {
            let mut draft = Draft::of(&self.layout, &self.nodes, self.root);
            if !change(&mut draft) {
                return false;
            }
            let finished = draft.finish();
            let slots: Vec<_> =
                (1..=finished.slots() as u64).map(|slot| NodeRef::new(64 * (self.slots + slot), 1)).collect();
            self.slots += slots.len() as u64;
            let placed = finished.place(&slots);
            for (at, level, entries) in placed.nodes {
                self.nodes.insert(at.word(), (level, entries));
            }
            for gone in placed.retired {
                assert!(self.nodes.remove(&gone.word()).is_some(), "each node is retired once");
            }
            self.root = placed.root;
            true
        }

        /// Checks every invariant below `node`; yields its items.
        fn check(&self, node: NodeRef, seen: &mut usize) -> Vec<Item> {
            let (level, entries) = &self.nodes[&node.word()];
            *seen += 1;
            let least =
                if node == self.root { usize::from(*level > 0) * 2 } else { self.layout.entries_least() };
            assert!(
                (least..=self.layout.entries_max()).contains(&entries.len()),
                "{} entries",
                entries.len()
            );
            if *level == 0 {
                return entries.iter().map(|entry| Item { bounds: entry.bounds, id: entry.word }).collect();
            }
            let mut items = Vec::new();
            for entry in entries {
                let child = NodeRef::from_word(entry.word).unwrap();
                let (child_level, below) = &self.nodes[&child.word()];
                assert_eq!(child_level + 1, *level);
                assert_eq!(Rectangle::around(below.iter().map(|entry| &entry.bounds)), Some(entry.bounds));
                items.extend(self.check(child, seen));
            }
            items
        }

        fn items(&self) -> Vec<Item> {
            let mut seen = 0;
            let mut items = self.check(self.root, &mut seen);
            assert_eq!(seen, self.nodes.len(), "every node is reachable");
            items.sort_by(|one, other| one.id.cmp(&other.id).then(order(one).total_cmp(&order(other))));
            items
        }
    }

    fn order(item: &Item) -> f64 {
        item.bounds.min()[0] + 1e3 * item.bounds.min()[1] + 1e6 * item.bounds.max()[0]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        /// The tree holds the same items as a list after any insertions and removals, and keeps its invariants.
        #[test]
        fn a_tree_holds_the_items_of_a_list(
            blocks in 1..3usize,
            steps in prop::collection::vec((0..40i32, 0..40i32, 0..4i32, 0..3u32), 1..600),
        ) {
            let mut tree = MapTree::new(blocks);
            let mut list: Vec<Item> = Vec::new();
            for (step, (x, y, edge, kind)) in steps.into_iter().enumerate() {
                let (x, y) = (f64::from(x), f64::from(y));
                let bounds = Rectangle::new([x, y], [x + f64::from(edge), y + 1.0]).unwrap();
                if kind == 0 && !list.is_empty() {
                    let item = list.swap_remove(step * 7 % list.len());
                    prop_assert!(tree.change(|draft| draft.remove(&item, Underfull::Dissolve).unwrap()));
                    let other = Item { id: u64::MAX, ..item };
                    let removed = tree.change(|draft| draft.remove(&other, Underfull::Dissolve).unwrap());
                    prop_assert!(!removed, "no such item");
                } else {
                    let item = Item { bounds, id: step as u64 / 3 };
                    list.push(item);
                    tree.change(|draft| draft.insert(&item).is_ok());
                }
            }
            list.sort_by(|one, other| one.id.cmp(&other.id).then(order(one).total_cmp(&order(other))));
            prop_assert_eq!(tree.items(), list);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        /// A draft of several changes makes the same changes as a list, and copies each stored node once.
        #[test]
        fn a_draft_takes_several_changes(
            batches in prop::collection::vec(
                prop::collection::vec((0..40i32, 0..40i32, 0..5u32, 0..200usize), 1..120),
                1..8,
            ),
        ) {
            let mut tree = MapTree::new(1);
            let mut list: Vec<Item> = Vec::new();
            for (batch, steps) in batches.into_iter().enumerate() {
                let mut changes = Vec::new();
                for (step, (x, y, kind, position)) in steps.into_iter().enumerate() {
                    let bounds = Rectangle::new([x.into(), y.into()], [f64::from(x) + 1.0, f64::from(y) + 2.0]);
                    let item = Item { bounds: bounds.unwrap(), id: (1000 * batch + step) as u64 };
                    let found = list.get(position % list.len().max(1)).copied();
                    let change = match (kind, found) {
                        (0 | 1, Some(old)) => Change::Remove(old),
                        (2, Some(old)) => Change::Update(old, item.bounds),
                        (3, _) => Change::Remove(Item { id: u64::MAX, ..item }),
                        _ => Change::Insert(item),
                    };
                    let at = list.iter().position(|item| Some(*item) == found);
                    match (change.clone(), at) {
                        (Change::Insert(item), _) => list.push(item),
                        (Change::Remove(old), Some(at)) if old.id != u64::MAX => drop(list.swap_remove(at)),
                        (Change::Update(_, bounds), Some(at)) => list[at].bounds = bounds,
                        _ => {}
                    }
                    changes.push((change, kind != 3));
                }
                let before = tree.nodes.len();
                tree.change(|draft| {
                    for (change, there) in &changes {
                        let found = match change {
                            Change::Insert(item) => draft.insert(item).map(|()| true),
                            Change::Remove(item) => draft.remove(item, Underfull::Dissolve),
                            Change::Update(item, bounds) => draft.update(item, *bounds),
                            _ => unreachable!("the test changes items"),
                        };
                        assert_eq!(found.unwrap(), *there, "{change:?}");
                    }
                    assert!(draft.retired.len() <= before, "no stored node is copied twice");
                    true
                });
            }
            list.sort_by(|one, other| one.id.cmp(&other.id).then(order(one).total_cmp(&order(other))));
            prop_assert_eq!(tree.items(), list);
        }
    }

    #[test]
    fn removals_that_keep_underfull_nodes_copy_one_node_per_level() {
        let mut tree = MapTree::new(1);
        let item =
            |id: u64| Item { bounds: Rectangle::point([(id * 7919 % 1000) as f64, id as f64]).unwrap(), id };
        for id in 0..600 {
            tree.change(|draft| draft.insert(&item(id)).is_ok());
        }
        for id in 0..600 {
            let levels = usize::from(tree.nodes[&tree.root.word()].0) + 1;
            let kept = |draft: &mut Draft<'_, _>| {
                let removed = draft.remove(&item(id), Underfull::Keep).unwrap();
                assert!(draft.nodes.len() <= levels, "{} nodes on {levels} levels", draft.nodes.len());
                removed
            };
            assert!(tree.change(kept));
        }
        assert_eq!((tree.nodes.len(), tree.items().len()), (1, 0));
    }

    #[test]
    fn a_tree_grows_and_shrinks_by_levels() {
        let mut tree = MapTree::new(1);
        let point = |id: u64| Rectangle::point([(id * 7919 % 1000) as f64, id as f64]);
        let item = |id: u64| Item { bounds: point(id).unwrap(), id };
        let level = |tree: &MapTree| tree.nodes[&tree.root.word()].0;
        for id in 0..600 {
            tree.change(|draft| draft.insert(&item(id)).is_ok());
        }
        assert!(level(&tree) >= 3, "level {}", level(&tree));
        assert_eq!(tree.items().len(), 600);
        for id in 0..600 {
            assert!(tree.change(|draft| draft.remove(&item(id), Underfull::Dissolve).unwrap()));
        }
        assert_eq!((level(&tree), tree.items().len(), tree.nodes.len()), (0, 0, 1));
    }
}
