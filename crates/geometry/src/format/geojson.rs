//! Geometries of GeoJSON (RFC 7946).

use geo_types::{
    Coord, Geometry as Shape, GeometryCollection, LineString, MultiLineString, MultiPoint, MultiPolygon,
    Point, Polygon,
};
use serde_json::{Value, json};
use thiserror::Error;

use crate::geometry::{Geometry, GeometryError, NESTING_MAX, point_or_empty, polygon};
use crate::orientation::doubled_area;

/// JSON that is no geometry of GeoJSON.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum GeoJsonError {
    /// Text that is no JSON.
    #[error("the text is no JSON: {0}")]
    Json(String),
    /// A `type` that is no geometry, or none.
    #[error(
        "the GeoJSON has the type {0}; a geometry is a Point, LineString, Polygon, Multi.. or GeometryCollection"
    )]
    Type(String),
    /// A member that is missing or has another shape than its type demands.
    #[error("a {kind} of GeoJSON needs {needed}")]
    Member {
        /// The type of the geometry.
        kind: String,
        /// The member and its shape.
        needed: &'static str,
    },
    /// The JSON describes a geometry that [`Geometry`] refuses.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

impl Geometry {
    /// Reads a geometry object of GeoJSON; the third and later numbers of a position are dropped. A feature is no
    /// geometry: pass its member `geometry`.
    ///
    /// # Errors
    /// [`GeoJsonError`].
    pub fn from_geojson(text: &str) -> Result<Self, GeoJsonError> {
        let value = serde_json::from_str(text).map_err(|error| GeoJsonError::Json(error.to_string()))?;
        Self::from_geojson_value(&value)
    }

    /// Reads a geometry object of GeoJSON that is parsed already.
    ///
    /// # Errors
    /// As [`from_geojson`](Self::from_geojson).
    pub fn from_geojson_value(value: &Value) -> Result<Self, GeoJsonError> {
        Ok(Self::new(geometry(value, 0)?)?)
    }
}

impl Geometry {
    /// Returns the geometry object of GeoJSON. Shells are counter-clockwise, and holes clockwise (RFC 7946 §3.1.6),
    /// whatever their direction in the geometry.
    pub fn to_geojson(&self) -> Value {
        written(self.shape())
    }
}

fn written(shape: &Shape<f64>) -> Value {
    let (kind, coordinates) = match shape {
        Shape::Point(point) => ("Point", json!([point.x(), point.y()])),
        Shape::MultiPoint(points) => {
            ("MultiPoint", points.iter().map(|point| json!([point.x(), point.y()])).collect())
        }
        Shape::LineString(line) => ("LineString", positions(line)),
        Shape::MultiLineString(lines) => ("MultiLineString", lines.iter().map(positions).collect()),
        Shape::Polygon(polygon) => ("Polygon", written_rings(polygon)),
        Shape::MultiPolygon(polygons) => ("MultiPolygon", polygons.iter().map(written_rings).collect()),
        Shape::GeometryCollection(parts) => {
            let parts: Value = parts.iter().map(written).collect();
            return json!({ "type": "GeometryCollection", "geometries": parts });
        }
        Shape::Line(_) | Shape::Rect(_) | Shape::Triangle(_) => {
            // Cannot fail: `Geometry::new` replaces these types.
            unreachable!("a type that no geometry has")
        }
    };
    json!({ "type": kind, "coordinates": coordinates })
}

fn positions(line: &LineString<f64>) -> Value {
    written_positions(line.coords())
}

fn written_positions<'a>(all: impl Iterator<Item = &'a Coord<f64>>) -> Value {
    all.map(|at| json!([at.x, at.y])).collect()
}

