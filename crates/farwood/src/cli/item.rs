//! `farwood put` and `farwood del` of a rectangle, in a spatial index.

use super::entry::{DelArgs, PutArgs};
use super::{Context, Failure, Format, Outcome, search};
use farwood::Url;
use farwood::spatial::{Item, Rectangle};
use serde_json::json;

/// Adds a rectangle under its number; both parts of one that reaches across the antimeridian.
pub(crate) fn put(args: &PutArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let Some(edges) = args.value.as_deref().filter(|_| !args.if_absent && !args.if_present) else {
        let why = "it takes a rectangle's number and its edges, and nothing else: equal ones may be there";
        return Err(refused("put", &args.url, why));
    };
    let items = items("put", &args.url, &args.key, edges)?;
    search::open(&args.url)?.change(|editor| items.iter().try_for_each(|item| editor.insert(item)))?;
    if context.format == Format::Json {
        context.json(&json!({ "stored": true }))?;
    }
    Ok(Outcome::Done)
}

/// Takes a rectangle out.
pub(crate) fn del(args: &DelArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let Some(edges) = &args.edges else {
        return Err(refused(
            "del",
            &args.url,
            "it takes the rectangle's number and its edges, as search prints them",
        ));
    };
    let items = items("del", &args.url, &args.key, edges)?;
    let mut existed = false;
    search::open(&args.url)?.change(|editor| {
        items.iter().try_for_each(|item| editor.remove(item).map(|removed| existed |= removed))
    })?;
    if context.format == Format::Json {
        context.json(&json!({ "existed": existed }))?;
    } else if !existed {
        writeln!(context.words, "del {}: there is no {} at {edges}", args.url, args.key)?;
    }
    Ok(if existed { Outcome::Done } else { Outcome::Negative })
}

/// What a number and edges on the command line stand for.
fn items(operation: &str, url: &Url, number: &str, edges: &str) -> Result<Vec<Item>, Failure> {
    let id = number.parse().map_err(|_| {
        refused(operation, url, &format!("'{number}' is no number of a rectangle, 0 to 2^64 - 1"))
    })?;
    let numbers: Result<Vec<f64>, _> = edges.split(',').map(|edge| edge.trim().parse()).collect();
    let corners = match numbers.as_deref() {
        Ok(&[x, y]) => ([x, y], [x, y]),
        Ok(&[x1, y1, x2, y2]) => ([x1, y1], [x2, y2]),
        _ => return Err(refused(operation, url, &format!("'{edges}' is neither x,y nor x1,y1,x2,y2"))),
    };
    let parts = Rectangle::around_globe(corners.0, corners.1);
    let (bounds, beyond) = parts.map_err(|error| refused(operation, url, &error.to_string()))?;
    Ok([Some(bounds), beyond].into_iter().flatten().map(|bounds| Item { bounds, id }).collect())
}

fn refused(operation: &str, url: &Url, why: &str) -> Failure {
    Failure::Usage(format!("{operation} {url}: {why}"))
}
