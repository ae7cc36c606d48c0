//! The bounds and the number of a feature.
//!
//! The bounds are those of the geometry: one rectangle, or two if its parts end at the antimeridian on both sides. A
//! `bbox` whose west is above its east crosses the antimeridian, contains the geometry, and replaces them by two
//! rectangles.

use super::coordinates::{Coordinates, Inner};
use super::object::{Members, Object};
use crate::json_object;
use crate::load::found::{Bounds, Placed, ROUNDING_DEGREES};
use crate::load::ids::FileId;
use crate::load::shape::Shape;
use farwood::spatial::{Contents, Rectangle};
use serde_json::Value;
use serde_json::value::RawValue;

/// The types of geometries, with the depth of their coordinates.
const GEOMETRIES: [(&str, usize); 6] = [
    ("Point", 1),
    ("MultiPoint", 2),
    ("LineString", 2),
    ("MultiLineString", 3),
    ("Polygon", 3),
    ("MultiPolygon", 4),
];

/// The geometry of a GeoJSON feature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Geometry {
    shape: Shape,
    inner: Inner,
    /// The two parts of a `bbox` that crosses the antimeridian.
    across: Option<Bounds>,
}

/// Whether GeoJSON defines this type for features and geometries.
pub(super) fn is_type(name: &str) -> bool {
    matches!(name, "Feature" | "GeometryCollection") || GEOMETRIES.iter().any(|(known, _)| *known == name)
}

/// The number and the bounds of a feature, or of a geometry in the place of one.
pub(super) fn placed(object: Object) -> Placed {
    let members = match object {
        Ok(Some(members)) => members,
        Ok(None) => return refused("it is null, and not a feature".to_owned()),
        Err(why) => return refused(why),
    };
    let id = members.id.as_ref().map(|id| FileId { number: number(id), text: text(id) });
    let contents = contents(&members);
    let bounds = bounds(members);
    match contents {
        Ok(contents) => Placed { id, bounds, contents },
        Err(why) => Placed { id, bounds: bounds.and(Err(why)), contents: Contents::default() },
    }
}

fn refused(why: String) -> Placed {
    Placed { id: None, bounds: Err(why), contents: Contents::default() }
}

/// The geometry and the properties of a feature, if its members were kept.
fn contents(members: &Members) -> Result<Contents, String> {
    let Some(kept) = &members.kept else { return Ok(Contents::default()) };
    let geometry = kept.geometry.as_deref().ok_or(
        "it is a geometry, and not a feature: the index stores ids and properties, which only features have",
    )?;
    let geometry = farwood_geometry::Geometry::from_geojson(geometry);
    let geometry = geometry.map_err(|error| format!("the geometry: {error}"))?.to_wkb();
    let attributes = match kept.properties.as_deref().map(RawValue::get) {
        None | Some("null") => String::new(),
        Some(properties) => {
            json_object::compact(properties).map_err(|why| format!("the properties are {why}"))?
        }
    };
    Ok(Contents { geometry, attributes })
}

fn bounds(members: Members) -> Result<Bounds, String> {
    let members = members.unique()?;
    let geometry = if members.kind.as_ref().and_then(Value::as_str) == Some("Feature") {
        let geometry = members.geometry.ok_or("the feature has no geometry member")??;
        let geometry = geometry.ok_or("the feature has no geometry")?;
        geometry.within(members.bbox.as_ref())?
    } else {
        geometry(members)?
    };
    Ok(geometry.across.unwrap_or(Bounds::Geometry(geometry.shape)))
}

/// The geometry of a feature; `None` for null.
pub(super) fn geometry_or_null(object: Object) -> Result<Option<Geometry>, String> {
    object.map_err(|why| format!("the geometry: {why}"))?.map(geometry).transpose()
}

/// A geometry of a collection, joined with those before it.
pub(super) fn joined(all: Option<Geometry>, object: Object) -> Result<Geometry, String> {
    let one = geometry_or_null(object)?.ok_or("a geometry of the collection is null")?;
    if one.across.is_some() {
        return Err(
            "a geometry of a collection has a bbox across the antimeridian; give the feature one".to_owned()
        );
    }
    Ok(all.map_or(one, |all| Geometry {
        shape: all.shape.joined(one.shape),
        inner: all.inner.joined(one.inner),
        across: None,
    }))
}

