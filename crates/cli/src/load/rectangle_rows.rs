//! Rectangles of TSV and CSV files.
//!
//! A row has a point (x, y) or a rectangle (least x, least y, greatest x, greatest y), and optionally its number. The
//! columns are selected on the command line, known by their names in the header, or all columns in this order. A row
//! may have a geometry as WKT instead. In an index with records, the other named columns are attributes.

use super::args::Args;
use super::columns::{self, Header};
use super::found::{Bounds, Found, Placed};
use super::geometry::Shaped;
use super::ids::FileId;
use super::table::{Table, TableRow};
use super::trouble::{Place, Trouble};
use super::wkt;
use crate::search::{coordinate, rectangle_number};
use crate::{Failure, size};
use farwood::spatial::{Contents, Rectangle};
use serde_json::{Map, Value};
use std::io::BufRead;

/// Names of the columns of a point, in the order x, y.
const POINT_NAMES: [[&str; 2]; 5] =
    [["x", "y"], ["lon", "lat"], ["lng", "lat"], ["long", "lat"], ["longitude", "latitude"]];

/// Names of the columns of a rectangle, in the order least x, least y, greatest x, greatest y.
const RECTANGLE_NAMES: [[&str; 4]; 7] = [
    ["x1", "y1", "x2", "y2"],
    ["min_x", "min_y", "max_x", "max_y"],
    ["minx", "miny", "maxx", "maxy"],
    ["x_min", "y_min", "x_max", "y_max"],
    ["xmin", "ymin", "xmax", "ymax"],
    ["west", "south", "east", "north"],
    ["min_lon", "min_lat", "max_lon", "max_lat"],
];

/// Names of the column of the number.
const NUMBER_NAMES: [&str; 2] = ["id", "number"];

/// The columns that are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Columns {
    /// All, in order.
    All,
    /// Those of the edges.
    Edges(RectangleColumns),
    /// That of the geometry as WKT, and that of the number.
    Wkt { geometry: usize, number: Option<usize> },
}

/// The use of columns that are neither edges nor ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherColumns {
    Ignored,
    /// Each that has a name is an attribute of the record.
    Attributes,
}

/// The indexes of the columns of a rectangle; those of a point are both its least and its greatest edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RectangleColumns {
    min: [usize; 2],
    max: [usize; 2],
    number: Option<usize>,
}

impl RectangleColumns {
    /// The columns at these indexes, in order.
    fn of(indexes: &[usize]) -> Option<Self> {
        let (min, max, number) = match *indexes {
            [x, y] => ([x, y], [x, y], None),
            [x, y, number] => ([x, y], [x, y], Some(number)),
            [x1, y1, x2, y2] => ([x1, y1], [x2, y2], None),
            [x1, y1, x2, y2, number] => ([x1, y1], [x2, y2], Some(number)),
            _ => return None,
        };
        Some(Self { min, max, number })
    }
}

/// Reads the rows of a file.
pub(super) fn read(
    args: &Args,
    mut text: impl BufRead,
    delimiter: u8,
    found: &mut Found<'_>,
) -> Result<(), Failure> {
    check_start(&mut text).map_err(|trouble| found.failure(trouble))?;
    let mut table = Table::new(text, delimiter);
    let others = if found.wants_contents() { OtherColumns::Attributes } else { OtherColumns::Ignored };
    let selected = columns_of(args, &mut table, others);
    let (columns, names) = selected.map_err(|trouble| found.failure(trouble))?;
    let mut position = 0;
    while let Some(row) = table.next() {
        position += 1;
        match row {
            Ok(row) => {
                found.add(
                    Place::Line(row.line),
                    position,
                    placed(&row, (columns, names.as_deref(), others), args),
                )?;
            }
            Err(trouble) => found.bad(trouble)?,
        }
    }
    Ok(())
}

/// Refuses a text that is GeoJSON.
fn check_start(text: &mut impl BufRead) -> Result<(), Trouble> {
    match text.fill_buf()?.first() {
        Some(b'{' | 0x1E) => Err(Trouble::rest(
            Place::Line(1),
            "the file begins as GeoJSON does, and is read as a table; give --format geojson or --format geojson-seq",
        )),
        _ => Ok(()),
    }
}

