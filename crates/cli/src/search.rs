//! `farwood search`: finds rectangles and records in a spatial index.

mod records;

pub(crate) use records::relation_names;

use super::access::AccessArgs;
use super::show::Numbers;
use super::{Context, Failure, Format, Outcome, index_of, size};
use farwood::Url;
use farwood::spatial::{CoordinateSystem, Item, Query, Rectangle, Relation, Spatial};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::str::FromStr;

const EXAMPLES: &str = "\
Examples:
  farwood search shm://demo/places --bbox 2.2,48.8,2.5,48.9
  farwood search shm://demo/places --bbox 170,-50,-170,-30 --count    across the antimeridian, in degrees
  farwood search shm://demo/places --bbox 0,40,10,50 --within --json > found.geojson
  farwood search shm://demo/places --at 13.4,52.5 --nearest 5

Examples for an index of unique ids (`farwood create --ids`), whose records have geometries:
  farwood search shm://demo/parks --geometry 'POLYGON((0 0,4 0,0 4,0 0))' --relation within
  farwood search shm://demo/parks --at 13.4,52.5 --relation contains --json
  farwood search shm://demo/parks --at 13.4,52.5 --within-distance 500    metres, in an index of degrees
  farwood search shm://demo/parks --geometry 'LINESTRING(0 0,9 9)' --nearest 3 --ties --max-distance 100";

/// Search a spatial index for rectangles or records
///
/// Prints the number and the edges (smallest x, smallest y, largest x, largest y) of each rectangle found; with
/// --json, a GeoJSON FeatureCollection. In an index of degrees (`farwood create --crs degrees`), a window whose
/// smallest x is greater than its largest x crosses the antimeridian. In an index of unique ids, prints the id, the
/// edges and the distance if it was computed, separated by tabs; with --json, features with geometries, properties and
/// distances. Exit code 1 if the search finds nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The URL of a spatial index: shm://POOL/INDEX or tcp://HOST:PORT/INDEX
    url: Url,
    /// The window to search: the search compares it with rectangles. In an index of unique ids, it compares the
    /// geometries of the records instead if --relation, --within-distance or --nearest is given
    #[arg(long, value_name = "X1,Y1,X2,Y2", allow_hyphen_values = true)]
    bbox: Option<Coordinates<4>>,
    /// The point to search at: the search finds the rectangles, or the records with rectangles, that contain it. In an
    /// index of unique ids, it compares the geometries of the records instead if --relation, --within-distance or
    /// --nearest is given
    #[arg(long, value_name = "X,Y", allow_hyphen_values = true, conflicts_with = "bbox")]
    at: Option<Coordinates<2>>,
    /// The geometry to search with, as WKT or GeoJSON
    #[arg(long, value_name = "WKT", conflicts_with_all = ["bbox", "at"])]
    geometry: Option<String>,
    /// Find only the rectangles inside the window; with --geometry, the records inside the geometry
    #[arg(long, conflicts_with_all = ["contains", "nearest"])]
    within: bool,
    /// Find only the rectangles that contain the window; with --geometry, the records that contain the geometry
    #[arg(long, conflicts_with = "nearest")]
    contains: bool,
    /// Print only the number of rectangles or records
    #[arg(long, conflicts_with = "nearest")]
    count: bool,
    /// Find the K rectangles nearest to the point or to the centre of the window, nearest first; in an index of unique
    /// ids, the K records whose geometries are nearest to the point, to that centre, or to the geometry
    #[arg(long, value_name = "K", value_parser = size::at_least_one)]
    nearest: Option<usize>,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    exact: records::ExactOptions,
}

/// Numbers separated by commas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coordinates<const N: usize>(pub(crate) [f64; N]);

impl<const N: usize> FromStr for Coordinates<N> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("give {N} numbers separated by commas");
        let fields: Vec<_> = text.split(',').map(str::trim).collect();
        if fields.len() != N || fields.iter().any(|field| field.parse::<f64>().is_err()) {
            return Err(wrong());
        }
        let numbers: Vec<f64> = fields.into_iter().map(coordinate).collect::<Result<_, _>>()?;
        numbers.try_into().map(Self).map_err(|_| wrong())
    }
}

