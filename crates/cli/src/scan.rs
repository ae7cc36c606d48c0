//! `farwood scan`: a range of entries.

use super::{Context, Failure, Format, Outcome, Untyped, open, read, show};
use farwood::{Error, Kind, Url, Width};
use serde_json::json;
use std::ops::Bound;

const EXAMPLES: &str = "\
Examples:
  farwood scan shm://demo/words --from bee --to cat
  farwood scan shm://demo/words --prefix under --limit 20
  farwood scan shm://demo/words --reverse --limit 10
  farwood scan shm://demo/words --from a --to b --snapshot
  farwood scan shm://demo/words --json | jq .key";

/// Print entries in the order of their keys
///
/// One entry per line: key, tab, value; with --json an object {"key", "value"}. Ends quietly when whoever reads
/// has read enough.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// shm://POOL/INDEX
    url: Url,
    /// The first key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<String>,
    /// The end, itself not printed
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<String>,
    /// Only keys that begin with this: a text's beginning, or of byte strings so many hexadecimal digits. Instead of
    /// --from and --to
    #[arg(long, value_name = "BEGINNING", conflicts_with_all = ["from", "to"], allow_hyphen_values = true)]
    prefix: Option<String>,
    /// At most so many entries
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// From the end of the range backwards
    #[arg(long)]
    reverse: bool,
    /// Of sherman: all entries as they were at one moment; for ranges of up to 32 leaves
    #[arg(long)]
    snapshot: bool,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let index = open(&args.url, context)?;
    let end =
        |words: &Option<String>| words.as_ref().map(|words| read(&index, "scan", "key", words)).transpose();
    let from = end(&args.from)?.map_or(Bound::Unbounded, Bound::Included);
    let to = end(&args.to)?.map_or(Bound::Unbounded, Bound::Excluded);
    let mut scan = match &args.prefix {
        Some(words) => index.scan_prefix(prefix(&index, words)?),
        None => index.scan::<Vec<u8>>((from, to)),
    };
    if let Some(limit) = args.limit {
        scan = scan.limit(limit);
    }
    if args.reverse {
        scan = scan.reverse();
    }
    let [key_kind, value_kind] = index.kinds();
    let entries: Box<dyn Iterator<Item = _>> =
        if args.snapshot { Box::new(scan.snapshot()?.into_iter().map(Ok)) } else { Box::new(scan) };
    for entry in entries {
        let (key, value) = entry?;
        match context.format {
            Format::Json => {
                let (key, value) = (show::json(key_kind, &key), show::json(value_kind, &value));
                context.json(&json!({ "key": key, "value": value }))?;
            }
            Format::Text if value.is_empty() => writeln!(context.out, "{}", key_kind.show(&key))?,
            Format::Text => writeln!(context.out, "{}\t{}", key_kind.show(&key), value_kind.show(&value))?,
        }
    }
    Ok(Outcome::Done)
}

/// The bytes of the beginning of a key that the command line says.
fn prefix(index: &Untyped, words: &str) -> Result<Vec<u8>, Failure> {
    let [kind, _] = index.kinds();
    let unfit = |why| Error::Unfit { operation: "scan", url: index.url(), what: "prefix", why };
    match kind {
        Kind::U64 => Err(Failure::Usage(format!(
            "scan {}: --prefix {words}: numbers have no beginning; give --from and --to",
            index.url()
        ))),
        _ => Ok(kind.read(words, Width::UpTo(index.key_width().most())).map_err(unfit)?),
    }
}
