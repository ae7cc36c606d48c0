//! The points at which edges of two geometries meet.

use geo_types::Coord;

use super::matrix::IntersectionMatrix;
use super::node::{Spoke, Surroundings, passing};
use crate::orientation::{Contact, contact, is_on, side};
use crate::prepared::{ChainKind, Edge, Prepared, by_x_then_y};

/// Two edges that cross between their ends: the geometry and the number of each.
type EdgePair = [(usize, usize); 2];

/// The points at which edges meet.
pub(super) struct Contacts<'g> {
    geometries: [&'g Prepared; 2],
    /// Positions at which edges meet, in the order of x, y.
    nodes: Vec<Coord<f64>>,
    crossings: Vec<EdgePair>,
    /// Of each geometry, which lines and rings meet another edge.
    pub(super) met: [Vec<bool>; 2],
}

impl<'g> Contacts<'g> {
    /// Finds all contacts.
    pub(super) fn find(geometries: [&'g Prepared; 2]) -> Self {
        let met = geometries.map(|geometry| vec![false; geometry.chains.len()]);
        let mut contacts = Self { geometries, nodes: Vec::new(), crossings: Vec::new(), met };
        // The search goes through the edges of the geometry that has fewer.
        let [a, b] = geometries.map(|geometry| geometry.tree.edges().len());
        contacts.find_between(if a <= b { [0, 1] } else { [1, 0] });
        for of in [0, 1] {
            if geometries[of].overlaps_itself {
                contacts.find_between([of, of]);
            }
        }
        contacts.nodes.sort_by(by_x_then_y);
        contacts.nodes.dedup();
        contacts
    }

    /// Finds contacts of edges of two geometries, or of different polygons of one.
    fn find_between(&mut self, of: [usize; 2]) {
        let [few, many] = of.map(|of| self.geometries[of]);
        let Some(bounds) = many.bounds() else { return };
        for (one, edge) in few.tree.edges().iter().enumerate() {
            if edge.chain().is_none() || !edge.bounds().intersects(&bounds) {
                continue;
            }
            many.tree.for_each(&edge.bounds(), |other| self.add([(of[0], one), (of[1], other)]));
        }
    }

    fn edge(&self, (of, number): (usize, usize)) -> &'g Edge {
        &self.geometries[of].tree.edges()[number]
    }

    fn add(&mut self, pair: EdgePair) {
        let edges = pair.map(|edge| self.edge(edge));
        let [Some(one), Some(other)] = edges.map(Edge::chain) else { return };
        if pair[0].0 == pair[1].0
            && (pair[0].1 >= pair[1].1 || !self.are_of_two_polygons(pair[0].0, [one, other]))
        {
            return;
        }
        let [one_edge, other_edge] = edges;
        match contact(one_edge.ends(), other_edge.ends()) {
            None => return,
            Some(Contact::Crossing) => self.crossings.push(pair),
            Some(Contact::AtEnds) => {
                let of_other =
                    one_edge.ends().into_iter().filter(|at| is_on(other_edge.from, other_edge.to, *at));
                let of_one =
                    other_edge.ends().into_iter().filter(|at| is_on(one_edge.from, one_edge.to, *at));
                self.nodes.extend(of_other.chain(of_one));
            }
        }
        self.met[pair[0].0][one] = true;
        self.met[pair[1].0][other] = true;
    }

    fn are_of_two_polygons(&self, of: usize, chains: [usize; 2]) -> bool {
        match chains.map(|chain| self.geometries[of].chains[chain].kind) {
            [ChainKind::Ring(one), ChainKind::Ring(other)] => one != other,
            _ => false,
        }
    }

    /// Records the surroundings of all contacts.
    pub(super) fn record(&self, matrix: &mut IntersectionMatrix) {
        for node in &self.nodes {
            Surroundings::of_position(self.geometries, *node).record(matrix);
        }
        for pair in &self.crossings {
            self.record_crossing(*pair, matrix);
        }
    }

