//! Records on the command line and as GeoJSON, for all commands that read or print them.

use crate::{Context, Failure};
use farwood::Url;
use farwood::spatial::{Contents, Record, RecordId, Rectangle};
use farwood_geometry::{Bounds, Geometry, WktError};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Reads a geometry that is WKT or GeoJSON.
pub(crate) fn read_geometry(text: &str) -> Result<Geometry, String> {
    if text.trim_start().starts_with('{') {
        return Geometry::from_geojson(text).map_err(|error| error.to_string());
    }
    text.parse().map_err(|error: WktError| error.to_string())
}

/// The geometry of a rectangle.
pub(crate) fn of_rectangle(rectangle: &Rectangle) -> Result<Geometry, Failure> {
    let bounds = Bounds::new(rectangle.min(), rectangle.max());
    Geometry::of_bounds(&bounds).map_err(|error| Failure::Usage(error.to_string()))
}

/// The contents of a record.
pub(crate) fn contents_of(operation: &str, url: &Url, record: &Record) -> Result<Contents, Failure> {
    Contents::decode(&record.payload).map_err(|error| unreadable(operation, url, record, &error.to_string()))
}

fn unreadable(operation: &str, url: &Url, record: &Record, what: &str) -> Failure {
    let id = &record.id;
    Failure::Other {
        text: format!("{operation} {url}: the record '{id}': {what}; `farwood get --raw` prints its payload"),
        exit_code: 8,
    }
}

/// An id as JSON.
pub(crate) fn id_json(id: &RecordId, context: &Context<'_>) -> Value {
    match id {
        RecordId::Number(number) => context.numbers.json(*number),
        RecordId::Text(text) => json!(text),
    }
}

/// A feature of GeoJSON (RFC 7946), with a distance as a member of its own. Attributes are those that were stored,
/// digit by digit.
#[derive(Debug, Serialize)]
pub(crate) struct Feature {
    #[serde(rename = "type")]
    kind: &'static str,
    id: Value,
    bbox: [f64; 4],
    geometry: Value,
    properties: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<f64>,
}

/// Features of GeoJSON.
#[derive(Debug, Serialize)]
pub(crate) struct FeatureCollection {
    #[serde(rename = "type")]
    kind: &'static str,
    features: Vec<Feature>,
}

impl FeatureCollection {
    pub(crate) fn new(features: Vec<Feature>) -> Self {
        Self { kind: "FeatureCollection", features }
    }
}

/// A record as a feature.
pub(crate) fn feature(
    operation: &str,
    url: &Url,
    record: &Record,
    distance: Option<f64>,
    context: &Context<'_>,
) -> Result<Feature, Failure> {
    let Contents { geometry, attributes } = contents_of(operation, url, record)?;
    let damaged = |what: String| unreadable(operation, url, record, &what);
    let geometry = if geometry.is_empty() {
        of_rectangle(&record.bounds)?
    } else {
        Geometry::from_wkb(&geometry).map_err(|error| damaged(format!("the geometry: {error}")))?
    };
    let attributes = if attributes.is_empty() { "{}".to_owned() } else { attributes };
    let properties = RawValue::from_string(attributes);
    let properties = properties.map_err(|error| damaged(format!("the attributes: {error}")))?;
    let (id, geometry) = (id_json(&record.id, context), geometry.to_geojson());
    Ok(Feature { kind: "Feature", id, bbox: record.bounds.edges(), geometry, properties, distance })
}
