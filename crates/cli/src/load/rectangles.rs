//! Rectangles from files: CSV and TSV here, features in files of their own.
//!
//! A row has a point (x, y) or a rectangle (least x, least y, greatest x, greatest y), and perhaps its number behind
//! it; without one it gets the row's, from 1.

use super::{Args, Layout, extension, flatgeobuf, geojson, open_file};
use crate::{Context, Failure, Format, Outcome, size};
use farwood::spatial::{Item, Rectangle, Spatial};
use farwood::{Error, IndexError};
use indicatif::ProgressBar;
use serde_json::json;
use std::io::BufRead;
use std::time::Instant;

/// A rectangle; and another one, of the same number, where it reaches across the antimeridian.
pub(super) type Placed = (Item, Option<Item>);

/// The rectangles of a file, and its bad rows.
#[derive(Default)]
pub(super) struct Found {
    items: Vec<Item>,
    skipped: u64,
    first_bad: Option<String>,
}

/// How the rectangles entered the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadMethod {
    Bulk,
    OneByOne,
}

pub(super) fn run(index: &Spatial, args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let start = Instant::now();
    if let Some(option) = context.first_given(&["key_column", "value_column", "value", "sort_memory"]) {
        return Err(Failure::Usage(format!(
            "load {}: {option} applies to keys, and this index holds rectangles; omit it (the columns of a rectangle \
             are x,y or x1,y1,x2,y2, optionally followed by its number)",
            args.url
        )));
    }
    let (reader, progress) = open_file(&args.file, context)?;
    let found = read(args, reader)?;
    progress.set_message("writing");
    // A server that is talked to by rings takes items one by one.
    let how = if index.takes_bulk()? && load_at_once(index, args, &found.items)? {
        LoadMethod::Bulk
    } else {
        insert_each(index, &found.items, &progress)?;
        LoadMethod::OneByOne
    };
    progress.finish_and_clear();
    report(args, &found, how, start, context)?;
    let nothing_good = found.items.is_empty() && found.skipped > 0;
    Ok(if nothing_good { Outcome::Negative } else { Outcome::Done })
}

