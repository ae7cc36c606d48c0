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
pub(crate) struct Args {
    /// The URL of a pool
    url: Url,
    /// Memory of each memory node from now on, a multiple of 8 MiB
    #[arg(long, value_name = "SIZE", value_parser = size::parse, required_unless_present = "add_node")]
    memory: Option<u64>,
    /// The address of a memory node to add, at which all users of the pool reach it
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "memory")]
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
    if let Some(bytes) = args.memory {
        pool.grow_memory(bytes)?;
    }
    let added = args.add_node.as_ref().map(|address| pool.add_memory_node(address)).transpose()?;
    report(args, &pool, added, context)
}

fn report(
    args: &Args,
    pool: &Pool,
    added: Option<u16>,
    context: &mut Context<'_>,
) -> Result<Outcome, Failure> {
    let nodes = pool.stats()?.nodes;
    if context.format == Format::Json {
        let memory: Vec<u64> = nodes.iter().map(|node| node.memory_bytes).collect();
        context.json(&json!({ "grown": args.url.to_string(), "added": added, "memory_bytes": memory }))?;
        return Ok(Outcome::Done);
    }
    let total: u64 = nodes.iter().map(|node| node.memory_bytes).sum();
    let (count, total) = (size::count(nodes.len() as u64, "memory node", "memory nodes"), size::show(total));
    match added {
        Some(node) => {
            writeln!(context.messages, "grown {}: memory node {node} added; {count}, {total}", args.url)?;
        }
        None => writeln!(context.messages, "grown {}: {count}, {total}", args.url)?,
    }
    Ok(Outcome::Done)
}
