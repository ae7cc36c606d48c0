//! Rectangles of FlatGeobuf features: the bounds of each geometry, numbered by their position in the file. The reader
//! skips the index in the file, so the file may come through a pipe. Geometries with curves are refused: their
//! coordinates in the file are control points, which do not bound them.

use super::found::{Bounds, Found, Placed};
use super::shape::Shape;
use super::trouble::{Place, Trouble};
use crate::Failure;
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
        let placed = Placed { id: None, bounds: bounds(kind, feature) };
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
fn bounds(kind: GeometryType, feature: &FgbFeature) -> Result<Bounds, String> {
    let geometry = feature.geometry().ok_or("the feature has no geometry")?;
    let kind = if kind == GeometryType::Unknown { geometry.type_() } else { kind };
    if kind == GeometryType::Unknown {
        return Err("the type of the geometry is not stated".to_owned());
    }
    let shape = shape_of(&geometry, kind)?.ok_or("the geometry has no coordinates")?;
    Ok(Bounds::Geometry(shape))
}

/// The shape of a geometry of that kind. The parts of a geometry need not state their kinds, except in a collection.
fn shape_of(geometry: &Geometry<'_>, kind: GeometryType) -> Result<Option<Shape>, String> {
    if (GeometryType::CircularString.0..=GeometryType::Surface.0).contains(&kind.0) {
        return Err(format!("{kind:?} geometries contain curves, which are not supported"));
    }
    if kind.0 > GeometryType::Triangle.0 {
        return Err(format!("the geometry has the unknown type {}", kind.0));
    }
    let mut shape = positions(geometry, kind)?;
    for part in geometry.parts().into_iter().flat_map(|parts| parts.iter()) {
        if kind == GeometryType::GeometryCollection && part.type_() == GeometryType::Unknown {
            return Err("the type of a geometry in a collection is not stated".to_owned());
        }
        let part = shape_of(&part, part.type_())?;
        let part = if kind == GeometryType::GeometryCollection { part } else { part.map(Shape::as_part) };
        shape = joined(shape, part);
    }
    Ok(shape)
}

fn joined(one: Option<Shape>, other: Option<Shape>) -> Option<Shape> {
    one.into_iter().chain(other).reduce(Shape::joined)
}

/// The shape of a geometry's own positions: each is a part of a MultiPoint, and each line one of a MultiLineString.
fn positions(geometry: &Geometry<'_>, kind: GeometryType) -> Result<Option<Shape>, String> {
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
    Ok(joined(shape, part.map(Shape::as_part)))
}