fn geometry(members: Members) -> Result<Geometry, String> {
    let members = members.unique()?;
    let kind = match &members.kind {
        Some(Value::String(kind)) => kind.as_str(),
        Some(other) => return Err(format!("the type is {other}, and not a string")),
        None => return Err("it has no type".to_owned()),
    };
    if kind == "GeometryCollection" {
        let collection = members.geometries.ok_or("the collection has no geometries")??;
        return collection.within(members.bbox.as_ref());
    }
    let known = GEOMETRIES.iter().find(|(name, _)| *name == kind);
    let (_, depth) = known.ok_or_else(|| format!("'{kind}' is not a type of geometry"))?;
    let Coordinates(coordinates) =
        members.coordinates.ok_or_else(|| format!("the {kind} has no coordinates"))?;
    let positions = coordinates?;
    if positions.depth != *depth {
        return Err(format!(
            "the coordinates of a {kind} are arrays {depth} deep, and these are {} deep",
            positions.depth
        ));
    }
    let shape = if kind.starts_with("Multi") { positions.shape } else { positions.shape.as_part() };
    Geometry { shape, inner: positions.inner, across: None }.within(members.bbox.as_ref())
}

impl Geometry {
    /// The geometry with the bounds of a `bbox` that crosses the antimeridian. The geometry replaces other boxes.
    fn within(self, bbox: Option<&Value>) -> Result<Self, String> {
        let Some((bbox, parts)) = bbox.map(across_antimeridian).transpose()?.flatten() else {
            return Ok(self);
        };
        if !self.is_in(bbox) {
            return Err(format!(
                "the bbox from {},{} across the antimeridian to {},{} does not contain the geometry, whose bounds are \
                 {}; correct the bbox, or remove it",
                bbox[0][0],
                bbox[0][1],
                bbox[1][0],
                bbox[1][1],
                self.shape.bounds()
            ));
        }
        Ok(Self { across: Some(parts), ..self })
    }

    /// Whether a box whose west is above its east contains all positions, except for rounding. If west and east have
    /// the same sign, positions on both sides of the gap between them are accepted without a look at those in it.
    fn is_in(&self, [[west, south], [east, north]]: Corners) -> bool {
        let (bounds, Inner { east: least, west: greatest }) = (self.shape.bounds(), self.inner);
        let ([min_x, min_y], [max_x, max_y]) = (bounds.min(), bounds.max());
        let is_above = |number: f64, limit: f64| number >= limit - ROUNDING_DEGREES;
        let is_on_globe = is_above(min_x, -180.0) && is_above(180.0, max_x);
        let is_between_latitudes = is_above(min_y, south) && is_above(north, max_y);
        // Each pair is the positions on one side of the prime meridian: the westernmost and the easternmost.
        let pairs = [(min_x, greatest), (least, max_x)];
        let is_outside_gap = pairs.into_iter().filter(|(first, last)| first <= last).all(|(first, last)| {
            is_above(east, last) || is_above(first, west) || is_above(east, first) && is_above(last, west)
        });
        is_on_globe && is_between_latitudes && is_outside_gap
    }
}

/// The corners of a `bbox`: the least, and the greatest.
type Corners = [[f64; 2]; 2];

/// The corners and the two parts of a `bbox` whose west is above its east; `None` for other boxes, which the geometry
/// replaces.
fn across_antimeridian(bbox: &Value) -> Result<Option<(Corners, Bounds)>, String> {
    let numbers =
        bbox.as_array().and_then(|edges| edges.iter().map(Value::as_f64).collect::<Option<Vec<_>>>());
    let (min, max) = match numbers.as_deref() {
        Some(&[west, south, east, north] | &[west, south, _, east, north, _]) => {
            ([west, south], [east, north])
        }
        _ => return Err("the bbox is not an array of 4 or 6 numbers".to_owned()),
    };
    let parts = Rectangle::around_globe(min, max).map_err(|error| format!("the bbox: {error}"))?;
    Ok(parts.1.map(|beyond| ([min, max], Bounds::Across(parts.0, beyond))))
}

/// The id of a feature as a text.
fn text(id: &Value) -> Result<String, String> {
    id.as_str().map(str::to_owned).ok_or_else(|| format!("its id {id} is not a string"))
}

/// The number of a feature. Only the numbers that an index can hold have an identity there.
fn number(id: &Value) -> Result<u64, String> {
    id.as_u64().ok_or_else(|| format!("its id {id} is not an integer from 0 to 2^64 - 1"))
}

