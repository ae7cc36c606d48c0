//! Features of the main file of a Shapefile (`.shp`), numbered by their position in the file or by a column of its
//! table (`.dbf`). An index with records stores the geometry in x and y, and the columns of the table as attributes.
//! The reader keeps one record and one row in memory, and skips the other files of a Shapefile.

use super::args::Args;
use super::column_value;
use super::dbf::{self, DbfField, DbfKind, DbfTable};
use super::found::Found;
use super::geometry::{self, Shaped};
use super::ids::{FileId, IdTypes, column_position};
use super::shape::Shape;
use super::trouble::{Place, Trouble};
use crate::{Failure, size};
use ::shapefile::record::traits::HasXY;
use ::shapefile::{Error, Patch, PolygonRing, ReadableShape as _, Shape as Record, ShapeReader};
use farwood::spatial::IdKind;
use farwood_geometry::Geometry;
use farwood_geometry::geo_types::{Coord, LineString, MultiLineString, MultiPoint};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Bytes of the header of the file.
const HEADER_BYTES: u64 = 100;
/// Bytes of the header of a record: its number and the size of its content in words of 16 bits, both big-endian.
const RECORD_HEADER_BYTES: usize = 8;

pub(super) fn read(args: &Args, mut reader: impl BufRead, found: &mut Found<'_>) -> Result<(), Failure> {
    let header = ShapeReader::new(&mut reader).map(|reader| *reader.header());
    let header = header.map_err(|error| found.failure(trouble(error)))?;
    let mut table = Rows::open(args, found)?;
    let mut rest = (2 * u64::from(header.file_length.unsigned_abs())).saturating_sub(HEADER_BYTES);
    let (mut content, mut number) = (Vec::new(), 0);
    while rest > 0 {
        number += 1;
        let bytes =
            read_record(&mut reader, &mut content).map_err(|error| found.failure(trouble(error.into())))?;
        rest = rest
            .checked_sub(bytes)
            .ok_or_else(|| found.failure(damaged("a record exceeds the stated size")))?;
        let shaped = Parts::read(&content).and_then(|parts| parts.shaped(found));
        let (id, attributes) = match &mut table {
            None => (None, Ok(String::new())),
            Some(table) => table.next(number, found)?,
        };
        let placed = found.feature(id, shaped, attributes);
        found.add(Place::Feature(number), number, placed)?;
    }
    if let Some(table) = table {
        table.check_count(number).map_err(|why| found.failure(why))?;
    }
    match reader.fill_buf() {
        Ok([]) => Ok(()),
        Ok(_) => Err(found.failure(damaged("bytes follow the last record"))),
        Err(error) => Err(found.failure(error.into())),
    }
}

/// The rows of the table beside the main file.
struct Rows {
    path: PathBuf,
    table: DbfTable<BufReader<File>>,
    /// The column of the ids.
    id: Option<DbfField>,
    /// The columns that are attributes.
    attributes: Vec<DbfField>,
}

/// The id of a row, and its attributes or the reason why the record is bad.
type RowValues = (Option<FileId>, Result<String, String>);

impl Rows {
    /// Opens the table, if there is one and the load needs it.
    fn open(args: &Args, found: &mut Found<'_>) -> Result<Option<Self>, Failure> {
        if args.id_column.is_none() && !found.wants_contents() {
            return Ok(None);
        }
        let Some(path) = dbf::beside(&args.file, "dbf") else {
            return Self::without_table(args, found).map(|()| None);
        };
        let table = dbf::open(&path).map_err(|why| failure(&path, why, found))?;
        let id =
            args.id_column.as_deref().map(|name| id_field(&table.fields, name, found.kind())).transpose();
        let id = id.map_err(|why| found.failure(Trouble::rest(Place::File, why)))?;
        let mut attributes = if found.wants_contents() { table.fields.clone() } else { Vec::new() };
        attributes.retain(|field| Some(field) != id.as_ref());
        for field in attributes.extract_if(.., |field| field.kind == DbfKind::Other) {
            found.leave_out(&field.name);
        }
        Ok(Some(Self { path, table, id, attributes }))
    }

