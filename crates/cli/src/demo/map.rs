//! The demo of a spatial index of coastlines.

use super::super::bench::{Progress, failure};
use super::super::{Context, Failure, Format, Outcome, size};
use super::{Args, prepare, show, write};
use farwood_bench::record::table::table;
use farwood_bench::run::{FabricKind, WorkerCommand};
use farwood_demo::{Coastlines, SpatialDemoOutcome, SpatialDemoSpec, map_png, map_svg, run_spatial_demo};
use serde_json::{Value, json};
use std::path::PathBuf;

pub(super) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if context.is_given("memory_nodes") && args.memory_nodes != 1 {
        let text = "demo: a spatial index uses one memory node; omit --memory-nodes".to_owned();
        return Err(Failure::Usage(text));
    }
    let fabric = args.fabric.parse::<FabricKind>()?;
    let &Args { processes, seed, .. } = args;
    let spec =
        SpatialDemoSpec { fabric, processes, seconds: args.seconds(), seed, ..SpatialDemoSpec::default() };
    spec.check()?;
    prepare(&args.out, "map")?;
    let worker = WorkerCommand::this_program("worker").map_err(failure)?;
    writeln!(
        context.messages,
        "One spatial index of {} segments of coastlines, {} at work on it for {} s; every answer is checked.",
        Coastlines::shipped().len(),
        size::count(processes as u64, "process", "processes"),
        spec.seconds
    )?;
    let progress = Progress::new(context);
    let outcome = run_spatial_demo(&spec, &worker, &mut |phase| show(&progress, phase)).map_err(failure)?;
    progress.0.finish_and_clear();
    let (svg, png) = (map_svg(&outcome), map_png(&outcome)?);
    let files = write(&args.out, "map", svg.as_bytes(), &png)?;
    report(context, &outcome, &files)?;
    Ok(if outcome.wrong == 0 { Outcome::Done } else { Outcome::Negative })
}

fn report(
    context: &mut Context<'_>,
    outcome: &SpatialDemoOutcome,
    files: &[PathBuf; 2],
) -> Result<(), Failure> {
    let SpatialDemoOutcome { record, answers, wrong, examples, walk, .. } = outcome;
    let nodes: u64 = walk.nodes.iter().sum();
    match context.format {
        Format::Json => {
            let record: Value = serde_json::from_str(&record.to_json_line())
                .map_err(|error| Failure::Usage(format!("the record is not JSON: {error}")))?;
            context.json(&json!({
                "answers": answers,
                "wrong": wrong,
                "examples": examples,
                "entries": walk.entries,
                "nodes": nodes,
                "levels": walk.nodes.len(),
                "problems": walk.problems.len(),
                "files": files,
                "record": record,
            }))?;
        }
        Format::Text => write!(context.out, "{}", table(std::slice::from_ref(record)))?,
    }
    for example in examples {
        writeln!(context.messages, "wrong: {example}")?;
    }
    writeln!(
        context.messages,
        "{answers} answers checked, {wrong} wrong. {} rectangles at the end, in {nodes} nodes on {} levels; every \
         invariant checked, {} violated.",
        walk.entries,
        walk.nodes.len(),
        walk.problems.len()
    )?;
    writeln!(context.messages, "Map: {} and {}", files[0].display(), files[1].display())?;
    Ok(())
}
