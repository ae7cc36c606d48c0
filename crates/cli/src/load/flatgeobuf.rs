//! Rectangles of FlatGeobuf features: the bounds of each geometry, numbered by their position in the file. The reader
//! skips the index in the file, so the file may come through a pipe. Geometries with curves are refused: their
//! coordinates in the file are control points, which do not bound them. A feature is also refused if its type
//! contradicts the header, a part has no coordinates, or its lines (`ends`) do not cover its positions.

use super::found::{Bounds, Found, Placed};
use super::shape::Shape;
use super::trouble::{Place, Trouble};
use crate::Failure;
use farwood::spatial::Contents;
use farwood::spatial::Rectangle;
use flatgeobuf::{Error, FallibleStreamingIterator as _, FgbFeature, FgbReader, Geometry, GeometryType};
use std::io::{self, BufRead, ErrorKind, Read};

/// Largest number of features that the header may state: the size of the file's index must fit into 64 bits.
const FEATURES_MAX: u64 = 1 << 48;

pub(super) fn read(reader: impl BufRead, found: &mut Found<'_>) -> Result<(), Failure> {
    let mut source = Source { reader, is_cut: false };
    match read_features(&mut source, found) {
        Ok(read) => read?,
        Err(error) => return Err(found.failure(trouble(error))),
    }
    match source.reader.fill_buf() {
        Ok([]) if source.is_cut => Err(found.failure(damaged("it ends within the size of a feature"))),
        Ok([]) => Ok(()),
        Ok(_) => Err(found.failure(damaged("bytes follow the last feature"))),
        Err(error) => Err(found.failure(error.into())),
    }
}

/// A file that records whether it ended within a request. The library takes such an end for the end of the features.
struct Source<R> {
    reader: R,
    /// Whether the last request for bytes yielded a part of them.
    is_cut: bool,
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(bytes)?;
        if read > 0 {
            self.is_cut = read < bytes.len();
        }
        Ok(read)
    }
}

/// Reads header and features. The outer error is one of the file, the inner one is the end of the load.
fn read_features(reader: impl Read, found: &mut Found<'_>) -> Result<Result<(), Failure>, Error> {
    let file = FgbReader::open(reader)?;
    let (kind, promised) = (file.header().geometry_type(), file.header().features_count());
    if file.header().index_node_size() == 1 || promised > FEATURES_MAX {
        return Ok(Err(found.failure(damaged("its header is not valid"))));
    }
    let mut features = file.select_all_seq()?;
    let mut number = 0;
    while let Some(feature) = features.next()? {
        number += 1;
        let placed = Placed { id: None, bounds: bounds(kind, feature), contents: Contents::default() };
        if let Err(failure) = found.add(Place::Feature(number), number, placed) {
            return Ok(Err(failure));
        }
    }
    // 0 is a file whose writer did not know the number.
    if promised > number {
        let why = format!("the file ends after {number} of {promised} features");
        return Ok(Err(found.failure(Trouble::rest(Place::File, why))));
    }
    Ok(Ok(()))
}

fn damaged(why: &str) -> Trouble {
    Trouble::rest(Place::File, format!("the FlatGeobuf file is damaged: {why}"))
}

fn trouble(error: Error) -> Trouble {
    match error {
        Error::MissingMagicBytes => Trouble::rest(Place::File, "the file is not in FlatGeobuf format"),
        Error::IO(source) if source.kind() == ErrorKind::UnexpectedEof => damaged("it ends too early"),
        Error::IO(source) => source.into(),
        Error::IllegalHeaderSize(bytes) => damaged(&format!("it states a header of {bytes} bytes")),
        // The library describes the position in the header in several lines.
        Error::InvalidFlatbuffer(_) => damaged("its header or a feature is not valid"),
        error => damaged(&error.to_string()),
    }
}

/// The bounds of a feature.
fn bounds(header: GeometryType, feature: &FgbFeature) -> Result<Bounds, String> {
    let geometry = feature.geometry().ok_or("the feature has no geometry")?;
    let kind = kind_of(header, geometry.type_())?;
    Ok(Bounds::Geometry(shape_of(&geometry, kind)?))
}