    /// Notes that there is no table, or refuses a load that takes the ids from it.
    fn without_table(args: &Args, found: &mut Found<'_>) -> Result<(), Failure> {
        let is_pipe = args.file == Path::new("-");
        let Some(name) = &args.id_column else {
            found.notes.push(if is_pipe {
                "standard input has only the .shp file, so the records have no attributes"
            } else {
                "there is no .dbf file beside the .shp file, so the records have no attributes"
            });
            return Ok(());
        };
        let why = if is_pipe {
            "standard input has only the .shp file; load the file by its name"
        } else {
            "there is none beside the .shp file; omit --id-column to number the records by their position"
        };
        let why = format!("--id-column {name} names a column of the .dbf file, and {why}");
        Err(found.failure(Trouble::rest(Place::File, why)))
    }

    /// The id and the attributes of the record at position `number`.
    fn next(&mut self, number: u64, found: &Found<'_>) -> Result<RowValues, Failure> {
        if number > u64::from(self.table.row_count) {
            return Err(found.failure(self.mismatch("more records")));
        }
        self.table.read_row().map_err(|why| failure(&self.path, why, found))?;
        let id = self.id.as_ref().map(|field| FileId::of_value(self.table.value(field)));
        if self.table.is_deleted() {
            let why = "its row in the .dbf file is marked as deleted: `ogr2ogr NEW.shp OLD.shp` removes such records";
            return Ok((id, Err(why.to_owned())));
        }
        let values = self.attributes.iter().map(|field| (field.name.as_str(), self.table.value(field)));
        Ok((id, column_value::attributes(values)))
    }

    /// Checks that the main file has a record for each row.
    fn check_count(&self, records: u64) -> Result<(), Trouble> {
        if records == u64::from(self.table.row_count) {
            return Ok(());
        }
        Err(self.mismatch(&size::count(records, "record", "records")))
    }

    fn mismatch(&self, records: &str) -> Trouble {
        let rows = size::count(self.table.row_count.into(), "row", "rows");
        let why = format!(
            "its .dbf file has {rows}, and the .shp file has {records}; restore the .dbf file that belongs to it, or \
             move the .dbf file to load the records without it"
        );
        Trouble::rest(Place::File, why)
    }
}

/// The end of a load because of the table.
fn failure(path: &Path, why: Trouble, found: &Found<'_>) -> Failure {
    match why {
        Trouble::Read(source) => Failure::file("load", "read", path, source),
        why => found.failure(why),
    }
}

const ID_TYPES: IdTypes = IdTypes { texts: "texts (C)", integers: "integers (N)" };

/// The column of ids of that kind.
fn id_field(fields: &[DbfField], name: &str, kind: IdKind) -> Result<DbfField, String> {
    let names = fields.iter().map(|field| field.name.as_str());
    let field = &fields[column_position(names, name, "the .dbf file")?];
    let wanted = match kind {
        IdKind::Repeated | IdKind::Number => DbfKind::Number,
        IdKind::Text => DbfKind::Text,
    };
    if field.kind != wanted {
        return Err(ID_TYPES.refusal(name, field.kind.name(), kind));
    }
    Ok(field.clone())
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
    Trouble::damaged(format_args!("the Shapefile is damaged: {why}"))
}

fn trouble(error: Error) -> Trouble {
    match error {
        Error::IoError(source) if source.kind() == ErrorKind::UnexpectedEof => damaged("it ends too early"),
        Error::IoError(source) => source.into(),
        _ => damaged("its header is not valid"),
    }
}

