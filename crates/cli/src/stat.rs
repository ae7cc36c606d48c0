//! `farwood stat`: the state of a pool or an index.

use super::access::AccessArgs;
use super::card::kind;
use super::{Context, Failure, Format, Outcome, refuse_search_parameters, size, warn_of_locks};
use farwood::doctor::{self, Segment};
use farwood::node::{NodeDevice, NodeReport};
use farwood::spatial::{CatfishConfig, ServerStats};
use farwood::stats::{
    ClientStats, DamagedEntry, DamagedSlot, EntryLayout, IndexLayout, IndexUse, NodeStats, PoolStats,
};
use farwood::types::Type;
use farwood::{Error, Pool, Url};
use serde_json::{Value, json};

/// Bytes of a chunk, the unit in which a pool allocates memory to an index.
pub(super) const CHUNK_BYTES: u64 = 8 << 20;

const EXAMPLES: &str = "\
Examples:
  farwood stat shm://demo
  farwood stat shm://demo/words --json
  farwood stat tcp://127.0.0.1:7470
  farwood stat shm://demo/words --count      also counts its entries, which reads the whole index";

/// Show the memory, clients and indexes of a pool, or the layout and options of an index
///
/// Without --count, the command does not open the index.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The URL of a pool or an index
    url: Url,
    /// Count the entries, which reads the whole index
    #[arg(long)]
    count: bool,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if let Some(name) = args.url.index() {
        stat_index(args, name, context)?;
        return Ok(Outcome::Done);
    }
    if context.is_given("count") {
        return Err(Failure::Usage(format!(
            "stat {}: --count applies to an index, and this URL names a pool; write {}, or omit --count",
            args.url,
            args.url.index_url("INDEX")
        )));
    }
    let stats = args.access.find(args.url.clone())?.stats()?;
    // All files of a pool have the same owner and the same rights.
    let file = doctor::segments(&args.url)?.into_iter().next();
    match context.format {
        Format::Json => {
            let mut value = pool_json(&args.url.to_string(), &stats);
            value["files"] = file.as_ref().map(rights_json).into();
            context.json(&value)?;
        }
        Format::Text => {
            writeln!(context.out, "{}", args.url)?;
            if let Some(file) = &file {
                writeln!(context.out, "  files: {}", rights_text(file))?;
            }
            pool_text(&stats, context)?;
        }
    }
    let slots = stats.damaged_slots.into_iter().map(|slot| slot.error);
    match slots.chain(stats.damaged_entries.into_iter().map(|entry| entry.error)).next() {
        None => Ok(Outcome::Done),
        Some(source) => {
            Err(Error::Fabric { operation: "examine", pool: args.url.to_string(), source }.into())
        }
    }
}

fn stat_index(args: &Args, name: &str, context: &mut Context<'_>) -> Result<(), Failure> {
    let pool = args.access.find(args.url.pool_url())?;
    let found = pool.index_use(name)?;
    let url = args.url.to_string();
    let layout = found.entry.layout.map_err(|source| Error::Index {
        operation: "examine",
        url: url.clone(),
        source,
    })?;
    let layout = match layout {
        EntryLayout::Ordered(layout) => {
            refuse_search_parameters(&args.url)?;
            layout
        }
        EntryLayout::Spatial(config) => {
            return stat_spatial(args, &pool, (config, found.chunks, found.server), context);
        }
    };
    let entries = if args.count {
        let index = pool.open_untyped(name)?;
        warn_of_locks(&index, context)?;
        Some(index.count()?)
    } else {
        None
    };
    if context.format == Format::Json {
        let mut value = layout_json(&layout);
        value["index"] = url.into();
        value["chunks"] = found.chunks.into();
        value["entries"] = entries.into();
        context.json(&value)?;
        return Ok(());
    }
    let out = &mut context.out;
    writeln!(out, "{url}")?;
    if let Some(entries) = entries {
        writeln!(out, "  entries      {entries}")?;
    }
    writeln!(out, "  memory       {}", size::show(found.chunks * CHUNK_BYTES))?;
    layout_text(&layout, context)
}

