//! The geometries: all types of OGC Simple Features in two dimensions, checked when they are made.

use geo_types::{Coord, Geometry as Shape, LineString, MultiPoint, Polygon};
use thiserror::Error;

use crate::bounds::Bounds;

/// Levels of collections in collections that a geometry may have.
pub const NESTING_MAX: usize = 32;

/// A point, line, polygon or collection of them, in the plane or in degrees (x: longitude, y: latitude).
///
/// All coordinates are finite, a line has at least two positions, and a ring is closed and has at least four. Lines and
/// polygons may be empty, and an empty point is an empty multipoint. The type does not check that polygons are valid
/// in the sense of OGC: a ring that crosses itself is accepted, and predicates of it are defined by its edges, but not
/// equal to those of other libraries.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    shape: Shape<f64>,
}

/// A geometry that breaks a rule of [`Geometry`].
#[derive(Clone, Debug, PartialEq, Error)]
pub enum GeometryError {
    /// A coordinate is NaN or infinite.
    #[error("the coordinate ({x}, {y}) is not finite; every coordinate must be a finite number")]
    NotFinite {
        /// The x of the coordinate.
        x: f64,
        /// Its y.
        y: f64,
    },
    /// A ring whose last position is not its first.
    #[error("a ring of {positions} positions is not closed; repeat its first position at its end")]
    OpenRing {
        /// The positions of the ring.
        positions: usize,
    },
    /// A closed ring with fewer than four positions.
    #[error("a ring has {positions} positions; a closed ring has at least 4")]
    ShortRing {
        /// The positions of the ring.
        positions: usize,
    },
    /// A line of one position.
    #[error("a line has one position; give it at least 2, or store a point")]
    ShortLine,
    /// A polygon with holes and without a shell.
    #[error("a polygon has {holes} holes and an empty shell; give it a shell")]
    NoShell {
        /// The holes of the polygon.
        holes: usize,
    },
    /// A ring with the orientation of a hole, in no shell.
    #[error(
        "ring {ring} of {rings} has the orientation of a hole, and no shell contains it; reverse the rings of the \
         wrong orientation"
    )]
    HoleOutside {
        /// The number of the ring, from 1.
        ring: usize,
        /// The number of rings.
        rings: usize,
    },
    /// Collections in collections, too deep.
    #[error("collections are nested more than {NESTING_MAX} levels deep; flatten them")]
    Nesting,
    /// A latitude beyond a pole, where degrees are required.
    #[error(
        "the latitude {latitude} is not in [-90, 90]; distances in metres need longitude, latitude in degrees"
    )]
    Latitude {
        /// The latitude.
        latitude: f64,
    },
}

impl Geometry {
    /// The geometry of these parts.
    ///
    /// # Errors
    /// [`GeometryError`] if a coordinate is not finite, a ring has fewer than four positions, a line has one, or
    /// collections are nested too deep. The constructor of `geo_types::Polygon` closes rings itself.
    pub fn new(shape: Shape<f64>) -> Result<Self, GeometryError> {
        let shape = normalised(shape, 0)?;
        Ok(Self { shape })
    }

    /// The point at x, y.
    ///
    /// # Errors
    /// [`GeometryError::NotFinite`].
    pub fn point(at: [f64; 2]) -> Result<Self, GeometryError> {
        Self::new(Shape::Point(at.into()))
    }

    /// The polygon of a box: a point or a line where the box has no area.
    ///
    /// # Errors
    /// [`GeometryError::NotFinite`].
    pub fn of_bounds(bounds: &Bounds) -> Result<Self, GeometryError> {
        let [lower, _, upper, _] = bounds.corners();
        if lower == upper {
            return Self::point(bounds.min);
        }
        if lower.x >= upper.x || lower.y >= upper.y {
            return Self::new(Shape::LineString(LineString(vec![lower, upper])));
        }
        Self::new(Shape::Polygon(Polygon::new(LineString(bounds.corners().to_vec()), Vec::new())))
    }

    /// Returns the parts as types of `geo_types`: never a `Line`, `Rect` or `Triangle`.
    pub fn shape(&self) -> &Shape<f64> {
        &self.shape
    }

    /// Returns the parts as types of `geo_types`.
    pub fn into_shape(self) -> Shape<f64> {
        self.shape
    }

    /// Whether it has no position.
    pub fn is_empty(&self) -> bool {
        self.bounds().is_none()
    }

