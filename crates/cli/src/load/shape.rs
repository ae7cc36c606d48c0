//! The bounds of a geometry of several parts, which may lie on both sides of the antimeridian.
//!
//! RFC 7946 §3.1.9 cuts a geometry that crosses the antimeridian in parts. The smallest rectangle around such parts
//! spans all longitudes. The load stores two rectangles with the same number instead, one on each side of the
//! antimeridian: in an index of degrees, if the parts are nearer to each other across the antimeridian than across the
//! prime meridian; in an index that does not state its coordinates, only if parts end exactly at 180 and at -180, which
//! parts of a plane rarely do; in a planar index never.

use farwood::spatial::{CoordinateSystem, Rectangle};

/// The bounds of a geometry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    bounds: Rectangle,
    /// The bounds of the parts east of the prime meridian.
    east: Option<Rectangle>,
    /// The bounds of the parts west of the prime meridian.
    west: Option<Rectangle>,
    /// Whether a part lies on both sides of the prime meridian.
    straddles: bool,
}

fn union(one: Option<Rectangle>, other: Option<Rectangle>) -> Option<Rectangle> {
    Rectangle::around(one.iter().chain(&other))
}

impl Shape {
    /// A geometry of one part.
    pub(super) fn part(bounds: Rectangle) -> Self {
        let (is_east, is_west) = (bounds.min()[0] >= 0.0, bounds.max()[0] <= 0.0);
        let side = |is_there: bool| is_there.then_some(bounds);
        Self { bounds, east: side(is_east), west: side(is_west && !is_east), straddles: !is_east && !is_west }
    }

    /// A geometry with the parts of both geometries.
    pub(super) fn joined(self, other: Self) -> Self {
        Self {
            bounds: self.bounds.union(&other.bounds),
            east: union(self.east, other.east),
            west: union(self.west, other.west),
            straddles: self.straddles || other.straddles,
        }
    }

    /// Treats the whole geometry as one part.
    pub(super) fn as_part(self) -> Self {
        Self::part(self.bounds)
    }

    /// The bounds of all parts.
    pub(super) fn bounds(self) -> Rectangle {
        self.bounds
    }

    /// The rectangles that an index stores: two, first that in the east, if no part lies on both sides of the prime
    /// meridian and the geometry crosses the antimeridian.
    pub(super) fn rectangles(self, system: CoordinateSystem) -> (Rectangle, Option<Rectangle>) {
        match (self.east, self.west) {
            (Some(east), Some(west)) if !self.straddles && crosses(&east, &west, system) => {
                (east, Some(west))
            }
            _ => (self.bounds, None),
        }
    }
}

/// Whether a geometry with parts on both sides of the prime meridian crosses the antimeridian.
fn crosses(east: &Rectangle, west: &Rectangle, system: CoordinateSystem) -> bool {
    let ([first, _], [last, _]) = (east.min(), east.max());
    let ([least, _], [greatest, _]) = (west.min(), west.max());
    match system {
        CoordinateSystem::Planar => false,
        CoordinateSystem::Unstated => matches!([last, least], [180.0, -180.0]),
        CoordinateSystem::Degrees => least + 360.0 - last < first - greatest,
    }
}

#[cfg(test)]
mod tests {
    use super::CoordinateSystem::{Degrees, Planar, Unstated};
    use super::*;

    fn rectangles(parts: &[[f64; 2]], system: CoordinateSystem) -> String {
        let part = |[west, east]: &[f64; 2]| Shape::part(Rectangle::new([*west, 0.0], [*east, 1.0]).unwrap());
        let (first, beyond) = parts.iter().map(part).reduce(Shape::joined).unwrap().rectangles(system);
        format!("{first}{}", beyond.map_or(String::new(), |beyond| format!(" {beyond}")))
    }

    fn bounds(parts: &[[f64; 2]]) -> String {
        rectangles(parts, Unstated)
    }

    #[test]
    fn degrees_take_the_shorter_distance_between_parts() {
        for (parts, expected) in [
            (&[[177.0, 180.0], [-180.0, -178.0]][..], "177,0,180,1 -180,0,-178,1"),
            (&[[172.0, 177.0], [-174.0, -150.0]], "172,0,177,1 -174,0,-150,1"),
            (&[[177.0, 179.999_999], [-180.0, -178.0]], "177,0,179.999999,1 -180,0,-178,1"),
            (&[[2.0, 8.0], [-61.0, -60.0]], "-61,0,8,1"),
            (&[[177.0, 180.0], [-1.0, 1.0], [-180.0, -178.0]], "-180,0,180,1"),
            (&[[0.0, 180.0], [-180.0, 0.0]], "-180,0,180,1"),
            (&[[-180.0, 180.0]], "-180,0,180,1"),
        ] {
            assert_eq!(rectangles(parts, Degrees), expected, "{parts:?}");
        }
    }

    #[test]
    fn parts_of_a_plane_are_one_rectangle() {
        assert_eq!(rectangles(&[[177.0, 180.0], [-180.0, -178.0]], Planar), "-180,0,180,1");
    }

    #[test]
    fn parts_that_end_at_the_antimeridian_on_both_sides_are_two_rectangles() {
        assert_eq!(bounds(&[[177.0, 180.0], [-180.0, -178.0]]), "177,0,180,1 -180,0,-178,1");
        assert_eq!(bounds(&[[-180.0, -169.0], [20.0, 22.0], [27.0, 180.0]]), "20,0,180,1 -180,0,-169,1");
        assert_eq!(bounds(&[[-180.0, -180.0], [180.0, 180.0]]), "180,0,180,1 -180,0,-180,1");
    }

    #[test]
    fn other_parts_are_one_rectangle() {
        assert_eq!(bounds(&[[177.0, 179.0], [-180.0, -178.0]]), "-180,0,179,1", "a gap in the east");
        assert_eq!(bounds(&[[177.0, 180.0], [-179.0, -178.0]]), "-179,0,180,1", "a gap in the west");
        assert_eq!(bounds(&[[177.0, 181.0], [-180.0, -178.0]]), "-180,0,181,1", "no longitude");
        assert_eq!(bounds(&[[177.0, 180.0], [-1.0, 1.0], [-180.0, -178.0]]), "-180,0,180,1", "across 0");
        assert_eq!(bounds(&[[-180.0, 180.0]]), "-180,0,180,1", "one part");
    }
}