    fn record_crossing(&self, pair: EdgePair, matrix: &mut IntersectionMatrix) {
        let edges = pair.map(|edge| self.edge(edge));
        // Where a position of a geometry is exactly at the crossing, its node has all edges.
        if self.has_node_on(edges) {
            return;
        }
        let [one, other] = edges;
        let at = crossing_point(one, other);
        let crosses_itself = self.geometries.iter().any(|geometry| geometry.may_cross_itself());
        if crosses_itself && is_on(one.from, one.to, at) && is_on(other.from, other.to, at) {
            return Surroundings::of_position(self.geometries, at).record(matrix);
        }
        let spokes = [0, 1].map(|at| passing(self.geometries[pair[at].0], pair[at].0, edges[at]));
        let [Some([forward, backward]), Some([mut left, mut right])] = spokes else { return };
        if side(one.from, one.to, other.to) < 0.0 {
            std::mem::swap(&mut left, &mut right);
        }
        let mut groups: Vec<_> = [forward, left, backward, right].map(|spoke| vec![spoke]).into();
        if crosses_itself {
            self.add_parallel(pair, &mut groups);
        }
        Surroundings::of_crossing(self.geometries, groups, at).record(matrix);
    }

    /// Adds the spokes of edges that pass the crossing of two edges along one of them. `groups`: the spokes of the two,
    /// one in each direction.
    fn add_parallel(&self, pair: EdgePair, groups: &mut [Vec<Spoke>]) {
        let edges = pair.map(|edge| self.edge(edge));
        let window = edges[0].bounds().intersection(&edges[1].bounds());
        for (of, geometry) in self.geometries.iter().enumerate() {
            if !geometry.may_cross_itself() {
                continue;
            }
            geometry.tree.for_each(&window, |number| {
                if !pair.contains(&(of, number)) {
                    add_along(geometry, of, &geometry.tree.edges()[number], edges, groups);
                }
            });
        }
    }

    /// Whether a node is on both edges, which cross.
    fn has_node_on(&self, [one, other]: [&Edge; 2]) -> bool {
        let (one_box, other_box) = (one.bounds(), other.bounds());
        let least = one_box.min[0].max(other_box.min[0]);
        let greatest = one_box.max[0].min(other_box.max[0]);
        let first = self.nodes.partition_point(|node| node.x < least);
        let near = self.nodes[first..].iter().take_while(|node| node.x <= greatest);
        near.into_iter().any(|node| is_on(one.from, one.to, *node) && is_on(other.from, other.to, *node))
    }
}

/// Adds the spokes of `edge` if it passes the crossing of two edges along one of them.
fn add_along(geometry: &Prepared, of: usize, edge: &Edge, crossing: [&Edge; 2], groups: &mut [Vec<Spoke>]) {
    let Some(spokes) = passing(geometry, of, edge) else { return };
    for (along, across) in [(0, 1), (1, 0)] {
        let (along, across) = (crossing[along], crossing[across]);
        let is_along = edge.ends().iter().all(|end| side(along.from, along.to, *end) == 0.0);
        let [from, to] = edge.ends().map(|end| side(across.from, across.to, end));
        if is_along && from != 0.0 && to != 0.0 && from.signum() != to.signum() {
            for spoke in spokes {
                let ahead = |at: Coord<f64>| side(across.from, across.to, at) > 0.0;
                let same = |other: &Spoke| ahead(other.toward()) == ahead(spoke.toward());
                let of_edge = |other: &Spoke| along.ends().contains(&other.toward());
                let group = groups
                    .iter_mut()
                    .find(|group| group.first().is_some_and(|one| of_edge(one) && same(one)));
                if let Some(group) = group {
                    group.push(spoke);
                }
            }
            return;
        }
    }
}

/// Nearly the point at which two edges cross.
fn crossing_point(one: &Edge, other: &Edge) -> Coord<f64> {
    let (from, to) = (side(other.from, other.to, one.from).abs(), side(other.from, other.to, one.to).abs());
    let share = from / (from + to);
    let share = if share.is_finite() { share } else { 0.5 };
    Coord {
        x: one.from.x * (1.0 - share) + one.to.x * share,
        y: one.from.y * (1.0 - share) + one.to.y * share,
    }
}
