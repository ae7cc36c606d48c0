//! `farwood stat`: what a pool, or an index, looks like.

use super::{Context, Failure, Format, Outcome, open, size};
use farwood::{ClientStats, IndexStats, NodeStats, Pool, PoolStats, Url};
use serde_json::{Value, json};

const EXAMPLES: &str = "\
Examples:
  farwood stat shm://demo
  farwood stat shm://demo/words --json";

/// Show a pool's memory, clients and indexes, or an index's layout and options
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// shm://POOL or shm://POOL/INDEX
    url: Url,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if args.url.index().is_some() {
        stat_index(args, context)?;
        return Ok(Outcome::Done);
    }
    let stats = Pool::open(&args.url)?.stats()?;
    match context.format {
        Format::Json => context.json(&pool_json(&args.url.to_string(), &stats))?,
        Format::Text => pool_text(&args.url, &stats, context)?,
    }
    Ok(Outcome::Done)
}

fn stat_index(args: &Args, context: &mut Context<'_>) -> Result<(), Failure> {
    let index = open(&args.url)?;
    let entries = index.count()?;
    let stats = index.stats();
    if context.format == Format::Json {
        context.json(&index_json(&stats, entries))?;
        return Ok(());
    }
    let out = &mut context.out;
    writeln!(out, "{}", stats.url)?;
    writeln!(out, "  entries      {entries}")?;
    writeln!(out, "  keys         {}", stats.keys)?;
    writeln!(out, "  values       {}", stats.values)?;
    writeln!(
        out,
        "  nodes        {}, leaves of {} entries, inner nodes of {} keys",
        size::show(stats.node_bytes as u64),
        stats.leaf_entries,
        stats.inner_keys
    )?;
    writeln!(out, "  consistency  {}", stats.consistency)?;
    for (name, value) in &stats.options {
        writeln!(out, "  {:<12} {value}", name.replace('_', " "))?;
    }
    let (cache, most) = (size::show(stats.cache_bytes as u64), size::show(stats.cache_bytes_max as u64));
    writeln!(out, "  cache        {cache} of {most}, in this process")?;
    Ok(())
}

fn index_json(stats: &IndexStats, entries: u64) -> Value {
    let options: serde_json::Map<_, _> =
        stats.options.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str()))).collect();
    json!({
        "index": stats.url,
        "entries": entries,
        "keys": stats.keys.kind.to_string(),
        "key_bytes": stats.keys.bytes,
        "values": stats.values.kind.to_string(),
        "value_bytes": stats.values.bytes,
        "node_bytes": stats.node_bytes,
        "leaf_entries": stats.leaf_entries,
        "inner_keys": stats.inner_keys,
        "consistency": stats.consistency,
        "options": options,
        "cache_bytes": stats.cache_bytes,
        "cache_bytes_max": stats.cache_bytes_max,
    })
}

/// A pool as JSON; the doctor prints it as well.
pub(super) fn pool_json(url: &str, stats: &PoolStats) -> Value {
    let node = |node: &NodeStats| {
        json!({
            "memory_bytes": node.memory_bytes,
            "device_bytes": node.device_bytes,
            "resident_bytes": node.resident_bytes,
            "pages": node.pages.to_string(),
            "chunks": node.chunks,
            "chunks_used": node.chunks_used,
        })
    };
    let client = |client: &ClientStats| {
        json!({
            "client": client.client.to_string(),
            "process": client.process,
            "alive": client.alive,
            "asking": client.asking,
            "open": client.open,
        })
    };
    let index = |index: &farwood::IndexUse| json!({ "name": index.name, "chunks": index.chunks });
    json!({
        "pool": url,
        "nodes": stats.nodes.iter().map(node).collect::<Vec<_>>(),
        "clients": stats.clients.iter().map(client).collect::<Vec<_>>(),
        "indexes": stats.indexes.iter().map(index).collect::<Vec<_>>(),
    })
}

fn pool_text(url: &Url, stats: &PoolStats, context: &mut Context<'_>) -> Result<(), Failure> {
    let out = &mut context.out;
    writeln!(out, "{url}")?;
    for (at, node) in stats.nodes.iter().enumerate() {
        writeln!(
            out,
            "  node {at}: {} and {} of device memory; {} in use, {} of {} chunks, {}",
            size::show(node.memory_bytes),
            size::show(node.device_bytes),
            size::show(node.resident_bytes),
            node.chunks_used,
            node.chunks.saturating_sub(1),
            node.pages
        )?;
    }
    for client in &stats.clients {
        let state = match (client.asking, client.alive) {
            (true, _) => "this command",
            (_, true) => "alive",
            (_, false) => "gone",
        };
        let open = if client.open.is_empty() { "none".to_owned() } else { client.open.join(", ") };
        writeln!(out, "  client {}: process {}, {state}, open: {open}", client.client, client.process)?;
    }
    for index in &stats.indexes {
        writeln!(out, "  index {}: {}", index.name, size::show(index.chunks * (8 << 20)))?;
    }
    Ok(())
}
