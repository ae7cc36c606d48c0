//! Rectangles of a GeoParquet file: the bounds of each geometry of the primary column, as WKB. The reader decodes one
//! page of each column at a time, and skips the other columns.

use super::args::Args;
use super::found::Found;
use super::ids::FileId;
use super::trouble::{Place, Trouble};
use super::wkb;
use crate::Failure;
use parquet::basic::{ConvertedType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, RowGroupReader, SerializedFileReader};
use parquet::schema::types::SchemaDescriptor;
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

/// The indexes of the columns that are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    geometry: usize,
    number: Option<usize>,
}

pub(super) fn read(args: &Args, found: &mut Found<'_>) -> Result<(), Failure> {
    let file = File::open(&args.file).map_err(|error| found.failure(error.into()))?;
    let reader = SerializedFileReader::new(file).map_err(|error| found.failure(damaged(&error)))?;
    let columns = columns(&reader, args).map_err(|why| found.failure(Trouble::rest(Place::File, why)))?;
    let mut position = 0;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(|error| found.failure(damaged(&error)))?;
        match read_group(&*group, columns, &mut position, found) {
            Ok(read) => read?,
            Err(error) => return Err(found.failure(damaged(&error))),
        }
    }
    Ok(())
}

fn damaged(error: &ParquetError) -> Trouble {
    Trouble::rest(Place::File, format!("the file cannot be read as GeoParquet: {error}"))
}

/// The columns of geometries and numbers, or the reason why the file has none.
fn columns(reader: &SerializedFileReader<File>, args: &Args) -> Result<Columns, String> {
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
    let schema = metadata.schema_descr();
    let geometry = index(schema, name, &[Type::BYTE_ARRAY])?;
    let integers = [Type::INT32, Type::INT64];
    let number = args.id_column.as_deref().map(|name| index(schema, name, &integers)).transpose()?;
    Ok(Columns { geometry, number })
}

/// The index of a column with one value in each row.
fn index(schema: &SchemaDescriptor, name: &str, types: &[Type]) -> Result<usize, String> {
    let columns = schema.columns();
    let index = columns.iter().position(|column| column.path().parts() == [name]).ok_or_else(|| {
        let names: Vec<_> = columns.iter().map(|column| column.path().string()).collect();
        format!("there is no column '{name}'; the file has {}", names.join(", "))
    })?;
    let column = &columns[index];
    if !types.contains(&column.physical_type()) || column.max_rep_level() > 0 {
        let types: Vec<_> = types.iter().map(ToString::to_string).collect();
        return Err(format!(
            "the column '{name}' has the type {}; it must be {}",
            column.physical_type(),
            types.join(" or ")
        ));
    }
    Ok(index)
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

/// The numbers of a group of rows.
enum Numbers {
    Int32(Column<Int32Type>, Sign),
    Int64(Column<Int64Type>, Sign),
}

/// Whether integers have a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Signed,
    Unsigned,
}

impl Numbers {
    fn open(group: &dyn RowGroupReader, index: usize) -> Result<Self, ParquetError> {
        let column = group.metadata().schema_descr().column(index);
        let sign = match column.converted_type() {
            ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64 => Sign::Unsigned,
            _ => Sign::Signed,
        };
        let present = column.max_def_level();
        match group.get_column_reader(index)? {
            ColumnReader::Int32ColumnReader(reader) => Ok(Self::Int32(Column::new(reader, present), sign)),
            ColumnReader::Int64ColumnReader(reader) => Ok(Self::Int64(Column::new(reader, present), sign)),
            _ => Err(ParquetError::General("the type of a column changes".to_owned())),
        }
    }

    fn next(&mut self) -> Result<Vec<Option<Result<u64, String>>>, ParquetError> {
        let id = |value: Option<i64>, sign| Some(number(value, sign));
        Ok(match self {
            Self::Int64(column, sign) => column.next()?.into_iter().map(|value| id(value, *sign)).collect(),
            Self::Int32(column, sign) => {
                let wide = |value: i32| match sign {
                    Sign::Signed => i64::from(value),
                    Sign::Unsigned => i64::from(value as u32),
                };
                column.next()?.into_iter().map(|value| id(value.map(wide), Sign::Signed)).collect()
            }
        })
    }
}

fn number(value: Option<i64>, sign: Sign) -> Result<u64, String> {
    match (value, sign) {
        (None, _) => Err("its id is null".to_owned()),
        (Some(value), Sign::Unsigned) => Ok(value as u64),
        (Some(value), Sign::Signed) => {
            u64::try_from(value).map_err(|_| format!("its id {value} is not an integer from 0 to 2^64 - 1"))
        }
    }
}

/// Reads a group of rows. The outer error is one of the file, the inner one is the end of the load.
fn read_group(
    group: &dyn RowGroupReader,
    columns: Columns,
    position: &mut u64,
    found: &mut Found<'_>,
) -> Result<Result<(), Failure>, ParquetError> {
    let present = group.metadata().schema_descr().column(columns.geometry).max_def_level();
    let ColumnReader::ByteArrayColumnReader(reader) = group.get_column_reader(columns.geometry)? else {
        return Err(ParquetError::General("the type of a column changes".to_owned()));
    };
    let mut geometries = Column::<ByteArrayType>::new(reader, present);
    let mut numbers = columns.number.map(|index| Numbers::open(group, index)).transpose()?;
    let mut rest = u64::try_from(group.metadata().num_rows()).unwrap_or(0);
    while rest > 0 {
        let batch = geometries.next()?;
        let ids = match &mut numbers {
            Some(numbers) => numbers.next()?,
            None => batch.iter().map(|_| None).collect(),
        };
        if batch.is_empty() || ids.len() != batch.len() || batch.len() as u64 > rest {
            return Err(ParquetError::General(format!("a column ends after row {position}")));
        }
        rest -= batch.len() as u64;
        for (geometry, id) in batch.iter().zip(ids) {
            *position += 1;
            let shaped = match geometry {
                Some(bytes) => wkb::read(bytes.data()),
                None => Err("the row has no geometry".to_owned()),
            };
            let placed = found.feature(id.map(FileId::of_number), shaped);
            if let Err(failure) = found.add(Place::Feature(*position), *position, placed) {
                return Ok(Err(failure));
            }
        }
    }
    Ok(Ok(()))
}