/// Reads a coordinate: a finite number, which is 0 only if the text is 0. Other numbers are rounded to 64 bits.
pub(crate) fn coordinate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if !number.is_finite() => {
            Err(format!("'{text}' is not a finite number; the largest is {:e}", f64::MAX))
        }
        Ok(_) if underflows(text) => Err(format!(
            "'{text}' is not 0, and closer to 0 than any number of 64 bits; the smallest is {:e}",
            f64::from_bits(1)
        )),
        Ok(number) => Ok(number),
        Err(_) => Err(format!("'{text}' is not a number")),
    }
}

/// Whether the text is a number other than 0 that becomes 0 in 64 bits.
pub(crate) fn underflows(text: &str) -> bool {
    let mut digits = text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
    text.parse() == Ok(0.0) && digits.any(|byte| matches!(byte, b'1'..=b'9'))
}

/// The number of a rectangle, as the commands print it: another form of the same number is not accepted, because it may
/// be the name of something else.
pub(crate) fn rectangle_number(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|number| number.to_string() == text);
    number
        .ok_or_else(|| format!("'{text}' is not a number from 0 to 2^64 - 1 without sign and leading zeros"))
}

impl Args {
    /// The window, in two parts if it crosses the antimeridian.
    fn windows(&self, system: CoordinateSystem) -> Result<(Rectangle, Option<Rectangle>), Failure> {
        let edges = match (self.bbox, self.at) {
            (Some(Coordinates([x1, y1, x2, y2])), _) => ([x1, y1], [x2, y2]),
            (None, Some(Coordinates(point))) => (point, point),
            (None, None) => {
                return Err(Failure::Usage(format!(
                    "search {}: give --bbox X1,Y1,X2,Y2, --at X,Y or --geometry WKT; `farwood search --help` has \
                     examples",
                    self.url
                )));
            }
        };
        let windows = system.window(edges.0, edges.1);
        windows.map_err(|error| Failure::Usage(format!("search {}: {error}", self.url)))
    }

    fn relation(&self) -> Relation {
        match (self.within, self.contains) {
            (true, _) => Relation::Within,
            (_, true) => Relation::Contains,
            _ => Relation::Intersects,
        }
    }
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let index = open("search", &args.url, args.access)?;
    if index.ids().is_unique() {
        return records::run(args, &index, context);
    }
    records::refuse_options(args)?;
    let (window, beyond) = args.windows(index.coordinates())?;
    if let Some(count) = args.nearest {
        let centre = beyond.map_or(window.centre(), |beyond| centre_across(&window, &beyond));
        let found = index.nearest(centre, count)?;
        let items: Vec<_> = found.iter().map(|near| near.item).collect();
        return report(&args.url, &items, context);
    }
    let relation = args.relation();
    if args.count && beyond.is_none() {
        let count = index.count(&Query { window, relation })?;
        return report_count(count, context);
    }
    let west = Query { window, relation };
    let mut items = index.search(&west)?;
    if let Some(window) = beyond {
        let east = index.search(&Query { window, relation })?;
        items = if relation == Relation::Contains {
            containing_both(items, &east)
        } else {
            united(items, &east, |item| west.matches(&item.bounds))
        };
    }
    if args.count { report_count(items.len() as u64, context) } else { report(&args.url, &items, context) }
}

/// Joins the results for the two parts of a window that crosses the antimeridian. `matches_west` selects the results
/// for the eastern part that are also results for the western part.
fn united(mut west: Vec<Item>, east: &[Item], mut matches_west: impl FnMut(&Item) -> bool) -> Vec<Item> {
    west.extend(east.iter().filter(|item| !matches_west(item)));
    west
}

/// The rectangles that contain both parts of a window: one rectangle around the globe, or two with one number.
fn containing_both(west: Vec<Item>, east: &[Item]) -> Vec<Item> {
    let ids = |items: &[Item]| items.iter().map(|item| item.id).collect::<BTreeSet<_>>();
    let both = &ids(&west) & &ids(east);
    let key = |item: &Item| {
        let ([x1, y1], [x2, y2]) = (item.bounds.min(), item.bounds.max());
        (item.id, [x1, y1, x2, y2].map(f64::to_bits))
    };
    let in_west: BTreeSet<_> = west.iter().map(key).collect();
    let only_east: Vec<_> = east.iter().filter(|item| !in_west.contains(&key(item))).copied().collect();
    west.into_iter().chain(only_east).filter(|item| both.contains(&item.id)).collect()
}