/// The rings of a polygon, in the directions that RFC 7946 demands. A ring without an area keeps its direction.
fn written_rings(polygon: &Polygon<f64>) -> Value {
    let written = |ring: &LineString<f64>, is_reversed: fn(f64) -> bool| {
        if is_reversed(doubled_area(ring)) { written_positions(ring.0.iter().rev()) } else { positions(ring) }
    };
    let shell = Some(polygon.exterior()).filter(|shell| !shell.0.is_empty());
    let shell = shell.into_iter().map(|shell| written(shell, |area| area < 0.0));
    shell.chain(polygon.interiors().iter().map(|hole| written(hole, |area| area > 0.0))).collect()
}

fn geometry(value: &Value, depth: usize) -> Result<Shape<f64>, GeoJsonError> {
    if depth > NESTING_MAX {
        return Err(GeometryError::Nesting.into());
    }
    let kind = value.get("type").ok_or_else(|| GeoJsonError::Type("none".into()))?;
    let kind = kind.as_str().ok_or_else(|| GeoJsonError::Type(kind.to_string()))?;
    if kind == "GeometryCollection" {
        let needed = "`geometries`: an array of geometries";
        let member = || GeoJsonError::Member { kind: kind.into(), needed };
        let parts = value.get("geometries").and_then(Value::as_array).ok_or_else(member)?;
        let parts = parts.iter().map(|part| geometry(part, depth + 1)).collect::<Result<_, _>>()?;
        return Ok(Shape::GeometryCollection(GeometryCollection(parts)));
    }
    let coordinates = value.get("coordinates").unwrap_or(&Value::Null);
    let needed = match kind {
        "Point" => "`coordinates`: an array of two numbers",
        "MultiPoint" | "LineString" => "`coordinates`: an array of positions",
        "Polygon" | "MultiLineString" => "`coordinates`: an array of arrays of positions",
        "MultiPolygon" => "`coordinates`: an array of polygons, which are arrays of rings",
        other => return Err(GeoJsonError::Type(format!("'{other}'"))),
    };
    let member = || GeoJsonError::Member { kind: kind.into(), needed };
    Ok(match kind {
        "Point" if coordinates.as_array().is_some_and(Vec::is_empty) => point_or_empty(None),
        "Point" => Shape::Point(Point(position(coordinates).ok_or_else(member)?)),
        "MultiPoint" => Shape::MultiPoint(MultiPoint(
            array(coordinates, |at| position(at).map(Point)).ok_or_else(member)?,
        )),
        "LineString" => Shape::LineString(line(coordinates).ok_or_else(member)?),
        "MultiLineString" => {
            Shape::MultiLineString(MultiLineString(array(coordinates, line).ok_or_else(member)?))
        }
        "Polygon" => Shape::Polygon(rings(coordinates).ok_or_else(member)??),
        _ => {
            let polygons = array(coordinates, rings).ok_or_else(member)?;
            Shape::MultiPolygon(MultiPolygon(polygons.into_iter().collect::<Result<_, _>>()?))
        }
    })
}

/// Every element of an array; `None` if it is no array, or one of them is not what `read` reads.
fn array<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(read).collect()
}

fn position(value: &Value) -> Option<Coord<f64>> {
    let numbers = value.as_array()?;
    Some(Coord { x: numbers.first()?.as_f64()?, y: numbers.get(1)?.as_f64()? })
}

fn line(value: &Value) -> Option<LineString<f64>> {
    array(value, position).map(LineString)
}

