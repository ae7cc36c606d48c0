//! Whether two geometries have a point in common: the search ends at the first one.

use geo_types::Coord;

use crate::prepared::{Location, Prepared};

impl Prepared {
    /// Whether the geometries have a point in common.
    pub(crate) fn intersects(&self, other: &Self) -> bool {
        if !matches!((self.bounds(), other.bounds()), (Some(one), Some(other)) if one.intersects(&other)) {
            return false;
        }
        let fewer_first = self.tree.edges().len() <= other.tree.edges().len();
        let (few, many) = if fewer_first { (self, other) } else { (other, self) };
        few.reaches_inside(many) || many.reaches_inside(few) || few.edges_meet(many)
    }

    /// Whether the first position of a line or ring of it, or a point, is in a polygon of `other`.
    fn reaches_inside(&self, other: &Self) -> bool {
        let is_inside = |at: Coord<f64>| {
            other.bounds().is_some_and(|bounds| bounds.contains_coord(at))
                && other.locate_in_polygons(at) != Location::Exterior
        };
        other.dimension() == Some(2)
            && (self.chains.iter().any(|chain| is_inside(chain.start))
                || self.points.iter().any(|at| is_inside(*at)))
    }

    /// Whether an edge or point of it has a point in common with one of `many`.
    fn edges_meet(&self, many: &Self) -> bool {
        let Some(bounds) = many.bounds() else { return false };
        self.tree
            .edges()
            .iter()
            .filter(|edge| edge.bounds().intersects(&bounds))
            .any(|edge| many.tree.any(&edge.bounds(), &mut |other| edge.meets(&many.tree.edges()[other])))
    }
}
