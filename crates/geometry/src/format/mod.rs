//! Formats of geometries: WKB, WKT and GeoJSON.

pub(crate) mod geojson;
pub(crate) mod wkb;
pub(crate) mod wkt;
