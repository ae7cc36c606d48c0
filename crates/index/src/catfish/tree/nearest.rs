//! The nearest rectangles to a point: best-first search (Hjaltason and Samet, TODS 1999). Pure: the caller fetches the
//! nodes.

use super::distance::Distance;
use super::layout::{Entry, NodeRef};
use super::rectangle::{Item, Rectangle};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An item and its distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Near {
    /// The item.
    pub item: Item,
    /// The square of the distance from the point to the nearest point of its rectangle. It is infinite beyond 1e154,
    /// and 0 below 1e-162; the order of the items is correct at every distance.
    pub distance_squared: f64,
}

/// The state of a search.
#[derive(Debug)]
pub(in crate::catfish) struct Nearest {
    point: [f64; 2],
    count: usize,
    /// Nodes to visit, the nearest first, with the levels of their parents.
    nodes: BinaryHeap<Reverse<(Distance, NodeRef, Option<u8>)>>,
    /// The nearest items so far, the farthest of them first; items at equal distances by number.
    items: BinaryHeap<(Distance, u64, [u64; 4])>,
}

impl Nearest {
    pub(in crate::catfish) fn new(point: [f64; 2], count: usize, root: NodeRef) -> Self {
        let nodes = BinaryHeap::from([Reverse((Distance::ZERO, root, None))]);
        Self { point, count, nodes, items: BinaryHeap::new() }
    }

    /// Whether an item at that distance may be among the nearest.
    fn may_count(&self, distance: Distance) -> bool {
        self.items.len() < self.count || self.items.peek().is_some_and(|(farthest, ..)| distance <= *farthest)
    }

    /// The next node to visit, and the level of its parent.
    pub(in crate::catfish) fn next(&mut self) -> Option<(NodeRef, Option<u8>)> {
        let Reverse((distance, node, below)) = self.nodes.pop()?;
        (self.count > 0 && self.may_count(distance)).then_some((node, below))
    }

    /// Adds the entries of a node.
    ///
    /// # Errors
    /// The word of an inner node's entry that is not a reference.
    pub(in crate::catfish) fn add_entries(
        &mut self,
        level: u8,
        entries: impl Iterator<Item = Entry>,
    ) -> Result<(), u64> {
        for Entry { bounds, word } in entries {
            let distance = Distance::between(&bounds, self.point);
            if !self.may_count(distance) {
                continue;
            }
            if level > 0 {
                let node = NodeRef::from_word(word).ok_or(word)?;
                self.nodes.push(Reverse((distance, node, Some(level))));
                continue;
            }
            let edges = [bounds.min()[0], bounds.min()[1], bounds.max()[0], bounds.max()[1]];
            self.items.push((distance, word, edges.map(f64::to_bits)));
            if self.items.len() > self.count {
                self.items.pop();
            }
        }
        Ok(())
    }

    /// The items found, the nearest first.
    pub(in crate::catfish) fn found(self) -> Vec<Near> {
        let near = |(_, id, edges): (Distance, u64, [u64; 4])| {
            let [min_x, min_y, max_x, max_y] = edges.map(f64::from_bits);
            let bounds = Rectangle::trusted([min_x, min_y], [max_x, max_y]);
            Near { item: Item { bounds, id }, distance_squared: bounds.distance_squared(self.point) }
        };
        self.items.into_sorted_vec().into_iter().map(near).collect()
    }
}
