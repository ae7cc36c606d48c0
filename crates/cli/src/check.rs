//! `farwood check`: walks an index and verifies every invariant.

use super::access::AccessArgs;
use super::{Context, Failure, Format, Opened, Outcome, open_any, size};
use farwood::Url;
use farwood::index::{OrderedReport, Problem, RadixReport, ShermanReport};
use farwood::spatial::Spatial;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::time::Duration;

/// Walk an index and verify every invariant
///
/// No process may change the index during the check: a change in progress looks like damage. Exit code 1 if the check
/// finds problems. With --scrub, others may use and change the index: the command reads every entry, verifies its
/// checksums, and ends at the first damage with exit code 8.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  farwood check shm://demo/words\n  farwood check shm://demo/words --json\n  farwood \
                  check shm://demo/words --scrub"
)]
pub(crate) struct Args {
    /// The URL of an index: shm://POOL/INDEX or tcp://HOST:PORT/INDEX
    url: Url,
    /// Read every entry of an index in use, and verify checksums only
    #[arg(long)]
    scrub: bool,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let opened = open_any(&args.url, args.access.access(), context)?;
    if args.scrub {
        return scrub(&opened, args, context);
    }
    let walk = match opened {
        Opened::Spatial(index) => return check_spatial(&index, args, context),
        Opened::Ordered(index) => {
            let progress = progress_of(context);
            let walk = index.check();
            progress.finish_and_clear();
            walk?
        }
    };
    match context.format {
        Format::Json => context.json(&as_json(&args.url, &walk))?,
        Format::Text => summary(args, &walk, context)?,
    }
    concluded(args, walk.problems(), context)
}

/// Reads every entry, while others may change the index.
fn scrub(opened: &Opened, args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let progress = progress_of(context);
    let (read, one, many) = match opened {
        Opened::Ordered(index) => (index.scrub(), "entry", "entries"),
        Opened::Spatial(index) => {
            let (one, many) = size::spatial_noun(index.ids());
            (index.scrub(), one, many)
        }
    };
    progress.finish_and_clear();
    let read = read?;
    match context.format {
        Format::Json => context.json(&json!({ "index": args.url.to_string(), "scrubbed": read }))?,
        Format::Text => {
            writeln!(context.out, "{}: {} read, no damage", args.url, size::count(read, one, many))?;
        }
    }
    Ok(Outcome::Done)
}

/// The progress indicator. The check tries to read a damaged node for a second or two, and there may be many.
fn progress_of(context: &Context<'_>) -> ProgressBar {
    if !context.progress {
        return ProgressBar::hidden();
    }
    let progress =
        ProgressBar::new_spinner().with_message("checking the index; a damaged node takes a second or two");
    progress.tick();
    progress.enable_steady_tick(Duration::from_millis(200));
    progress
}

/// The outcome of the check. A change that was in progress cannot be told from damage.
fn concluded<P>(args: &Args, problems: &[P], context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if problems.is_empty() {
        return Ok(Outcome::Done);
    }
    if others_have_it_open(args) {
        writeln!(
            context.messages,
            "{}: concurrent changes cause the same problems: check again while no process changes the index",
            args.url
        )?;
    }
    Ok(Outcome::Negative)
}

/// Whether another process has the index open; `true` if that is unknown.
fn others_have_it_open(Args { url, access, .. }: &Args) -> bool {
    let Ok(stats) = access.find(url.pool_url()).and_then(|pool| pool.stats()) else { return true };
    let own = stats.clients.iter().find(|client| client.is_own).map(|client| client.process);
    let mut others = stats.clients.iter().filter(|client| client.alive && Some(client.process) != own);
    others.any(|client| client.open.iter().any(|open| Some(open.as_str()) == url.index()))
}

fn as_json(url: &Url, walk: &OrderedReport) -> Value {
    let mut value = match walk {
        OrderedReport::Sherman(walk) => json!({
            "capacity": walk.capacity,
            "nodes_by_level": walk.nodes,
            "overflow_values": walk.overflow_values,
            "free_slots_listed": walk.free_slots_listed,
            "half_linked": walk.half_linked,
            "half_merged": walk.half_merged,
        }),
        OrderedReport::Radix(walk) => json!({
            "nodes_by_size": walk.nodes,
            "typed_nodes_by_size": walk.typed_nodes,
            "node_bytes": walk.node_bytes,
            "leaf_bytes": walk.leaf_bytes,
            "overflow_values": walk.overflow_values,
            "table_bytes": walk.census.bytes,
            "height": walk.height,
            "unfinished_changes": walk.unfinished_changes,
        }),
    };
    value["index"] = url.to_string().into();
    value["entries"] = walk.entries().into();
    value["locks_of_crashed_clients"] = walk.locks_of_crashed_clients().into();
    value["locks_held"] = walk.locks_held().into();
    let problem = |problem: &Problem| json!({ "at": problem.at, "what": problem.what });
    value["problems"] = walk.problems().iter().map(problem).collect();
    value
}

