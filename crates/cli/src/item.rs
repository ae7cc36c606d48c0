//! `farwood put`, `farwood get` and `farwood del` of a rectangle or a record, in a spatial index.

use super::entry::{DelArgs, GetArgs, PutArgs};
use super::record::{contents_of, feature, read_geometry};
use super::search::{Coordinates, rectangle_number};
use super::{Context, Failure, Format, Outcome, json_object, tsv};
use farwood::Url;
use farwood::spatial::{Contents, IdKind, Item, Record, RecordId, Rectangle, Spatial};
use serde_json::{Value, json};

/// Adds a rectangle under its number.
pub(crate) fn put(index: &Spatial, args: &PutArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if let Some(given) = context.first_given(&["if", "if_absent", "if_present", "value_file"]) {
        let why = format!("{given} applies to keys, and this is a spatial index; omit it");
        return Err(refused("put", &args.url, &why));
    }
    if index.ids().is_unique() {
        return put_record(index, args, context);
    }
    if let Some(given) = context.first_given(&["geometry", "attributes"]) {
        let instead = if args.geometry.is_some() { "give the edges X1,Y1,X2,Y2" } else { "omit it" };
        let why = format!(
            "{given} needs an index of unique ids; {instead}, or create the index with --ids number or --ids text"
        );
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

/// Stores a record.
fn put_record(index: &Spatial, args: &PutArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let refuse = |why: String| refused("put", &args.url, &why);
    let id = record_id("put", index, &args.url, &args.key)?;
    let geometry = args.geometry.as_deref().map(read_geometry).transpose();
    let geometry = geometry.map_err(|why| refuse(format!("--geometry: {why}")))?;
    let bounds = match (&geometry, &args.value) {
        (Some(_), Some(_)) => {
            return Err(refuse("give the edges or --geometry, whose bounds they are".to_owned()));
        }
        (Some(geometry), None) => {
            let bounds = geometry.bounds().ok_or_else(|| refuse("--geometry: it is empty".to_owned()))?;
            Rectangle::new(bounds.min, bounds.max).map_err(|error| refuse(error.to_string()))?
        }
        (None, Some(edges)) => bounds_of("put", &args.url, edges)?,
        (None, None) => return Err(refuse("give the edges of the record, or --geometry".to_owned())),
    };
    let attributes = args.attributes.as_deref().map(json_object::compact).transpose();
    let attributes =
        attributes.map_err(|why| refuse(format!("--attributes: it is {why}")))?.unwrap_or_default();
    let geometry = geometry.map(|geometry| geometry.to_wkb()).unwrap_or_default();
    let payload = Contents { geometry, attributes }.encode();
    let existed = index.put(Record { id, bounds, payload })?;
    if context.format == Format::Json {
        context.json(&json!({ "stored": true, "existed": existed }))?;
    } else if context.progress {
        let what = if existed { "replaced" } else { "added" };
        writeln!(context.messages, "put {}: {what} the record '{}'", args.url, args.key)?;
    }
    Ok(Outcome::Done)
}

/// Prints the records of the ids on the command line.
pub(crate) fn get(index: &Spatial, args: &GetArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if !index.ids().is_unique() {
        let why = "the ids of this index may repeat, so it finds rectangles by their edges only; use `farwood search`";
        return Err(refused("get", &args.url, why));
    }
    let ids = args.keys().map(|words| record_id("get", index, &args.url, words));
    let ids = ids.collect::<Result<Vec<_>, _>>()?;
    let mut outcome = Outcome::Done;
    for (words, id) in args.keys().zip(&ids) {
        if let Some(record) = index.get(id)? {
            print(&record, words, args, context)?;
            continue;
        }
        if context.format == Format::Json {
            context.json(&Value::Null)?;
        }
        writeln!(context.messages, "get {}: the record '{words}' does not exist", args.url)?;
        outcome = Outcome::Negative;
    }
    Ok(outcome)
}

/// Prints a record, after its id if several were given.
fn print(record: &Record, id: &str, args: &GetArgs, context: &mut Context<'_>) -> Result<(), Failure> {
    if args.is_raw() {
        context.out.write_all(&record.payload)?;
    } else if context.format == Format::Json {
        let feature = feature("get", &args.url, record, None, context)?;
        context.json(&feature)?;
    } else {
        let contents = contents_of("get", &args.url, record)?;
        if !args.more.is_empty() {
            write!(context.out, "{}\t", tsv::escape(id))?;
        }
        let separator = if contents.attributes.is_empty() { "" } else { "\t" };
        writeln!(context.out, "{}{separator}{}", record.bounds, contents.attributes)?;
    }
    Ok(())
}

/// The id on the command line.
fn record_id(operation: &str, index: &Spatial, url: &Url, text: &str) -> Result<RecordId, Failure> {
    match index.ids() {
        IdKind::Text => Ok(RecordId::from(text)),
        IdKind::Number | IdKind::Repeated => rectangle_number(text)
            .map(RecordId::Number)
            .map_err(|why| refused(operation, url, &format!("the id of the record: {why}"))),
    }
}

/// Removes a rectangle, or a record.
pub(crate) fn del(index: &Spatial, args: &DelArgs, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if context.is_given("if") {
        return Err(refused("del", &args.url, "--if applies to keys, and this is a spatial index; omit it"));
    }
    if index.ids().is_unique() {
        if let Some(edges) = &args.edges {
            let why = format!("give only the id, not '{edges}': the ids of this index are unique");
            return Err(refused("del", &args.url, &why));
        }
        let existed = index.delete(&record_id("del", index, &args.url, &args.key)?)?;
        if context.format == Format::Json {
            context.json(&json!({ "removed": existed, "existed": existed }))?;
        } else if !existed {
            writeln!(context.messages, "del {}: the record '{}' does not exist", args.url, args.key)?;
        }
        return Ok(if existed { Outcome::Done } else { Outcome::Negative });
    }
    let Some(edges) = &args.edges else {
        let why = "give the number of the rectangle and its edges, as `farwood search` prints them";
        return Err(refused("del", &args.url, why));
    };
    let existed = index.remove(&item("del", &args.url, &args.key, edges)?)?;
    if context.format == Format::Json {
        context.json(&json!({ "removed": existed, "existed": existed }))?;
    } else if !existed {
        writeln!(context.messages, "del {}: there is no rectangle {} at {edges}", args.url, args.key)?;
    }
    Ok(if existed { Outcome::Done } else { Outcome::Negative })
}

/// The item for the number and the edges on the command line.
fn item(operation: &str, url: &Url, number: &str, edges: &str) -> Result<Item, Failure> {
    let id = rectangle_number(number)
        .map_err(|why| refused(operation, url, &format!("the number of the rectangle: {why}")))?;
    Ok(Item { bounds: bounds_of(operation, url, edges)?, id })
}

/// The rectangle for the edges on the command line.
fn bounds_of(operation: &str, url: &Url, edges: &str) -> Result<Rectangle, Failure> {
    let wrong = |why: String| refused(operation, url, &why);
    let bounds = match edges.split(',').count() {
        2 => edges.parse().map(|Coordinates(point)| Rectangle::point(point)),
        4 => edges.parse().map(|Coordinates([x1, y1, x2, y2])| Rectangle::new([x1, y1], [x2, y2])),
        _ => Err(String::new()),
    };
    let neither = || format!("'{edges}' is neither x,y nor x1,y1,x2,y2");
    let is_number = |why: &str| why.contains("finite") || why.contains("closer to 0");
    let bounds = bounds.map_err(|why| wrong(if is_number(&why) { why } else { neither() }))?;
    bounds.map_err(|error| refused(operation, url, &error.to_string()))
}

fn refused(operation: &str, url: &Url, why: &str) -> Failure {
    Failure::Usage(format!("{operation} {url}: {why}"))
}
