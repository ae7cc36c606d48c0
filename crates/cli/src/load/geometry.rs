//! Geometries that are read as a whole, and their shapes.

use super::found::Bounds;
use super::shape::Shape;
use farwood::spatial::Rectangle;
use farwood_geometry::Geometry;
use farwood_geometry::geo_types::{self, Coord, Geometry as Part, LineString, Polygon};

/// A geometry, and its shape.
pub(super) struct Shaped {
    /// The geometry; a reader may omit it if the index stores none.
    pub(super) geometry: Option<Geometry>,
    pub(super) bounds: Bounds,
}

impl Shaped {
    /// A geometry with its shape.
    ///
    /// # Errors
    /// A part of the geometry is empty.
    pub(super) fn new(geometry: Geometry) -> Result<Self, String> {
        let shape = shape_of(geometry.shape())?;
        Ok(Self { geometry: Some(geometry), bounds: Bounds::Geometry(shape) })
    }

    /// A shape whose geometry no index needs.
    pub(super) fn without_geometry(shape: Shape) -> Self {
        Self { geometry: None, bounds: Bounds::Geometry(shape) }
    }
}

/// The shape of a geometry: the bounds of its parts, on both sides of the antimeridian.
fn shape_of(geometry: &geo_types::Geometry<f64>) -> Result<Shape, String> {
    match geometry {
        Part::Point(point) => around([point.0]),
        Part::Line(line) => around([line.start, line.end]),
        Part::LineString(line) => of_line(line),
        Part::Polygon(polygon) => of_polygon(polygon),
        Part::MultiPoint(points) => joined(points.iter().map(|point| around([point.0]))),
        Part::MultiLineString(lines) => joined(lines.iter().map(of_line)),
        Part::MultiPolygon(polygons) => joined(polygons.iter().map(of_polygon)),
        Part::GeometryCollection(parts) => joined(parts.iter().map(shape_of)),
        Part::Rect(rectangle) => of_polygon(&rectangle.to_polygon()),
        Part::Triangle(triangle) => of_polygon(&triangle.to_polygon()),
    }
}

/// The shape of one line or ring.
pub(super) fn of_line(line: &LineString<f64>) -> Result<Shape, String> {
    around(line.0.iter().copied())
}

/// A hole is inside the shell of a valid polygon only.
fn of_polygon(polygon: &Polygon<f64>) -> Result<Shape, String> {
    let rings = std::iter::once(polygon.exterior()).chain(polygon.interiors());
    around(rings.flat_map(|ring| ring.0.iter().copied()))
}

/// The shape of one part with these positions.
pub(super) fn around(positions: impl IntoIterator<Item = Coord<f64>>) -> Result<Shape, String> {
    let point = |at: Coord<f64>| Rectangle::point([at.x, at.y]).map_err(|error| error.to_string());
    let points = positions.into_iter().map(point).collect::<Result<Vec<_>, _>>()?;
    Rectangle::around(&points).map(Shape::part).ok_or_else(empty)
}

/// The shape of all parts.
pub(super) fn joined(parts: impl Iterator<Item = Result<Shape, String>>) -> Result<Shape, String> {
    let shapes = parts.collect::<Result<Vec<_>, _>>()?;
    shapes.into_iter().reduce(Shape::joined).ok_or_else(empty)
}

fn empty() -> String {
    "the geometry, or a part of it, has no coordinates".to_owned()
}
