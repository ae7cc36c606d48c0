//! Features of a GeoParquet file: the bounds of each geometry of the primary column, as WKB. An index with records
//! stores the geometry, and the other columns as attributes. The reader decodes one page of each column at a time.

mod column_type;
mod iso8601;

use self::column_type::{ColumnType, IntegerType};
use super::args::Args;
use super::column_value::{self, ColumnValue};
use super::found::Found;
use super::ids::{FileId, IdTypes, column_position};
use super::trouble::{Place, Trouble};
use super::wkb;
use crate::Failure;
use farwood::spatial::IdKind;
use parquet::basic::{ConvertedType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArrayType, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::File;

/// Rows that the reader decodes at a time.
const ROWS: usize = 1024;

/// The metadata of GeoParquet, under the key `geo`.
#[derive(Deserialize)]
struct Geo {
    primary_column: String,
    columns: HashMap<String, GeometryColumn>,
}

#[derive(Deserialize)]
struct GeometryColumn {
    encoding: String,
    edges: Option<String>,
}

/// The columns that are loaded.
struct Columns {
    /// The index of the geometry.
    geometry: usize,
    id: Option<TypedColumn>,
    attributes: Vec<TypedColumn>,
}

/// A column with values that JSON can hold.
struct TypedColumn {
    name: String,
    index: usize,
    kind: ColumnType,
}

pub(super) fn read(args: &Args, found: &mut Found<'_>) -> Result<(), Failure> {
    let file = File::open(&args.file).map_err(|error| found.failure(error.into()))?;
    let reader = SerializedFileReader::new(file).map_err(|error| found.failure(damaged(&error)))?;
    let columns =
        columns(&reader, args, found).map_err(|why| found.failure(Trouble::rest(Place::File, why)))?;
    let mut position = 0;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(|error| found.failure(damaged(&error)))?;
        match read_group(&*group, &columns, &mut position, found) {
            Ok(read) => read?,
            Err(error) => return Err(found.failure(damaged(&error))),
        }
    }
    Ok(())
}

fn damaged(error: &ParquetError) -> Trouble {
    Trouble::rest(Place::File, format!("the file cannot be read as GeoParquet: {error}"))
}

/// The columns that are loaded, or the reason why the file has none.
fn columns(
    reader: &SerializedFileReader<File>,
    args: &Args,
    found: &mut Found<'_>,
) -> Result<Columns, String> {
    let schema = reader.metadata().file_metadata().schema_descr();
    let geometry = index(schema, &geometry_name(reader)?)?;
    let column = schema.column(geometry);
    if column.physical_type() != Type::BYTE_ARRAY || column.max_rep_level() > 0 {
        return Err(format!(
            "the column '{}' has the type {}; it must be BYTE_ARRAY",
            column.name(),
            column.physical_type()
        ));
    }
    let id = args.id_column.as_deref().map(|name| id_column(schema, name, found.kind())).transpose()?;
    let mut attributes = Vec::new();
    let others = schema.columns().iter().enumerate().filter(|(index, _)| {
        found.wants_contents() && *index != geometry && id.as_ref().is_none_or(|id| id.index != *index)
    });
    let others: Vec<_> = others.collect();
    for (index, column) in others {
        match TypedColumn::of(column, index) {
            Some(column) => attributes.push(column),
            None => found.leave_out(&column.path().parts()[0]),
        }
    }
    Ok(Columns { geometry, id, attributes })
}

