//! `farwood grow`: more memory for a pool.

use super::{Context, Failure, Format, Outcome, size};
use farwood::node::HostPort;
use farwood::{Pool, Url};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  farwood grow shm://demo --memory 4GiB
  farwood grow tcp://10.0.0.5:7470 --memory 64GiB
  farwood grow tcp://10.0.0.5:7470 --add-node 10.0.0.6:7470     after `farwood serve` there
  farwood stat tcp://10.0.0.5:7470                              shows the memory nodes";

/// Give a pool more memory, while processes use it
///
/// --memory raises the memory of each memory node, up to --memory-max of `farwood create` or `farwood serve` (by
/// default 16 times the memory at the start). --add-node adds a memory node that `farwood serve` has started with fresh
/// memory and with the same --memory-max and --device-memory as the others. Processes that use the pool take the new
/// memory without a restart. Indexes of Sherman and Sphinx spread new objects over all memory nodes; SMART uses a new
/// memory node for the first two levels of an index, and when another one is full; a spatial index stays on its memory
/// node. URLs that do not name the new memory node continue to work: memory node 0 knows its address. A pool does not
/// shrink.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("growth").required(true).args(["memory", "add_node"]))]
pub(crate) struct Args {
    /// The URL of a pool
    url: Url,
    /// Memory of each memory node from now on, a multiple of 8 MiB
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory: Option<u64>,
    /// The address of a memory node to add, at which all users of the pool reach it
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    add_node: Option<HostPort>,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if args.url.index().is_some() {
        return Err(Failure::Usage(format!(
            "grow {}: all indexes of a pool share its memory; write {}",
            args.url,
            args.url.pool_url()
        )));
    }
    let pool = Pool::find(&args.url)?;
    let before = memory_of(&pool)?;
    if let Some(bytes) = args.memory {
        pool.grow_memory(bytes)?;
    }
    let added = args.add_node.as_ref().map(|address| pool.add_memory_node(address)).transpose()?;
    report(args, (&before, &memory_of(&pool)?), added, context)
}

/// Reads the address of a memory node, also written as a URL. For clap's `value_parser`.
fn address(text: &str) -> Result<HostPort, String> {
    text.strip_prefix("tcp://").unwrap_or(text).parse()
}

/// The memory of each memory node, bytes.
fn memory_of(pool: &Pool) -> Result<Vec<u64>, Failure> {
    Ok(pool.stats()?.nodes.iter().map(|node| node.memory_bytes).collect())
}

fn report(
    args: &Args,
    (before, now): (&[u64], &[u64]),
    added: Option<u16>,
    context: &mut Context<'_>,
) -> Result<Outcome, Failure> {
    let url = &args.url;
    if context.format == Format::Json {
        context.json(&json!({ "grown": url.to_string(), "added": added, "memory_bytes": now }))?;
        return Ok(Outcome::Done);
    }
    let count = size::count(now.len() as u64, "memory node", "memory nodes");
    let memory = match now {
        [first, rest @ ..] if rest.iter().all(|bytes| bytes == first) => {
            format!("{} each", size::show(*first))
        }
        _ => format!("{} together", size::show(now.iter().sum())),
    };
    let messages = &mut context.messages;
    match added {
        Some(node) if before.len() < now.len() => {
            writeln!(messages, "grown {url}: memory node {node} added; {count} of {memory}")?;
        }
        Some(node) => {
            writeln!(messages, "{url}: memory node {node} was added before; {count} of {memory}")?;
        }
        None if before == now => writeln!(messages, "{url} has {count} of {memory} already")?,
        None => writeln!(messages, "grown {url}: {count} of {memory}")?,
    }
    Ok(Outcome::Done)
}