/// The parts of a record, in x and y.
struct Parts {
    kind: PartKind,
    parts: Vec<LineString<f64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartKind {
    /// One part with one position.
    Point,
    /// One part, whose positions are separate points.
    Points,
    Lines,
    Rings,
    Patches,
}

impl Parts {
    /// The parts of the record with that content.
    fn read(content: &[u8]) -> Result<Self, String> {
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
        Self::of(&record)
    }

    fn of(record: &Record) -> Result<Self, String> {
        use std::slice::from_ref;
        let (kind, parts) = match record {
            Record::NullShape => return Err("the record has no geometry".to_owned()),
            Record::Point(point) => (PartKind::Point, vec![positions(from_ref(point))]),
            Record::PointM(point) => (PartKind::Point, vec![positions(from_ref(point))]),
            Record::PointZ(point) => (PartKind::Point, vec![positions(from_ref(point))]),
            Record::Multipoint(points) => (PartKind::Points, vec![positions(points.points())]),
            Record::MultipointM(points) => (PartKind::Points, vec![positions(points.points())]),
            Record::MultipointZ(points) => (PartKind::Points, vec![positions(points.points())]),
            Record::Polyline(lines) => (PartKind::Lines, all(lines.parts(), Vec::as_slice)),
            Record::PolylineM(lines) => (PartKind::Lines, all(lines.parts(), Vec::as_slice)),
            Record::PolylineZ(lines) => (PartKind::Lines, all(lines.parts(), Vec::as_slice)),
            Record::Polygon(polygon) => (PartKind::Rings, all(polygon.rings(), PolygonRing::points)),
            Record::PolygonM(polygon) => (PartKind::Rings, all(polygon.rings(), PolygonRing::points)),
            Record::PolygonZ(polygon) => (PartKind::Rings, all(polygon.rings(), PolygonRing::points)),
            Record::Multipatch(patches) => (PartKind::Patches, all(patches.patches(), Patch::points)),
        };
        Ok(Self { kind, parts })
    }

    /// The shape and, if the index stores it, the geometry.
    fn shaped(self, found: &Found<'_>) -> Result<Shaped, String> {
        if !found.wants_contents() {
            return self.shape().map(Shaped::without_geometry);
        }
        found.check_positions(self.parts.iter().map(|part| part.0.len()).sum())?;
        Shaped::new(self.geometry()?)
    }

    /// The shape, in which every ring is a part.
    fn shape(&self) -> Result<Shape, String> {
        let parts = self.parts.iter().filter(|part| !part.0.is_empty());
        match self.kind {
            PartKind::Points => {
                geometry::joined(parts.flat_map(|part| &part.0).map(|at| geometry::around([*at])))
            }
            _ => geometry::joined(parts.map(geometry::of_line)),
        }
    }

    fn geometry(mut self) -> Result<Geometry, String> {
        let shape = match self.kind {
            PartKind::Point | PartKind::Points => {
                let points: MultiPoint<f64> = self.parts.into_iter().flatten().collect();
                match (self.kind, &points.0[..]) {
                    (PartKind::Point, [point]) => (*point).into(),
                    _ => points.into(),
                }
            }
            PartKind::Lines if self.parts.len() == 1 => self.parts.swap_remove(0).into(),
            PartKind::Lines => MultiLineString(self.parts).into(),
            PartKind::Rings => return Geometry::of_rings(self.parts).map_err(|error| error.to_string()),
            PartKind::Patches => {
                return Err(
                    "the record is a MultiPatch, which an index with records cannot store; convert it to \
                     polygons, or load it into an index of rectangles"
                        .to_owned(),
                );
            }
        };
        Geometry::new(shape).map_err(|error| error.to_string())
    }
}

fn all<P, T: HasXY>(parts: &[P], points: impl Fn(&P) -> &[T]) -> Vec<LineString<f64>> {
    parts.iter().map(|part| positions(points(part))).collect()
}

fn positions<T: HasXY>(points: &[T]) -> LineString<f64> {
    points.iter().map(|point| Coord { x: point.x(), y: point.y() }).collect()
}