fn rings(value: &Value) -> Option<Result<Polygon<f64>, GeometryError>> {
    array(value, line).map(polygon)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, GeoJsonError> {
        Geometry::from_geojson(text).map(|geometry| geometry.to_string())
    }

    #[test]
    fn every_type_is_read() {
        let cases = [
            (r#"{"type":"Point","coordinates":[1,2,9]}"#, "POINT(1 2)"),
            (r#"{"type":"Point","coordinates":[]}"#, "MULTIPOINT EMPTY"),
            (r#"{"type":"MultiPoint","coordinates":[[1,2],[3,4]]}"#, "MULTIPOINT((1 2),(3 4))"),
            (r#"{"type":"Polygon","coordinates":[]}"#, "POLYGON EMPTY"),
            (r#"{"type":"LineString","coordinates":[[1,2],[3,4.5]]}"#, "LINESTRING(1 2,3 4.5)"),
            (r#"{"type":"MultiLineString","coordinates":[[[1,2],[3,4]]]}"#, "MULTILINESTRING((1 2,3 4))"),
            (r#"{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]}"#, "POLYGON((0 0,1 0,1 1,0 0))"),
            (
                r#"{"type":"MultiPolygon","coordinates":[[[[0,0],[1,0],[1,1],[0,0]]]]}"#,
                "MULTIPOLYGON(((0 0,1 0,1 1,0 0)))",
            ),
            (
                r#"{"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[1,2]}]}"#,
                "GEOMETRYCOLLECTION(POINT(1 2))",
            ),
        ];
        for (json, text) in cases {
            assert_eq!(read(json).unwrap(), text);
            let again = Geometry::from_geojson(json).unwrap().to_geojson();
            assert_eq!(read(&again.to_string()).unwrap(), text);
        }
    }

    #[test]
    fn written_shells_are_counter_clockwise_and_holes_clockwise() {
        let (shell, hole) = ("(0 0,9 0,9 9,0 0)", "(6 1,8 3,8 1,6 1)");
        let (reversed_shell, reversed_hole) = ("(0 0,9 9,9 0,0 0)", "(6 1,8 1,8 3,6 1)");
        let written = |wkt: &str| {
            let geometry: Geometry = wkt.parse().unwrap();
            read(&geometry.to_geojson().to_string()).unwrap()
        };
        for [one, other] in [[shell, hole], [shell, reversed_hole], [reversed_shell, hole]] {
            assert_eq!(written(&format!("POLYGON({one},{other})")), format!("POLYGON({shell},{hole})"));
        }
        let nested = |one: &str, other: &str| {
            format!("GEOMETRYCOLLECTION(MULTIPOLYGON(({one},{other}),({one})),LINESTRING{reversed_shell})")
        };
        assert_eq!(written(&nested(reversed_shell, reversed_hole)), nested(shell, hole));
        let flat = "POLYGON((0 0,2 0,1 0,0 0))";
        assert_eq!(written(flat), flat, "a ring without an area");
    }

    #[test]
    fn numbers_are_the_nearest_doubles() {
        let numbers: Vec<f64> = (1..2_000).map(|n| f64::from(n) * 0.017_453_292_519_943_295 + 31.0).collect();
        let positions: Vec<String> = numbers.iter().map(|number| format!("[{number},0.0]")).collect();
        let text = format!(r#"{{"type":"MultiPoint","coordinates":[{}]}}"#, positions.join(","));
        let geometry = Geometry::from_geojson(&text).unwrap();
        let Shape::MultiPoint(points) = geometry.shape() else { panic!("{geometry}") };
        let found: Vec<u64> = points.iter().map(|point| point.x().to_bits()).collect();
        assert_eq!(found, numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>());
    }

    #[test]
    fn broken_geojson_is_refused_with_the_reason() {
        let refused = |text: &str, part: &str| {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        };
        refused("{", "no JSON");
        refused("{}", "type none");
        refused(r#"{"type":"Feature"}"#, "'Feature'");
        refused(r#"{"type":"Point"}"#, "two numbers");
        refused(r#"{"type":"Point","coordinates":[1,"2"]}"#, "two numbers");
        refused(r#"{"type":"LineString","coordinates":[[1,2]]}"#, "one position");
        refused(r#"{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,1]]]}"#, "not closed");
        refused(r#"{"type":"GeometryCollection"}"#, "geometries");
        let nested = r#"{"type":"GeometryCollection","geometries":["#.repeat(40);
        refused(&format!("{nested}{}", "]}".repeat(40)), "nested");
    }
}
