//! Rectangles of GeoJSON features (RFC 7946): the bounds of each geometry, and its `id` where that is a number.
//!
//! A feature whose `bbox` reaches across the antimeridian, west above east, is two rectangles of one number.

use super::Args;
use super::rectangles::{Found, Placed};
use crate::Failure;
use farwood::spatial::{Item, Rectangle};
use serde_json::{Number, Value};
use std::io::BufRead;

pub(super) fn read(args: &Args, reader: impl BufRead) -> Result<Found, Failure> {
    let refuse = |what: String| Failure::Usage(format!("load {}: {}: {what}", args.url, args.file.display()));
    let value: Value =
        serde_json::from_reader(reader).map_err(|error| refuse(format!("the file is not JSON: {error}")))?;
    let features = match value.get("type").and_then(Value::as_str) {
        Some("FeatureCollection") => value.get("features").and_then(Value::as_array).cloned(),
        Some(_) => Some(vec![value.clone()]),
        None => None,
    };
    let features = features
        .ok_or_else(|| refuse("the file is not GeoJSON: it must be an object with a type".to_owned()))?;
    let mut found = Found::default();
    for (number, feature) in (1..).zip(&features) {
        found.add(args, &format!("feature {number}"), placed(number, feature))?;
    }
    Ok(found)
}

/// Where feature `number` is.
fn placed(number: u64, feature: &Value) -> Result<Placed, String> {
    let id = feature.get("id").and_then(Value::as_u64).unwrap_or(number);
    let item = |bounds| Item { bounds, id };
    if let Some((bounds, beyond)) = across_antimeridian(feature)? {
        return Ok((item(bounds), beyond.map(item)));
    }
    let geometry = match feature.get("geometry") {
        Some(Value::Null) => return Err("the feature has no geometry".to_owned()),
        Some(geometry) => geometry,
        None => feature,
    };
    let mut bounds = None;
    bounds_of(geometry, &mut bounds)?;
    let bounds = bounds.ok_or_else(|| "the geometry has no coordinates".to_owned())?;
    Ok((item(bounds), None))
}

/// The two parts of a `bbox` whose west lies above its east; `None`: there is none like that.
fn across_antimeridian(feature: &Value) -> Result<Option<(Rectangle, Option<Rectangle>)>, String> {
    let edges: Option<Vec<f64>> = feature
        .get("bbox")
        .and_then(Value::as_array)
        .and_then(|edges| edges.iter().map(Value::as_f64).collect());
    let (min, max) = match edges.as_deref() {
        Some(&[west, south, east, north] | &[west, south, _, east, north, _]) if west > east => {
            ([west, south], [east, north])
        }
        _ => return Ok(None),
    };
    Rectangle::around_globe(min, max).map(Some).map_err(|error| format!("the bbox: {error}"))
}

/// Adds the bounds of a geometry, or of some coordinates.
fn bounds_of(value: &Value, bounds: &mut Option<Rectangle>) -> Result<(), String> {
    if let Some(geometries) = value.get("geometries").and_then(Value::as_array) {
        return geometries.iter().try_for_each(|geometry| bounds_of(geometry, bounds));
    }
    let coordinates = value.get("coordinates").unwrap_or(value);
    let Some(parts) = coordinates.as_array() else { return Ok(()) };
    if let [Value::Number(x), Value::Number(y), ..] = parts.as_slice() {
        let number = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
        let point = Rectangle::point([number(x), number(y)]).map_err(|error| error.to_string())?;
        *bounds = Some(bounds.map_or(point, |bounds| bounds.union(&point)));
        return Ok(());
    }
    parts.iter().try_for_each(|part| bounds_of(part, bounds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_feature_is_the_bounds_of_its_geometry() {
        let line = json!({ "type": "Feature", "id": 5, "geometry":
            { "type": "LineString", "coordinates": [[1.0, 9.0], [-2.0, 3.0, 100.0]] } });
        let (item, beyond) = placed(1, &line).unwrap();
        assert_eq!((item.id, item.bounds.to_string(), beyond), (5, "-2,3,1,9".to_owned(), None));
        let collection = json!({ "type": "GeometryCollection", "geometries":
            [{ "type": "Point", "coordinates": [0, 0] }, { "type": "Point", "coordinates": [4, 5] }] });
        assert_eq!(placed(3, &collection).unwrap().0.bounds.to_string(), "0,0,4,5");
        for bad in
            [json!({ "type": "Feature", "geometry": null }), json!({ "type": "Point", "coordinates": [] })]
        {
            assert!(placed(1, &bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_feature_across_the_antimeridian_is_two_rectangles() {
        let of = |bbox: Value| {
            json!({ "type": "Feature", "id": 7, "bbox": bbox, "geometry":
            { "type": "MultiPoint", "coordinates": [[179.0, -17.0], [-179.0, -16.0]] } })
        };
        for bbox in [json!([177.0, -20.0, -178.0, -16.0]), json!([177.0, -20.0, 0.0, -178.0, -16.0, 9.0])] {
            let (west, east) = placed(1, &of(bbox)).unwrap();
            let east = east.unwrap();
            assert_eq!((west.id, west.bounds.to_string()), (7, "177,-20,180,-16".to_owned()));
            assert_eq!((east.id, east.bounds.to_string()), (7, "-180,-20,-178,-16".to_owned()));
        }
        assert_eq!(
            placed(1, &of(json!([-179.0, -17.0, 179.0, -16.0]))).unwrap().1,
            None,
            "nothing is reached across"
        );
        assert!(placed(1, &of(json!([177.0, 20.0, -178.0, -16.0]))).is_err(), "upside down");
    }
}
