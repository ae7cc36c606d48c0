//! `farwood drop`: removes a pool, or an index from it.

use super::{Context, Failure, Format, Outcome, refuse_search_parameters};
use farwood::error::{IndexError, ShmError};
use farwood::{Error, Pool, Url};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  farwood drop shm://demo/words
  farwood drop shm://demo
  farwood drop shm://demo --force      in use, or damaged";

/// Remove a pool, or an index from its pool
///
/// A pool is removed if no live process is attached to it, an index if no process has it open.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// shm://POOL or shm://POOL/INDEX
    url: Url,
    /// Remove the pool even if processes are attached (their operations then fail), or if it is damaged
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let dropped = match (args.url.index(), args.force) {
        (Some(_), true) => {
            return Err(Failure::Usage(format!(
                "drop {}: --force applies to pools; end the processes that have the index open (`farwood stat {}` \
                 lists them)",
                args.url,
                args.url.pool_url().to_shell_word()
            )));
        }
        (Some(index), false) => match Pool::find(args.url.pool_url()) {
            Ok(pool) => {
                if args.url.search_parameter().is_some() && !pool.is_spatial(index)? {
                    refuse_search_parameters(&args.url)?;
                }
                pool.drop_index(index)
            }
            Err(error) => Err(error),
        },
        (None, true) => Pool::remove_by_force(&args.url),
        (None, false) => Pool::remove(&args.url),
    };
    dropped.map_err(|error| failure(&args.url, error))?;
    match context.format {
        Format::Json => context.json(&json!({ "dropped": args.url.to_string() }))?,
        Format::Text => writeln!(context.messages, "dropped {}", args.url)?,
    }
    Ok(Outcome::Done)
}

/// Whether a memory node serves the index: its process holds the memory of the pool as well.
fn is_served(url: &Url, name: &str) -> bool {
    let is_remote = !url.to_string().starts_with("shm://");
    is_remote
        && Pool::find(url.pool_url())
            .and_then(|pool| pool.index_use(name))
            .is_ok_and(|index| index.server.is_some())
}

/// Replaces the advice to create the pool or index, which makes no sense here.
fn failure(url: &Url, error: Error) -> Failure {
    let text = match &error {
        Error::Pool { source: ShmError::NotFound { pool, path }, .. } => format!(
            "drop {url}: no pool '{pool}' on this machine ({} does not exist); `farwood doctor` lists the pools",
            path.display()
        ),
        Error::Index { source: IndexError::NoSuchIndex(name), .. } => format!(
            "drop {url}: there is no index '{name}' in the pool; `farwood stat {}` lists them",
            url.pool_url().to_shell_word()
        ),
        Error::Index { source: IndexError::InUse { name, client }, .. } if is_served(url, name) => format!(
            "drop {url}: the memory node serves this index, and has it open as client {client}. If the memory node \
             stores its memory in a file, start it again with --file and without --spatial {name}, and drop the index \
             then; without a file, the end of the memory node loses all its indexes: `farwood del` removes single \
             rectangles and records"
        ),
        _ => return error.into(),
    };
    Failure::Other { text, exit_code: error.exit_code() }
}
