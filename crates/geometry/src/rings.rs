//! Polygons of rings that come in any order, and whose orientation states which of them are holes.

use std::cell::OnceCell;

use geo_types::{LineString, MultiPolygon, Polygon};

use crate::bounds::Bounds;
use crate::geometry::{Geometry, GeometryError, check_ring};
use crate::orientation::doubled_area;
use crate::prepared::{Location, Prepared};

/// A ring with what decides to which polygon it belongs.
struct Ring {
    line: LineString<f64>,
    bounds: Option<Bounds>,
    /// The enclosed area, doubled: positive if the ring is counter-clockwise.
    area: f64,
    /// The polygon that the ring encloses.
    prepared: OnceCell<Prepared>,
}

impl Geometry {
    /// The polygon, or the polygons, of rings as Shapefiles store them: in any order, clockwise if they are shells, and
    /// counter-clockwise if they are holes, which belong to the smallest shell around them. Rings that are all reversed
    /// are accepted, and a ring without an area is a shell. Takes time in proportion to the shells times the holes.
    ///
    /// # Errors
    /// [`GeometryError`] if a coordinate is not finite, a ring is open or has fewer than four positions, or a hole is
    /// in no shell.
    pub fn of_rings(rings: Vec<LineString<f64>>) -> Result<Self, GeometryError> {
        rings.iter().try_for_each(check_ring)?;
        let rings: Vec<Ring> = rings.into_iter().map(Ring::new).collect();
        let shells = shells(&rings, |ring| ring.area > 0.0);
        let shells = shells.or_else(|why| self::shells(&rings, |ring| ring.area < 0.0).map_err(|_| why))?;
        let mut holes = vec![Vec::new(); rings.len()];
        let mut outer = Vec::new();
        for (number, (ring, shell)) in rings.into_iter().zip(shells).enumerate() {
            match shell {
                Some(shell) => holes[shell].push(ring.line),
                None => outer.push((number, ring.line)),
            }
        }
        let polygons =
            outer.into_iter().map(|(number, shell)| Polygon::new(shell, std::mem::take(&mut holes[number])));
        let polygons: Vec<_> = polygons.collect();
        match <[Polygon<f64>; 1]>::try_from(polygons) {
            Ok([polygon]) => Self::new(polygon.into()),
            Err(polygons) => Self::new(MultiPolygon(polygons).into()),
        }
    }
}

/// The number of the shell of each ring; `None`: it is a shell itself.
fn shells(rings: &[Ring], is_hole: impl Fn(&Ring) -> bool) -> Result<Vec<Option<usize>>, GeometryError> {
    let smaller = |one: &usize, other: &usize| rings[*one].area.abs().total_cmp(&rings[*other].area.abs());
    let shell = |(number, ring): (usize, &Ring)| {
        if !is_hole(ring) {
            return Ok(None);
        }
        let around =
            (0..rings.len()).filter(|other| !is_hole(&rings[*other]) && rings[*other].contains(ring));
        match around.min_by(smaller) {
            Some(shell) => Ok(Some(shell)),
            None => Err(GeometryError::HoleOutside { ring: number + 1, rings: rings.len() }),
        }
    };
    rings.iter().enumerate().map(shell).collect()
}

impl Ring {
    fn new(line: LineString<f64>) -> Self {
        let points = line.coords().map(|at| Bounds::point([at.x, at.y]));
        let bounds = points.reduce(|all, point| all.union(&point));
        let area = doubled_area(&line);
        Self { line, bounds, area, prepared: OnceCell::new() }
    }

