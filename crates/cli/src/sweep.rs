//! `farwood sweep`: simulated runs of all combinations of option values.

use super::bench::{self, failure};
use super::text_table::aligned;
use super::{Context, Failure, Format, Outcome, size, value_list};
use clap::{Args as _, FromArgMatches as _};
use farwood_bench::plot::records::Fields;
use farwood_bench::record::Record;
use farwood_bench::record::repeats::repeated;
use farwood_bench::run::{KeptPool, RunSpec, simulate_in};
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const EXAMPLES: &str = "\
Examples:
  farwood sweep --index sherman,smart,sphinx --clients 8..256*2 --workload ycsb-a
  farwood sweep --csv skew.csv -- --theta 0,0.5,0.9,0.99 --clients 64 --workload ycsb-a
  farwood sweep --out skew.jsonl -- --index sherman,smart --theta 0..0.9+0.3 --clients 64 --workload ycsb-a
  farwood chart skew.jsonl --x theta
  farwood sweep --index sherman,smart --clients 64 --workload ycsb-a --rate 200k,400k,800k --warmup auto

The options after --out, --csv and --jobs are those of bench, with --fabric sim. A value can be a list (8,16,32), a \
range with a factor (8..256*2) or a range with a step (0..0.9+0.3). All combinations are run, the last option fastest.";

/// Simulate all combinations of option values, and print one row for each
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write the records to this file, one JSON line each; a file of that name is replaced
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a table to this file: the options that differ, throughput, latency and costs; a file of that name is
    /// replaced
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Number of runs at the same time, each on one thread [default: the number of processors]
    #[arg(long, value_name = "COUNT", value_parser = size::between::<usize>(1, 1024))]
    jobs: Option<usize>,
    /// Options of bench; values can be lists and ranges
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "OPTIONS OF BENCH"
    )]
    options: Vec<String>,
}

/// Most runs of a sweep.
const RUNS_MAX: usize = value_list::VALUES_MAX;

/// A run that is repeated with the next seeds.
struct RepeatedSpec {
    spec: RunSpec,
    repeats: u64,
}

/// Columns of the table for runs with several seeds. The other columns are those of the first seed.
const REPEATED: [(&str, &str); 2] = [("mean mops", "repeats.mean"), ("+-", "repeats.half_width95")];
/// Columns of the table that runs measure: the heading and the field.
const MEASURED: [(&str, &str); 7] = [
    ("mops", "mops"),
    ("p50 us", "latency_us.p50"),
    ("p99 us", "latency_us.p99"),
    ("round trips", "round_trips.mean"),
    ("B read", "bytes_per_op.read"),
    ("B written", "bytes_per_op.written"),
    ("operations", "operations"),
];

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    let points = combinations(&args.options)?;
    let specs: Result<Vec<RepeatedSpec>, Failure> = points.iter().map(|point| spec_of(point)).collect();
    let specs = specs?;
    for (option, file) in [("--out", &args.out), ("--csv", &args.csv)] {
        if let Some(file) = file {
            let command = format!("sweep: {option}");
            fs::write(file, "").map_err(|source| Failure::file(&command, "write", file, source))?;
        }
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut records = simulate_repeated(&specs, args.jobs.unwrap_or(processors))?;
    for (record, point) in records.iter_mut().zip(&points) {
        record.command = format!("farwood bench --fabric sim {}", point.join(" "));
    }
    let lines = || records.iter().map(|record| record.to_json_line() + "\n").collect::<String>();
    let rows = rows(&records);
    for (option, file, text) in [("--out", &args.out, lines()), ("--csv", &args.csv, csv(&rows))] {
        if let Some(file) = file {
            let command = format!("sweep: {option}");
            fs::write(file, text).map_err(|source| Failure::file(&command, "write", file, source))?;
        }
    }
    bench::warn_of_overload(&records, context)?;
    match context.format {
        Format::Json => write!(context.out, "{}", lines())?,
        Format::Text => write!(context.out, "{}", aligned(&rows))?,
    }
    Ok(Outcome::Done)
}

/// The arguments of every run: all combinations of the values of the options.
fn combinations(options: &[String]) -> Result<Vec<Vec<String>>, Failure> {
    let mut points = vec![Vec::new()];
    for option in options.iter().filter(|option| *option != "--") {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (Some(name), value),
            _ => (None, option.as_str()),
        };
        let values = if option.starts_with('-') && name.is_none() {
            vec![option.clone()]
        } else {
            value_list::values(value).map_err(|problem| Failure::Usage(format!("sweep: {problem}")))?
        };
        let with_name = |value: &String| name.map_or_else(|| value.clone(), |name| format!("{name}={value}"));
        let extended = points.iter().flat_map(|point: &Vec<String>| {
            values.iter().map(|value| point.iter().cloned().chain([with_name(value)]).collect())
        });
        points = extended.collect();
        if points.len() > RUNS_MAX {
            return Err(Failure::Usage(format!("sweep: more than {RUNS_MAX} runs; give fewer values")));
        }
    }
    Ok(points)
}