    /// The smallest box that contains it; `None`: it is empty.
    pub fn bounds(&self) -> Option<Bounds> {
        let mut bounds: Option<Bounds> = None;
        for_each_position(&self.shape, &mut |at| {
            let point = Bounds::point([at.x, at.y]);
            bounds = Some(bounds.map_or(point, |bounds| bounds.union(&point)));
        });
        bounds
    }

    /// Checks that all latitudes are latitudes.
    ///
    /// # Errors
    /// [`GeometryError::Latitude`].
    pub fn check_degrees(&self) -> Result<(), GeometryError> {
        let Some(bounds) = self.bounds() else { return Ok(()) };
        match [bounds.min[1], bounds.max[1]].into_iter().find(|latitude| latitude.abs() > 90.0) {
            Some(latitude) => Err(GeometryError::Latitude { latitude }),
            None => Ok(()),
        }
    }
}

/// The shape without the types that have an equal in OGC Simple Features, and checked.
fn normalised(shape: Shape<f64>, depth: usize) -> Result<Shape<f64>, GeometryError> {
    if depth > NESTING_MAX {
        return Err(GeometryError::Nesting);
    }
    let shape = match shape {
        Shape::Line(line) => Shape::LineString(LineString(vec![line.start, line.end])),
        Shape::Rect(rectangle) => Shape::Polygon(rectangle.to_polygon()),
        Shape::Triangle(triangle) => Shape::Polygon(triangle.to_polygon()),
        Shape::GeometryCollection(collection) => {
            let parts = collection.0.into_iter().map(|part| normalised(part, depth + 1));
            return Ok(Shape::GeometryCollection(parts.collect::<Result<Vec<_>, _>>()?.into()));
        }
        other => other,
    };
    check_parts(&shape)?;
    Ok(shape)
}

fn check_parts(shape: &Shape<f64>) -> Result<(), GeometryError> {
    match shape {
        Shape::Point(point) => check_position(point.0),
        Shape::MultiPoint(points) => points.iter().try_for_each(|point| check_position(point.0)),
        Shape::LineString(line) => check_line(line),
        Shape::MultiLineString(lines) => lines.iter().try_for_each(check_line),
        Shape::Polygon(polygon) => check_polygon(polygon),
        Shape::MultiPolygon(polygons) => polygons.iter().try_for_each(check_polygon),
        Shape::GeometryCollection(_) | Shape::Line(_) | Shape::Rect(_) | Shape::Triangle(_) => Ok(()),
    }
}

fn check_position(at: Coord<f64>) -> Result<(), GeometryError> {
    if at.x.is_finite() && at.y.is_finite() {
        Ok(())
    } else {
        Err(GeometryError::NotFinite { x: at.x, y: at.y })
    }
}

/// Checks a line: none, or at least two positions.
pub(crate) fn check_line(line: &LineString<f64>) -> Result<(), GeometryError> {
    line.coords().try_for_each(|at| check_position(*at))?;
    if line.0.len() == 1 { Err(GeometryError::ShortLine) } else { Ok(()) }
}

/// Checks a ring: none, or at least four positions, of which the last is the first.
pub(crate) fn check_ring(ring: &LineString<f64>) -> Result<(), GeometryError> {
    ring.coords().try_for_each(|at| check_position(*at))?;
    let positions = ring.0.len();
    match positions {
        0 => Ok(()),
        _ if ring.0.first() != ring.0.last() => Err(GeometryError::OpenRing { positions }),
        1..4 => Err(GeometryError::ShortRing { positions }),
        _ => Ok(()),
    }
}

fn check_polygon(polygon: &Polygon<f64>) -> Result<(), GeometryError> {
    let holes = polygon.interiors().iter().filter(|hole| !hole.0.is_empty()).count();
    if polygon.exterior().0.is_empty() && holes > 0 {
        return Err(GeometryError::NoShell { holes });
    }
    std::iter::once(polygon.exterior()).chain(polygon.interiors()).try_for_each(check_ring)
}

/// The polygon of these rings, whose first is the shell. The constructor of `Polygon` would close open rings silently.
///
/// # Errors
/// [`GeometryError`] if a coordinate is not finite, or a ring is open or has fewer than four positions.
pub fn polygon(mut rings: Vec<LineString<f64>>) -> Result<Polygon<f64>, GeometryError> {
    rings.iter().try_for_each(check_ring)?;
    let holes = rings.split_off(rings.len().min(1));
    let shell = rings.pop().unwrap_or_else(|| LineString(Vec::new()));
    Ok(Polygon::new(shell, holes))
}

