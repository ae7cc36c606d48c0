//! A change of the tree, drafted: the nodes that will be new, and those that they take the place of. Pure.
//!
//! Nothing that is stored is ever changed. A draft copies the nodes that it changes, from the leaf up to the root, and
//! what comes of them is written to other rooms; [`server`](super::server) then stores the new root. Insertion and
//! deletion are the R*-tree's, with forced reinsertion, all within one draft: what is taken out of a node to be
//! inserted again is gone from no tree that anybody can see.

use super::layout::{Entry, Layout, NodeRef};
use super::rectangle::{Item, Rectangle};
use super::rstar::{choose_subtree, farthest, split};

/// Where stored nodes can be read.
pub(super) trait Stored {
    /// Level and entries of a node.
    fn load(&self, node: NodeRef) -> (u8, Vec<Entry>);
}

/// How inner nodes name a node that is not stored yet: no reference has generation 0.
const FRESH: u64 = 1 << 31;

fn fresh(number: usize) -> u64 {
    FRESH | number as u64
}

fn as_fresh(word: u64) -> Option<usize> {
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

    /// Takes the entries at `places` out, in that order.
    fn take(&mut self, places: &[usize]) -> Vec<Entry> {
        let taken: Vec<_> = places.iter().map(|&place| self.entries[place]).collect();
        let mut places = places.to_vec();
        places.sort_unstable();
        for place in places.into_iter().rev() {
            self.entries.swap_remove(place);
        }
        taken
    }
}

/// A change that nobody sees yet.
pub(super) struct Draft<'s, S> {
    layout: &'s Layout,
    stored: &'s S,
    nodes: Vec<FreshNode>,
    root: u64,
    /// Stored nodes that will be no part of the tree.
    retired: Vec<NodeRef>,
}

/// A way down: each node with the place of the child through which it goes on.
type Path = Vec<(usize, usize)>;

/// Levels at which entries of overfull nodes were inserted again during one insertion.
#[derive(Default)]
struct Reinserted(u64);

impl Reinserted {
    /// Whether it is the first time at this level.
    fn first_at(&mut self, level: u8) -> bool {
        let before = self.0;
        self.0 |= 1 << level;
        before != self.0
    }
}

impl<'s, S: Stored> Draft<'s, S> {
    /// A draft that begins as the tree under `root`.
    pub(super) fn of(layout: &'s Layout, stored: &'s S, root: NodeRef) -> Self {
        Self { layout, stored, nodes: Vec::new(), root: root.word(), retired: Vec::new() }
    }

    /// Adds an item.
    pub(super) fn insert(&mut self, item: &Item) {
        let entry = Entry { bounds: item.bounds, word: item.id };
        self.insert_at(entry, 0, &mut Reinserted::default());
    }

    /// Takes out an item, one of those that are equal; `false`: there is none, and the draft is what it was.
    pub(super) fn remove(&mut self, item: &Item) -> bool {
        let mut places = Vec::new();
        if !self.find(self.root, item, &mut places) {
            return false;
        }
        let mut at = self.open(self.root);
        self.root = fresh(at);
        let mut path = Path::new();
        let place = places.pop().expect("the item has a place in its leaf");
        for place in places {
            path.push((at, place));
            at = self.open_child(at, place);
        }
        self.nodes[at].entries.swap_remove(place);
        self.condense(at, path);
        true
    }

    /// The node that `word` names, as one that may be changed.
    fn open(&mut self, word: u64) -> usize {
        if let Some(number) = as_fresh(word) {
            return number;
        }
        let node = NodeRef::from_word(word).expect("inner nodes name nodes");
        let (level, entries) = self.stored.load(node);
        self.retired.push(node);
        self.nodes.push(FreshNode { level, entries });
        self.nodes.len() - 1
    }

    fn open_child(&mut self, parent: usize, place: usize) -> usize {
        let child = self.open(self.nodes[parent].entries[place].word);
        self.nodes[parent].entries[place].word = fresh(child);
        child
    }

    /// Inserts an entry into a node of `level` (R*-tree: Insert, ChooseSubtree).
    fn insert_at(&mut self, entry: Entry, level: u8, reinserted: &mut Reinserted) {
        let mut at = self.open(self.root);
        self.root = fresh(at);
        let mut path = Path::new();
        while self.nodes[at].level > level {
            let children = self.nodes[at].rectangles();
            let place = choose_subtree(&children, &entry.bounds, self.nodes[at].level == 1);
            path.push((at, place));
            at = self.open_child(at, place);
        }
        self.nodes[at].entries.push(entry);
        self.settle(at, path, reinserted);
    }

