//! `farwood reproduce`: the papers' figures, reproduced in the simulator.

mod folder;

use super::bench::{count, failure};
use super::{Context, Failure, Format, Outcome, heap, size};
use farwood_bench::figures::{
    Comparison, Effort, FIGURES, Figure, FigureEvent, FigurePlan, RunProgress, SetupChanges, figure, table,
};
use farwood_bench::record::Record;
use farwood_bench::run::nic_model;
use folder::FigureFolder;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  farwood reproduce list
  farwood reproduce sherman-table1 nic
  farwood reproduce all --quick --out /tmp/figures
  farwood reproduce sherman-fig10 --nic my-card.toml --out /tmp/my-card
  farwood reproduce all --jobs 2 --out figures    # interrupted? the same command continues
  farwood reproduce sherman-fig16 --json

Each figure gets a folder with records.jsonl, figure.svg, figure.png, and report.md, which has the paper's values \
and ours, and states which of them calibrated the model and which are predictions.

The command does not repeat a run whose record is in the folder of --out, if the same commit made it with the same \
parameters. A program that was built from changed sources repeats all runs, because its commit (with a +) does not \
determine the code.";

/// Maximum runs at the same time.
const JOBS_MAX: u64 = 1024;

/// Progress units of the whole command.
const PROGRESS_STEPS: u64 = 1_000;

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
    /// Simulate this NIC in all runs: a name, or a NIC file. With this option and the next two, no value is compared
    /// with the paper's
    #[arg(long, value_name = "NIC")]
    nic: Option<String>,
    /// Use this seed in all runs
    #[arg(long)]
    seed: Option<u64>,
    /// Load this many keys or rectangles in all runs
    #[arg(long, value_name = "COUNT", value_parser = count)]
    keys: Option<u64>,
    /// Folder for the results, with one folder for each figure
    #[arg(long, default_value = "farwood-figures", value_name = "FOLDER")]
    out: PathBuf,
    /// Runs that are simulated at the same time, each on one thread; each needs up to 5 GiB of memory
    #[arg(long, default_value = "1", value_name = "N", value_parser = size::between::<usize>(1, JOBS_MAX))]
    jobs: usize,
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
    reproduce(args, &figures, context)?;
    Ok(Outcome::Done)
}

fn list(context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let width = FIGURES.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
    for figure in FIGURES {
        match context.format {
            Format::Json => context.json(&json!({ "name": figure.name, "title": figure.title }))?,
            Format::Text => writeln!(context.out, "{:width$} {}", figure.name, figure.title)?,
        }
    }
    Ok(Outcome::Done)
}

fn reproduce(args: &Args, figures: &[&'static Figure], context: &mut Context<'_>) -> Result<(), Failure> {
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let folder = FigureFolder(&args.out);
    // Create the folders and look for files first, because the runs take minutes.
    figures.iter().try_for_each(|figure| folder.create(figure))?;
    let changes = SetupChanges { nic: args.nic.clone(), seed: args.seed, keys: args.keys };
    if let Some(figure) = figures.iter().find(|figure| !changes.is_empty() && figure.measures_nics()) {
        let name = figure.name;
        let text = format!(
            "reproduce: {name} measures verbs or locks without an index; omit --nic, --seed and --keys"
        );
        return Err(Failure::Usage(text));
    }
    if let Some(nic) = &changes.nic {
        nic_model(nic).map_err(failure)?;
    }
    let mut plan = FigurePlan::with_changes(figures, effort, &changes);
    let reused = plan.reuse(folder.records());
    plan.check_files().map_err(failure)?;
    if reused > 0 {
        let (all, out) = (plan.len(), args.out.display());
        writeln!(context.messages, "{out} has the records of {reused} of {all} runs of this commit")?;
    }
    let progress = progress_bar(context);
    let result =
        plan.execute(NonZeroUsize::new(args.jobs).unwrap_or(NonZeroUsize::MIN), &mut |event| match event {
            FigureEvent::Started(run) => {
                show(&progress, run);
                Ok(())
            }
            FigureEvent::Finished { figure, record } => folder.add(figure, record),
            FigureEvent::Complete { figure, records } => {
                let is_that_of_figure = effort == Effort::Full && changes.is_empty();
                let comparisons = if is_that_of_figure {
                    figure.compare(&records)
                } else {
                    figure.compare_other_setup(&records)
                }
                .map_err(failure)?;
                let command = figure.command(effort) + &options_of(&changes);
                folder.complete(figure, &records, &comparisons, &command)?;
                progress.suspend(|| print(figure, &records, &comparisons, &folder, context))
            }
        });
    progress.finish_and_clear();
    result.map_err(|error| match error {
        Failure::Bench(error) => failure(error),
        other => other,
    })
}

/// The options that make these changes.
fn options_of(SetupChanges { nic, seed, keys }: &SetupChanges) -> String {
    let nic = nic.as_ref().map(|nic| format!(" --nic {nic}"));
    let seed = seed.map(|seed| format!(" --seed {seed}"));
    let keys = keys.map(|keys| format!(" --keys {keys}"));
    [nic, seed, keys].into_iter().flatten().collect()
}

/// Prints the comparisons of a complete figure.
fn print(
    figure: &Figure,
    records: &[Record],
    comparisons: &[Comparison],
    folder: &FigureFolder<'_>,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let path = folder.of(figure).display().to_string();
    match context.format {
        Format::Json => context.json(&summary(figure, records, comparisons, &path))?,
        Format::Text => {
            writeln!(context.out, "{}\n{}", figure.chart_title(comparisons), table(comparisons))?;
            context.out.flush()?;
            writeln!(context.messages, "{path}: report, records and charts")?;
        }
    }
    Ok(())
}

fn progress_bar(context: &Context<'_>) -> ProgressBar {
    if !context.progress {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {wide_bar} {elapsed_precise}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(PROGRESS_STEPS).with_style(style);
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

fn show(bar: &ProgressBar, run: RunProgress) {
    bar.set_position((run.share_done * PROGRESS_STEPS as f64) as u64);
    let RunProgress { figure, number, of, seconds_left, .. } = run;
    bar.set_message(format!("{figure} run {number} of {of}, {}", time_left(seconds_left)));
}

/// An estimated duration in words.
fn time_left(seconds: f64) -> String {
    match seconds {
        ..90.0 => format!("about {seconds:.0} s left"),
        ..5_400.0 => format!("about {:.0} min left", seconds / 60.0),
        _ => format!("about {:.1} h left", seconds / 3_600.0),
    }
}

fn summary(figure: &Figure, records: &[Record], comparisons: &[Comparison], folder: &str) -> Value {
    let of = |comparison: &Comparison| {
        json!({
            "panel": comparison.panel,
            "point": comparison.point,
            "paper": comparison.paper,
            "ours": comparison.ours,
            "ours_to": comparison.ours_to,
            "ratio": comparison.ratio(),
            "status": comparison.status.name(),
            "source": comparison.source,
        })
    };
    json!({
        "figure": figure.name,
        "title": figure.title,
        "folder": folder,
        "runs": records.len(),
        "comparisons": comparisons.iter().map(of).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_has_a_unit_of_its_size() {
        let words = [4.0, 300.0, 5_399.0, 9_000.0].map(time_left);
        assert_eq!(words, ["about 4 s left", "about 5 min left", "about 90 min left", "about 2.5 h left"]);
    }
}