/// The type of a feature. It need not state the type that the header states.
fn kind_of(header: GeometryType, stated: GeometryType) -> Result<GeometryType, String> {
    match (header, stated) {
        (GeometryType::Unknown, GeometryType::Unknown) => {
            Err("the type of the geometry is not stated".to_owned())
        }
        (GeometryType::Unknown, _) => Ok(stated),
        (_, GeometryType::Unknown) => Ok(header),
        _ if header == stated => Ok(header),
        // The writer of geozero states the type of the last geometry of a collection as the type of the collection.
        (GeometryType::GeometryCollection, _) => check_kind(stated).map(|()| header),
        _ => Err(format!(
            "the geometry is a {}, and the header of the file states {}",
            name(stated),
            name(header)
        )),
    }
}

fn name(kind: GeometryType) -> String {
    kind.variant_name().map_or_else(|| format!("geometry of type {}", kind.0), str::to_owned)
}

/// Refuses types whose coordinates do not bound them, and unknown types.
fn check_kind(kind: GeometryType) -> Result<(), String> {
    if (GeometryType::CircularString.0..=GeometryType::Surface.0).contains(&kind.0) {
        return Err(format!("{} geometries contain curves, which are not supported", name(kind)));
    }
    if kind.0 > GeometryType::Triangle.0 {
        return Err(format!("the geometry has the unknown type {}", kind.0));
    }
    Ok(())
}

/// The shape of a geometry of that type, which has either positions or parts.
fn shape_of(geometry: &Geometry<'_>, kind: GeometryType) -> Result<Shape, String> {
    check_kind(kind)?;
    let has_positions = geometry.xy().is_some_and(|edges| !edges.is_empty());
    let has_parts = geometry.parts().is_some_and(|parts| !parts.is_empty());
    match (has_positions, has_parts) {
        (false, false) => Err("the geometry has no coordinates".to_owned()),
        (true, true) => Err(format!("the {} has positions outside its parts", name(kind))),
        (true, false) if kind == GeometryType::GeometryCollection => {
            Err("the GeometryCollection has positions and no geometries".to_owned())
        }
        (true, false) => positions(geometry, kind),
        (false, true) if geometry.ends().is_some_and(|ends| !ends.is_empty()) => {
            Err("the geometry has ends of lines and no positions".to_owned())
        }
        (false, true) => parts(geometry, kind),
    }
}

/// The shape of a geometry's parts.
fn parts(geometry: &Geometry<'_>, kind: GeometryType) -> Result<Shape, String> {
    let mut shape = None;
    for (part, number) in geometry.parts().into_iter().flat_map(|parts| parts.iter()).zip(1..) {
        let within = |why: String| format!("part {number} of the {}: {why}", name(kind));
        let part_kind = part_kind(kind, part.type_()).map_err(within)?;
        let one = shape_of(&part, part_kind).map_err(within)?;
        let one = if kind == GeometryType::GeometryCollection { one } else { one.as_part() };
        shape = joined(shape, Some(one));
    }
    shape.ok_or_else(|| "the geometry has no coordinates".to_owned())
}

/// The type of a part that states `stated`. Only the geometries of a collection must state their types.
fn part_kind(whole: GeometryType, stated: GeometryType) -> Result<GeometryType, String> {
    let element = match whole {
        GeometryType::GeometryCollection if stated == GeometryType::Unknown => {
            return Err("the type of the geometry is not stated".to_owned());
        }
        GeometryType::GeometryCollection => return Ok(stated),
        GeometryType::MultiPolygon | GeometryType::PolyhedralSurface => GeometryType::Polygon,
        GeometryType::TIN => GeometryType::Triangle,
        _ => return Err("this type has no parts".to_owned()),
    };
    // The writer of geozero states the type of the whole in each part.
    if [GeometryType::Unknown, element, whole].contains(&stated) {
        return Ok(element);
    }
    Err(format!("it is a {}, and not a {}", name(stated), name(element)))
}

