//! Rectangles of the main file of a Shapefile (`.shp`), numbered by their position in the file or by a column of its
//! table (`.dbf`). An index with records stores the columns of the table as attributes. The reader keeps one record and
//! one row in memory, and skips the other files of a Shapefile.

use super::args::Args;
use super::column_value;
use super::dbf::{self, DbfField, DbfKind, DbfTable};
use super::found::{Bounds, Found, Placed};
use super::ids::FileId;
use super::shape::Shape;
use super::trouble::{Place, Trouble};
use crate::{Failure, size};
use ::shapefile::record::traits::HasXY;
use ::shapefile::{Error, ReadableShape as _, Shape as Record, ShapeReader};
use farwood::spatial::{Contents, IdKind, Rectangle};
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
        let bounds = bounds(&content);
        let placed = match &mut table {
            None => Placed { id: None, bounds, contents: Contents::default() },
            Some(table) => table.next(number, bounds, found)?,
        };
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

impl Rows {
    /// Opens the table, if there is one and the load needs it.
    fn open(args: &Args, found: &mut Found<'_>) -> Result<Option<Self>, Failure> {
        if args.id_column.is_none() && !found.wants_contents() {
            return Ok(None);
        }
        let Some(path) = dbf::beside(&args.file, "dbf") else {
            return match &args.id_column {
                None => Ok(None),
                Some(name) => Err(found.failure(Trouble::rest(
                    Place::File,
                    format!(
                        "--id-column {name} names a column of the .dbf file, and there is none beside the .shp file; \
                         omit --id-column to number the records by their position"
                    ),
                ))),
            };
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

    /// The record at position `number`, with its row.
    fn next(
        &mut self,
        number: u64,
        bounds: Result<Bounds, String>,
        found: &Found<'_>,
    ) -> Result<Placed, Failure> {
        if number > u64::from(self.table.row_count) {
            return Err(found.failure(self.mismatch("more records")));
        }
        self.table.read_row().map_err(|why| failure(&self.path, why, found))?;
        let id = self.id.as_ref().map(|field| FileId::of_value(self.table.value(field)));
        let values = self.attributes.iter().map(|field| (field.name.as_str(), self.table.value(field)));
        let placed = bounds.and_then(|bounds| {
            if self.table.is_deleted() {
                return Err(
                    "its row in the .dbf file is marked as deleted: `ogr2ogr NEW.shp OLD.shp` removes such records"
                        .to_owned(),
                );
            }
            Ok((bounds, column_value::attributes(values)?))
        });
        let (bounds, attributes) = match placed {
            Ok((bounds, attributes)) => (Ok(bounds), attributes),
            Err(why) => (Err(why), String::new()),
        };
        Ok(Placed { id, bounds, contents: Contents { geometry: Vec::new(), attributes } })
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

/// The column of ids of that kind.
fn id_field(fields: &[DbfField], name: &str, kind: IdKind) -> Result<DbfField, String> {
    let field = fields.iter().find(|field| field.name == name).ok_or_else(|| {
        let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
        format!("there is no column '{name}'; the .dbf file has {}", names.join(", "))
    })?;
    let (wanted, ids, columns) = match kind {
        IdKind::Repeated | IdKind::Number => (DbfKind::Number, "numbers", "numbers (N, F)"),
        IdKind::Text => (DbfKind::Text, "texts", "texts (C)"),
    };
    if field.kind != wanted {
        return Err(format!(
            "the column '{name}' has another type than the ids of the index, which are {ids}; name a column of \
             {columns} with --id-column, or omit it to number the records by their position"
        ));
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