/// The columns that the command line or the header names, and all names.
fn columns_of<R: BufRead>(
    args: &Args,
    table: &mut Table<R>,
    others: OtherColumns,
) -> Result<(Columns, Option<Vec<String>>), Trouble> {
    let header = args.header.then(|| Header::read(table)).transpose()?;
    let columns = match (&args.wkt, &args.columns, &header) {
        (Some(geometry), _, header) => of_wkt(geometry, args.id_column.as_deref(), header.as_ref()),
        (None, Some(columns), header) => selected(columns, header.as_ref()).map(Columns::Edges),
        (None, None, Some(header)) => named(header.names(), others).map(Columns::Edges),
        (None, None, None) => Ok(Columns::All),
    };
    let columns = columns.map_err(|why| Trouble::rest(Place::File, why))?;
    Ok((columns, header.map(|header| header.names().to_vec())))
}

/// The column of the geometry, and that of the number.
fn of_wkt(geometry: &str, number: Option<&str>, header: Option<&Header>) -> Result<Columns, String> {
    let geometry = columns::index(geometry, header)?;
    let number = number.map(|column| columns::index(column, header)).transpose()?;
    if number == Some(geometry) {
        return Err("--wkt and --id-column name the same column".to_owned());
    }
    Ok(Columns::Wkt { geometry, number })
}

/// The columns that the command line selects.
fn selected(columns: &[String], header: Option<&Header>) -> Result<RectangleColumns, String> {
    let indexes: Vec<usize> =
        columns.iter().map(|column| columns::index(column, header)).collect::<Result<_, _>>()?;
    if let Some(twice) = (1..indexes.len()).find(|at| indexes[..*at].contains(&indexes[*at])) {
        return Err(format!("--columns names column {} twice; name each once", indexes[twice] + 1));
    }
    RectangleColumns::of(&indexes).ok_or_else(|| wrong_count("--columns", columns.len()))
}

/// The columns with known names. A column with another name is an error if it would be ignored.
fn named(names: &[String], others: OtherColumns) -> Result<RectangleColumns, String> {
    let names: Vec<String> = names.iter().map(|name| name.trim().to_lowercase()).collect();
    let index = |wanted: &str| names.iter().position(|name| name == wanted);
    let number = NUMBER_NAMES.iter().find_map(|name| index(name));
    let points = POINT_NAMES.iter().map(<[&str; 2]>::as_slice);
    let rectangles = RECTANGLE_NAMES.iter().map(<[&str; 4]>::as_slice);
    let mut found = None;
    for wanted in points.chain(rectangles) {
        let edges: Option<Vec<usize>> = wanted.iter().map(|name| index(name)).collect();
        let indexes: Vec<usize> = edges.into_iter().flatten().chain(number).collect();
        if (indexes.len() == names.len() || others == OtherColumns::Attributes)
            && indexes.len() >= wanted.len()
            && let Some(columns) = RectangleColumns::of(&indexes)
            && found.replace(columns).is_some()
        {
            return Err(format!(
                "the columns {} are those of several points or rectangles; select some with --columns",
                names.join(", ")
            ));
        }
    }
    if let Some(columns) = found {
        return Ok(columns);
    }
    Err(format!(
        "the columns {} are not known as those of a rectangle or a point; select the columns with --columns, such as \
         --columns x,y,id, or a column of WKT with --wkt; the others are not loaded",
        names.join(", ")
    ))
}

fn wrong_count(what: &str, columns: usize) -> String {
    let columns = size::count(columns as u64, "column", "columns");
    format!("{what} has {columns}; give 2 for a point or 4 for a rectangle, optionally followed by a number")
}

/// The content of a row.
fn placed(
    row: &TableRow<'_>,
    (columns, names, others): (Columns, Option<&[String]>, OtherColumns),
    args: &Args,
) -> Placed {
    let has_contents = others == OtherColumns::Attributes;
    // Without a header, the other columns have no names.
    let names = names.filter(|_| has_contents);
    let columns = match columns {
        Columns::Wkt { geometry, number } => {
            let shaped = row.field(geometry).and_then(|field| wkt::read(&field));
            let shaped = shaped.map_err(|why| format!("column {}: {why}", geometry + 1));
            let used = [Some(geometry), number];
            let attributes =
                names.map(|names| attributes(row, names, used.into_iter().flatten())).transpose();
            let placed = shaped.and_then(|Shaped { geometry, bounds }| {
                let geometry =
                    geometry.filter(|_| has_contents).map_or(Vec::new(), |geometry| geometry.to_wkb());
                Ok((bounds, Contents { geometry, attributes: attributes?.unwrap_or_default() }))
            });
            let id = number.map(|column| id(row, column));
            return match placed {
                Ok((bounds, contents)) => Placed { id, bounds: Ok(bounds), contents },
                Err(why) => with_contents(id, Err(why), Ok(Contents::default()), row, args),
            };
        }
        Columns::Edges(columns) => Some(columns),
        Columns::All => RectangleColumns::of(&(0..row.columns().min(6)).collect::<Vec<_>>()),
    };
    let Some(columns) = columns else {
        let wrong = Err(wrong_count("the line", row.columns()));
        return with_contents(None, wrong, Ok(Contents::default()), row, args);
    };
    let used = columns.min.into_iter().chain(columns.max).chain(columns.number);
    let contents = names.map_or(Ok(Contents::default()), |names| {
        Ok(Contents { geometry: Vec::new(), attributes: attributes(row, names, used)? })
    });
    let id = columns.number.map(|column| id(row, column));
    with_contents(id, bounds(row, columns, args), contents, row, args)
}

