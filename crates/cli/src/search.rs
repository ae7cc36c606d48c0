//! `farwood search`: finds rectangles in a spatial index.

use super::{Context, Failure, Format, Outcome, index_of, size};
use farwood::spatial::{Item, Query, Rectangle, Relation, Spatial};
use farwood::{Pool, Url};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::str::FromStr;

const EXAMPLES: &str = "\
Examples:
  farwood search shm://demo/places --bbox 2.2,48.8,2.5,48.9
  farwood search shm://demo/places --bbox 170,-50,-170,-30 --count    across the antimeridian
  farwood search shm://demo/places --bbox 0,40,10,50 --within --json > found.geojson
  farwood search shm://demo/places --at 13.4,52.5 --nearest 5";

/// Search a spatial index for rectangles
///
/// Prints the number and the edges (smallest x, smallest y, largest x, largest y) of each rectangle found; with
/// --json, a GeoJSON FeatureCollection. If the smallest x of the window is greater than its largest x, and both are
/// degrees of longitude, the window crosses the antimeridian. Exit code 1 if the search finds nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The URL of a spatial index: shm://POOL/INDEX or tcp://HOST:PORT/INDEX
    url: Url,
    /// The window to search
    #[arg(long, value_name = "X1,Y1,X2,Y2", allow_hyphen_values = true)]
    bbox: Option<Numbers<4>>,
    /// The point to search at
    #[arg(long, value_name = "X,Y", allow_hyphen_values = true, conflicts_with = "bbox")]
    at: Option<Numbers<2>>,
    /// Find only rectangles inside the window
    #[arg(long, conflicts_with_all = ["contains", "nearest"])]
    within: bool,
    /// Find only rectangles that contain the window
    #[arg(long, conflicts_with = "nearest")]
    contains: bool,
    /// Print only the number of rectangles
    #[arg(long, conflicts_with = "nearest")]
    count: bool,
    /// Find the K rectangles nearest to the point or to the centre of the window, nearest first
    #[arg(long, value_name = "K", value_parser = size::at_least_one)]
    nearest: Option<usize>,
}

/// Numbers separated by commas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers<const N: usize>(pub(crate) [f64; N]);

impl<const N: usize> FromStr for Numbers<N> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<f64>, _> = text.split(',').map(|number| number.trim().parse()).collect();
        let numbers = numbers.ok().and_then(|numbers| <[f64; N]>::try_from(numbers).ok());
        numbers.map(Self).ok_or_else(|| format!("give {N} numbers separated by commas"))
    }
}

impl Args {
    /// The window, in two parts if it crosses the antimeridian.
    fn windows(&self) -> Result<(Rectangle, Option<Rectangle>), Failure> {
        let edges = match (self.bbox, self.at) {
            (Some(Numbers([x1, y1, x2, y2])), _) => ([x1, y1], [x2, y2]),
            (None, Some(Numbers(point))) => (point, point),
            (None, None) => {
                return Err(Failure::Usage(format!(
                    "search {}: give --bbox X1,Y1,X2,Y2 or --at X,Y; `farwood search --help` has examples",
                    self.url
                )));
            }
        };
        let windows = Rectangle::around_globe(edges.0, edges.1);
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
    let (window, beyond) = args.windows()?;
    let index = open(&args.url)?;
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
    let mut items = index.search(&Query { window, relation })?;
    if let Some(window) = beyond {
        let first = items.len();
        items.extend(index.search(&Query { window, relation })?);
        let after = items.split_off(first);
        items = united(items, &after, relation);
    }
    if args.count { report_count(items.len() as u64, context) } else { report(&args.url, &items, context) }
}

/// Joins the results for the two parts of a window that crosses the antimeridian. A rectangle contains the window if it
/// contains both parts: one rectangle around the globe, or two rectangles with one number.
fn united(mut west: Vec<Item>, east: &[Item], relation: Relation) -> Vec<Item> {
    let again: Vec<_> = east.iter().filter(|item| !west.contains(item)).copied().collect();
    let ids = |items: &[Item]| items.iter().map(|item| item.id).collect::<BTreeSet<_>>();
    let both = &ids(&west) & &ids(east);
    west.extend(again);
    if relation == Relation::Contains {
        west.retain(|item| both.contains(&item.id));
    }
    west
}

/// The centre of a window that crosses the antimeridian, on the side of its larger part.
fn centre_across(west: &Rectangle, east: &Rectangle) -> [f64; 2] {
    let x = f64::midpoint(west.min()[0], east.max()[0] + 360.0);
    [if x > 180.0 { x - 360.0 } else { x }, west.centre()[1]]
}

/// Opens the spatial index that the command line names.
pub(crate) fn open(url: &Url) -> Result<Spatial, Failure> {
    let (pool, name) = (Pool::find(url.pool_url())?, index_of(url)?);
    if !pool.is_spatial(name)? {
        let text = format!("search {url}: this index holds keys; use `farwood get` or `farwood scan`");
        return Err(Failure::Usage(text));
    }
    Ok(pool.open_spatial(name)?)
}

fn found(count: u64) -> Outcome {
    if count > 0 { Outcome::Done } else { Outcome::Negative }
}

fn report_count(count: u64, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match context.format {
        Format::Json => context.json(&json!({ "count": count }))?,
        Format::Text => writeln!(context.out, "{count}")?,
    }
    Ok(found(count))
}

fn report(url: &Url, items: &[Item], context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match context.format {
        Format::Json => {
            let features: Vec<_> = items.iter().map(feature).collect();
            context.json(&json!({ "type": "FeatureCollection", "features": features }))?;
        }
        Format::Text if items.is_empty() => {
            writeln!(context.messages, "search {url}: no rectangle was found")?
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
fn feature(item: &Item) -> Value {
    let ([x1, y1], [x2, y2]) = (item.bounds.min(), item.bounds.max());
    let is_point = Rectangle::point([x1, y1]) == Ok(item.bounds);
    let geometry = if is_point {
        json!({ "type": "Point", "coordinates": [x1, y1] })
    } else {
        json!({ "type": "Polygon", "coordinates": [[[x1, y1], [x2, y1], [x2, y2], [x1, y2], [x1, y1]]] })
    };
    json!({ "type": "Feature", "id": item.id, "bbox": [x1, y1, x2, y2], "geometry": geometry, "properties": {} })
}