/// The run with these options of `bench`.
fn spec_of(options: &[String]) -> Result<RepeatedSpec, Failure> {
    let command = bench::Args::augment_args(clap::Command::new("sweep")).mut_arg("fabric", |fabric| {
        // Only simulated runs can be swept.
        fabric.value_parser(["sim"]).default_value("sim")
    });
    let words = std::iter::once("sweep").chain(options.iter().map(String::as_str));
    let matches = command.try_get_matches_from(words).map_err(|error| {
        let text = error.to_string();
        let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        Failure::Usage(format!(
            "sweep: {what}; give --out, --csv and --jobs first, and then options of bench (`farwood bench --help`)"
        ))
    })?;
    let args = bench::Args::from_arg_matches(&matches)?;
    if args.is_spatial() {
        return Err(Failure::Usage("sweep: --index: give sherman, smart or sphinx".to_owned()));
    }
    let repeats = args.repeats();
    let spec = args.spec()?;
    spec.check()?;
    Ok(RepeatedSpec { spec, repeats })
}

/// Simulates runs with all their seeds; yields one record for each run, with the throughputs of its seeds.
fn simulate_repeated(runs: &[RepeatedSpec], jobs: usize) -> Result<Vec<Record>, Failure> {
    let mut specs = Vec::new();
    for RepeatedSpec { spec, repeats } in runs {
        let of_seed = |number| RunSpec { seed: spec.seed.wrapping_add(number), ..spec.clone() };
        specs.extend((0..*repeats).map(of_seed));
    }
    let mut records = simulate_all(&specs, jobs)?.into_iter();
    let merged = runs.iter().flat_map(|run| {
        let of_seeds: Vec<Vec<Record>> =
            records.by_ref().take(run.repeats as usize).map(|record| vec![record]).collect();
        repeated(&of_seeds)
    });
    Ok(merged.collect())
}

/// Simulates runs, `jobs` at the same time; yields the records in the order of the runs. Runs of one seed follow each
/// other, because they can begin with the same loaded pool.
fn simulate_all(specs: &[RunSpec], jobs: usize) -> Result<Vec<Record>, Failure> {
    let mut order: Vec<usize> = (0..specs.len()).collect();
    order.sort_by_key(|&number| specs[number].seed);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<farwood_bench::Result<Record>>>> =
        Mutex::new((0..specs.len()).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(specs.len()) {
            scope.spawn(|| {
                let mut kept = KeptPool::default();
                loop {
                    let position = next.fetch_add(1, Relaxed);
                    let Some(&number) = order.get(position) else { break };
                    let later = order[position + 1..].iter().map(|&number| &specs[number]);
                    let pool = kept.serves(&specs[number], later).then_some(&mut kept);
                    let record = simulate_in(&specs[number], pool, &mut |_| {});
                    done.lock().expect("no thread panics while it holds the lock")[number] = Some(record);
                }
            });
        }
    });
    let done = done.into_inner().expect("no thread panicked while it held the lock");
    done.into_iter().flatten().map(|record| record.map_err(failure)).collect()
}

/// A heading and one row for each record: the fields that differ, and what was measured.
fn rows(records: &[Record]) -> Vec<Vec<String>> {
    let fields: Vec<Fields> = records.iter().map(Fields::of).collect();
    // The options of an index follow from its name and variant.
    let swept = Fields::swept(&fields)
        .into_iter()
        .filter(|path| !path.starts_with("options.") && path != "consistency");
    let swept: Vec<String> = swept.collect();
    let is_repeated = records.iter().any(|record| record.repeats.is_some());
    let repeated: &[(&str, &str)] = if is_repeated { &REPEATED } else { &[] };
    let measured: Vec<_> = repeated.iter().chain(&MEASURED).copied().collect();
    let heading = swept.iter().cloned().chain(measured.iter().map(|(name, _)| (*name).to_owned()));
    let row = |fields: &Fields| {
        let paths = swept.iter().map(String::as_str).chain(measured.iter().map(|(_, path)| *path));
        paths.map(|path| fields.text(path).map_or_else(|| "-".to_owned(), |text| rounded(&text))).collect()
    };
    std::iter::once(heading.collect()).chain(fields.iter().map(row)).collect()
}

/// A number with at most four digits after the point; other texts are unchanged.
fn rounded(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(number) if text.contains('.') => format!("{}", (number * 1e4).round() / 1e4),
        _ => text.to_owned(),
    }
}

fn csv(rows: &[Vec<String>]) -> String {
    let quoted = |cell: &String| {
        if cell.contains([',', '"', '\n']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.clone()
        }
    };
    rows.iter().map(|row| row.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_combinations_are_run() {
        let options = ["--index", "sherman,smart", "--colocate", "--clients=8,16"].map(str::to_owned);
        let all: Vec<_> =
            combinations(&options).unwrap_or_default().iter().map(|point| point.join(" ")).collect();
        assert_eq!(
            all,
            [
                "--index sherman --colocate --clients=8",
                "--index sherman --colocate --clients=16",
                "--index smart --colocate --clients=8",
                "--index smart --colocate --clients=16",
            ]
        );
    }

    #[test]
    fn csv_cells_are_quoted() {
        assert_eq!(csv(&[vec!["a,b".to_owned(), "c\"".to_owned(), "1".to_owned()]]), "\"a,b\",\"c\"\"\",1\n");
    }
}