fn with_contents(
    id: Option<FileId>,
    bounds: Result<Bounds, String>,
    contents: Result<Contents, String>,
    row: &TableRow<'_>,
    args: &Args,
) -> Placed {
    let (bounds, contents) = match contents {
        Ok(contents) => (bounds, contents),
        Err(why) => (bounds.and(Err(why)), Contents::default()),
    };
    Placed { id, bounds: bounds.map_err(|why| with_hint(why, row, args)), contents }
}

/// The columns that are not `used`, as a JSON object of texts.
fn attributes(
    row: &TableRow<'_>,
    names: &[String],
    used: impl Iterator<Item = usize>,
) -> Result<String, String> {
    let used: Vec<_> = used.collect();
    let mut attributes = Map::new();
    for (column, name) in names.iter().enumerate().filter(|(column, _)| !used.contains(column)) {
        attributes.insert(name.clone(), Value::String(row.field(column)?.into_owned()));
    }
    Ok(if attributes.is_empty() { String::new() } else { Value::Object(attributes).to_string() })
}

/// Only the user knows the contents of a first line that is not a rectangle.
fn with_hint(why: String, row: &TableRow<'_>, args: &Args) -> String {
    if row.line != 1 || args.header {
        return why;
    }
    format!("{why}; if this line holds the column names, give --header")
}

fn bounds(row: &TableRow<'_>, columns: RectangleColumns, args: &Args) -> Result<Bounds, String> {
    let edge = |column: usize| {
        let field = row.field(column)?;
        coordinate(field.trim()).map_err(|why| format!("column {}: {why}", column + 1))
    };
    let corner = |[x, y]: [usize; 2]| Ok::<_, String>([edge(x)?, edge(y)?]);
    let (one, other) = (corner(columns.min)?, corner(columns.max)?);
    let bounds = if args.corners {
        Rectangle::point(one).and_then(|one| Ok(one.union(&Rectangle::point(other)?)))
    } else {
        Rectangle::new(one, other)
    };
    let hint = if args.corners { "" } else { "; if a line has two corners in any order, give --corners" };
    Ok(bounds.map_err(|error| format!("{error}{hint}"))?.into())
}

/// The id of a rectangle: a number as the command prints it, or any text.
fn id(row: &TableRow<'_>, column: usize) -> FileId {
    let of_column = |why: String| format!("column {}: {why}", column + 1);
    let field = row.field(column);
    let number = field.clone().and_then(|field| rectangle_number(field.trim()).map_err(of_column));
    let text = field.and_then(|field| match field.trim() {
        "" => Err(of_column("the id is empty".to_owned())),
        _ => Ok(field.into_owned()),
    });
    FileId { number, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(header: &str) -> Result<RectangleColumns, String> {
        named(&header.split(',').map(str::to_owned).collect::<Vec<_>>(), OtherColumns::Ignored)
    }

    #[test]
    fn columns_with_known_names_have_any_order() {
        let point = RectangleColumns { min: [1, 2], max: [1, 2], number: Some(0) };
        assert_eq!(names("id,x,y"), Ok(point));
        assert_eq!(names("ID,Lon, lat"), Ok(point));
        assert_eq!(names("lat,lon"), Ok(RectangleColumns { min: [1, 0], max: [1, 0], number: None }));
        let rectangle = RectangleColumns { min: [1, 0], max: [3, 2], number: Some(4) };
        assert_eq!(names("miny,minx,maxy,maxx,number"), Ok(rectangle));
    }

    #[test]
    fn columns_with_unknown_names_are_refused() {
        for header in ["id,x", "x,y,name", "x,y,id,number", "a,b", "x1,y1,x2", "x,lat"] {
            assert!(names(header).unwrap_err().contains("--columns"), "{header}");
        }
    }
}
