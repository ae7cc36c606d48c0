//! `farwood scan`: a range of entries.

use super::access::AccessArgs;
use super::timeout::TimeoutArgs;
use super::{Context, Failure, Outcome, Untyped, read};
use farwood::types::Width;
use farwood::{Error, Url};
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
/// Prints one entry per line: key, tab, value, with \t, \n, \\ and so on for control characters and backslashes, as
/// `farwood load --format tsv` reads them; with --json an object {"key", "value"}. If the reader of the output
/// stops reading, the command ends without an error.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// shm://POOL/INDEX
    url: Url,
    /// The first key of the range
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<String>,
    /// The end of the range (exclusive)
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<String>,
    /// Print only keys that begin with this text or, in an index of byte strings, with these hexadecimal digits.
    /// Conflicts with --from and --to
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["from", "to"], allow_hyphen_values = true)]
    prefix: Option<String>,
    /// Print at most this many entries
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print the range in reverse order
    #[arg(long)]
    reverse: bool,
    /// sherman only: print all entries as of one moment; for ranges of at most 32 leaves
    #[arg(long)]
    snapshot: bool,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    timeout: TimeoutArgs,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let index =
        args.timeout.open("scan", &args.url, args.access.access(), context)?.into_ordered(&args.url)?;
    let end =
        |words: &Option<String>| words.as_ref().map(|words| read(&index, "scan", "key", words)).transpose();
    let (from, to) = (end(&args.from)?, end(&args.to)?);
    let no_key_fits = from.as_ref().zip(to.as_ref()).is_some_and(|(from, to)| from >= to);
    let from = from.map_or(Bound::Unbounded, Bound::Included);
    let to = to.map_or(Bound::Unbounded, Bound::Excluded);
    let mut scan = match &args.prefix {
        Some(words) => index.prefix(prefix(&index, words)?),
        None => index.range((from, to)),
    };
    if let Some(limit) = args.limit {
        scan = scan.limit(limit);
    }
    if args.reverse {
        scan = scan.rev();
    }
    let entries: Box<dyn Iterator<Item = _>> = if args.snapshot {
        Box::new(scan.snapshot()?.into_iter().map(Ok))
    } else {
        Box::new(scan.into_iter())
    };
    for entry in entries {
        let (key, value) = entry?;
        context.entry(&index, &key, &value)?;
    }
    if let (true, Some(from), Some(to)) = (no_key_fits, &args.from, &args.to) {
        writeln!(
            context.messages,
            "scan {}: the range is empty, because --from {from} is not before --to {to}",
            args.url
        )?;
    }
    Ok(Outcome::Done)
}

/// The prefix on the command line, as bytes.
fn prefix(index: &Untyped, words: &str) -> Result<Vec<u8>, Failure> {
    let [kind, _] = index.kinds();
    let unfit = |why| Error::Unfit { operation: "scan", url: index.url(), what: "prefix", why };
    match kind {
        kind if kind.is_number() => Err(Failure::Usage(format!(
            "scan {}: --prefix {words}: the keys are numbers, which have no prefix; give --from and --to",
            index.url()
        ))),
        _ => Ok(kind.read(words, Width::UpTo(index.key_width().most())).map_err(unfit)?),
    }
}