    /// Deals with a node that may hold too much, and tells its ancestors (R*-tree: OverflowTreatment).
    fn settle(&mut self, mut at: usize, mut path: Path, reinserted: &mut Reinserted) {
        loop {
            let level = self.nodes[at].level;
            let overfull = self.nodes[at].entries.len() > self.layout.entries_max();
            if overfull && !path.is_empty() && reinserted.first_at(level) {
                let places = farthest(&self.nodes[at].rectangles(), self.layout.reinserted());
                let taken = self.nodes[at].take(&places);
                self.tell(at, &path);
                for entry in taken {
                    self.insert_at(entry, level, reinserted);
                }
                return;
            }
            let sibling = overfull.then(|| self.split(at));
            match (path.pop(), sibling) {
                (None, None) => return,
                (None, Some(sibling)) => return self.grow(at, sibling),
                (Some((parent, place)), sibling) => {
                    self.tell(at, &[(parent, place)]);
                    if let Some(sibling) = sibling {
                        let entry = self.entry_for(sibling);
                        self.nodes[parent].entries.push(entry);
                    }
                    at = parent;
                }
            }
        }
    }

    /// Divides a node in two; yields the new one.
    fn split(&mut self, at: usize) -> usize {
        let node = &mut self.nodes[at];
        let (level, entries) = (node.level, std::mem::take(&mut node.entries));
        let rectangles: Vec<_> = entries.iter().map(|entry| entry.bounds).collect();
        let (one, other) = split(&rectangles, self.layout.entries_least());
        let pick = |places: Vec<usize>| places.into_iter().map(|place| entries[place]).collect();
        node.entries = pick(one);
        self.nodes.push(FreshNode { level, entries: pick(other) });
        self.nodes.len() - 1
    }

    fn entry_for(&self, node: usize) -> Entry {
        let bounds = self.nodes[node].bounds().expect("a node below another has entries");
        Entry { bounds, word: fresh(node) }
    }

    /// Gives the tree a root above its own and its sibling.
    fn grow(&mut self, root: usize, sibling: usize) {
        let level = self.nodes[root].level + 1;
        assert!(level < 64, "a tree has fewer levels than a number of entries has bits");
        let entries = vec![self.entry_for(root), self.entry_for(sibling)];
        self.nodes.push(FreshNode { level, entries });
        self.root = fresh(self.nodes.len() - 1);
    }

    /// Gives the ancestors along `path` the bounds of what is below.
    fn tell(&mut self, mut at: usize, path: &[(usize, usize)]) {
        for &(parent, place) in path.iter().rev() {
            self.nodes[parent].entries[place].bounds = self.entry_for(at).bounds;
            at = parent;
        }
    }

    /// Looks for the item below a node (Guttman: FindLeaf); the places on the way to it, in each node its own.
    fn find(&self, word: u64, item: &Item, places: &mut Vec<usize>) -> bool {
        let loaded;
        let (level, entries) = if let Some(number) = as_fresh(word) {
            (self.nodes[number].level, &self.nodes[number].entries)
        } else {
            loaded = self.stored.load(NodeRef::from_word(word).expect("inner nodes name nodes"));
            (loaded.0, &loaded.1)
        };
        entries.iter().enumerate().any(|(place, entry)| {
            places.push(place);
            let found = match level {
                0 => entry.word == item.id && entry.bounds == item.bounds,
                _ => entry.bounds.contains(&item.bounds) && self.find(entry.word, item, places),
            };
            if !found {
                places.pop();
            }
            found
        })
    }

    /// Takes out nodes that hold too little, inserts again what they held, and shortens the tree where its root has
    /// only one child (Guttman: CondenseTree).
    fn condense(&mut self, mut at: usize, mut path: Path) {
        let mut orphans = Vec::new();
        while let Some((parent, place)) = path.pop() {
            if self.nodes[at].entries.len() < self.layout.entries_least() {
                let level = self.nodes[at].level;
                orphans.extend(
                    std::mem::take(&mut self.nodes[at].entries).into_iter().map(|entry| (entry, level)),
                );
                self.nodes[parent].entries.swap_remove(place);
            } else {
                self.tell(at, &[(parent, place)]);
            }
            at = parent;
        }
        // What lay highest comes first, so that the tree is as high as it needs.
        for (entry, level) in orphans.into_iter().rev() {
            self.insert_at(entry, level, &mut Reinserted::default());
        }
        self.shorten();
    }

    fn shorten(&mut self) {
        loop {
            let root = self.open(self.root);
            self.root = fresh(root);
            match self.nodes[root].entries.as_slice() {
                [only] if self.nodes[root].level > 0 => self.root = only.word,
                _ => return,
            }
            if as_fresh(self.root).is_none() {
                return;
            }
        }
    }

