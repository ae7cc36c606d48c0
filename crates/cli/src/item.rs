//! `farwood put` and `farwood del` of a rectangle, in a spatial index.

use super::entry::{DelArgs, PutArgs};
use super::search::{Coordinates, rectangle_number};
use super::{Context, Failure, Format, Outcome};
use farwood::Url;
use farwood::spatial::{Item, Rectangle, Spatial};
use serde_json::json;

/// Adds a rectangle under its number.
pub(crate) fn put(index: &Spatial, args: &PutArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if let Some(given) = context.first_given(&["if_absent", "if_present", "value_file"]) {
        let why = format!("{given} applies to keys, and this index holds rectangles; omit it");
        return Err(refused("put", &args.url, &why));
    }
    let Some(edges) = &args.value else {
        return Err(refused("put", &args.url, "give the number of a rectangle and its edges"));
    };
    index.insert(&item("put", &args.url, &args.key, edges)?)?;
    if context.format == Format::Json {
        context.json(&json!({ "stored": true }))?;
    }
    Ok(Outcome::Done)
}

/// Removes a rectangle.
pub(crate) fn del(index: &Spatial, args: &DelArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let Some(edges) = &args.edges else {
        let why = "give the number of the rectangle and its edges, as `farwood search` prints them";
        return Err(refused("del", &args.url, why));
    };
    let existed = index.remove(&item("del", &args.url, &args.key, edges)?)?;
    if context.format == Format::Json {
        context.json(&json!({ "existed": existed }))?;
    } else if !existed {
        writeln!(context.messages, "del {}: there is no rectangle {} at {edges}", args.url, args.key)?;
    }
    Ok(if existed { Outcome::Done } else { Outcome::Negative })
}

/// The item for the number and the edges on the command line.
fn item(operation: &str, url: &Url, number: &str, edges: &str) -> Result<Item, Failure> {
    let id = rectangle_number(number)
        .map_err(|why| refused(operation, url, &format!("the number of the rectangle: {why}")))?;
    let wrong = |why: String| refused(operation, url, &why);
    let bounds = match edges.split(',').count() {
        2 => edges.parse().map(|Coordinates(point)| Rectangle::point(point)),
        4 => edges.parse().map(|Coordinates([x1, y1, x2, y2])| Rectangle::new([x1, y1], [x2, y2])),
        _ => Err(String::new()),
    };
    let neither = || format!("'{edges}' is neither x,y nor x1,y1,x2,y2");
    let is_number = |why: &str| why.contains("finite") || why.contains("closer to 0");
    let bounds = bounds.map_err(|why| wrong(if is_number(&why) { why } else { neither() }))?;
    Ok(Item { bounds: bounds.map_err(|error| refused(operation, url, &error.to_string()))?, id })
}

fn refused(operation: &str, url: &Url, why: &str) -> Failure {
    Failure::Usage(format!("{operation} {url}: {why}"))
}
