//! Rectangles of FlatGeobuf features: the bounds of each geometry, numbered from 1 in the order of the file.
//!
//! The file's own index is passed over, so that it may come through a pipe. Geometries with curves are refused: what
//! lies in the file are their control points, which do not bound them.

use super::Args;
use super::rectangles::{Found, Placed};
use crate::Failure;
use farwood::spatial::{Item, Rectangle};
use flatgeobuf::{Error, FallibleStreamingIterator as _, FgbFeature, FgbReader, Geometry, GeometryType};
use std::io::BufRead;

pub(super) fn read(args: &Args, reader: impl BufRead) -> Result<Found, Failure> {
    let refuse = |what: String| Failure::Usage(format!("load {}: {}: {what}", args.url, args.file.display()));
    let failed = |error: Error| match error {
        Error::MissingMagicBytes => refuse("the file is not in FlatGeobuf format".to_owned()),
        Error::IO(source) if source.kind() != std::io::ErrorKind::UnexpectedEof => {
            Failure::File { operation: "read", path: args.file.clone(), source }
        }
        error => refuse(format!("the FlatGeobuf file is damaged: {error}")),
    };
    let mut features = FgbReader::open(reader).and_then(FgbReader::select_all_seq).map_err(failed)?;
    let (kind, promised) = (features.header().geometry_type(), features.header().features_count());
    let (mut found, mut number) = (Found::default(), 0);
    while let Some(feature) = features.next().map_err(failed)? {
        number += 1;
        found.add(args, &format!("feature {number}"), placed(number, kind, feature))?;
    }
    // 0 is a file whose writer did not know.
    if promised > number {
        return Err(refuse(format!("the file ends after {number} of {promised} features")));
    }
    Ok(found)
}

/// Where feature `number` is.
fn placed(number: u64, kind: GeometryType, feature: &FgbFeature) -> Result<Placed, String> {
    let geometry = feature.geometry().ok_or("the feature has no geometry")?;
    let mut bounds = None;
    bounds_of(&geometry, kind, &mut bounds)?;
    let bounds = bounds.ok_or("the geometry has no coordinates")?;
    Ok((Item { bounds, id: number }, None))
}

/// Adds the bounds of a geometry of that kind, or of the kind that it says itself.
fn bounds_of(
    geometry: &Geometry<'_>,
    kind: GeometryType,
    bounds: &mut Option<Rectangle>,
) -> Result<(), String> {
    let kind = if kind == GeometryType::Unknown { geometry.type_() } else { kind };
    if (GeometryType::CircularString.0..=GeometryType::Surface.0).contains(&kind.0) {
        return Err(format!("{kind:?} geometries contain curves, which are not supported"));
    }
    let mut edges = geometry.xy().into_iter().flat_map(|edges| edges.iter());
    while let (Some(x), Some(y)) = (edges.next(), edges.next()) {
        let point = Rectangle::point([x, y]).map_err(|error| error.to_string())?;
        *bounds = Some(bounds.map_or(point, |bounds| bounds.union(&point)));
    }
    let mut parts = geometry.parts().into_iter().flat_map(|parts| parts.iter());
    parts.try_for_each(|part| bounds_of(&part, GeometryType::Unknown, bounds))
}
