//! `farwood chart`: a line chart of records over a swept parameter.

use super::{Context, Failure, Format, Outcome};
use farwood_bench::plot::records::{SweepAxes, SweepChart};
use farwood_bench::record::Record;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  farwood sweep --out clients.jsonl -- --index sherman,smart --clients 8..256*2
  farwood chart clients.jsonl --x clients
  farwood chart clients.jsonl --x clients --y latency_us.p99,round_trips.mean
  farwood chart skew.jsonl --x theta --series index,clients
  farwood bench --fabric sim --compute-nodes 4 --clients 32 --fault crash@5ms --json > crash.jsonl
  farwood chart crash.jsonl --timeline

Fields are named as in the JSON of a record, those within objects with a point. Records whose set-ups differ in more \
than the horizontal axis and the series are refused.";

/// Draw records over a swept parameter, as SVG and PNG
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files of records, one JSON line each, as sweep and bench --json print them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The field of the horizontal axis
    #[arg(long, value_name = "FIELD", required_unless_present = "timeline")]
    x: Option<String>,
    /// Draw throughput and p99 latency over the time of the measurement, for records of bench --timeline
    #[arg(long, conflicts_with_all = ["x", "y"])]
    timeline: bool,
    /// Fields of the vertical axes; each gets a panel [default: mops,latency_us.p99]
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    y: Vec<String>,
    /// Fields that tell the curves apart [default: the index and its variant]
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    series: Vec<String>,
    /// Name of the chart's files, without .svg and .png [default: the first file's]
    #[arg(long, value_name = "NAME")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let records: Result<Vec<Vec<Record>>, Failure> = args.files.iter().map(|file| read(file)).collect();
    let refused = |error: farwood_bench::Error| Failure::Usage(format!("chart: {error}"));
    let chart = draw(args, &records?.concat()).map_err(refused)?;
    let name = args.out.clone().unwrap_or_else(|| args.files[0].with_extension(""));
    let (svg, png) = (with_ending(&name, "svg"), with_ending(&name, "png"));
    let failed = |file: &Path, source| Failure::file("chart: --out", "write", file, source);
    fs::write(&svg, chart.svg()).map_err(|source| failed(&svg, source))?;
    fs::write(&png, chart.png().map_err(refused)?).map_err(|source| failed(&png, source))?;
    match context.format {
        Format::Json => context.json(&json!({ "svg": svg, "png": png }))?,
        Format::Text => writeln!(context.out, "{}\n{}", svg.display(), png.display())?,
    }
    Ok(Outcome::Done)
}

/// The chart that the options describe.
fn draw(args: &Args, records: &[Record]) -> farwood_bench::Result<SweepChart> {
    let Some(across) = args.x.clone() else { return SweepChart::over_time(records, &args.series) };
    let default_up = || vec!["mops".to_owned(), "latency_us.p99".to_owned()];
    let up = if args.y.is_empty() { default_up() } else { args.y.clone() };
    SweepChart::new(records, &SweepAxes { across, up, series: args.series.clone() })
}

/// The name with an ending; a point in the name is no ending.
fn with_ending(name: &Path, ending: &str) -> PathBuf {
    let mut file = name.as_os_str().to_owned();
    file.push(format!(".{ending}"));
    file.into()
}

/// The records of a file.
fn read(file: &Path) -> Result<Vec<Record>, Failure> {
    let text = fs::read_to_string(file).map_err(|source| Failure::file("chart", "read", file, source))?;
    Record::from_json_lines(&text).map_err(|error| {
        Failure::Usage(format!("chart: {}: {error}; give records as JSON lines", file.display()))
    })
}