/// The name of the primary column.
fn geometry_name(reader: &SerializedFileReader<File>) -> Result<String, String> {
    let metadata = reader.metadata().file_metadata();
    let entries = metadata.key_value_metadata().into_iter().flatten();
    let geo = entries.filter(|entry| entry.key == "geo").find_map(|entry| entry.value.as_deref());
    let geo = geo.ok_or("the Parquet file has no metadata of GeoParquet (key 'geo')")?;
    let geo: Geo =
        serde_json::from_str(geo).map_err(|error| format!("its metadata are not GeoParquet: {error}"))?;
    let name = &geo.primary_column;
    let column =
        geo.columns.get(name).ok_or_else(|| format!("its metadata do not describe the column '{name}'"))?;
    if column.encoding != "WKB" {
        return Err(format!(
            "the column '{name}' has the encoding {}; write the file with WKB",
            column.encoding
        ));
    }
    if column.edges.as_deref() == Some("spherical") {
        return Err(format!(
            "the edges of '{name}' are arcs of great circles, which their ends do not bound"
        ));
    }
    Ok(geo.primary_column)
}

/// The index of a column.
fn index(schema: &SchemaDescriptor, name: &str) -> Result<usize, String> {
    let names: Vec<_> = schema.columns().iter().map(|column| column.path().string()).collect();
    column_position(names.iter().map(String::as_str), name, "the file")
}

const ID_TYPES: IdTypes = IdTypes { texts: "texts (STRING)", integers: "integers (INT32 or INT64)" };

/// The column of ids of that kind.
fn id_column(schema: &SchemaDescriptor, name: &str, kind: IdKind) -> Result<TypedColumn, String> {
    let index = index(schema, name)?;
    let column = schema.column(index);
    let typed = TypedColumn::of(&column, index);
    let is_right = |column: &TypedColumn| match kind {
        IdKind::Text => column.kind == ColumnType::Text,
        IdKind::Repeated | IdKind::Number => {
            matches!(column.kind, ColumnType::Integer(IntegerType::Signed | IntegerType::Unsigned))
        }
    };
    typed.filter(is_right).ok_or_else(|| ID_TYPES.refusal(name, &type_name(&column), kind))
}

/// The type of a column, as the schema of the file states it.
fn type_name(column: &ColumnDescriptor) -> String {
    match column.converted_type() {
        ConvertedType::NONE => column.physical_type().to_string(),
        converted => format!("{} ({converted})", column.physical_type()),
    }
}

impl TypedColumn {
    fn of(column: &ColumnDescriptor, index: usize) -> Option<Self> {
        Some(Self { name: column.name().to_owned(), index, kind: ColumnType::of(column)? })
    }
}

/// A column of a group of rows, read in batches.
struct Column<T: DataType> {
    reader: ColumnReaderImpl<T>,
    /// The definition level of a value that is present.
    present: i16,
    levels: Vec<i16>,
    values: Vec<T::T>,
}

impl<T: DataType> Column<T> {
    fn new(reader: ColumnReaderImpl<T>, present: i16) -> Self {
        Self { reader, present, levels: Vec::new(), values: Vec::new() }
    }

    /// The next rows: at most [`ROWS`], and none at the end.
    fn next(&mut self) -> Result<Vec<Option<T::T>>, ParquetError> {
        self.levels.clear();
        self.values.clear();
        let levels = Some(&mut self.levels);
        let (rows, ..) = self.reader.read_records(ROWS, levels, None, &mut self.values)?;
        let mut values = self.values.drain(..);
        if self.present == 0 {
            return Ok(values.map(Some).collect());
        }
        let present = self.present;
        let value = |level: &i16| if *level == present { values.next() } else { None };
        Ok(self.levels[..rows].iter().map(value).collect())
    }
}

/// The next values of a column: at most [`ROWS`], and none at the end.
type NextValues = Box<dyn FnMut() -> Result<Vec<Result<ColumnValue, String>>, ParquetError>>;

