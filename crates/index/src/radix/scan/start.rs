//! Where a scan begins: at the root, or further down where cached copies lead, at a node that is read live as all
//! others are (`docs/decisions/0038-scan-start.md`), or at some of its children
//! (`docs/decisions/0054-shortcuts-and-scan-starts.md`).
//!
//! A child proves itself that it is linked in the slot that a copy shows, however old the copy is: a node by its
//! prefix, a leaf by its key and 15 bits of its parent's generation, as for a lookup. A slot without a child proves
//! nothing: so only children without a gap between them are read by a copy.

use super::batch::{AHEAD_MAX, Above, Below, ChildFormat, Item, RawChild};
use super::cursor::{Course, Edges, Wanted};
use crate::error::IndexError;
use crate::radix::cache::cached_node::CachedNode;
use crate::radix::coverage as marks;
use crate::radix::inner::{Found, Inner, InnerFormat, RawInner, Size, slot_of_all, step_of};
use crate::radix::key::{Step, step_at};
use crate::radix::reverse::Reverse;
use crate::radix::slot::{Child, Slot};
use crate::radix::tree::fetch::fetch;
use crate::radix::tree::find::Way;
use crate::radix::tree::options::{Rooms, Scans};
use crate::radix::tree::{Direction, Guide, Tree};
use crate::sabotage::Sabotage;
use farwood_fabric::{Checked, Client, Fabric, Remote};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Whether a scan may begin with children of a node that it has not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    Children,
    /// It led astray before.
    Nothing,
}

impl Trust {
    /// What is trusted after so many tries.
    pub(crate) fn of(tries: u32) -> Self {
        if tries == 0 { Self::Children } else { Self::Nothing }
    }
}

/// Where cached copies lead.
struct Entrance {
    node: Arc<CachedNode>,
    /// Its reverse pointer, if it is still linked.
    right: Reverse,
    /// The slots with the keys that are wanted, the next one first, if the copy tells which.
    children: Vec<(u16, Slot)>,
}