#[cfg(test)]
mod tests {
    use super::super::object::{Document, FeatureSink, LoadEnded};
    use super::*;
    use farwood::spatial::CoordinateSystem;
    use serde::de::DeserializeSeed as _;
    use serde_json::json;

    struct Seen(Vec<Placed>);

    impl FeatureSink for Seen {
        fn keeps_contents(&self) -> bool {
            false
        }

        fn add(&mut self, placed: Placed) -> Result<(), LoadEnded> {
            self.0.push(placed);
            Ok(())
        }
    }

    fn seen(text: &Value) -> Vec<Placed> {
        let mut seen = Seen(Vec::new());
        Document(&mut seen).deserialize(text).unwrap().unwrap();
        seen.0
    }

    /// The rectangles in an index that does not state its coordinates.
    fn rectangles(bounds: Bounds) -> (Rectangle, Option<Rectangle>) {
        match bounds {
            Bounds::Across(first, beyond) => (first, Some(beyond)),
            Bounds::Geometry(shape) => shape.rectangles(CoordinateSystem::Unstated),
        }
    }

    fn refused(text: &Value) -> String {
        Document(&mut Seen(Vec::new())).deserialize(text).unwrap().unwrap_err()
    }

    #[test]
    fn a_feature_is_the_bounds_of_its_geometry() {
        let line = json!({ "type": "Feature", "id": 5, "geometry":
            { "coordinates": [[1.0, 9.0], [-2.0, 3.0, 100.0]], "type": "LineString" } });
        let rectangle = Rectangle::new([-2.0, 3.0], [1.0, 9.0]).unwrap();
        let found = seen(&line).remove(0);
        assert_eq!((found.id.unwrap().number, found.bounds), (Ok(5), Ok(rectangle.into())));
        let collection = json!({ "type": "GeometryCollection", "geometries":
            [{ "type": "Point", "coordinates": [0, 0] }, { "type": "Point", "coordinates": [4, 5] }] });
        let rectangle = Rectangle::new([0.0, 0.0], [4.0, 5.0]).unwrap();
        let found = seen(&collection).remove(0);
        assert_eq!((found.id, found.bounds.map(rectangles)), (None, Ok((rectangle, None))));
    }

    #[test]
    fn a_feature_that_is_not_understood_has_a_reason() {
        let point = json!({ "type": "Point", "coordinates": [1, 2] });
        for (feature, why) in [
            (json!({ "type": "Feature", "geometry": null }), "no geometry"),
            (json!({ "type": "Feature" }), "no geometry member"),
            (json!({ "type": "Feature", "geometry": [1, 2] }), "an array, and not an object"),
            (
                json!({ "type": "Feature", "geometry": { "type": "Circle", "coordinates": [1, 2] } }),
                "'Circle'",
            ),
            (json!({ "type": "Feature", "geometry": { "coordinates": [1, 2] } }), "no type"),
            (json!({ "type": "Feature", "geometry": { "type": "Point" } }), "no coordinates"),
            (json!({ "type": "Feature", "bbox": "all", "geometry": point }), "the bbox"),
            (json!({ "type": "Feature", "bbox": [1, 2, 3], "geometry": point }), "the bbox"),
            (json!({ "type": "Feature", "bbox": [1, 5, 3, 2], "geometry": point }), "the bbox"),
            (json!({ "type": "Polygon", "coordinates": [[1, 2], [3, 4]] }), "3 deep, and these are 2 deep"),
            (json!({ "type": "Point", "coordinates": [] }), "no coordinates"),
            (json!({ "type": "GeometryCollection", "geometries": [] }), "no geometries"),
            (json!({ "type": "GeometryCollection", "geometries": [null] }), "null"),
            (json!({ "type": "GeometryCollection", "geometries": 5 }), "not an array"),
        ] {
            let found = seen(&feature);
            assert!(found[0].bounds.as_ref().unwrap_err().contains(why), "{feature}: {found:?}");
        }
        let nulls = seen(&json!({ "type": "FeatureCollection", "features": [null, 5, "x", point] }));
        let good: Vec<_> = nulls.iter().map(|placed| placed.bounds.is_ok()).collect();
        assert_eq!(good, [false, false, false, true]);
    }

    #[test]
    fn a_text_that_is_not_geojson_is_refused() {
        for (text, why) in [
            (json!([1, 2]), "not GeoJSON"),
            (json!({ "type": "Topology" }), "'Topology'"),
            (json!({ "features": [] }), "not GeoJSON"),
            (json!({ "type": "FeatureCollection" }), "no features"),
            (json!({ "type": "FeatureCollection", "features": {} }), "not an array"),
            (json!({ "type": "Feature", "features": [] }), "its type is Feature"),
        ] {
            assert!(refused(&text).contains(why), "{text}");
        }
    }