    /// Whether `other`, which does not cross this ring, is inside it. The first position of `other` that is not on this
    /// ring decides, or the first middle of an edge.
    fn contains(&self, other: &Self) -> bool {
        let (Some(bounds), Some(inner)) = (self.bounds, other.bounds) else { return false };
        if !bounds.contains(&inner) {
            return false;
        }
        let prepared =
            self.prepared.get_or_init(|| Prepared::of_polygon(&Polygon::new(self.line.clone(), Vec::new())));
        let middles = other.line.lines().map(|edge| edge.start + edge.delta() / 2.0);
        let mut locations = other.line.coords().copied().chain(middles).map(|at| prepared.locate(at));
        locations.find(|location| *location != Location::Boundary) != Some(Location::Exterior)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A square, counter-clockwise.
    fn square([x, y]: [f64; 2], size: f64) -> LineString<f64> {
        let corners = [[x, y], [x + size, y], [x + size, y + size], [x, y + size], [x, y]];
        corners.map(geo_types::Coord::from).into_iter().collect()
    }

    fn reversed(mut ring: LineString<f64>) -> LineString<f64> {
        ring.0.reverse();
        ring
    }

    fn wkt(rings: Vec<LineString<f64>>) -> String {
        Geometry::of_rings(rings).unwrap().to_string()
    }

    #[test]
    fn holes_are_in_the_smallest_shell_around_them_in_any_order() {
        let lake = square([2.0, 2.0], 6.0);
        let island = reversed(square([3.0, 3.0], 4.0));
        let pond = square([4.0, 4.0], 1.0);
        let land = reversed(square([0.0, 0.0], 10.0));
        let other = reversed(square([20.0, 0.0], 10.0));
        let rings = [pond, lake, other, land, island];
        let expected = "MULTIPOLYGON(((20 0,20 10,30 10,30 0,20 0)),\
                        ((0 0,0 10,10 10,10 0,0 0),(2 2,8 2,8 8,2 8,2 2)),\
                        ((3 3,3 7,7 7,7 3,3 3),(4 4,5 4,5 5,4 5,4 4)))";
        assert_eq!(wkt(rings.to_vec()), expected);
        let other_way = wkt(rings.map(reversed).to_vec());
        assert_eq!(other_way.matches("((").count(), 3, "{other_way}");
        assert!(other_way.contains("(2 2,2 8,8 8,8 2,2 2))"), "{other_way}");
    }

    #[test]
    fn a_single_ring_of_any_orientation_is_a_polygon() {
        let expected = "POLYGON((0 0,1 0,1 1,0 1,0 0))";
        assert_eq!(wkt(vec![square([0.0, 0.0], 1.0)]), expected);
        assert!(wkt(vec![reversed(square([0.0, 0.0], 1.0))]).starts_with("POLYGON(("));
        let flat = wkt(vec![LineString::from(vec![(0.0, 0.0), (2.0, 0.0), (1.0, 0.0), (0.0, 0.0)])]);
        assert_eq!(flat, "POLYGON((0 0,2 0,1 0,0 0))");
    }

    #[test]
    fn a_hole_may_touch_its_shell_with_all_of_its_corners() {
        let shell = reversed(square([0.0, 0.0], 4.0));
        let diamond = LineString::from(vec![(2.0, 0.0), (4.0, 2.0), (2.0, 4.0), (0.0, 2.0), (2.0, 0.0)]);
        assert!(wkt(vec![shell.clone(), diamond]).starts_with("POLYGON(("));
        // Outside of the notch between (4 0), (2 2) and (4 4), but within its box.
        let notched =
            LineString::from(vec![(0.0, 0.0), (0.0, 4.0), (4.0, 4.0), (2.0, 2.0), (4.0, 0.0), (0.0, 0.0)]);
        let in_notch = LineString::from(vec![(2.0, 2.0), (4.0, 0.0), (4.0, 4.0), (2.0, 2.0)]);
        let refused = Geometry::of_rings(vec![notched, in_notch]).unwrap_err();
        assert_eq!(refused, GeometryError::HoleOutside { ring: 2, rings: 2 });
    }

    #[test]
    fn rings_that_are_not_polygons_are_refused() {
        let (shell, hole) = (reversed(square([0.0, 0.0], 4.0)), square([9.0, 0.0], 1.0));
        let refused = Geometry::of_rings(vec![hole, shell]).unwrap_err();
        assert_eq!(refused, GeometryError::HoleOutside { ring: 1, rings: 2 });
        assert!(refused.to_string().contains("ring 1 of 2"), "{refused}");
        let open = LineString::from(vec![(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]);
        assert_eq!(Geometry::of_rings(vec![open]), Err(GeometryError::OpenRing { positions: 4 }));
    }
}