fn joined(one: Option<Shape>, other: Option<Shape>) -> Option<Shape> {
    one.into_iter().chain(other).reduce(Shape::joined)
}

/// The shape of a geometry's own positions: each is a part of a MultiPoint, and each line one of a MultiLineString.
fn positions(geometry: &Geometry<'_>, kind: GeometryType) -> Result<Shape, String> {
    check_ends(geometry, kind)?;
    let mut ends = geometry.ends().into_iter().flat_map(|ends| ends.iter()).peekable();
    let (mut shape, mut part, mut count) = (None, None, 0);
    let mut edges = geometry.xy().into_iter().flat_map(|edges| edges.iter());
    while let Some(x) = edges.next() {
        let y = edges.next().ok_or("the geometry has an x without a y")?;
        let point = Rectangle::point([x, y]).map_err(|error| error.to_string())?;
        part = joined(part, Some(Shape::part(point)));
        count += 1;
        let part_ends = match kind {
            GeometryType::MultiPoint => true,
            GeometryType::MultiLineString => ends.next_if_eq(&count).is_some(),
            _ => false,
        };
        if part_ends {
            shape = joined(shape, part.take().map(Shape::as_part));
        }
    }
    joined(shape, part.map(Shape::as_part)).ok_or_else(|| "the geometry has no coordinates".to_owned())
}

/// Checks that the geometry has as many lines and positions as its type permits, and that each line has positions.
fn check_ends(geometry: &Geometry<'_>, kind: GeometryType) -> Result<(), String> {
    let count = geometry.xy().map_or(0, |edges| edges.len()) / 2;
    if kind == GeometryType::Point && count > 1 {
        return Err(format!("the Point has {count} positions"));
    }
    let Some(ends) = geometry.ends().filter(|ends| !ends.is_empty()) else { return Ok(()) };
    let is_one_line =
        matches!(kind, GeometryType::Point | GeometryType::MultiPoint | GeometryType::LineString);
    if is_one_line && ends.len() > 1 {
        return Err(format!("the {} consists of {} lines", name(kind), ends.len()));
    }
    let mut start = 0;
    for (end, number) in ends.iter().map(|end| end as usize).zip(1..) {
        if end <= start || end > count {
            return Err(format!(
                "line {number} of the {} ends at position {end}; it begins at {start}, and the geometry has {count}",
                name(kind)
            ));
        }
        start = end;
    }
    if start < count {
        return Err(format!("the lines of the {} end at position {start} of {count}", name(kind)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_feature_agrees_with_the_header() {
        type Kind = GeometryType;
        assert_eq!(kind_of(Kind::Polygon, Kind::Unknown), Ok(Kind::Polygon));
        assert_eq!(kind_of(Kind::Unknown, Kind::Point), Ok(Kind::Point));
        assert_eq!(kind_of(Kind::GeometryCollection, Kind::Point), Ok(Kind::GeometryCollection));
        for (header, stated) in [
            (Kind::Unknown, Kind::Unknown),
            (Kind::Polygon, Kind::CurvePolygon),
            (Kind::GeometryCollection, Kind::MultiCurve),
            (Kind::Point, GeometryType(200)),
        ] {
            assert!(kind_of(header, stated).is_err(), "{header:?} {stated:?}");
        }
    }

    #[test]
    fn a_part_has_the_type_that_the_whole_permits() {
        type Kind = GeometryType;
        assert_eq!(part_kind(Kind::MultiPolygon, Kind::Unknown), Ok(Kind::Polygon));
        assert_eq!(part_kind(Kind::MultiPolygon, Kind::MultiPolygon), Ok(Kind::Polygon));
        assert_eq!(part_kind(Kind::TIN, Kind::Triangle), Ok(Kind::Triangle));
        for (whole, part) in [
            (Kind::MultiPolygon, Kind::CurvePolygon),
            (Kind::MultiPolygon, Kind::Point),
            (Kind::GeometryCollection, Kind::Unknown),
            (Kind::Point, Kind::Point),
        ] {
            assert!(part_kind(whole, part).is_err(), "{whole:?} {part:?}");
        }
    }
}