/// Shows a spatial index; with --count also its entries, and whether a process serves it.
fn stat_spatial(
    args: &Args,
    pool: &Pool,
    (config, chunks, server): (CatfishConfig, u64, Option<ServerStats>),
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let url = args.url.to_string();
    let counted = match args.url.index().filter(|_| args.count) {
        Some(name) => {
            let index = pool.open_spatial(name)?;
            Some((index.count_all()?, index.is_served()?))
        }
        None => None,
    };
    if context.format == Format::Json {
        let mut value = spatial_json(&config);
        value["index"] = url.into();
        value["chunks"] = chunks.into();
        value["entries"] = counted.map(|(entries, _)| entries).into();
        value["served"] = counted.map(|(_, served)| served).into();
        value["server"] = server_json(server);
        context.json(&value)?;
        return Ok(());
    }
    let out = &mut context.out;
    writeln!(out, "{url}")?;
    if let Some((entries, served)) = counted {
        writeln!(out, "  {:<12} {entries}", size::spatial_noun(config.ids).1)?;
        writeln!(out, "  served       {}", if served { "yes" } else { "no" })?;
    }
    writeln!(out, "  memory       {}", size::show(chunks * CHUNK_BYTES))?;
    writeln!(out, "  index        catfish, an R*-tree on memory node {}", config.node.0)?;
    let (bytes, most) = (config.node_bytes() as u64, config.entries_max());
    writeln!(out, "  nodes        {}, of up to {most} entries", size::show(bytes))?;
    writeln!(out, "  coordinates  {}", config.coordinates)?;
    if config.ids.is_unique() {
        writeln!(out, "  ids          unique, {}s; with records", config.ids.name())?;
    }
    writeln!(out, "  rings        {} for messages in each direction", size::show(config.ring_bytes))?;
    if let Some(server) = server {
        writeln!(out, "  server       {}", server_text(server))?;
    }
    Ok(())
}

/// The load of a server, for people.
pub(crate) fn server_text(server: ServerStats) -> String {
    format!(
        "{:.0} % busy, {} by message, {} by READs ({:.0} %)",
        100.0 * server.utilisation,
        size::count(server.by_message, "lookup", "lookups"),
        server.offloaded,
        100.0 * server.share_offloaded()
    )
}

/// The load of a server; null: no process answers messages.
pub(crate) fn server_json(server: Option<ServerStats>) -> Value {
    json!(server.map(|server| json!({
        "utilisation": server.utilisation,
        "lookups_by_message": server.by_message,
        "lookups_offloaded": server.offloaded,
        "share_offloaded": server.share_offloaded(),
    })))
}

fn spatial_json(config: &CatfishConfig) -> Value {
    json!({
        "system": "catfish",
        "node_bytes": config.node_bytes(),
        "node_entries": config.entries_max(),
        "memory_node": config.node.0,
        "ring_bytes": config.ring_bytes,
        "crs": config.coordinates.name(),
        "ids": config.ids.name(),
    })
}

fn layout_text(layout: &IndexLayout, context: &mut Context<'_>) -> Result<(), Failure> {
    let out = &mut context.out;
    writeln!(out, "  index        {}", layout.system)?;
    writeln!(out, "  keys         {}", any_length(&layout.keys))?;
    match (layout.values.bytes, layout.nodes) {
        (None, Some(nodes)) => writeln!(
            out,
            "  values       {} of any length, {} bytes of an entry",
            layout.values, nodes.value_slot_bytes
        )?,
        _ => writeln!(out, "  values       {}", any_length(&layout.values))?,
    }
    if let Some(nodes) = layout.nodes {
        writeln!(
            out,
            "  nodes        {}, leaves of {} entries, inner nodes of {} keys",
            size::show(nodes.node_bytes as u64),
            nodes.leaf_entries,
            nodes.inner_keys
        )?;
    }
    writeln!(out, "  consistency  {}", layout.consistency)?;
    writeln!(out, "  variant      {}", variant(layout))?;
    for (name, value) in &layout.options {
        writeln!(out, "  {:<12} {value}", name.replace('_', " "))?;
    }
    Ok(())
}

