//! `farwood reproduce`: the papers' figures, reproduced in the simulator.

use super::bench::{Progress, failure};
use super::{Context, Failure, Format, Outcome, heap};
use farwood_bench::figures::{Comparison, Effort, FIGURES, Figure, figure, report, table};
use farwood_bench::record::Record;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  farwood reproduce list
  farwood reproduce sherman-table1 nic
  farwood reproduce all --quick --out /tmp/figures
  farwood reproduce sherman-fig16 --json

Each figure gets a folder with records.jsonl, figure.svg, figure.png, and report.md, which has the paper's values \
and ours, and states which of them calibrated the model and which are predictions.";

/// Reproduce the papers' figures in the simulator
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// list, all, or the names of figures
    #[arg(required = true, value_name = "FIGURE")]
    figures: Vec<String>,
    /// Use fewer keys and less virtual time
    #[arg(long)]
    quick: bool,
    /// Folder for the results, with one folder for each figure
    #[arg(long, default_value = "farwood-figures", value_name = "FOLDER")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let names: Vec<&str> = args.figures.iter().map(String::as_str).collect();
    if names == ["list"] {
        return list(context);
    }
    let figures: Vec<&Figure> = match names[..] {
        ["all"] => FIGURES.iter().collect(),
        _ => names.into_iter().map(figure).collect::<Result<_, _>>().map_err(failure)?,
    };
    heap::on_huge_pages();
    for figure in figures {
        reproduce(args, figure, context)?;
    }
    Ok(Outcome::Done)
}

fn list(context: &mut Context<'_>) -> Result<Outcome, Failure> {
    for figure in FIGURES {
        match context.format {
            Format::Json => context.json(&json!({ "name": figure.name, "title": figure.title }))?,
            Format::Text => writeln!(context.out, "{:16} {}", figure.name, figure.title)?,
        }
    }
    Ok(Outcome::Done)
}

fn reproduce(args: &Args, figure: &Figure, context: &mut Context<'_>) -> Result<(), Failure> {
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let folder = args.out.join(figure.name);
    // Create the folder first, because the runs take minutes.
    let made = fs::create_dir_all(&folder);
    made.map_err(|source| Failure::file("reproduce", "create", &folder, source))?;
    let progress = Progress::new(context);
    let records = figure.run(effort, &mut |done, all| {
        progress.bar(figure.name.to_owned(), done as u64, all as u64);
    });
    progress.0.finish_and_clear();
    let records = records.map_err(failure)?;
    let comparisons = figure.compare(&records).map_err(failure)?;
    let quick = if args.quick { " --quick" } else { "" };
    let command = format!("farwood reproduce {}{quick}", figure.name);
    let report = report(figure, &records, &comparisons, &command);
    let lines: String = records.iter().map(|record| record.to_json_line() + "\n").collect();
    save(&folder, "records.jsonl", lines.as_bytes())?;
    save(&folder, "figure.svg", figure.svg(&comparisons).as_bytes())?;
    save(&folder, "figure.png", &figure.png(&comparisons).map_err(failure)?)?;
    save(&folder, "report.md", report.as_bytes())?;
    match context.format {
        Format::Json => context.json(&summary(figure, &records, &comparisons, &folder))?,
        Format::Text => {
            writeln!(context.out, "{}\n{}", figure.title, table(&comparisons))?;
            writeln!(context.messages, "{}: report, records and charts", folder.display())?;
        }
    }
    Ok(())
}

fn save(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let path = folder.join(name);
    fs::write(&path, bytes).map_err(|source| Failure::file("reproduce", "write", &path, source))
}

fn summary(figure: &Figure, records: &[Record], comparisons: &[Comparison], folder: &Path) -> Value {
    let of = |comparison: &Comparison| {
        json!({
            "panel": comparison.panel,
            "point": comparison.point,
            "paper": comparison.paper,
            "ours": comparison.ours,
            "ratio": comparison.ratio(),
            "status": comparison.status.name(),
            "source": comparison.source,
        })
    };
    json!({
        "figure": figure.name,
        "title": figure.title,
        "folder": folder.display().to_string(),
        "runs": records.len(),
        "comparisons": comparisons.iter().map(of).collect::<Vec<_>>(),
    })
}
