//! `farwood join`: finds the pairs of two spatial indexes.

use super::access::AccessArgs;
use super::record::id_json;
use super::search::{self, relation_names};
use super::tsv::escape;
use super::{Context, Failure, Format, Outcome};
use farwood::Url;
use farwood::spatial::Record;
use farwood_geometry::Predicate;
use serde_json::json;
use std::io;
use std::ops::ControlFlow;

const EXAMPLES: &str = "\
Examples:
  farwood join shm://demo/towns shm://demo/counties --relation within > town-county.tsv
  farwood join shm://demo/roads shm://demo/rivers --relation crosses --json
  farwood join shm://demo/parks tcp://10.0.0.1:7000/trees --relation contains --count";

/// Find the pairs of records of two spatial indexes whose geometries have a relation
///
/// Prints one line for each pair: the id of the record of the first index, a tab, and the id of the record of the
/// second index. The pairs are in no particular order. With --json, each pair is an object with `first` and `second`.
/// In an index whose ids may repeat, the rectangles are the geometries. Exit code 1 if there is no pair.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The URL of the first index: shm://POOL/INDEX or tcp://HOST:PORT/INDEX
    url: Url,
    /// The URL of the second index
    #[arg(value_name = "URL2")]
    other: Url,
    /// The relation: `within` finds the pairs whose first geometry is within the second
    #[arg(long, value_name = "NAME", value_parser = relation_names(), default_value = "intersects")]
    relation: Predicate,
    /// Print only the number of pairs
    #[arg(long)]
    count: bool,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let (one, other) =
        (search::open("join", &args.url, args.access)?, search::open("join", &args.other, args.access)?);
    let (mut pairs, mut written) = (0u64, Ok(()));
    one.join(&other, args.relation, |first, second| {
        pairs += 1;
        if !args.count {
            written = print(first, second, context);
        }
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    if args.count {
        return search::report_count(pairs, context);
    }
    if pairs == 0 && context.format == Format::Text {
        writeln!(context.messages, "join {} {}: no pair was found", args.url, args.other)?;
    }
    Ok(search::found(pairs))
}

fn print(first: &Record, second: &Record, context: &mut Context<'_>) -> io::Result<()> {
    if context.format == Format::Json {
        let pair = json!({ "first": id_json(&first.id, context), "second": id_json(&second.id, context) });
        return context.json(&pair);
    }
    let [first, second] = [first, second].map(|record| record.id.to_string());
    writeln!(context.out, "{}\t{}", escape(&first), escape(&second))
}