/// A type, with a note if its length is not fixed.
fn any_length(of: &Type) -> String {
    if of.bytes.is_some() { of.to_string() } else { format!("{of} of any length") }
}

/// The name of the variant.
fn variant(layout: &IndexLayout) -> &'static str {
    layout.variant.unwrap_or("custom")
}

fn layout_json(layout: &IndexLayout) -> Value {
    let options: serde_json::Map<_, _> = layout
        .options
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str())))
        .collect();
    let nodes = layout.nodes;
    json!({
        "system": layout.system.name(),
        "keys": layout.keys.kind.to_string(),
        "key_bytes": layout.keys.bytes,
        "values": layout.values.kind.to_string(),
        "value_bytes": layout.values.bytes,
        "value_slot_bytes": nodes.map(|nodes| nodes.value_slot_bytes),
        "node_bytes": nodes.map(|nodes| nodes.node_bytes),
        "leaf_entries": nodes.map(|nodes| nodes.leaf_entries),
        "inner_keys": nodes.map(|nodes| nodes.inner_keys),
        "consistency": layout.consistency,
        "variant": layout.variant,
        "options": options,
    })
}

/// An index of a pool. An index that this version cannot read has an error instead of its layout.
fn index_json(index: &IndexUse) -> Value {
    let mut value = match &index.entry.layout {
        Ok(EntryLayout::Ordered(layout)) => layout_json(layout),
        Ok(EntryLayout::Spatial(config)) => spatial_json(config),
        Err(error) => json!({ "error": error.to_string() }),
    };
    value["name"] = index.entry.name.as_str().into();
    value["chunks"] = index.chunks.into();
    value
}

/// The report of a memory node, as JSON.
fn report_json(report: &NodeReport) -> Value {
    let [p50, p90, p99, max] = report.latency_us;
    json!({
        "requests": report.requests,
        "verbs": report.verbs,
        "bytes_in": report.bytes_in,
        "bytes_out": report.bytes_out,
        "refused": report.refused,
        "bad_frames": report.bad_frames,
        "latency_us_below": { "p50": p50, "p90": p90, "p99": p99, "max": max },
    })
}

fn card_json(card: NodeDevice) -> Value {
    json!({
        "kind": kind(card.kind),
        "device_memory": if card.device_on_card { "card" } else { "host" },
        "card_device_memory_bytes": card.device_memory,
        "link": card.link.to_string(),
        "mtu_bytes": card.mtu_bytes,
    })
}

/// The device that executes the verbs of a memory node, and where its locks are.
fn card_text(card: NodeDevice) -> String {
    let place = match (card.device_on_card, card.device_memory) {
        (true, _) => "on the NIC".to_owned(),
        (false, 0) => "in host memory, because the NIC has none".to_owned(),
        (false, bytes) => format!("in host memory, because the NIC has only {}", size::show(bytes)),
    };
    let (kind, link, mtu) = (kind(card.kind), card.link, card.mtu_bytes);
    format!(", verbs executed by {kind}, {link}, MTU {mtu}, device memory {place}")
}

/// A memory node as JSON.
pub(super) fn node_json(node: &NodeStats) -> Value {
    json!({
        "memory_bytes": node.memory_bytes,
        "memory_max_bytes": node.memory_max_bytes,
        "device_bytes": node.device_bytes,
        "resident_bytes": node.resident_bytes,
        "pages": node.pages.map(|pages| pages.to_string()),
        "connections": node.report.map(|report| report.connections),
        "report": node.report.as_ref().map(report_json),
        "card": node.card.map(card_json),
        "chunks": node.chunks,
        "chunks_used": node.chunks_used,
    })
}

fn damaged_entry_json(entry: &DamagedEntry) -> Value {
    json!({ "entry": entry.slot, "error": entry.error.to_string() })
}

