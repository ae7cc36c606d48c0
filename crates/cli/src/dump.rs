//! `farwood dump`: indexes in a file, as a backup.

use super::access::AccessArgs;
use super::size;
use super::{Context, Failure, Format, Outcome};
use crate::backup::{Figures, LIST_POOLS, is_stream, not_opened, progress_of, refuse_terminal, signals};
use crate::failure::shown;
use farwood::Url;
use farwood::backup::{BackupSummary, Dump};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  farwood dump shm://demo -o demo.farwood                all indexes of the pool
  farwood dump shm://demo/words -o words.farwood         one index
  farwood dump tcp://10.0.0.5:7470 --consistent -o demo.farwood    all indexes of one moment
  farwood dump tcp://10.0.0.5:7470 | ssh backup 'cat > demo.farwood'
  farwood restore demo.farwood shm://other --memory 1GiB
  farwood restore demo.farwood --list                    check the file, and show its contents";

/// Write the indexes of a pool to a file, with their options
///
/// Other processes may change the indexes meanwhile. The backup then has each index by itself: every entry of an
/// index of keys as it was at some moment during the dump, and all entries that nothing changed; a spatial index as
/// it was at one moment. With --consistent, all indexes are as they were at one cut. `farwood restore` creates the
/// indexes again, in this pool or another one, with the same structure or another. The file has checksums, and is
/// compressed. With -o, it replaces a file of that name when it is complete and on the disk. A spatial index is in
/// memory as a whole during the dump; otherwise memory is bounded.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// shm://POOL, tcp://HOST:PORT,...: all indexes; with /INDEX: this one
    url: Url,
    /// The file; `-` is stdout
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Dump all indexes as they were at one cut (tcp:// only): if the backup has a change, it has everything that its
    /// client had read or written in the pool before. Each memory node copies the pages that change meanwhile, up to
    /// its --snapshot-memory. Needs the token for reading and writing
    #[arg(long)]
    consistent: bool,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let to_stdout = is_stream(&args.output);
    if to_stdout {
        refuse_terminal("dump", &args.url, "-o FILE")?;
    }
    let opened = args.access.find(args.url.pool_url());
    let pool = opened.map_err(|error| not_opened("dump", &args.url, error, LIST_POOLS))?;
    let bar = progress_of(context, None);
    let mut dump = Dump::of(&pool).interrupt(signals()?).progress(|at| {
        bar.set_position(at.bytes);
        bar.set_message(format!("{}: {}", at.index, size::count(at.entries, "entry", "entries")));
    });
    if let Some(index) = args.url.index() {
        dump = dump.index(index);
    }
    if args.consistent {
        dump = dump.consistent();
    }
    let summary = if to_stdout { dump.to_writer(&mut *context.out) } else { dump.to_file(&args.output) };
    bar.finish_and_clear();
    report(args, &summary?, begun.elapsed().as_secs_f64(), context)
}

fn report(
    args: &Args,
    summary: &BackupSummary,
    seconds: f64,
    context: &mut Context<'_>,
) -> Result<Outcome, Failure> {
    let figures = Figures { summary, seconds };
    if is_stream(&args.output) {
        context.out.flush()?;
        writeln!(context.messages, "dumped {}: {figures}", args.url)?;
    } else if context.format == Format::Json {
        let file = args.output.display().to_string();
        context.json(&json!({ "dumped": args.url.to_string(), "file": file, "contents": figures.json() }))?;
    } else {
        writeln!(context.messages, "dumped {} to {}: {figures}", args.url, shown(&args.output))?;
    }
    Ok(Outcome::Done)
}
