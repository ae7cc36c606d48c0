//! Rectangles of the main file of a Shapefile (`.shp`), numbered by their position in the file. The reader keeps one
//! record in memory, and skips the other files of a Shapefile.

use super::found::{Bounds, Found, Placed};
use super::shape::Shape;
use super::trouble::{Place, Trouble};
use crate::Failure;
use ::shapefile::record::traits::HasXY;
use ::shapefile::{Error, ReadableShape as _, Shape as Record, ShapeReader};
use farwood::spatial::Contents;
use farwood::spatial::Rectangle;
use std::io::{self, BufRead, Cursor, ErrorKind, Read};

/// Bytes of the header of the file.
const HEADER_BYTES: u64 = 100;
/// Bytes of the header of a record: its number and the size of its content in words of 16 bits, both big-endian.
const RECORD_HEADER_BYTES: usize = 8;

pub(super) fn read(mut reader: impl BufRead, found: &mut Found<'_>) -> Result<(), Failure> {
    let header = ShapeReader::new(&mut reader).map(|reader| *reader.header());
    let header = header.map_err(|error| found.failure(trouble(error)))?;
    let mut rest = (2 * u64::from(header.file_length.unsigned_abs())).saturating_sub(HEADER_BYTES);
    let (mut content, mut number) = (Vec::new(), 0);
    while rest > 0 {
        number += 1;
        let bytes =
            read_record(&mut reader, &mut content).map_err(|error| found.failure(trouble(error.into())))?;
        rest = rest
            .checked_sub(bytes)
            .ok_or_else(|| found.failure(damaged("a record exceeds the stated size")))?;
        found.add(
            Place::Feature(number),
            number,
            Placed { id: None, bounds: bounds(&content), contents: Contents::default() },
        )?;
    }
    match reader.fill_buf() {
        Ok([]) => Ok(()),
        Ok(_) => Err(found.failure(damaged("bytes follow the last record"))),
        Err(error) => Err(found.failure(error.into())),
    }
}

/// Reads the content of the next record; returns the bytes of the record.
fn read_record(reader: &mut impl Read, content: &mut Vec<u8>) -> io::Result<u64> {
    let mut header = [0; RECORD_HEADER_BYTES];
    reader.read_exact(&mut header)?;
    let [.., a, b, c, d] = header;
    let bytes = 2 * u64::from(u32::from_be_bytes([a, b, c, d]));
    content.clear();
    // The size may be wrong: the buffer grows with what the file has.
    if reader.take(bytes).read_to_end(content)? as u64 != bytes {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(RECORD_HEADER_BYTES as u64 + bytes)
}

fn damaged(why: &str) -> Trouble {
    Trouble::rest(Place::File, format!("the Shapefile is damaged: {why}"))
}

fn trouble(error: Error) -> Trouble {
    match error {
        Error::IoError(source) if source.kind() == ErrorKind::UnexpectedEof => damaged("it ends too early"),
        Error::IoError(source) => source.into(),
        _ => damaged("its header is not valid"),
    }
}

/// The bounds of a record.
fn bounds(content: &[u8]) -> Result<Bounds, String> {
    let mut cursor = Cursor::new(content);
    let size = i32::try_from(content.len()).map_err(|_| "the record is longer than 2 GiB")?;
    let record = Record::read_from(&mut cursor, size);
    let record = record.map_err(|error| match error {
        Error::InvalidShapeType(kind) => format!("the record has the unknown type {kind}"),
        _ => "the record is damaged".to_owned(),
    })?;
    if cursor.position() != content.len() as u64 {
        return Err("the record is damaged: its size is not that of its geometry".to_owned());
    }
    let shape = shape(&record)?.ok_or("the record has no coordinates")?;
    Ok(Bounds::Geometry(shape))
}

fn shape(record: &Record) -> Result<Option<Shape>, String> {
    match record {
        Record::NullShape => Err("the record has no geometry".to_owned()),
        Record::Point(point) => part(std::slice::from_ref(point)),
        Record::PointM(point) => part(std::slice::from_ref(point)),
        Record::PointZ(point) => part(std::slice::from_ref(point)),
        Record::Multipoint(points) => parts(points.points().chunks(1)),
        Record::MultipointM(points) => parts(points.points().chunks(1)),
        Record::MultipointZ(points) => parts(points.points().chunks(1)),
        Record::Polyline(lines) => parts(lines.parts().iter().map(Vec::as_slice)),
        Record::PolylineM(lines) => parts(lines.parts().iter().map(Vec::as_slice)),
        Record::PolylineZ(lines) => parts(lines.parts().iter().map(Vec::as_slice)),
        Record::Polygon(polygon) => parts(polygon.rings().iter().map(::shapefile::PolygonRing::points)),
        Record::PolygonM(polygon) => parts(polygon.rings().iter().map(::shapefile::PolygonRing::points)),
        Record::PolygonZ(polygon) => parts(polygon.rings().iter().map(::shapefile::PolygonRing::points)),
        Record::Multipatch(patches) => parts(patches.patches().iter().map(::shapefile::Patch::points)),
    }
}

fn parts<'p, P: HasXY + 'p>(parts: impl Iterator<Item = &'p [P]>) -> Result<Option<Shape>, String> {
    parts
        .map(part)
        .try_fold(None, |all: Option<Shape>, one| Ok(all.into_iter().chain(one?).reduce(Shape::joined)))
}

/// The shape of one part.
fn part<P: HasXY>(points: &[P]) -> Result<Option<Shape>, String> {
    let bounds = points.iter().map(|point| Rectangle::point([point.x(), point.y()]));
    let bounds = bounds.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    Ok(Rectangle::around(&bounds).map(Shape::part))
}
