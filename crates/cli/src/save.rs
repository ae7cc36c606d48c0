//! `farwood save`: the memory of a pool in shared memory as a file.

use super::{Context, Failure, Format, Outcome};
use crate::backup::{
    LIST_POOLS, image_json, image_text, is_stream, not_opened, progress_of, refuse_terminal, signals,
};
use crate::failure::shown;
use farwood::Url;
use farwood::backup::SavedPool;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  farwood save shm://demo /var/lib/farwood/demo.farwood
  farwood restore /var/lib/farwood/demo.farwood shm://demo     after the reboot
  farwood save shm://demo - | ssh other 'farwood restore - shm://demo'
  systemctl enable --now farwood-pool@demo                     both, by deploy/farwood-pool@.service";

/// Write the memory of a pool in shared memory to a file, so that the pool survives a reboot
///
/// No process may use the pool: end them first. `farwood restore` creates the pool again, with this version of Farwood
/// or another one of the same layout; `farwood dump` is the way to other versions, and copies indexes while processes
/// use them. The file has checksums, is compressed, and replaces a file of that name when it is complete and on the
/// disk. Memory nodes over TCP keep their memory in files of their own: see `farwood serve --file`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// shm://POOL
    url: Url,
    /// The file; `-` is stdout
    file: PathBuf,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    if args.url.index().is_some() {
        return Err(Failure::Usage(format!(
            "save {}: the memory of a pool is saved as a whole; write {}, or copy the index with `farwood dump {}`",
            args.url,
            args.url.pool_url(),
            args.url.to_shell_word()
        )));
    }
    let to_stdout = is_stream(&args.file);
    if to_stdout {
        refuse_terminal("save", &args.url, "FILE")?;
    }
    let bar = progress_of(context, None);
    let pool =
        SavedPool::at(&args.url).interrupt(signals()?).progress(|at| bar.set_position(at.memory_bytes));
    let saved = if to_stdout { pool.to_writer(&mut *context.out) } else { pool.to_file(&args.file) };
    bar.finish_and_clear();
    let saved = saved.map_err(|error| not_opened("save", &args.url, error, LIST_POOLS))?;
    let seconds = begun.elapsed().as_secs_f64();
    let figures = image_text(&saved, seconds);
    if to_stdout {
        context.out.flush()?;
        writeln!(context.messages, "saved {}: {figures}", args.url)?;
    } else if context.format == Format::Json {
        let (pool, file) = (args.url.to_string(), args.file.display().to_string());
        context.json(&json!({ "saved": pool, "file": file, "contents": image_json(&saved, seconds) }))?;
    } else {
        writeln!(context.messages, "saved {} to {}: {figures}", args.url, shown(&args.file))?;
    }
    Ok(Outcome::Done)
}