impl<G: Guide> Tree<G> {
    /// Where a scan goes on: what the keys there begin with, and what is to be looked at. [0 RT where a copy tells
    /// which children to read; else 1 for the node that copies lead to, if it says that it is linked where they say; 2
    /// where they led astray]
    pub(crate) async fn scan_begin<F: Fabric>(
        &self,
        client: &Client<F>,
        course: &Course<'_>,
        (way, trust): (&Way<'_>, Trust),
    ) -> Result<(Vec<u8>, Vec<Item>), IndexError> {
        if let Some(Entrance { node, right, children }) = self.entrance(course, client.fabric().thread()) {
            let key = course.next().unwrap_or_default();
            let prefix = key[..node.header.depth()].to_vec();
            if !children.is_empty() && trust == Trust::Children {
                return Ok(begin_with(children, (node, prefix, self.number), course));
            }
            let copy = self.read_above(client, (node.at, node.header.size()), way).await?;
            if copy.header() == node.header && copy.reverse() == right {
                if trust == Trust::Nothing {
                    self.cache.put(node.at, &copy);
                }
                let first = course.first_slot(node.header.size());
                let above = Above::read(node.at, copy, (Some(prefix.clone()), self.number));
                return Ok((prefix, vec![Item::Rest(above, first)]));
            }
            client.fabric().mark(marks::FORGOTTEN);
            self.cache.remove(node.at);
        }
        let root = self.read_above(client, (self.root, Size::All), way).await?;
        self.cache.put(self.root, &root);
        let above = Above::read(self.root, root, (Some(Vec::new()), self.number));
        Ok((Vec::new(), vec![Item::Rest(above, course.first_slot(Size::All))]))
    }

    /// Reads an inner node whose children a scan goes through. [as [`fetch`]]
    async fn read_above<F: Fabric>(
        &self,
        client: &Client<F>,
        (at, size): (Remote<RawInner>, Size),
        way: &Way<'_>,
    ) -> Result<Inner<Checked<RawChild>>, IndexError> {
        let format = ChildFormat::Inner(InnerFormat { number: self.number });
        fetch(client, (at.part(0), size.bytes()), &format, way.operation).await.map(Inner::new)
    }

    /// Keys that are behind a slot, at least, if nodes are no larger than what they hold: from this, how much of a tree
    /// is to be read at once. None where there is no child to read.
    pub(crate) fn keys_behind(&self, slot: Slot) -> usize {
        match slot.child() {
            Child::Inner(_, size) if self.options.rooms == Rooms::Fitting => size.keys_min(),
            Child::Inner(..) => Size::Four.keys_min(),
            Child::Leaf(..) => 1,
            Child::Free | Child::Vacant | Child::Closed | Child::Damaged => 0,
        }
    }

    /// The deepest cached node that the next key may be below and that has keys enough from there on; `None`: the root
    /// will do. [0 RT]
    fn entrance(&self, course: &Course<'_>, thread: usize) -> Option<Entrance> {
        let key = course.next()?;
        let mut node = self.cache.get(self.root, thread, 0)?;
        let mut found: Option<Entrance> = None;
        while let Found::Slot(number, slot) = node.find(key)
            && let Child::Inner(at, _) = slot.child()
            && let Some(child) = self.cache.get(at, thread, 0)
        {
            let depth = child.header.depth();
            let above = match course.direction {
                Direction::Forward => depth <= key.len(),
                Direction::Backward => depth < key.len(),
            };
            if depth <= node.header.depth() || !above || !child.covers(key, self.number) {
                break;
            }
            let (all, ahead) = self.keys_below(&child, step_at(key, depth), course);
            if ahead >= course.left.min(AHEAD_MAX) {
                let right = Reverse::of_inner(node.at, node.header.generation(), slot.partial());
                found = Some(Entrance { node: Arc::clone(&child), right, children: Vec::new() });
            } else if let Some(found) = &mut found
                && Arc::ptr_eq(&found.node, &node)
                && depth == node.header.depth() + 1
            {
                found.children =
                    self.children_enough(&node, (number, slot), (all, ahead), course).unwrap_or_default();
            }
            node = child;
        }
        found
    }

    /// How many keys are below a cached node, at least: all of them, and those from that step on; or only that these
    /// are as many as are wanted.
    fn keys_below(&self, node: &CachedNode, from: Step, course: &Course<'_>) -> (usize, usize) {
        let wanted = course.left.min(AHEAD_MAX);
        if node.header.size() == Size::All {
            return self.keys_ahead(node, slot_of_all(from), (course.direction, wanted));
        }
        let (mut all, mut ahead) = (0, 0);
        for (step, slot) in node.children() {
            let keys = self.keys_behind(slot);
            let is_ahead = match course.direction {
                Direction::Forward => step >= from,
                Direction::Backward => step <= from,
            };
            (all, ahead) = (all + keys, if is_ahead { ahead + keys } else { ahead });
        }
        (all, ahead)
    }

    /// The same of a node with a slot for every byte, from that one on: where these are many, the others have as many
    /// for their share.
    fn keys_ahead(
        &self,
        node: &CachedNode,
        from: usize,
        (direction, wanted): (Direction, usize),
    ) -> (usize, usize) {
        const MANY: usize = 64;
        let keys_in = |slots: Range<usize>| {
            let occupied = slots.map(|number| node.slot(number)).filter(|slot| slot.is_occupied());
            occupied.map(|slot| self.keys_behind(slot))
        };
        let last = Size::All.slots();
        let (slots, others) = match direction {
            Direction::Forward => (from..last + 1, 0..from),
            Direction::Backward => (0..from + 1, from + 1..last + 1),
        };
        let mut ahead = 0;
        for keys in keys_in(slots.clone()) {
            ahead += keys;
            if ahead >= wanted {
                return (ahead, ahead);
            }
        }
        let all = if slots.len() >= MANY {
            ahead * (last + 1) / slots.len()
        } else {
            ahead + keys_in(others).sum::<usize>()
        };
        (all, ahead)
    }

    /// The children of a cached node, from one of them on, that have as many keys as are wanted, if these are not too
    /// many for one of its siblings and there is no slot without a child between them: of such a slot a copy proves
    /// nothing. Children as large as the first are taken to have as many keys.
    fn children_enough(
        &self,
        node: &CachedNode,
        (first, slot): (usize, Slot),
        (all, ahead): (usize, usize),
        course: &Course<'_>,
    ) -> Option<Vec<(u16, Slot)>> {
        let fits = node.header.size() == Size::All && course.left <= AHEAD_MAX;
        if !fits || self.options.scans != Scans::Batched || slot_of_all(step_of(first, slot)) != first {
            return None;
        }
        let (alike, last) = (size_behind(slot), Size::All.slots());
        let (mut keys, mut children) = (ahead, vec![(first as u16, slot)]);
        let (mut above, mut below) = (first + 1..=last, (1..first).rev());
        let mut next = || match course.direction {
            Direction::Forward => above.next(),
            Direction::Backward => below.next(),
        };
        while keys < course.left {
            let number = next()?;
            let slot = node.slot(number);
            keys += match self.keys_behind(slot) {
                0 if self.sabotage == Some(Sabotage::GapsPassed) => continue,
                0 => return None,
                _ if slot_of_all(step_of(number, slot)) != number => return None,
                _ if size_behind(slot) == alike => all,
                least => least,
            };
            children.push((number as u16, slot));
        }
        Some(children)
    }
}

/// The size of the inner node behind a slot.
fn size_behind(slot: Slot) -> Option<Size> {
    match slot.child() {
        Child::Inner(_, size) => Some(size),
        _ => None,
    }
}

/// Those children of a cached copy that are wanted, the next one last; and what keys begin with up to the last of them,
/// behind which the scan goes on.
fn begin_with(
    children: Vec<(u16, Slot)>,
    (node, prefix, number): (Arc<CachedNode>, Vec<u8>, u32),
    course: &Course<'_>,
) -> (Vec<u8>, Vec<Item>) {
    let (depth, mut last) = (prefix.len(), prefix.clone());
    let mut edges = Edges::of(Some(&prefix), course);
    let above = Above::cached(node, prefix, number);
    let mut items = Vec::with_capacity(course.left.min(AHEAD_MAX));
    for (number, slot) in children {
        let step = step_of(usize::from(number), slot);
        last.truncate(depth);
        if let Step::Byte(byte) = step {
            last.push(byte);
        }
        let wanted = edges.wanted(step, course);
        if wanted == Wanted::None {
            break;
        }
        let edge = wanted == Wanted::Some;
        items.push(Item::Child(Below { above: Rc::clone(&above), number, slot, edge }));
    }
    items.reverse();
    (last, items)
}
