//! Distances between geometries, and lower bounds of them.

mod planar;
mod sphere;
mod windows;

use crate::bounds::Bounds;
use crate::prepared::{Edge, Location, Prepared};
pub use sphere::EARTH_RADIUS_M;

/// How distances are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Euclidean distances in the unit of the coordinates.
    Planar,
    /// Metres on a sphere of radius [`EARTH_RADIUS_M`]; coordinates are longitude and latitude in degrees.
    ///
    /// An edge is straight in longitude and latitude, as in RFC 7946 and in the predicates, and no great circle. The
    /// distance of two points is exact but for rounding (less than 1 um). Other distances are never less than the true
    /// one, and at most 1 mm greater up to 18,000 km; between nearly antipodal geometries they may be 50 m greater.
    /// Longitudes 180 and -180 are the same meridian. Distances are 0 where the geometries intersect as predicates see
    /// them, so that longitudes of both must be in the same range. [`Geometry::check_degrees`] refuses coordinates that
    /// are not degrees.
    ///
    /// [`Geometry::check_degrees`]: crate::Geometry::check_degrees
    Sphere,
}

impl Metric {
    /// The distance; 0 where the geometries have a point in common. `None`: one of them is empty.
    pub fn distance(self, a: &Prepared, b: &Prepared) -> Option<f64> {
        self.distance_up_to(a, b, f64::INFINITY)
    }

    /// The distance, if it is at most `limit`. `None`: it is greater, or one of the geometries is empty. A small limit
    /// saves time.
    pub fn distance_up_to(self, a: &Prepared, b: &Prepared, limit: f64) -> Option<f64> {
        let (a_box, b_box) = (a.bounds()?, b.bounds()?);
        if self.between_boxes(&a_box, &b_box) > limit {
            return None;
        }
        if a.intersects(b) {
            return (limit >= 0.0).then_some(0.0);
        }
        let (few, many) = if a.tree.edges().len() <= b.tree.edges().len() { (a, b) } else { (b, a) };
        // The search looks for values below its bound, and a distance equal to the limit counts.
        let mut best = limit.next_up();
        for edge in few.tree.edges() {
            let bounds = edge.bounds();
            let lower = |other: &Bounds| self.between_boxes(&bounds, other);
            many.tree.minimise(&mut best, &lower, &mut |other, best| {
                self.between_edges(edge, &many.tree.edges()[other], best)
            });
        }
        (best <= limit).then_some(best)
    }

    /// Whether the distance is at most `distance`: `dwithin`.
    pub fn is_within(self, a: &Prepared, b: &Prepared, distance: f64) -> bool {
        self.distance_up_to(a, b, distance).is_some()
    }

    /// A number that the distance from `query` to no geometry inside `bounds` falls below. `None`: the query is empty.
    ///
    /// It is 0 if the box and the query have a point in common, and otherwise the distance to the box, reduced by what
    /// rounding may have added; [`Metric::Sphere`] measures from the bounding boxes of the query's edges.
    pub fn lower_bound(self, query: &Prepared, bounds: &Bounds) -> Option<f64> {
        query.bounds()?;
        if query.meets_box(bounds) {
            return Some(0.0);
        }
        let mut best = f64::INFINITY;
        query.tree.minimise(&mut best, &|edges| self.between_boxes(edges, bounds), &mut |edge, _| {
            let edge = &query.tree.edges()[edge];
            match self {
                Self::Planar => planar::lower_bound(planar::to_box(edge, bounds)),
                Self::Sphere => self.between_boxes(&edge.bounds(), bounds),
            }
        });
        Some(best)
    }

    /// A number that the distance from anything in one box to anything in the other does not fall below.
    fn between_boxes(self, a: &Bounds, b: &Bounds) -> f64 {
        match self {
            Self::Planar => planar::lower_bound(a.distance(b)),
            Self::Sphere => sphere::between_boxes(a, b),
        }
    }

    /// The distance of two edges; something greater than `limit` if it is greater.
    fn between_edges(self, a: &Edge, b: &Edge, limit: f64) -> f64 {
        match self {
            Self::Planar => planar::between_segments(a.ends(), b.ends()),
            Self::Sphere => sphere::between_edges(a.ends(), b.ends(), limit),
        }
    }
}

impl Prepared {
    /// Whether the box has a point in common with it.
    fn meets_box(&self, bounds: &Bounds) -> bool {
        if self.dimension() == Some(2) && self.locate_in_polygons(bounds.corners()[0]) != Location::Exterior {
            return true;
        }
        self.tree.any(bounds, &mut |edge| self.tree.edges()[edge].meets_box(bounds))
    }
}
