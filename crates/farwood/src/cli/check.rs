//! `farwood check`: walks an index and verifies every invariant.

use super::{Context, Failure, Format, Outcome, is_spatial, open, search};
use farwood::{Url, Walk};
use serde_json::json;

/// Walk an index and verify every invariant
///
/// Nobody may change the index meanwhile: what is half done looks like damage. Exit code 1 if there are problems.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  farwood check shm://demo/words\n  farwood check shm://demo/words --json"
)]
pub(crate) struct Args {
    /// The URL of an index: shm://POOL/INDEX or tcp://HOST:PORT/INDEX
    url: Url,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if is_spatial(&args.url)? {
        return check_spatial(args, context);
    }
    let walk = open(&args.url, context)?.check()?;
    match context.format {
        Format::Json => {
            let problem = |problem: &farwood::Problem| json!({ "at": problem.at, "what": problem.what });
            context.json(&json!({
                "index": args.url.to_string(),
                "entries": walk.entries,
                "room": walk.room,
                "nodes_by_level": walk.nodes,
                "values_out_of_line": walk.values_far,
                "rooms_listed": walk.rooms_listed,
                "half_linked": walk.half_linked,
                "half_merged": walk.half_merged,
                "locks_of_the_gone": walk.locks_of_the_gone,
                "locks_held": walk.locks_held,
                "problems": walk.problems.iter().map(problem).collect::<Vec<_>>(),
            }))?;
        }
        Format::Text => summary(args, &walk, context)?,
    }
    Ok(if walk.problems.is_empty() { Outcome::Done } else { Outcome::Negative })
}

fn check_spatial(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let walk = search::open(&args.url)?.check()?;
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
                "room": walk.room,
                "nodes_by_level": walk.nodes,
                "bounds": bounds,
                "problems": problems,
            }))?;
        }
        Format::Text => {
            let within = bounds.map_or(String::new(), |bounds| format!(" within {bounds}"));
            writeln!(context.out, "{}: {} rectangles{within}", args.url, walk.entries)?;
            for (level, nodes) in walk.nodes.iter().enumerate().rev() {
                let what = if level == 0 { "leaves" } else { "inner nodes" };
                writeln!(context.out, "  level {level}: {nodes} {what}")?;
            }
            for problem in &walk.problems {
                writeln!(context.out, "  problem: {problem}")?;
            }
        }
    }
    Ok(if walk.problems.is_empty() { Outcome::Done } else { Outcome::Negative })
}

fn summary(args: &Args, walk: &Walk, context: &mut Context<'_>) -> Result<(), Failure> {
    let out = &mut context.out;
    let percent = if walk.room == 0 { 0.0 } else { 100.0 * walk.entries as f64 / walk.room as f64 };
    writeln!(out, "{}: {} entries, leaves {percent:.0} % full", args.url, walk.entries)?;
    for (level, nodes) in walk.nodes.iter().enumerate().rev() {
        let what = if level == 0 { "leaves" } else { "inner nodes" };
        writeln!(out, "  level {level}: {nodes} {what}")?;
    }
    if walk.values_far > 0 {
        writeln!(out, "  {} values out of line", walk.values_far)?;
    }
    if walk.rooms_listed > 0 {
        writeln!(out, "  {} emptied rooms wait to be used again", walk.rooms_listed)?;
    }
    if walk.half_linked > 0 {
        writeln!(
            out,
            "  {} nodes are linked by their left neighbour only, which is legal",
            walk.half_linked
        )?;
    }
    if walk.half_merged > 0 {
        writeln!(
            out,
            "  {} nodes whose merge was not finished: whoever needs them takes it back",
            walk.half_merged
        )?;
    }
    if walk.locks_of_the_gone > 0 {
        writeln!(
            out,
            "  {} locks of processes that are gone, which the next writers take over",
            walk.locks_of_the_gone
        )?;
    }
    for problem in &walk.problems {
        writeln!(out, "  problem: {problem}")?;
    }
    let (problems, held) = (walk.problems.len(), walk.locks_held);
    if problems == 0 {
        writeln!(out, "every invariant holds")?;
    } else if problems as u64 == held {
        let words = "the index is in use: check it again when nobody changes it (`farwood stat` names who has it open)";
        writeln!(context.words, "check {}: {words}", args.url)?;
    } else {
        writeln!(
            context.words,
            "check {}: problems: {problems}; drop the index and load it again",
            args.url
        )?;
    }
    Ok(())
}