impl TypedColumn {
    /// The values of a group of rows.
    fn open(&self, group: &dyn RowGroupReader) -> Result<NextValues, ParquetError> {
        let present = group.metadata().schema_descr().column(self.index).max_def_level();
        let kind = self.kind;
        Ok(match (group.get_column_reader(self.index)?, kind) {
            (ColumnReader::BoolColumnReader(reader), _) => {
                values(reader, present, |value| Ok(ColumnValue::Boolean(value)))
            }
            (ColumnReader::Int32ColumnReader(reader), ColumnType::Integer(kind)) => {
                values(reader, present, move |number| kind.of_int32(number))
            }
            (ColumnReader::Int64ColumnReader(reader), ColumnType::Integer(kind)) => {
                values(reader, present, move |number| kind.of_int64(number))
            }
            (ColumnReader::FloatColumnReader(reader), _) => values(reader, present, ColumnValue::of_float),
            (ColumnReader::DoubleColumnReader(reader), _) => values(reader, present, ColumnValue::of_float),
            (ColumnReader::ByteArrayColumnReader(reader), _) => {
                values(reader, present, move |bytes| kind.of_bytes(bytes.data()))
            }
            (ColumnReader::FixedLenByteArrayColumnReader(reader), _) => {
                values(reader, present, move |bytes| kind.of_bytes(bytes.data()))
            }
            _ => return Err(changes()),
        })
    }
}

fn changes() -> ParquetError {
    ParquetError::General("the type of a column changes".to_owned())
}

fn values<T: DataType>(
    reader: ColumnReaderImpl<T>,
    present: i16,
    value: impl Fn(T::T) -> Result<ColumnValue, String> + 'static,
) -> NextValues {
    let mut column = Column::new(reader, present);
    Box::new(move || {
        let values = column.next()?.into_iter();
        Ok(values.map(|stored| stored.map_or(Ok(ColumnValue::Null), &value)).collect())
    })
}

/// The values of the next `count` rows.
fn next_values(
    next: &mut NextValues,
    count: usize,
    position: u64,
) -> Result<std::vec::IntoIter<Result<ColumnValue, String>>, ParquetError> {
    let values = next()?;
    if values.len() != count {
        return Err(ends_early(position));
    }
    Ok(values.into_iter())
}

fn ends_early(position: u64) -> ParquetError {
    ParquetError::General(format!("a column ends after row {position}"))
}

/// Reads a group of rows. The outer error is one of the file, the inner one is the end of the load.
fn read_group(
    group: &dyn RowGroupReader,
    columns: &Columns,
    position: &mut u64,
    found: &mut Found<'_>,
) -> Result<Result<(), Failure>, ParquetError> {
    let present = group.metadata().schema_descr().column(columns.geometry).max_def_level();
    let ColumnReader::ByteArrayColumnReader(reader) = group.get_column_reader(columns.geometry)? else {
        return Err(changes());
    };
    let mut geometries = Column::<ByteArrayType>::new(reader, present);
    let mut ids = columns.id.as_ref().map(|column| column.open(group)).transpose()?;
    let others = columns.attributes.iter().map(|column| column.open(group));
    let mut others = others.collect::<Result<Vec<_>, _>>()?;
    let mut rest = u64::try_from(group.metadata().num_rows()).unwrap_or(0);
    while rest > 0 {
        let batch = geometries.next()?;
        if batch.is_empty() || batch.len() as u64 > rest {
            return Err(ends_early(*position));
        }
        rest -= batch.len() as u64;
        let mut ids = ids.as_mut().map(|ids| next_values(ids, batch.len(), *position)).transpose()?;
        let values = others.iter_mut().map(|other| next_values(other, batch.len(), *position));
        let mut values = values.collect::<Result<Vec<_>, _>>()?;
        for geometry in &batch {
            *position += 1;
            let shaped = match geometry {
                Some(bytes) => wkb::read(bytes.data()),
                None => Err("the row has no geometry".to_owned()),
            };
            let id = ids.as_mut().and_then(Iterator::next).map(FileId::of_value);
            let names = columns.attributes.iter().map(|column| column.name.as_str());
            let row = names.zip(values.iter_mut().filter_map(Iterator::next));
            let placed = found.feature(id, shaped, column_value::attributes(row));
            if let Err(failure) = found.add(Place::Feature(*position), *position, placed) {
                return Ok(Err(failure));
            }
        }
    }
    Ok(Ok(()))
}
