//! The geometry of a record.

use super::super::contents::parts;
use super::super::index::Spatial;
use crate::error::{Error, Result};
use farwood_geometry::{Bounds, Geometry, Prepared};
use farwood_index::catfish::{Record, Rectangle};

/// How far a geometry may exceed its rectangle: `farwood load` stores longitudes that exceed 180 by a rounding error of
/// up to 1e-9 as 180 in the rectangle.
const ROUNDING: f64 = 2e-9;

impl Spatial {
    /// The geometry of a record, prepared for comparisons.
    pub(super) fn prepared(&self, operation: &'static str, record: &Record) -> Result<Prepared> {
        prepare(record).map_err(|why| {
            let (url, id) = (self.url(), record.id.clone());
            Error::Geometry { operation, url, id, why }
        })
    }
}

fn prepare(record: &Record) -> Result<Prepared, String> {
    let (wkb, _) = parts(&record.payload).map_err(|error| format!("has no geometry: {error}"))?;
    let bounds = bounds_of(&record.bounds);
    if wkb.is_empty() {
        let rectangle = Geometry::of_bounds(&bounds).map_err(|error| error.to_string())?;
        return Ok(Prepared::new(&rectangle));
    }
    let geometry = Geometry::from_wkb(wkb);
    let geometry = geometry.map_err(|error| format!("has a damaged geometry: {error}; put it again"))?;
    let prepared = Prepared::new(&geometry);
    let around = Bounds::new(bounds.min.map(|edge| edge - ROUNDING), bounds.max.map(|edge| edge + ROUNDING));
    match prepared.bounds() {
        Some(inner) if !around.contains(&inner) => Err(format!(
            "has the rectangle {}, which does not contain its geometry; put it again with both",
            record.bounds
        )),
        _ => Ok(prepared),
    }
}

/// A rectangle as a box of a geometry.
pub(super) fn bounds_of(rectangle: &Rectangle) -> Bounds {
    Bounds::new(rectangle.min(), rectangle.max())
}