/// The shape of a point that may be empty.
pub(crate) fn point_or_empty(at: Option<Coord<f64>>) -> Shape<f64> {
    at.map_or_else(|| Shape::MultiPoint(MultiPoint(Vec::new())), |at| Shape::Point(at.into()))
}

/// Calls `visit` with every position.
fn for_each_position(shape: &Shape<f64>, visit: &mut impl FnMut(Coord<f64>)) {
    let line = |line: &LineString<f64>, visit: &mut dyn FnMut(Coord<f64>)| {
        line.coords().for_each(|at| visit(*at));
    };
    match shape {
        Shape::Point(point) => visit(point.0),
        Shape::MultiPoint(points) => points.iter().for_each(|point| visit(point.0)),
        Shape::LineString(one) => line(one, visit),
        Shape::MultiLineString(lines) => lines.iter().for_each(|one| line(one, visit)),
        Shape::Polygon(polygon) => line(polygon.exterior(), visit),
        Shape::MultiPolygon(polygons) => polygons.iter().for_each(|one| line(one.exterior(), visit)),
        Shape::GeometryCollection(parts) => parts.iter().for_each(|part| for_each_position(part, visit)),
        Shape::Line(_) | Shape::Rect(_) | Shape::Triangle(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use geo_types::{GeometryCollection, Line, Point, coord};

    use super::*;

    fn line(positions: &[[f64; 2]]) -> LineString<f64> {
        LineString(positions.iter().map(|at| Coord::from(*at)).collect())
    }

    #[test]
    fn broken_geometries_are_refused_with_the_reason() {
        let refused = Geometry::point([f64::NAN, 1.0]).unwrap_err();
        assert!(matches!(refused, GeometryError::NotFinite { .. }), "{refused}");
        let one = Geometry::new(Shape::LineString(line(&[[1.0, 1.0]])));
        assert_eq!(one, Err(GeometryError::ShortLine));
        let open = polygon(vec![line(&[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])]);
        assert_eq!(open, Err(GeometryError::OpenRing { positions: 4 }));
        let short = polygon(vec![line(&[[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]])]);
        assert_eq!(short, Err(GeometryError::ShortRing { positions: 3 }));
        let hole = line(&[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]);
        let no_shell = Geometry::new(Shape::Polygon(Polygon::new(line(&[]), vec![hole])));
        assert_eq!(no_shell, Err(GeometryError::NoShell { holes: 1 }));
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |levels: usize| {
            let point = Shape::Point(Point::new(1.0, 2.0));
            (0..levels).fold(point, |inner, _| Shape::GeometryCollection(GeometryCollection(vec![inner])))
        };
        assert!(Geometry::new(nested(NESTING_MAX)).is_ok());
        assert_eq!(Geometry::new(nested(NESTING_MAX + 1)), Err(GeometryError::Nesting));
    }

    #[test]
    fn bounds_are_those_of_all_parts_and_none_of_an_empty_one() {
        assert_eq!(Geometry::new(point_or_empty(None)).unwrap().bounds(), None);
        let parts = vec![
            Shape::Point(Point::new(-1.0, 5.0)),
            Shape::Line(Line::new(coord! { x: 0.0, y: 0.0 }, coord! { x: 9.0, y: 2.0 })),
        ];
        let all = Geometry::new(Shape::GeometryCollection(GeometryCollection(parts))).unwrap();
        assert_eq!(all.bounds(), Some(Bounds::new([-1.0, 0.0], [9.0, 5.0])));
    }

    #[test]
    fn a_box_without_area_is_a_point_or_a_line() {
        let of = |min, max| Geometry::of_bounds(&Bounds::new(min, max)).unwrap();
        assert!(matches!(of([1.0; 2], [1.0; 2]).shape(), Shape::Point(_)));
        assert!(matches!(of([1.0; 2], [1.0, 2.0]).shape(), Shape::LineString(_)));
        assert!(matches!(of([1.0; 2], [2.0; 2]).shape(), Shape::Polygon(_)));
    }

    #[test]
    fn a_latitude_beyond_the_pole_is_refused_for_metres() {
        let point = Geometry::point([200.0, 90.5]).unwrap();
        assert_eq!(point.check_degrees(), Err(GeometryError::Latitude { latitude: 90.5 }));
        assert!(Geometry::point([200.0, -90.0]).unwrap().check_degrees().is_ok());
    }
}