fn damaged_slot_json(slot: &DamagedSlot) -> Value {
    json!({ "slot": slot.slot, "error": slot.error.to_string() })
}

/// A pool as JSON; the doctor prints it as well.
pub(super) fn pool_json(url: &str, stats: &PoolStats) -> Value {
    let client = |client: &ClientStats| {
        json!({
            "client": client.client.to_string(),
            "process": client.process,
            "alive": client.alive,
            "is_own": client.is_own,
            "open": client.open,
        })
    };
    json!({
        "pool": url,
        "nodes": stats.nodes.iter().map(node_json).collect::<Vec<_>>(),
        "clients": stats.clients.iter().map(client).collect::<Vec<_>>(),
        "damaged_slots": stats.damaged_slots.iter().map(damaged_slot_json).collect::<Vec<_>>(),
        "indexes": stats.indexes.iter().map(index_json).collect::<Vec<_>>(),
        "damaged_entries": stats.damaged_entries.iter().map(damaged_entry_json).collect::<Vec<_>>(),
    })
}

/// How far a memory node can grow.
fn growth_text(node: &NodeStats) -> String {
    if node.memory_max_bytes > node.memory_bytes {
        format!(", can grow to {}", size::show(node.memory_max_bytes))
    } else {
        String::new()
    }
}

/// The owner and the permissions of a file of a pool.
pub(super) fn rights_json(file: &Segment) -> Value {
    json!({ "mode": format!("{:04o}", file.mode), "owner": file.owner, "group": file.group })
}

/// The same as text.
pub(super) fn rights_text(file: &Segment) -> String {
    format!("mode {:04o}, owner {}, group {}", file.mode, file.owner, file.group)
}

fn pool_text(stats: &PoolStats, context: &mut Context<'_>) -> Result<(), Failure> {
    let out = &mut context.out;
    for (at, node) in stats.nodes.iter().enumerate() {
        writeln!(
            out,
            "  node {at}: {} and {} of device memory; {} of {} in use, {} resident{}{}{}{}",
            size::show(node.memory_bytes),
            size::show(node.device_bytes),
            node.chunks_used,
            size::count(node.chunks, "chunk", "chunks"),
            size::show(node.resident_bytes),
            node.pages.map_or_else(String::new, |pages| format!(", {pages}")),
            growth_text(node),
            node.report.map_or_else(String::new, |report| format!(
                ", {}, {}, {} refused, {} closed because of malformed requests",
                size::count(report.connections, "connection", "connections"),
                size::count(report.verbs, "verb", "verbs"),
                report.refused,
                report.bad_frames
            )),
            node.card.map_or_else(String::new, card_text)
        )?;
    }
    for client in &stats.clients {
        let state = match (client.is_own, client.alive) {
            (true, _) => "this command",
            (_, true) => "alive",
            (_, false) => "crashed",
        };
        let open = if client.open.is_empty() { "none".to_owned() } else { client.open.join(", ") };
        writeln!(out, "  client {}: process {}, {state}, open: {open}", client.client, client.process)?;
    }
    for slot in &stats.damaged_slots {
        writeln!(out, "  client slot {}: damaged, its client is unknown", slot.slot)?;
    }
    for index in &stats.indexes {
        write!(out, "  index {}: {}", index.entry.name, size::show(index.chunks * CHUNK_BYTES))?;
        match &index.entry.layout {
            Ok(EntryLayout::Ordered(layout)) => {
                let (system, variant) = (layout.system.name(), variant(layout));
                let variant = if variant == system { String::new() } else { format!(" ({variant})") };
                writeln!(out, ", {} to {}, {system}{variant}", layout.keys, layout.values)?;
            }
            Ok(EntryLayout::Spatial(config)) => {
                writeln!(out, ", {}, catfish", size::spatial_noun(config.ids).1)?;
            }
            Err(error) => writeln!(out, "; {error}")?,
        }
    }
    for entry in &stats.damaged_entries {
        writeln!(out, "  directory entry {}: damaged, its index is unknown", entry.slot)?;
    }
    Ok(())
}
