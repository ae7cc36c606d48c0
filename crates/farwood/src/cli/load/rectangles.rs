//! Rectangles from files: CSV and TSV, and GeoJSON.
//!
//! A row has a point (x, y) or a rectangle (least x, least y, greatest x, greatest y), and perhaps its number behind
//! it; without one it gets the row's, from 1. Of a GeoJSON feature the bounds of its geometry count, and its `id`
//! where that is a number.

use super::{Args, Layout, layout_of, open_file};
use crate::cli::{Context, Failure, Format, Outcome, search, size};
use farwood::spatial::{Item, Rectangle};
use serde_json::{Value, json};
use std::io::BufRead;
use std::time::Instant;

/// What was read.
#[derive(Default)]
struct Found {
    items: Vec<Item>,
    skipped: u64,
    first_bad: Option<String>,
}

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let index = search::open(&args.url)?;
    let (reader, _) = open_file(&args.file, false)?;
    let found = read(args, reader)?;
    // A server is the only one that changes its index, and takes items one by one.
    let bulk = !index.is_served()? && index.is_empty()?;
    if bulk {
        index.bulk_load(&found.items, args.fill)?;
    } else {
        index.change(|editor| found.items.iter().try_for_each(|item| editor.insert(item)))?;
    }
    report(args, &found, bulk, start, context)?;
    let nothing_good = found.items.is_empty() && found.skipped > 0;
    Ok(if nothing_good { Outcome::Negative } else { Outcome::Done })
}

fn read(args: &Args, reader: impl BufRead) -> Result<Found, Failure> {
    if is_geojson(args) {
        return read_geojson(args, reader);
    }
    let delimiter = if layout_of(args) == Layout::Tsv { b'\t' } else { b',' };
    let mut rows = csv::ReaderBuilder::new();
    let rows = rows.has_headers(args.header).flexible(true).trim(csv::Trim::All).delimiter(delimiter);
    let mut found = Found::default();
    for (number, row) in (1..).zip(rows.from_reader(reader).records()) {
        let item = row.map_err(|error| error.to_string()).and_then(|row| item_of_row(number, &row));
        found.add(args, &format!("row {number}"), item)?;
    }
    Ok(found)
}

