//! `farwood demo`: several processes work on one index, and every answer is checked.

mod map;

use super::bench::{Progress, failure, system};
use super::{Context, Failure, Format, Outcome, out_folder, size};
use farwood_bench::plot;
use farwood_bench::record::table::table;
use farwood_bench::run::{FabricKind, WorkerCommand};
use farwood_demo::{DemoPhase, OrderedDemoOutcome, OrderedDemoSpec, run_ordered_demo};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  farwood demo
  farwood demo --quick --out /tmp/demo
  farwood demo --fabric tcp
  farwood demo --index smart
  farwood demo --index catfish                       a map of coastlines, searched by rectangle
  farwood demo --processes 8 --memory-nodes 4 --seconds 30 --json

Exit code 1: there were wrong answers.";

/// Run several processes on one index of words or of coastlines, and check every answer
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The index: sherman, smart or sphinx (English words), or catfish (coastlines)
    #[arg(long, default_value = "sherman")]
    index: String,
    /// The transport: shm, or tcp with memory nodes that run in this process
    #[arg(long, default_value = "shm")]
    fabric: String,
    /// Number of processes that use the index at the same time
    #[arg(long, default_value_t = 4, value_name = "COUNT")]
    processes: usize,
    /// Number of memory nodes of the index; 1 for catfish
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    memory_nodes: u16,
    /// Duration for which the processes work [default: 12]
    #[arg(long, conflicts_with = "quick")]
    seconds: Option<f64>,
    /// Work for 3 seconds only
    #[arg(long)]
    quick: bool,
    /// Seed of all operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the chart or the map, as SVG and PNG
    #[arg(long, default_value = "farwood-demo", value_name = "FOLDER")]
    out: PathBuf,
}

/// The option of the folder, as errors name it.
const OUT: &str = "demo: --out";
/// Seconds of work with `--quick`.
const QUICK_SECONDS: f64 = 3.0;

impl Args {
    fn seconds(&self) -> f64 {
        let default = OrderedDemoSpec::default().seconds;
        self.seconds.unwrap_or(if self.quick { QUICK_SECONDS } else { default })
    }
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    if args.index == "catfish" {
        return map::run(args, context);
    }
    let (default, seconds) = (OrderedDemoSpec::default(), args.seconds());
    let &Args { processes, memory_nodes, seed, .. } = args;
    let fabric = args.fabric.parse::<FabricKind>()?;
    let system = system(&args.index)?;
    let spec = OrderedDemoSpec { system, fabric, processes, memory_nodes, seconds, seed, ..default };
    spec.check()?;
    prepare(&args.out, "demo")?;
    let worker = WorkerCommand::this_program("worker").map_err(failure)?;
    writeln!(
        context.messages,
        "One index of English words on {}, {} at work on it for {seconds} s; every answer is \
         checked.",
        size::count(memory_nodes.into(), "memory node", "memory nodes"),
        size::count(processes as u64, "process", "processes")
    )?;
    let progress = Progress::new(context);
    let outcome = run_ordered_demo(&spec, &worker, &mut |phase| show(&progress, phase)).map_err(failure)?;
    progress.0.finish_and_clear();
    let files = draw(&args.out, &outcome)?;
    report(context, &outcome, &files)?;
    Ok(if outcome.wrong == 0 { Outcome::Done } else { Outcome::Negative })
}

fn show(progress: &Progress, phase: DemoPhase) {
    match phase {
        DemoPhase::Loading { done, all } => progress.bar("loading".to_owned(), done, all),
        DemoPhase::Starting => progress.bar("starting processes".to_owned(), 0, 1),
        DemoPhase::Working => progress.bar("all processes work".to_owned(), 0, 1),
        DemoPhase::Comparing => progress.bar("comparing".to_owned(), 1, 1),
    }
}

/// Writes the chart of words.
fn draw(folder: &Path, outcome: &OrderedDemoOutcome) -> Result<[PathBuf; 2], Failure> {
    let records = std::slice::from_ref(&outcome.record);
    write(folder, "demo", plot::svg(records)?.as_bytes(), &plot::png(records)?)
}

/// Checks that the picture can be written.
fn prepare(folder: &Path, name: &str) -> Result<(), Failure> {
    out_folder::prepare(OUT, folder, &[&format!("{name}.svg"), &format!("{name}.png")])
}

/// Writes a picture; yields its paths.
fn write(folder: &Path, name: &str, svg: &[u8], png: &[u8]) -> Result<[PathBuf; 2], Failure> {
    let files = [folder.join(format!("{name}.svg")), folder.join(format!("{name}.png"))];
    for (path, bytes) in files.iter().zip([svg, png]) {
        let fail = |source| Failure::file(OUT, "write", path, source);
        fs::create_dir_all(folder).and_then(|()| fs::write(path, bytes)).map_err(fail)?;
    }
    Ok(files)
}

fn report(
    context: &mut Context<'_>,
    outcome: &OrderedDemoOutcome,
    files: &[PathBuf; 2],
) -> Result<(), Failure> {
    let OrderedDemoOutcome { record, answers, wrong, examples, walk, entries } = outcome;
    match context.format {
        Format::Json => {
            let record: serde_json::Value = serde_json::from_str(&record.to_json_line())
                .map_err(|error| Failure::Usage(format!("the record is not JSON: {error}")))?;
            context.json(&json!({
                "answers": answers,
                "wrong": wrong,
                "examples": examples,
                "entries": entries,
                "nodes": walk.nodes(),
                "levels": walk.levels(),
                "unfinished_changes": walk.unfinished_changes(),
                "problems": walk.problems().len(),
                "files": files,
                "record": record,
            }))?;
        }
        Format::Text => {
            write!(context.out, "{}", table(std::slice::from_ref(record)))?;
        }
    }
    for example in examples {
        writeln!(context.messages, "wrong: {example}")?;
    }
    writeln!(
        context.messages,
        "{answers} answers checked, {wrong} wrong. {entries} words at the end, in {} nodes on {} levels; every \
         invariant checked, {} violated.",
        walk.nodes(),
        walk.levels(),
        walk.problems().len()
    )?;
    writeln!(context.messages, "Chart: {} and {}", files[0].display(), files[1].display())?;
    Ok(())
}
