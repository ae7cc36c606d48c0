//! Geometries as people have them: the refinement after a filter by bounding boxes.
//!
//! A spatial index finds the rectangles that match a query. Where they bound points, lines and polygons, this crate
//! decides which of these match, and how far they are. It is pure: it reads no file, and knows no index.
//!
//! ```
//! use farwood_geometry::{Geometry, Metric, Predicate, Prepared};
//!
//! let triangle: Geometry = "POLYGON((0 0,4 0,0 4,0 0))".parse()?;
//! let query = Prepared::new(&triangle);
//!
//! // Two candidates whose boxes are inside the box of the triangle.
//! let near = Prepared::new(&Geometry::from_geojson(r#"{"type":"Point","coordinates":[1,1]}"#)?);
//! let far = Prepared::new(&Geometry::point([3.0, 3.0])?);
//!
//! assert!(Predicate::Within.holds(&near, &query));
//! assert!(!Predicate::Intersects.holds(&far, &query));
//! let distance = Metric::Planar.distance(&far, &query).expect("none is empty");
//! assert!((distance - 2f64.sqrt()).abs() < 1e-12);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Geometry`] has all types of OGC Simple Features in two dimensions. It is read from WKB (ISO and EWKB), WKT and
//!   GeoJSON, and written as WKB, EWKB, WKT and GeoJSON. The readers drop Z and M, refuse broken input with a typed
//!   error, and allocate in proportion to the bytes that they have. An empty point becomes an empty multipoint.
//! - [`Predicate`] has the predicates of GEOS and Shapely, and [`Prepared::relate`] the matrix (DE-9IM) behind them.
//!   All of them are computed from the coordinates without rounding. `tests/data/generate.py` compares them with
//!   Shapely, and the crate's tests list what differs.
//! - [`Metric`] measures in the plane or in metres on a sphere, and has lower bounds from a geometry to a box for a
//!   best-first search over an R-tree. `dwithin` is [`Metric::is_within`].
//! - [`Predicate::box_filter`] and [`Metric::windows`] say which candidates an index must find.
//! - [`Nearest`] yields the nearest of candidates that come in the order of such bounds.
//! - [`Geometry::wrapped_bounds`] has the boxes of a geometry that the antimeridian splits.
//!
//! # Coordinates
//!
//! Predicates and [`Metric::Planar`] work in the plane. Degrees (x: longitude, y: latitude) are coordinates of a plane
//! for them, as in Shapely and GeoPandas. A geometry that crosses the antimeridian is expected to be split there, as
//! RFC 7946 demands. Predicates are exact for coordinates that are 0 or between 1e-140 and 1e300 in magnitude.
//!
//! # Departures from GEOS 3.14.1
//!
//! - A line of no length counts as a point, in the matrix as well.
//! - A collection is the union of its parts. GEOS errs about collections of polygons and other parts, and about
//!   polygons that overlap in a collection; `tests/all/collections.rs` has cases. Locations at points where three or
//!   more edges of a collection of polygons cross, none of them at an end, may be rounded.
//! - GEOS computes crossings in floating point: about a line that begins 1e-17 outside an edge, its matrix may lack the
//!   point at which the line crosses the edge. It may also lack the ends of several lines.
//! - All predicates were equal in 399,992 of 400,000 random pairs. In the other eight, GEOS errs: about collections of
//!   points and lines (six), a multipolygon whose parts touch, and a line that crosses itself.
//! - Distances to empty geometries are `None` (Shapely: NaN).

#![forbid(unsafe_code)]

mod bounds;
mod degrees;
mod distance;
mod format;
mod geometry;
mod nearest;
mod orientation;
mod predicate;
mod prepared;
mod relate;
mod rings;

pub use bounds::Bounds;
pub use distance::{EARTH_RADIUS_M, Metric};
pub use format::geojson::GeoJsonError;
pub use format::wkb::{WkbError, srid_of_wkb};
pub use format::wkt::WktError;
pub use geo_types;
pub use geometry::{Geometry, GeometryError, NESTING_MAX, polygon};
pub use nearest::{Candidate, Nearest, NearestQuery, Neighbour, Ties};
pub use predicate::{BoxFilter, Predicate};
pub use prepared::Prepared;
pub use relate::IntersectionMatrix;