fn check_spatial(index: &Spatial, args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let progress = progress_of(context);
    let walk = index.check();
    progress.finish_and_clear();
    let walk = walk?;
    let bounds = walk.bounds.map(|bounds| bounds.to_string());
    match context.format {
        Format::Json => {
            let problems: Vec<_> = walk
                .problems
                .iter()
                .map(|problem| json!({ "at": problem.at, "what": problem.what }))
                .collect();
            context.json(&json!({
                "index": args.url.to_string(),
                "entries": walk.entries,
                "capacity": walk.capacity,
                "nodes_by_level": walk.nodes,
                "underfull": walk.underfull,
                "bounds": bounds,
                "problems": problems,
            }))?;
        }
        Format::Text => {
            let within = bounds.map_or(String::new(), |bounds| format!(" within {bounds}"));
            let (one, many) = size::spatial_noun(index.ids());
            writeln!(context.out, "{}: {}{within}", args.url, size::count(walk.entries, one, many))?;
            levels(&walk.nodes, context.out)?;
            if walk.underfull > 0 {
                let nodes = size::count(walk.underfull, "underfull node", "underfull nodes");
                writeln!(context.out, "  {nodes}, left by removals in a full pool")?;
            }
            for problem in &walk.problems {
                writeln!(context.out, "  problem: {problem}")?;
            }
            if walk.problems.is_empty() {
                writeln!(context.out, "every invariant holds")?;
            }
        }
    }
    concluded(args, &walk.problems, context)
}

fn summary(args: &Args, walk: &OrderedReport, context: &mut Context<'_>) -> Result<(), Failure> {
    let out = &mut *context.out;
    match walk {
        OrderedReport::Sherman(walk) => sherman_summary(&args.url, walk, out)?,
        OrderedReport::Radix(walk) => radix_summary(&args.url, walk, out)?,
    }
    if walk.locks_of_crashed_clients() > 0 {
        let locks = size::count(walk.locks_of_crashed_clients(), "lock", "locks");
        writeln!(out, "  {locks} of crashed processes, which the next writers take over")?;
    }
    for problem in walk.problems() {
        writeln!(out, "  problem: {problem}")?;
    }
    let (problems, held) = (walk.problems().len(), walk.locks_held());
    if problems == 0 {
        writeln!(out, "every invariant holds")?;
    } else if problems as u64 == held {
        let words = "the index is in use: check it again when no process changes it (`farwood stat` lists the \
         processes that have it open)";
        writeln!(context.messages, "check {}: {words}", args.url)?;
    } else {
        writeln!(
            context.messages,
            "check {}: {} found; drop the index and load it again",
            args.url,
            size::count(problems as u64, "problem", "problems")
        )?;
    }
    Ok(())
}

fn sherman_summary(url: &Url, walk: &ShermanReport, out: &mut dyn Write) -> io::Result<()> {
    let percent = if walk.capacity == 0 { 0.0 } else { 100.0 * walk.entries as f64 / walk.capacity as f64 };
    let entries = size::count(walk.entries, "entry", "entries");
    writeln!(out, "{url}: {entries}, leaves {percent:.0} % full")?;
    levels(&walk.nodes, out)?;
    for (count, one, many, what) in [
        (walk.overflow_values, "value", "values", "stored outside the leaves"),
        (walk.free_slots_listed, "free node", "free nodes", "to be reused"),
        (walk.half_linked, "node", "nodes", "linked by the left sibling only, which is legal"),
        (walk.half_merged, "unfinished merge", "unfinished merges", "which the next change undoes"),
    ] {
        if count > 0 {
            writeln!(out, "  {}, {what}", size::count(count, one, many))?;
        }
    }
    Ok(())
}

/// The number of nodes on each level, the root first.
fn levels(nodes: &[u64], out: &mut dyn Write) -> io::Result<()> {
    for (level, nodes) in nodes.iter().enumerate().rev() {
        let (one, many) = if level == 0 { ("leaf", "leaves") } else { ("inner node", "inner nodes") };
        writeln!(out, "  level {level}: {}", size::count(*nodes, one, many))?;
    }
    Ok(())
}

fn radix_summary(url: &Url, walk: &RadixReport, out: &mut dyn Write) -> io::Result<()> {
    let entries = walk.entries.max(1);
    writeln!(
        out,
        "{url}: {}; per entry {} B of leaves and {} B of inner nodes; height {}",
        size::count(walk.entries, "entry", "entries"),
        walk.leaf_bytes / entries,
        walk.node_bytes / entries,
        walk.height
    )?;
    for (nodes, slots) in walk.nodes.iter().zip([4, 16, 48, 256]) {
        writeln!(out, "  {} of {slots} slots", size::count(*nodes, "inner node", "inner nodes"))?;
    }
    for (nodes, slots) in
        walk.typed_nodes.iter().zip([4, 8, 16, 32, 64, 128, 256]).filter(|(nodes, _)| **nodes > 0)
    {
        let nodes = size::count(*nodes, "inner node", "inner nodes");
        writeln!(out, "  {nodes} with memory for 256 slots, of type {slots}")?;
    }
    let census = &walk.census;
    if census.bytes > 0 {
        writeln!(
            out,
            "  hash tables of {}: {} of {} entries used, in {}",
            size::show(census.bytes),
            census.entries,
            census.entries_max,
            size::count(census.subtables, "subtable", "subtables")
        )?;
    }
    if walk.overflow_values > 0 {
        let values = size::count(walk.overflow_values, "value", "values");
        writeln!(out, "  {values}, stored outside the leaves")?;
    }
    if walk.unfinished_changes > 0 {
        writeln!(
            out,
            "  {}, which the next operation there completes or undoes",
            size::count(walk.unfinished_changes, "unfinished change", "unfinished changes")
        )?;
    }
    Ok(())
}
