//! Bounding boxes of geometries that the antimeridian splits.

use geo_types::{Geometry as Shape, LineString};

use crate::bounds::Bounds;
use crate::geometry::Geometry;

impl Geometry {
    /// The boxes around a geometry in degrees: one, or two that together are narrower than one around everything.
    ///
    /// RFC 7946 splits a geometry that crosses the antimeridian, so that one box around Fiji is a band around the
    /// world. This function leaves out the widest range of longitudes that no part reaches, if it is wider than the
    /// one across the antimeridian. The first box has the greater longitudes: it is west of the antimeridian. Each part
    /// (a point, line or polygon) is in one of the boxes completely. An empty geometry has none.
    pub fn wrapped_bounds(&self) -> Option<(Bounds, Option<Bounds>)> {
        let mut parts = Vec::new();
        collect(self.shape(), &mut parts);
        parts.sort_by(|one, other| one.min[0].total_cmp(&other.min[0]));
        let (mut reached, mut widest, mut cut) = (f64::NEG_INFINITY, 0.0, 0);
        for (at, part) in parts.iter().enumerate() {
            if at > 0 && part.min[0] - reached > widest {
                (widest, cut) = (part.min[0] - reached, at);
            }
            reached = reached.max(part.max[0]);
        }
        let all = around(&parts)?;
        let beyond = 360.0 - (all.max[0] - all.min[0]);
        if widest <= beyond {
            return Some((all, None));
        }
        let (west, east) = parts.split_at(cut);
        Some((around(east)?, around(west)))
    }
}

fn around(parts: &[Bounds]) -> Option<Bounds> {
    parts.iter().copied().reduce(|all, part| all.union(&part))
}

/// Collects the boxes of all points, lines and polygons.
fn collect(shape: &Shape<f64>, parts: &mut Vec<Bounds>) {
    let mut add = |line: &LineString<f64>| {
        let points = line.coords().map(|at| Bounds::point([at.x, at.y]));
        parts.extend(points.reduce(|all, point| all.union(&point)));
    };
    match shape {
        Shape::Point(point) => parts.push(Bounds::point([point.x(), point.y()])),
        Shape::MultiPoint(points) => {
            parts.extend(points.iter().map(|point| Bounds::point([point.x(), point.y()])));
        }
        Shape::LineString(line) => add(line),
        Shape::MultiLineString(lines) => lines.iter().for_each(add),
        Shape::Polygon(polygon) => add(polygon.exterior()),
        Shape::MultiPolygon(polygons) => polygons.iter().for_each(|polygon| add(polygon.exterior())),
        Shape::GeometryCollection(all) => all.iter().for_each(|part| collect(part, parts)),
        Shape::Line(_) | Shape::Rect(_) | Shape::Triangle(_) => {
            unreachable!("`Geometry::new` replaces these types")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxes(wkt: &str) -> Option<(Bounds, Option<Bounds>)> {
        wkt.parse::<Geometry>().unwrap().wrapped_bounds()
    }

    #[test]
    fn fiji_has_a_box_on_each_side_of_the_antimeridian() {
        let fiji = "MULTIPOLYGON(((177 -19,180 -19,180 -16,177 -16,177 -19)),\
                    ((-180 -18,-179 -18,-179 -17,-180 -17,-180 -18)))";
        let east = Bounds::new([177.0, -19.0], [180.0, -16.0]);
        let west = Bounds::new([-180.0, -18.0], [-179.0, -17.0]);
        assert_eq!(boxes(fiji), Some((east, Some(west))));
    }

    #[test]
    fn russia_has_a_wide_box_and_chukotka() {
        let russia = "MULTIPOLYGON(((27 41,180 65,180 70,27 70,27 41)),((-180 65,-170 65,-170 68,-180 68,-180 65)),\
                      ((19 54,23 54,23 55,19 55,19 54)))";
        let east = Bounds::new([19.0, 41.0], [180.0, 70.0]);
        let west = Bounds::new([-180.0, 65.0], [-170.0, 68.0]);
        assert_eq!(boxes(russia), Some((east, Some(west))));
    }

    #[test]
    fn a_geometry_elsewhere_has_one_box() {
        let one = "MULTIPOINT((-50 1),(60 2))";
        assert_eq!(boxes(one), Some((Bounds::new([-50.0, 1.0], [60.0, 2.0]), None)));
        assert_eq!(boxes("POINT(179 1)"), Some((Bounds::point([179.0, 1.0]), None)));
        assert_eq!(boxes("POLYGON EMPTY"), None);
        // One part cannot be split.
        assert_eq!(boxes("LINESTRING(-179 0,179 0)"), Some((Bounds::new([-179.0, 0.0], [179.0, 0.0]), None)));
    }
}
