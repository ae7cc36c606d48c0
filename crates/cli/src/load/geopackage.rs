//! Features of a layer of a GeoPackage: the bounds of each geometry, with the primary key or a column that the command
//! line names as its id. An index with records stores the geometry, and the other columns as attributes.

use super::args::Args;
use super::column_value::{self, ColumnValue};
use super::found::Found;
use super::geometry::Shaped;
use super::ids::FileId;
use super::trouble::{Place, Trouble};
use super::wkb;
use crate::Failure;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

/// A layer: a table or view of features.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Layer {
    table: String,
    geometry: String,
}

pub(super) fn read(args: &Args, found: &mut Found<'_>) -> Result<(), Failure> {
    let failed = |found: &Found<'_>, why: String| found.failure(Trouble::rest(Place::File, why));
    let connection = open(args).map_err(|error| failed(found, damaged(&error)))?;
    let layers = layers(&connection).map_err(|error| failed(found, damaged(&error)))?;
    let layer = choose(&layers, args.layer.as_deref()).map_err(|why| failed(found, why))?;
    match read_layer(&connection, layer, args, found) {
        Ok(read) => read,
        Err(error) => Err(failed(found, damaged(&error))),
    }
}

fn open(args: &Args) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(&args.file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

fn damaged(error: &rusqlite::Error) -> String {
    format!("the file cannot be read as a GeoPackage: {error}")
}

fn layers(connection: &Connection) -> rusqlite::Result<Vec<Layer>> {
    let mut statement = connection.prepare(
        "SELECT contents.table_name, columns.column_name FROM gpkg_contents contents \
         JOIN gpkg_geometry_columns columns ON columns.table_name = contents.table_name \
         WHERE contents.data_type = 'features' ORDER BY contents.table_name",
    )?;
    let layers = statement.query_map([], |row| Ok(Layer { table: row.get(0)?, geometry: row.get(1)? }))?;
    layers.collect()
}

/// The layer that the command line names, or the only one.
fn choose<'l>(layers: &'l [Layer], name: Option<&str>) -> Result<&'l Layer, String> {
    let names = || layers.iter().map(|layer| layer.table.as_str()).collect::<Vec<_>>().join(", ");
    match (name, layers) {
        (_, []) => Err("the GeoPackage has no layer of features".to_owned()),
        (None, [layer]) => Ok(layer),
        (None, _) => Err(format!("the GeoPackage has several layers; choose one with --layer: {}", names())),
        (Some(name), _) => layers
            .iter()
            .find(|layer| layer.table == name)
            .ok_or_else(|| format!("there is no layer '{name}'; the GeoPackage has {}", names())),
    }
}

/// A name as an identifier of SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The columns of a layer that are loaded.
#[derive(Debug, PartialEq, Eq)]
struct Columns {
    geometry: String,
    /// The column of the ids; `None`: the positions are the ids.
    id: Option<Column>,
    attributes: Vec<Column>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    kind: ColumnKind,
}

/// The type of a column, as far as its values do not show it: `SQLite` stores booleans as integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnKind {
    Boolean,
    Other,
}

/// Chooses the columns. The ids are in the column that `--id-column` names, or in the primary key. A view, and a table
/// with a primary key of several columns, have no primary key here. The inner error is a wrong name of a column.
fn columns(
    connection: &Connection,
    layer: &Layer,
    id_column: Option<&str>,
) -> rusqlite::Result<Result<Columns, String>> {
    let mut statement = connection.prepare("SELECT name, type, pk FROM pragma_table_info(?1)")?;
    let columns = statement.query_map([&layer.table], |row| {
        let kind: String = row.get(1)?;
        let kind = if kind.eq_ignore_ascii_case("BOOLEAN") { ColumnKind::Boolean } else { ColumnKind::Other };
        Ok((Column { name: row.get(0)?, kind }, row.get::<_, u32>(2)? > 0))
    })?;
    let columns: Vec<(Column, bool)> = columns.collect::<Result<_, _>>()?;
    let is_called = |column: &Column, name: &str| column.name.eq_ignore_ascii_case(name);
    let keys = columns.iter().filter(|(column, is_key)| match id_column {
        Some(name) => is_called(column, name),
        None => *is_key,
    });
    let keys: Vec<_> = keys.map(|(key, _)| key).collect();
    let id = <[&Column; 1]>::try_from(keys).ok().map(|[key]| key);
    if let (Some(name), None) = (id_column, id) {
        let names: Vec<_> = columns.iter().map(|(column, _)| column.name.as_str()).collect();
        return Ok(Err(format!("there is no column '{name}'; the layer has {}", names.join(", "))));
    }
    let others = columns.iter().map(|(column, _)| column);
    let others = others.filter(|column| !is_called(column, &layer.geometry) && Some(*column) != id);
    Ok(Ok(Columns {
        geometry: layer.geometry.clone(),
        id: id.cloned(),
        attributes: others.cloned().collect(),
    }))
}

