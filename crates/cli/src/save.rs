//! `farwood save`: the memory of a pool in shared memory as a file.

use super::{Context, Failure, Format, Outcome};
use crate::backup::{
    LIST_POOLS, image_json, image_text, is_stream, not_opened, progress_of, refuse_terminal, signals,
};
use crate::failure::shown;
use farwood::Url;
use farwood::backup::SavedPool;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  farwood save shm://demo /var/lib/farwood/demo.farwood
  farwood restore /var/lib/farwood/demo.farwood shm://demo     after the reboot
  FARWOOD_SHM_DIR=/var/lib/pools farwood save shm://demo       a pool on a disk: its own files are complete then
  farwood save shm://demo - | ssh other 'farwood restore - shm://demo'
  systemctl enable --now farwood-pool@demo                     both, by deploy/farwood-pool@.service";

/// Write the memory of a pool in shared memory to a file, so that the pool survives a reboot
///
/// No process may use the pool: end them first. `farwood restore` creates the pool again, with this version of Farwood
/// or another one of the same layout; `farwood dump` is the way to other versions, and copies indexes while processes
/// use them. The file has checksums, is compressed, and replaces a file of that name when it is complete and on the
/// disk.
///
/// The files of a pool may also be in a directory of a disk (FARWOOD_SHM_DIR). The last process that leaves such a pool
/// saves it there, and `farwood save` without FILE does the same for a pool whose processes were killed. If the machine
/// stops before that, the pool is refused.
///
/// Memory nodes over TCP keep their memory in files of their own: see `farwood serve --file`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// shm://POOL
    url: Url,
    /// The file; `-` is stdout; none: the pool's own files, which are on a disk
    file: Option<PathBuf>,
    /// Accept the files of a pool on a disk that was in use when the machine stopped. They are complete only if its
    /// processes had ended before the machine was shut down in order: check each index
    #[arg(long, conflicts_with = "file")]
    accept_unclean: bool,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if args.url.index().is_some() {
        return Err(Failure::Usage(format!(
            "save {}: the memory of a pool is saved as a whole; write {}, or copy the index with `farwood dump {}`",
            args.url,
            args.url.pool_url(),
            args.url.to_shell_word()
        )));
    }
    match &args.file {
        Some(file) => to_file(&args.url, file, context),
        None => on_disk(args, context),
    }
}

/// Saves a pool in its own files.
fn on_disk(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let pool = || SavedPool::at(&args.url);
    let accepted = if args.accept_unclean { pool().accept_unclean() } else { Ok(()) };
    let saved = accepted.and_then(|()| pool().on_disk());
    saved.map_err(|error| not_opened("save", &args.url, error, LIST_POOLS))?;
    let seconds = begun.elapsed().as_secs_f64();
    if context.format == Format::Json {
        context.json(&json!({ "saved": args.url.to_string(), "seconds": seconds }))?;
    } else {
        writeln!(context.messages, "saved {} on its disk: {seconds:.1} s", args.url)?;
    }
    Ok(Outcome::Done)
}

/// Writes the memory of a pool to a file.
fn to_file(url: &Url, file: &Path, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let to_stdout = is_stream(file);
    if to_stdout {
        refuse_terminal("save", url, "FILE")?;
    }
    let bar = progress_of(context, None);
    let pool = SavedPool::at(url).interrupt(signals()?).progress(|at| bar.set_position(at.memory_bytes));
    let saved = if to_stdout { pool.to_writer(&mut *context.out) } else { pool.to_file(file) };
    bar.finish_and_clear();
    let saved = saved.map_err(|error| not_opened("save", url, error, LIST_POOLS))?;
    let seconds = begun.elapsed().as_secs_f64();
    let figures = image_text(&saved, seconds);
    if to_stdout {
        context.out.flush()?;
        writeln!(context.messages, "saved {url}: {figures}")?;
    } else if context.format == Format::Json {
        let (pool, file) = (url.to_string(), file.display().to_string());
        context.json(&json!({ "saved": pool, "file": file, "contents": image_json(&saved, seconds) }))?;
    } else {
        writeln!(context.messages, "saved {url} to {}: {figures}", shown(file))?;
    }
    Ok(Outcome::Done)
}
