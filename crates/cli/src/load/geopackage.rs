//! Rectangles of a layer of a GeoPackage: the bounds of each geometry, with the integer primary key as its number.

use super::args::Args;
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
    match read_layer(&connection, layer, found) {
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

/// The primary key; `None`: the layer is a view, or has none of one column.
fn primary_key(connection: &Connection, table: &str) -> rusqlite::Result<Option<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1) WHERE pk > 0")?;
    let names: Vec<String> = statement.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(<[String; 1]>::try_from(names).ok().map(|[name]| name))
}

/// Reads the features of a layer. The outer error is one of the file, the inner one is the end of the load.
fn read_layer(
    connection: &Connection,
    layer: &Layer,
    found: &mut Found<'_>,
) -> rusqlite::Result<Result<(), Failure>> {
    let key = primary_key(connection, &layer.table)?;
    let columns = [Some(&layer.geometry), key.as_ref()].into_iter().flatten().map(|name| quoted(name));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let mut statement = connection.prepare(&format!("SELECT {columns} FROM {}", quoted(&layer.table)))?;
    let mut rows = statement.query([])?;
    let mut position = 0;
    while let Some(row) = rows.next()? {
        position += 1;
        let id = if key.is_some() { Some(number(row.get_ref(1)?)) } else { None };
        let id = id.map(FileId::of_number);
        let placed = found.feature(id, geometry(row)?);
        if let Err(failure) = found.add(Place::Feature(position), position, placed) {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(()))
}

fn number(value: ValueRef<'_>) -> Result<u64, String> {
    match value {
        ValueRef::Integer(key) => {
            u64::try_from(key).map_err(|_| format!("its key {key} is not an integer from 0 to 2^64 - 1"))
        }
        other => Err(format!("its key is of the type {}, and not an integer", other.data_type())),
    }
}

fn geometry(row: &Row<'_>) -> rusqlite::Result<Result<Shaped, String>> {
    Ok(match row.get_ref(0)? {
        ValueRef::Blob(bytes) => wkb::read_of_geopackage(bytes),
        ValueRef::Null => Err("the feature has no geometry".to_owned()),
        other => Err(format!("its geometry is of the type {}, and not a blob", other.data_type())),
    })
}