fn is_geojson(args: &Args) -> bool {
    let extension = args.file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    ["json", "geojson"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

impl Found {
    fn add(&mut self, args: &Args, place: &str, item: Result<Item, String>) -> Result<(), Failure> {
        match item {
            Ok(item) => self.items.push(item),
            Err(what) if args.skip_bad => {
                self.skipped += 1;
                self.first_bad.get_or_insert_with(|| format!("{place}: {what}"));
            }
            Err(what) => {
                let file = args.file.display();
                let text = format!("load {}: {file}, {place}: {what}; --skip-bad passes over it", args.url);
                return Err(Failure::Usage(text));
            }
        }
        Ok(())
    }
}

fn item_of_row(number: u64, row: &csv::StringRecord) -> Result<Item, String> {
    let edge = |at: usize| {
        let text = row.get(at).unwrap_or_default();
        text.parse::<f64>().map_err(|_| format!("column {}: '{text}' is no number", at + 1))
    };
    let corners = match row.len() {
        2 | 3 => ([edge(0)?, edge(1)?], [edge(0)?, edge(1)?]),
        4 | 5 => ([edge(0)?, edge(1)?], [edge(2)?, edge(3)?]),
        columns => {
            return Err(format!("{columns} columns; a point has 2, a rectangle 4, and 1 more its number"));
        }
    };
    let id = match row.len() {
        3 | 5 => {
            let text = row.get(row.len() - 1).unwrap_or_default();
            text.parse().map_err(|_| format!("'{text}' is no number from 0 to 2^64 - 1"))?
        }
        _ => number,
    };
    let bounds = Rectangle::new(corners.0, corners.1).map_err(|error| error.to_string())?;
    Ok(Item { bounds, id })
}

fn read_geojson(args: &Args, reader: impl BufRead) -> Result<Found, Failure> {
    let refuse = |what: String| Failure::Usage(format!("load {}: {}: {what}", args.url, args.file.display()));
    let value: Value =
        serde_json::from_reader(reader).map_err(|error| refuse(format!("it is no JSON: {error}")))?;
    let features = match value.get("type").and_then(Value::as_str) {
        Some("FeatureCollection") => value.get("features").and_then(Value::as_array).cloned(),
        Some(_) => Some(vec![value.clone()]),
        None => None,
    };
    let features =
        features.ok_or_else(|| refuse("it is no GeoJSON: an object with a type is meant".to_owned()))?;
    let mut found = Found::default();
    for (number, feature) in (1..).zip(&features) {
        found.add(args, &format!("feature {number}"), item_of_feature(number, feature))?;
    }
    Ok(found)
}

fn item_of_feature(number: u64, feature: &Value) -> Result<Item, String> {
    let geometry = match feature.get("geometry") {
        Some(Value::Null) => return Err("it has no geometry".to_owned()),
        Some(geometry) => geometry,
        None => feature,
    };
    let mut bounds = None;
    bounds_of(geometry, &mut bounds)?;
    let bounds = bounds.ok_or_else(|| "its geometry has no coordinates".to_owned())?;
    let id = feature.get("id").and_then(Value::as_u64).unwrap_or(number);
    Ok(Item { bounds, id })
}

/// Adds the bounds of a geometry, or of some coordinates.
fn bounds_of(value: &Value, bounds: &mut Option<Rectangle>) -> Result<(), String> {
    if let Some(geometries) = value.get("geometries").and_then(Value::as_array) {
        return geometries.iter().try_for_each(|geometry| bounds_of(geometry, bounds));
    }
    let coordinates = value.get("coordinates").unwrap_or(value);
    let Some(parts) = coordinates.as_array() else { return Ok(()) };
    if let [Value::Number(x), Value::Number(y), ..] = parts.as_slice() {
        let number = |number: &serde_json::Number| number.as_f64().unwrap_or(f64::NAN);
        let point = Rectangle::point([number(x), number(y)]).map_err(|error| error.to_string())?;
        *bounds = Some(bounds.map_or(point, |bounds| bounds.union(&point)));
        return Ok(());
    }
    parts.iter().try_for_each(|part| bounds_of(part, bounds))
}

fn report(
    args: &Args,
    found: &Found,
    bulk: bool,
    start: Instant,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let seconds = start.elapsed().as_secs_f64();
    let loaded = found.items.len() as u64;
    if context.format == Format::Json {
        context.json(&json!({
            "index": args.url.to_string(), "loaded": loaded, "skipped": found.skipped,
            "first_bad": found.first_bad, "bulk": bulk, "seconds": seconds,
        }))?;
        return Ok(());
    }
    let how = if bulk { "bulk-loaded" } else { "inserted" };
    let rectangles = size::count(loaded, "rectangle", "rectangles");
    writeln!(context.words, "{}: {how} {rectangles} in {seconds:.1} s", args.url)?;
    if let Some(first) = &found.first_bad {
        writeln!(
            context.words,
            "passed over {}; the first was {first}",
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

    #[test]
    fn a_feature_is_the_bounds_of_its_geometry() {
        let line = json!({ "type": "Feature", "id": 5, "geometry":
            { "type": "LineString", "coordinates": [[1.0, 9.0], [-2.0, 3.0, 100.0]] } });
        let item = item_of_feature(1, &line).unwrap();
        assert_eq!((item.id, item.bounds.to_string()), (5, "-2,3,1,9".to_owned()));
        let collection = json!({ "type": "GeometryCollection", "geometries":
            [{ "type": "Point", "coordinates": [0, 0] }, { "type": "Point", "coordinates": [4, 5] }] });
        assert_eq!(item_of_feature(3, &collection).unwrap().bounds.to_string(), "0,0,4,5");
        for bad in
            [json!({ "type": "Feature", "geometry": null }), json!({ "type": "Point", "coordinates": [] })]
        {
            assert!(item_of_feature(1, &bad).is_err(), "{bad}");
        }
    }
}
