//! The relation of two geometries (DE-9IM), computed without rounding.
//!
//! The edges of both geometries divide the plane into points, pieces of edges and faces, and each of them has one
//! location in each geometry. The matrix is the union of these pairs. Every piece and every face touches a node (a
//! point at which an edge of one geometry meets one of the other), or belongs to a line or ring that meets no edge of
//! the other geometry. So it suffices to look at
//!
//! 1. every position at which edges of both meet: the directions of the edges there, sorted (`node.rs`);
//! 2. every pair of edges that cross between their ends: the crossing point need not be computed, because the sides of
//!    the edges decide;
//! 3. one position of every line and ring that meets no edge of the other;
//! 4. the points and the ends of the lines.
//!
//! A collection counts as the union of its parts. Where polygons of a collection overlap, crossings of their edges are
//! nodes as well, and their location in further polygons is the one exception that is computed with rounded
//! coordinates.

mod contacts;
mod intersects;
mod matrix;
mod node;

use geo_types::Coord;

use crate::bounds::Bounds;
use crate::prepared::{ChainKind, Location, Prepared};
use contacts::Contacts;
pub use matrix::IntersectionMatrix;
pub(crate) use node::location_at_node;

impl Prepared {
    /// The relation of this geometry (rows) to the other (columns).
    pub fn relate(&self, other: &Self) -> IntersectionMatrix {
        let mut matrix = IntersectionMatrix::unrelated();
        let contacts = Contacts::find([self, other]);
        contacts.record(&mut matrix);
        for of in [0, 1] {
            let (one, other) = if of == 0 { (self, other) } else { (other, self) };
            let mut meet = |here: Location, there: Location, dimension: u8| {
                matrix.meet(if of == 0 { [here, there] } else { [there, here] }, dimension);
            };
            one.relate_positions(other, &mut meet);
            for (chain, _) in contacts.met[of].iter().enumerate().filter(|(_, met)| !**met) {
                one.relate_chain(chain, other, &mut meet);
            }
        }
        matrix
    }

    /// Relates the points and the ends of lines.
    fn relate_positions(&self, other: &Self, meet: &mut impl FnMut(Location, Location, u8)) {
        for at in self.points.iter().chain(&self.line_ends) {
            meet(self.locate(*at), other.locate(*at), 0);
        }
    }

    /// Relates a line or ring that no edge of `other` meets.
    fn relate_chain(&self, chain: usize, other: &Self, meet: &mut impl FnMut(Location, Location, u8)) {
        let chain = &self.chains[chain];
        let there = other.locate_in_polygons(chain.start);
        let ChainKind::Ring(polygon) = chain.kind else {
            meet(Location::Interior, there, 1);
            return;
        };
        let covered = self.overlaps_itself
            && self.locate_in_polygons_except(chain.start, &[polygon]) == Location::Interior;
        let inside = (Location::Interior, Location::Interior);
        let (edge, outside) = if covered { inside } else { (Location::Boundary, Location::Exterior) };
        meet(edge, there, 1);
        meet(Location::Interior, there, 2);
        meet(outside, there, 2);
    }

    /// Whether one of the points is at `at`.
    pub(crate) fn has_point(&self, at: Coord<f64>) -> bool {
        self.tree.any(&Bounds::point([at.x, at.y]), &mut |edge| {
            let edge = &self.tree.edges()[edge];
            edge.chain().is_none() && edge.from == at
        })
    }
}