    /// Ends the draft: its nodes, children before parents, are to be stored in as many rooms.
    pub(super) fn finish(self) -> Finished {
        let mut order = Vec::new();
        if let Some(root) = as_fresh(self.root) {
            self.order(root, &mut order);
        }
        Finished { nodes: self.nodes, order, root: self.root, retired: self.retired }
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

/// A draft that is done, but for the rooms of its nodes.
pub(super) struct Finished {
    nodes: Vec<FreshNode>,
    order: Vec<usize>,
    root: u64,
    retired: Vec<NodeRef>,
}

/// A draft as it is to be stored.
pub(super) struct Placed {
    /// Nodes to be stored, children before parents: where, level, entries.
    pub(super) nodes: Vec<(NodeRef, u8, Vec<Entry>)>,
    /// The root of the tree that they belong to.
    pub(super) root: NodeRef,
    /// Nodes that are no part of that tree.
    pub(super) retired: Vec<NodeRef>,
}

impl Finished {
    /// How many rooms it needs.
    pub(super) fn rooms(&self) -> usize {
        self.order.len()
    }

    /// Gives each node one of the rooms.
    pub(super) fn place(mut self, rooms: &[NodeRef]) -> Placed {
        assert_eq!(rooms.len(), self.order.len(), "each node has a room");
        let mut names = vec![None; self.nodes.len()];
        for (&number, &room) in self.order.iter().zip(rooms) {
            names[number] = Some(room);
        }
        let name = |word| match as_fresh(word) {
            Some(number) => names[number].expect("what the root leads to has a room"),
            None => NodeRef::from_word(word).expect("inner nodes name nodes"),
        };
        let nodes = self.order.iter().zip(rooms).map(|(&number, &room)| {
            let FreshNode { level, mut entries } = std::mem::take(&mut self.nodes[number]);
            if level > 0 {
                for entry in &mut entries {
                    entry.word = name(entry.word).word();
                }
            }
            (room, level, entries)
        });
        let nodes = nodes.collect();
        Placed { nodes, root: name(self.root), retired: self.retired }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Scheme;
    use super::*;
    use farwood_fabric::NodeId;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A tree in a map.
    struct Kept {
        layout: Layout,
        nodes: BTreeMap<u64, (u8, Vec<Entry>)>,
        root: NodeRef,
        rooms: u64,
    }

    impl Stored for BTreeMap<u64, (u8, Vec<Entry>)> {
        fn load(&self, node: NodeRef) -> (u8, Vec<Entry>) {
            self[&node.word()].clone()
        }
    }

    impl Kept {
        fn new(blocks: usize) -> Self {
            let layout =
                Layout { blocks, node: NodeId(0), index: 1, scheme: Scheme::Lines, ring_bytes: 1024 };
            let root = NodeRef::new(64, 1);
            Self { layout, nodes: BTreeMap::from([(root.word(), (0, Vec::new()))]), root, rooms: 1 }
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
            let rooms: Vec<_> =
                (1..=finished.rooms() as u64).map(|room| NodeRef::new(64 * (self.rooms + room), 1)).collect();
            self.rooms += rooms.len() as u64;
            let placed = finished.place(&rooms);
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
            assert_eq!(seen, self.nodes.len(), "no node is left behind");
            items.sort_by(|one, other| one.id.cmp(&other.id).then(order(one).total_cmp(&order(other))));
            items
        }
    }

    fn order(item: &Item) -> f64 {
        item.bounds.min()[0] + 1e3 * item.bounds.min()[1] + 1e6 * item.bounds.max()[0]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        /// Rectangles come and go in any order; the tree holds what a list would, and keeps its shape.
        #[test]
        fn a_tree_holds_what_a_list_would(
            blocks in 1..3usize,
            steps in prop::collection::vec((0..40i32, 0..40i32, 0..4i32, 0..3u32), 1..600),
        ) {
            let mut tree = Kept::new(blocks);
            let mut list: Vec<Item> = Vec::new();
            for (step, (x, y, edge, kind)) in steps.into_iter().enumerate() {
                let (x, y) = (f64::from(x), f64::from(y));
                let bounds = Rectangle::new([x, y], [x + f64::from(edge), y + 1.0]).unwrap();
                if kind == 0 && !list.is_empty() {
                    let item = list.swap_remove(step * 7 % list.len());
                    prop_assert!(tree.change(|draft| draft.remove(&item)));
                    let other = Item { id: u64::MAX, ..item };
                    prop_assert!(!tree.change(|draft| draft.remove(&other)), "no such item");
                } else {
                    let item = Item { bounds, id: step as u64 / 3 };
                    list.push(item);
                    tree.change(|draft| { draft.insert(&item); true });
                }
            }
            list.sort_by(|one, other| one.id.cmp(&other.id).then(order(one).total_cmp(&order(other))));
            prop_assert_eq!(tree.items(), list);
        }
    }

    #[test]
    fn a_tree_grows_and_shrinks_by_levels() {
        let mut tree = Kept::new(1);
        let item = |id: u64| Item {
            bounds: Rectangle::point([(id * 7919 % 1000) as f64, (id * 104_729 % 1000) as f64]).unwrap(),
            id,
        };
        let level = |tree: &Kept| tree.nodes[&tree.root.word()].0;
        for id in 0..600 {
            tree.change(|draft| {
                draft.insert(&item(id));
                true
            });
        }
        assert!(level(&tree) >= 3, "level {}", level(&tree));
        assert_eq!(tree.items().len(), 600);
        for id in 0..600 {
            assert!(tree.change(|draft| draft.remove(&item(id))));
        }
        assert_eq!((level(&tree), tree.items().len(), tree.nodes.len()), (0, 0, 1));
    }
}