/// Loads all of them into an empty index; `false`: another has put something there first.
fn load_at_once(index: &Spatial, args: &Args, items: &[Item]) -> Result<bool, Failure> {
    match index.bulk_load(items, args.fill) {
        Ok(()) => Ok(true),
        Err(Error::Index { source: IndexError::NotEmpty | IndexError::Served { .. }, .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Inserts one after the other, and reports the number of inserted rectangles.
fn insert_each(index: &Spatial, items: &[Item], progress: &ProgressBar) -> Result<(), Failure> {
    let mut inserted = 0;
    let done = index.change(|editor| {
        items.iter().try_for_each(|item| {
            editor.insert(item)?;
            inserted += 1;
            if inserted % 1024 == 0 {
                progress.set_message(format!("{inserted} inserted"));
            }
            Ok(())
        })
    });
    done.map_err(|error| {
        let failure = Failure::from(error);
        if inserted == 0 {
            return failure;
        }
        let were = size::count(inserted, "rectangle was inserted", "rectangles were inserted");
        let text = format!(
            "{}; {were} and remain in the index, the first ones of the file: loading the file again would insert \
             them twice",
            failure.text()
        );
        Failure::Other { text, exit_code: failure.exit_code() }
    })
}

fn read(args: &Args, reader: impl BufRead) -> Result<Found, Failure> {
    let delimiter = match layout_of(args) {
        Layout::Geojson => return geojson::read(args, reader),
        Layout::Flatgeobuf => return flatgeobuf::read(args, reader),
        Layout::Tsv => b'\t',
        Layout::Auto | Layout::Text | Layout::Csv => b',',
    };
    let mut rows = csv::ReaderBuilder::new();
    let rows = rows.has_headers(args.header).flexible(true).trim(csv::Trim::All).delimiter(delimiter);
    let mut found = Found::default();
    for (number, row) in (1..).zip(rows.from_reader(reader).records()) {
        let item = match row {
            Ok(row) => item_of_row(number, &row),
            Err(error) if error.is_io_error() => {
                return Err(Failure::File {
                    operation: "read",
                    path: args.file.clone(),
                    source: error.into(),
                });
            }
            Err(error) => Err(error.to_string()),
        };
        found.add(args, &format!("row {number}"), item.map(|item| (item, None)))?;
    }
    Ok(found)
}

/// How a file of rectangles is written.
fn layout_of(args: &Args) -> Layout {
    match (args.format, extension(&args.file).as_deref()) {
        (Layout::Auto, Some("tsv")) => Layout::Tsv,
        (Layout::Auto, Some("json" | "geojson")) => Layout::Geojson,
        (Layout::Auto, Some("fgb")) => Layout::Flatgeobuf,
        (Layout::Auto, _) => Layout::Csv,
        (layout, _) => layout,
    }
}

impl Found {
    /// Inserts the rectangle of a row, or skips a bad row.
    pub(super) fn add(
        &mut self,
        args: &Args,
        place: &str,
        placed: Result<Placed, String>,
    ) -> Result<(), Failure> {
        match placed {
            Ok((item, beyond)) => self.items.extend([item].into_iter().chain(beyond)),
            Err(what) if args.skip_bad => {
                self.skipped += 1;
                self.first_bad.get_or_insert_with(|| format!("{place}: {what}"));
            }
            Err(what) => {
                let file = args.file.display();
                let text =
                    format!("load {}: {file}, {place}: {what}; to skip such rows, give --skip-bad", args.url);
                return Err(Failure::Usage(text));
            }
        }
        Ok(())
    }
}

fn item_of_row(number: u64, row: &csv::StringRecord) -> Result<Item, String> {
    let edge = |at: usize| {
        let text = row.get(at).unwrap_or_default();
        text.parse::<f64>().map_err(|_| format!("column {}: '{text}' is not a number", at + 1))
    };
    let corners = match row.len() {
        2 | 3 => ([edge(0)?, edge(1)?], [edge(0)?, edge(1)?]),
        4 | 5 => ([edge(0)?, edge(1)?], [edge(2)?, edge(3)?]),
        columns => {
            return Err(format!(
                "the row has {columns} columns; give 2 for a point or 4 for a rectangle, optionally followed by a \
                 number"
            ));
        }
    };
    let id = match row.len() {
        3 | 5 => {
            let text = row.get(row.len() - 1).unwrap_or_default();
            text.parse().map_err(|_| format!("'{text}' is not a number from 0 to 2^64 - 1"))?
        }
        _ => number,
    };
    let bounds = Rectangle::new(corners.0, corners.1).map_err(|error| error.to_string())?;
    Ok(Item { bounds, id })
}

fn report(
    args: &Args,
    found: &Found,
    how: LoadMethod,
    start: Instant,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let seconds = start.elapsed().as_secs_f64();
    let loaded = found.items.len() as u64;
    if context.format == Format::Json {
        context.json(&json!({
            "index": args.url.to_string(), "loaded": loaded, "skipped": found.skipped,
            "first_bad": found.first_bad, "bulk": how == LoadMethod::Bulk, "seconds": seconds,
        }))?;
        return Ok(());
    }
    let how = match how {
        LoadMethod::Bulk => "bulk-loaded",
        LoadMethod::OneByOne => "inserted",
    };
    let rectangles = size::count(loaded, "rectangle", "rectangles");
    writeln!(context.messages, "{}: {how} {rectangles} in {seconds:.1} s", args.url)?;
    if let Some(first) = &found.first_bad {
        writeln!(
            context.messages,
            "skipped {}; the first was {first}",
            size::count(found.skipped, "row", "rows")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Result<Item, String> {
        item_of_row(7, &text.split(',').collect())
    }

    #[test]
    fn rows_are_points_or_rectangles_with_or_without_numbers() {
        let bounds = |min, max| Rectangle::new(min, max).unwrap();
        assert_eq!(row("1,2"), Ok(Item { bounds: bounds([1.0, 2.0], [1.0, 2.0]), id: 7 }));
        assert_eq!(row("1,2,9"), Ok(Item { bounds: bounds([1.0, 2.0], [1.0, 2.0]), id: 9 }));
        assert_eq!(row("1,2,3,4"), Ok(Item { bounds: bounds([1.0, 2.0], [3.0, 4.0]), id: 7 }));
        assert_eq!(row("-1,2,3,4.5,0"), Ok(Item { bounds: bounds([-1.0, 2.0], [3.0, 4.5]), id: 0 }));
        for bad in ["1", "1,x", "nan,2", "1,2,inf,4", "3,2,1,4", "1,2,3,4,-5", "1,2,3,4,5,6"] {
            assert!(row(bad).is_err(), "{bad}");
        }
    }
}
