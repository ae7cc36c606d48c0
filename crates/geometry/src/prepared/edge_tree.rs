//! A tree of boxes over the edges of a geometry, in the order of its lines and rings.

use geo_types::Coord;

use crate::bounds::Bounds;
use crate::orientation::{contact, is_on};

/// Children of a box of the tree.
const FANOUT: usize = 8;

/// The chain of a point among the edges.
const POINT: u32 = u32::MAX;

/// A segment of a line or ring, or a point. A ring has its polygon on the left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) from: Coord<f64>,
    pub(crate) to: Coord<f64>,
    chain: u32,
}

impl Edge {
    pub(crate) fn of_chain(from: Coord<f64>, to: Coord<f64>, chain: usize) -> Self {
        Self { from, to, chain: chain as u32 }
    }

    pub(crate) fn point(at: Coord<f64>) -> Self {
        Self { from: at, to: at, chain: POINT }
    }

    /// The number of its line or ring; `None`: it is a point.
    pub(crate) fn chain(&self) -> Option<usize> {
        (self.chain != POINT).then_some(self.chain as usize)
    }

    pub(crate) fn ends(&self) -> [Coord<f64>; 2] {
        [self.from, self.to]
    }

    pub(crate) fn bounds(&self) -> Bounds {
        Bounds::of_segment(self.from, self.to)
    }

    /// Whether they have a point in common.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        match (self.chain(), other.chain()) {
            (None, _) => is_on(other.from, other.to, self.from),
            (_, None) => is_on(self.from, self.to, other.from),
            _ => contact(self.ends(), other.ends()).is_some(),
        }
    }

    /// Whether it has a point in common with the box.
    pub(crate) fn meets_box(&self, bounds: &Bounds) -> bool {
        let corners = bounds.corners();
        let diagonals = [[corners[0], corners[2]], [corners[1], corners[3]]];
        bounds.contains_coord(self.from)
            || bounds.contains_coord(self.to)
            || self.chain().is_some()
                && diagonals.into_iter().any(|diagonal| contact(self.ends(), diagonal).is_some())
    }
}

/// The edges, and boxes around groups of them.
#[derive(Clone, Debug)]
pub(crate) struct EdgeTree {
    edges: Vec<Edge>,
    /// The boxes of groups of [`FANOUT`] edges, then those of groups of these boxes, and so on, up to one box.
    levels: Vec<Vec<Bounds>>,
}

impl EdgeTree {
    pub(crate) fn new(edges: Vec<Edge>) -> Self {
        let around = |boxes: &[Bounds]| boxes.iter().copied().reduce(|all, one| all.union(&one));
        let around_edges = |edges: &[Edge]| edges.iter().map(Edge::bounds).reduce(|all, one| all.union(&one));
        let mut levels: Vec<Vec<Bounds>> = vec![edges.chunks(FANOUT).filter_map(around_edges).collect()];
        while let Some(level) = levels.last().filter(|level| level.len() > 1) {
            let above = level.chunks(FANOUT).filter_map(around).collect();
            levels.push(above);
        }
        Self { edges, levels }
    }

    pub(crate) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The box of everything.
    pub(crate) fn bounds(&self) -> Option<Bounds> {
        self.levels.last().and_then(|level| level.first()).copied()
    }

    /// Whether `test` accepts the number of an edge whose box shares a point with `window`. It ends at the first one.
    pub(crate) fn any(&self, window: &Bounds, test: &mut impl FnMut(usize) -> bool) -> bool {
        self.any_below(self.levels.len(), 0, window, test)
    }

    /// Calls `visit` with the numbers of all edges whose boxes share a point with `window`.
    pub(crate) fn for_each(&self, window: &Bounds, mut visit: impl FnMut(usize)) {
        self.any(window, &mut |edge| {
            visit(edge);
            false
        });
    }

    /// Tests the edge `at`, or those below the box `at` of a level from 1.
    fn any_below(
        &self,
        level: usize,
        at: usize,
        window: &Bounds,
        test: &mut impl FnMut(usize) -> bool,
    ) -> bool {
        if level == 0 {
            return self.edges[at].bounds().intersects(window) && test(at);
        }
        self.levels[level - 1].get(at).is_some_and(|bounds| bounds.intersects(window))
            && self.children(level, at).any(|child| self.any_below(level - 1, child, window, test))
    }

    /// The numbers of the children of a box of a level from 1.
    fn children(&self, level: usize, at: usize) -> std::ops::Range<usize> {
        let below = if level == 1 { self.edges.len() } else { self.levels[level - 2].len() };
        at * FANOUT..below.min((at + 1) * FANOUT)
    }

    /// Reduces `best` to the least value of `exact` over all edges, if that is less. `lower` yields for a box a number
    /// that `exact` of no edge in it falls below.
    pub(crate) fn minimise(
        &self,
        best: &mut f64,
        lower: &impl Fn(&Bounds) -> f64,
        exact: &mut impl FnMut(usize, f64) -> f64,
    ) {
        if let Some(bounds) = self.bounds()
            && lower(&bounds) < *best
        {
            self.minimise_below(self.levels.len(), 0, best, lower, exact);
        }
    }

    fn minimise_below(
        &self,
        level: usize,
        at: usize,
        best: &mut f64,
        lower: &impl Fn(&Bounds) -> f64,
        exact: &mut impl FnMut(usize, f64) -> f64,
    ) {
        let mut children = [(f64::INFINITY, 0); FANOUT];
        let mut count = 0;
        for child in self.children(level, at) {
            let bound = match level {
                1 => lower(&self.edges[child].bounds()),
                _ => lower(&self.levels[level - 2][child]),
            };
            children[count] = (bound, child);
            count += 1;
        }
        let children = &mut children[..count];
        children.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (bound, child) in children {
            if *bound >= *best {
                return;
            }
            match level {
                1 => *best = best.min(exact(*child, *best)),
                _ => self.minimise_below(level - 1, *child, best, lower, exact),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_finds_what_a_scan_finds() {
        let at = |x: usize, y: usize| Coord { x: x as f64, y: y as f64 };
        for count in [0, 1, 7, 8, 9, 64, 65, 700] {
            let edges: Vec<Edge> = (0..count)
                .map(|n| Edge::of_chain(at(n * 7 % 31, n * 5 % 37), at(n * 3 % 31, n * 11 % 37), 0))
                .collect();
            let tree = EdgeTree::new(edges.clone());
            for n in 0..20 {
                let window = Bounds::new([n as f64, n as f64], [n as f64 + 3.0, n as f64 + 1.0]);
                let mut found = Vec::new();
                tree.for_each(&window, |at| found.push(at));
                let scanned: Vec<usize> =
                    (0..count).filter(|n| edges[*n].bounds().intersects(&window)).collect();
                assert_eq!(found, scanned);
            }
        }
    }
}