/// The centre of a window that crosses the antimeridian, on the side of its larger part.
fn centre_across(west: &Rectangle, east: &Rectangle) -> [f64; 2] {
    let x = f64::midpoint(west.min()[0], east.max()[0] + 360.0);
    [if x > 180.0 { x - 360.0 } else { x }, west.centre()[1]]
}

/// Opens the spatial index that the command line names.
pub(crate) fn open(command: &str, url: &Url, access: AccessArgs) -> Result<Spatial, Failure> {
    let (pool, name) = (access.find(url.pool_url())?, index_of(url)?);
    if !pool.is_spatial(name)? {
        let text = format!("{command} {url}: this index holds keys; use `farwood get` or `farwood scan`");
        return Err(Failure::Usage(text));
    }
    Ok(pool.open_spatial(name)?.with_search(url.search_options())?)
}

pub(crate) fn found(count: u64) -> Outcome {
    if count > 0 { Outcome::Done } else { Outcome::Negative }
}

pub(crate) fn report_count(count: u64, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match context.format {
        Format::Json => context.json(&json!({ "count": count }))?,
        Format::Text => writeln!(context.out, "{count}")?,
    }
    Ok(found(count))
}

fn report(url: &Url, items: &[Item], context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match context.format {
        Format::Json => {
            let features: Vec<_> = items.iter().map(|item| feature(item, context.numbers)).collect();
            context.json(&json!({ "type": "FeatureCollection", "features": features }))?;
        }
        Format::Text if items.is_empty() => {
            writeln!(context.messages, "search {url}: no rectangle was found")?;
        }
        Format::Text => {
            for item in items {
                writeln!(context.out, "{} {}", item.id, item.bounds)?;
            }
        }
    }
    Ok(found(items.len() as u64))
}

/// A rectangle as GeoJSON (RFC 7946): a polygon or a point.
fn feature(item: &Item, numbers: Numbers) -> Value {
    let ([x1, y1], [x2, y2]) = (item.bounds.min(), item.bounds.max());
    let is_point = Rectangle::point([x1, y1]) == Ok(item.bounds);
    let geometry = if is_point {
        json!({ "type": "Point", "coordinates": [x1, y1] })
    } else {
        json!({ "type": "Polygon", "coordinates": [[[x1, y1], [x2, y1], [x2, y2], [x1, y2], [x1, y1]]] })
    };
    let id = numbers.json(item.id);
    json!({ "type": "Feature", "id": id, "bbox": [x1, y1, x2, y2], "geometry": geometry, "properties": {} })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points with x from `from` upwards, and one rectangle around the globe.
    fn items(from: f64, count: u64) -> Vec<Item> {
        let point =
            |at: u64| Item { bounds: Rectangle::point([from + at as f64 / 1e6, 0.5]).unwrap(), id: at };
        let around = Item { bounds: Rectangle::new([-180.0, 0.0], [180.0, 1.0]).unwrap(), id: u64::MAX };
        (0..count).map(point).chain([around]).collect()
    }

    #[test]
    fn joining_takes_one_comparison_for_each_result() {
        let (west, east) = (items(170.0, 1000), items(-180.0, 2000));
        let window = Query::intersecting(Rectangle::new([170.0, 0.0], [180.0, 1.0]).unwrap());
        let mut comparisons = 0;
        let all = united(west, &east, |item| {
            comparisons += 1;
            window.matches(&item.bounds)
        });
        assert_eq!((comparisons, all.len()), (2001, 3001));
        assert_eq!(all.iter().filter(|item| item.id == u64::MAX).count(), 1);
    }

    #[test]
    fn a_rectangle_that_contains_both_parts_contains_the_window() {
        let half = |west: f64, east: f64, id: u64| Item {
            bounds: Rectangle::new([west, 0.0], [east, 1.0]).unwrap(),
            id,
        };
        let around = half(-180.0, 180.0, 1);
        let west = vec![around, half(170.0, 180.0, 2), half(170.0, 180.0, 3)];
        let east = [around, half(-180.0, -170.0, 2), half(-180.0, -170.0, 4)];
        let found = containing_both(west, &east);
        assert_eq!(found, [around, half(170.0, 180.0, 2), half(-180.0, -170.0, 2)]);
    }
}