/// Reads the features of a layer. The outer error is one of the file, the inner one is the end of the load.
fn read_layer(
    connection: &Connection,
    layer: &Layer,
    args: &Args,
    found: &mut Found<'_>,
) -> rusqlite::Result<Result<(), Failure>> {
    let mut columns = match columns(connection, layer, args.id_column.as_deref())? {
        Ok(columns) => columns,
        Err(why) => return Ok(Err(found.failure(Trouble::rest(Place::File, why)))),
    };
    if !found.wants_contents() {
        columns.attributes.clear();
    }
    let names = columns.id.iter().chain(&columns.attributes).map(|column| &column.name);
    let names = std::iter::once(&columns.geometry).chain(names).map(|name| quoted(name));
    let names = names.collect::<Vec<_>>().join(", ");
    let mut statement = connection.prepare(&format!("SELECT {names} FROM {}", quoted(&layer.table)))?;
    let mut rows = statement.query([])?;
    let mut position = 0;
    while let Some(row) = rows.next()? {
        position += 1;
        let id = columns.id.as_ref().map(|column| value(row, 1, column)).transpose()?;
        let id = id.map(|id| FileId::of_value(id.unwrap_or_else(|| Err("it is binary".to_owned()))));
        let attributes = attributes(row, &columns, found)?;
        let placed = found.feature(id, geometry(row)?, attributes);
        if let Err(failure) = found.add(Place::Feature(position), position, placed) {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(()))
}

/// The attributes of a row, without binary values.
fn attributes(
    row: &Row<'_>,
    columns: &Columns,
    found: &mut Found<'_>,
) -> rusqlite::Result<Result<String, String>> {
    let first = 1 + usize::from(columns.id.is_some());
    let mut values = Vec::with_capacity(columns.attributes.len());
    for (index, column) in (first..).zip(&columns.attributes) {
        match value(row, index, column)? {
            Some(value) => values.push((column.name.as_str(), value)),
            None => found.leave_out(&column.name),
        }
    }
    Ok(column_value::attributes(values))
}

/// The value of a column in a row; `None` for a binary value.
fn value(
    row: &Row<'_>,
    index: usize,
    column: &Column,
) -> rusqlite::Result<Option<Result<ColumnValue, String>>> {
    Ok(Some(match (row.get_ref(index)?, column.kind) {
        (ValueRef::Null, _) => Ok(ColumnValue::Null),
        (ValueRef::Integer(number @ (0 | 1)), ColumnKind::Boolean) => Ok(ColumnValue::Boolean(number == 1)),
        (ValueRef::Integer(number), _) => Ok(ColumnValue::Number(number.to_string())),
        (ValueRef::Real(number), _) => ColumnValue::of_float(number),
        (ValueRef::Text(bytes), _) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(ColumnValue::Text(text.to_owned())),
            Err(_) => Err("its text is not UTF-8".to_owned()),
        },
        (ValueRef::Blob(_), _) => return Ok(None),
    }))
}

fn geometry(row: &Row<'_>) -> rusqlite::Result<Result<Shaped, String>> {
    Ok(match row.get_ref(0)? {
        ValueRef::Blob(bytes) => wkb::read_of_geopackage(bytes),
        ValueRef::Null => Err("the feature has no geometry".to_owned()),
        other => Err(format!("its geometry is of the type {}, and not a blob", other.data_type())),
    })
}