    #[test]
    fn ids_of_every_kind_are_kept_or_refused() {
        let id = |id: Value| number(&id);
        assert_eq!(id(json!(0)), Ok(0));
        assert_eq!(id(json!(u64::MAX)), Ok(u64::MAX));
        for bad in [json!("way/17"), json!("10"), json!(7.0), json!(1e3), json!(-5), json!(null), json!(2e64)]
        {
            assert!(id(bad.clone()).unwrap_err().contains(&bad.to_string()), "{bad}");
        }
    }

    #[test]
    fn a_geometry_that_is_cut_at_the_antimeridian_is_two_rectangles() {
        let parts = |geometry: &Value| {
            let feature = json!({ "type": "Feature", "id": 242, "geometry": geometry });
            let (first, beyond) = rectangles(seen(&feature)[0].bounds.clone().unwrap());
            [Some(first), beyond].into_iter().flatten().map(|part| part.to_string()).collect::<Vec<_>>()
        };
        let [east, west] = [
            json!([[180, -17], [180, -16], [177, -16], [177, -17], [180, -17]]),
            json!([[-178, -17], [-178, -16], [-180, -16], [-180, -17], [-178, -17]]),
        ];
        let fiji = ["177,-17,180,-16", "-180,-17,-178,-16"];
        let polygons = json!({ "type": "MultiPolygon", "coordinates": [[east], [west]] });
        assert_eq!(parts(&polygons), fiji);
        assert_eq!(parts(&json!({ "type": "MultiLineString", "coordinates": [west, east] })), fiji);
        let one = |ring: &Value| json!({ "type": "Polygon", "coordinates": [ring] });
        let collection = json!({ "type": "GeometryCollection", "geometries": [one(&east), one(&west)] });
        assert_eq!(parts(&collection), fiji);
        let around = json!({ "type": "Polygon", "coordinates": [east, west] });
        assert_eq!(parts(&around), ["-180,-17,180,-16"], "a polygon is one part");
        let points = json!({ "type": "MultiPoint", "coordinates": [[180, 1], [5, 3], [-180, 2]] });
        assert_eq!(parts(&points), ["5,1,180,3", "-180,2,-180,2"]);
    }

    #[test]
    fn a_feature_across_the_antimeridian_is_two_rectangles() {
        let of = |bbox: Value| {
            json!({ "type": "Feature", "id": 7, "bbox": bbox, "geometry":
            { "type": "MultiPoint", "coordinates": [[179.0, -17.0], [-179.0, -16.0]] } })
        };
        let parts = |feature: &Value| {
            let (west, east) = rectangles(seen(feature)[0].bounds.clone()?);
            Ok::<_, String>((west.to_string(), east.map(|east| east.to_string())))
        };
        let expected = ("177,-20,180,-16".to_owned(), Some("-180,-20,-178,-16".to_owned()));
        for bbox in [json!([177.0, -20.0, -178.0, -16.0]), json!([177.0, -20.0, 0.0, -178.0, -16.0, 9.0])] {
            assert_eq!(parts(&of(bbox)), Ok(expected.clone()));
        }
        let geometry = json!({ "type": "Feature", "geometry": { "type": "Point", "coordinates": [179.0, -17.0],
            "bbox": [177.0, -20.0, -178.0, -16.0] } });
        assert_eq!(parts(&geometry), Ok(expected));
        let around = parts(&of(json!([-179.0, -17.0, 179.0, -16.0]))).unwrap();
        assert_eq!(around, ("-179,-17,179,-16".to_owned(), None), "the box does not cross it");
        assert!(parts(&of(json!([177.0, 20.0, -178.0, -16.0]))).is_err(), "upside down");
        for bbox in
            [[179.5, -20.0, -178.0, -16.0], [177.0, -20.0, -179.5, -16.0], [177.0, -16.5, -178.0, -16.0]]
        {
            assert!(parts(&of(json!(bbox))).unwrap_err().contains("does not contain"), "{bbox:?}");
        }
        assert!(parts(&of(json!([10.0, -20.0, 5.0, -16.0]))).is_ok(), "the gap is in the east");
        assert!(parts(&of(json!([-5.0, -20.0, -10.0, -16.0]))).is_ok(), "the gap is in the west");
    }
}
