//! The command line of an index's program.

use crate::canaries::Noticed;
use crate::case::{CLIENTS, CaseOptions, KEYS, OPERATIONS};
use crate::check::{Totals, explain, run_seeds};
use crate::crashes::Tried;
use crate::faults::FaultMix;
use crate::trace::Traced;
use crate::{FarIndex, LabError, LabResult};
use clap::{Args, Parser, Subcommand};
use farwood_bench::record::Record;
use farwood_bench::record::table::table;
use farwood_bench::run::{Amount, FabricKind, KeySource, RunSpec, simulate};
use farwood_bench::spec::count::count;
use farwood_bench::workload::Workload;
use farwood_bench::workload::distribution::Distribution;
use farwood_index::ordered::System;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Largest key of a traced operation.
const TRACE_KEYS_MAX: u64 = 1_000_000;

/// Exit code of a check that found something.
const FOUND: u8 = 1;
/// Exit code of a command that could not run.
const FAILED: u8 = 2;

#[derive(Parser)]
#[command(about = "Checks and measures an index in far memory on a simulated network")]
#[command(
    after_help = "Exit codes: 0 success; 1 a check found something, or costs differ; 2 wrong use, or the index \
                        failed."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run concurrent clients with faults, one run per seed, and check every answer
    #[command(
        after_help = "Examples:\n  check\n  check --seeds 2000\n  check --seeds 17..18 --faults delays\n  check \
                      --trace found.json        for https://ui.perfetto.dev"
    )]
    Check {
        /// Seeds: a count, or a range like 17..18
        #[arg(long, value_parser = seeds, default_value = "200")]
        seeds: Range<u64>,
        /// Write the verbs, operations and faults of the run that finds something to this file, as JSON for Perfetto
        /// and chrome://tracing
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
        #[command(flatten)]
        options: CheckArgs,
    },
    /// Crash a client at every verb of every operation, and check what the others find
    Crashes {
        /// Use this deliberate defect of the index
        #[arg(long)]
        mutant: Option<String>,
    },
    /// Check that each deliberate defect of the index is found within 50 seeds
    Canaries {
        #[command(flatten)]
        options: CheckArgs,
    },
    /// Print round trips, verbs and bytes of every operation
    Costs {
        /// Compare with this file; exit code 1 if the costs differ
        #[arg(long, value_name = "FILE")]
        golden: Option<PathBuf>,
        /// Write the costs to the file of --golden
        #[arg(long, requires = "golden")]
        bless: bool,
    },
    /// Print one operation as a sequence diagram
    #[command(after_help = "Example:\n  trace put 7")]
    Trace {
        /// The operation
        operation: Traced,
        /// The number of its key
        #[arg(value_parser = clap::value_parser!(u64).range(1..=TRACE_KEYS_MAX))]
        number: u64,
        /// The index has the keys 1 to COUNT
        #[arg(long, value_name = "COUNT", default_value_t = 50,
            value_parser = clap::value_parser!(u64).range(1..=TRACE_KEYS_MAX))]
        keys: u64,
    },
    /// Measure throughput, latency and costs in virtual time
    #[command(
        after_help = "Examples:\n  bench --clients 64 --workload ycsb-a\n  bench --beside sherman,smart --json"
    )]
    Bench(BenchArgs),
}

#[derive(Args)]
struct CheckArgs {
    /// The faults of a run
    #[arg(long, value_enum, default_value_t = FaultMix::All)]
    faults: FaultMix,
    /// Clients of 3 compute nodes
    #[arg(long, default_value_t = CLIENTS, value_parser = clap::value_parser!(u64).range(1..=64))]
    clients: u64,
    /// Keys: few, so that clients contend for them
    #[arg(long, default_value_t = KEYS, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    keys: u64,
    /// Operations of a run
    #[arg(long, default_value_t = OPERATIONS, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    operations: u64,
    /// Of the faults that the seed draws, only these, by number; or none. A finding prints the numbers
    #[arg(long, value_name = "NUMBERS")]
    only_faults: Option<String>,
    /// Use this deliberate defect of the index
    #[arg(long)]
    mutant: Option<String>,
}

#[derive(Args)]
struct BenchArgs {
    /// The mix of operations: ycsb-a to ycsb-f, write-only, write-intensive, read-intensive
    #[arg(long, default_value = "ycsb-a")]
    workload: Workload,
    /// Clients over all compute nodes
    #[arg(long, default_value_t = 64)]
    clients: u64,
    /// Keys loaded before measuring
    #[arg(long, default_value_t = 100_000, value_name = "COUNT", value_parser = count)]
    keys: u64,
    /// Skew of the popularity of keys; 0: uniform
    #[arg(long, default_value_t = 0.99)]
    theta: f64,
    /// The simulated NIC: a name, or a NIC file
    #[arg(long)]
    nic: Option<String>,
    /// Memory nodes
    #[arg(long, default_value_t = 2)]
    memory_nodes: u16,
    /// Compute nodes
    #[arg(long, default_value_t = 4)]
    compute_nodes: usize,
    /// CPU time of an operation besides its verbs, nanoseconds [default: as the index declares, or as in the NIC model]
    #[arg(long, value_name = "NANOSECONDS")]
    operation_ns: Option<f64>,
    /// Virtual seconds that are measured
    #[arg(long, default_value_t = 0.02)]
    seconds: f64,
    /// Seed of the run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also measure these of Farwood's indexes: sherman, smart, sphinx
    #[arg(long, value_delimiter = ',', value_name = "INDEXES")]
    beside: Vec<System>,
    /// Print records, one JSON line each
    #[arg(long)]
    json: bool,
}

/// Parses a count of seeds, which begin at 0, or a range of seeds.
fn seeds(text: &str) -> Result<Range<u64>, String> {
    let range = farwood_testkit::seeds::range(text).filter(|range| !range.is_empty());
    range.ok_or_else(|| "give a count above 0, or a range like 17..18".to_owned())
}

/// Runs the command line of the program for an index. Call it from `main`.
pub fn run<I: FarIndex>() -> ExitCode {
    let cli = Cli::parse();
    let mut out = std::io::stdout();
    let (text, code) = match execute::<I>(cli.command) {
        Ok(ended) => ended,
        Err(error) => (format!("error: {error}\n"), FAILED),
    };
    // A reader that has closed the pipe needs no error.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    ExitCode::from(code)
}

fn execute<I: FarIndex>(command: Command) -> LabResult<(String, u8)> {
    match command {
        Command::Check { seeds, trace, options } => check::<I>(seeds, &options, trace.as_deref()),
        Command::Crashes { mutant } => crashes::<I>(mutant.as_deref()),
        Command::Canaries { options } => canaries::<I>(&options),
        Command::Costs { golden: None, .. } => costs::<I>(),
        Command::Costs { golden: Some(file), bless: true } => bless_costs::<I>(&file),
        Command::Costs { golden: Some(file), bless: false } => compare_costs::<I>(&file),
        Command::Trace { operation, number, keys } => {
            Ok((crate::trace::run::<I>(operation, number, keys)?, 0))
        }
        Command::Bench(args) => bench::<I>(&args),
    }
}

impl CheckArgs {
    fn options<I: FarIndex>(&self) -> LabResult<CaseOptions> {
        let number = |text: &str| {
            let refused =
                |_| LabError::index(format!("--only-faults: {text} is not a number; give numbers like 0,4"));
            text.trim().parse().map_err(refused)
        };
        let only_faults = match self.only_faults.as_deref() {
            None => None,
            Some("none") => Some(Vec::new()),
            Some(numbers) => Some(numbers.split(',').map(number).collect::<LabResult<_>>()?),
        };
        Ok(CaseOptions {
            faults: self.faults,
            clients: self.clients as usize,
            keys: self.keys,
            operations: self.operations,
            only_faults,
            mutant: self.mutant.as_deref().map(mutant::<I>).transpose()?,
        })
    }
}

/// The deliberate defect of that name.
fn mutant<I: FarIndex>(name: &str) -> LabResult<&'static str> {
    let known = I::MUTANTS.iter().copied().find(|known| *known == name);
    known.ok_or_else(|| {
        let all = if I::MUTANTS.is_empty() { "none".to_owned() } else { I::MUTANTS.join(", ") };
        LabError::index(format!("--mutant: {} has no defect {name}; it has: {all}", I::NAME))
    })
}

/// The command that calls this program.
fn program() -> String {
    let name = std::env::args().next().unwrap_or_default();
    if std::env::var_os("CARGO").is_some() { "cargo run --release --".to_owned() } else { name }
}

fn check<I: FarIndex>(seeds: Range<u64>, args: &CheckArgs, trace: Option<&Path>) -> LabResult<(String, u8)> {
    let options = args.options::<I>()?;
    // A file that cannot be written must not cost the search.
    trace.map_or(Ok(()), |file| write_file(file, ""))?;
    let (Totals { runs, operations, faults }, found) = run_seeds::<I>(seeds, &options);
    let mix = options.faults.name();
    Ok(match found {
        None => {
            let size = format!("{runs} runs, {operations} operations, {faults} faults ({mix})");
            (format!("{}: {size}: some order of the operations explains every answer\n", I::NAME), 0)
        }
        Some(found) => {
            let explained = explain::<I>(&found, &program());
            if let Some(file) = trace {
                write_file(file, &explained.trace.to_json())?;
            }
            (format!("{}: {}", I::NAME, explained.text), FOUND)
        }
    })
}

fn crashes<I: FarIndex>(name: Option<&str>) -> LabResult<(String, u8)> {
    let name = name.map(mutant::<I>).transpose()?;
    let tried = crate::crashes::run_all::<I>(name)?;
    let line = |Tried { call, verbs, problems }: &Tried| {
        let wrong = problems.len();
        let head = format!("{:<18} {verbs:>3} verbs, 3 crash points each: {wrong} wrong", call.name());
        std::iter::once(head)
            .chain(problems.iter().map(|problem| format!("    {problem}")))
            .collect::<Vec<_>>()
    };
    let is_right = tried.iter().all(|tried| tried.problems.is_empty());
    let lines: Vec<_> = tried.iter().flat_map(line).collect();
    Ok((lines.join("\n") + "\n", if is_right { 0 } else { FOUND }))
}

fn canaries<I: FarIndex>(args: &CheckArgs) -> LabResult<(String, u8)> {
    let all = crate::canaries::run_all::<I>(&args.options::<I>()?);
    if all.is_empty() {
        return Ok((format!("{} declares no deliberate defects (FarIndex::MUTANTS)\n", I::NAME), 0));
    }
    let line = |(name, noticed): &(&str, Noticed)| {
        noticed.as_ref().map_or_else(
            || format!("{name}: NOT found within 50 seeds\n"),
            |(seed, what)| format!("{name}: found by seed {seed}: {what}\n"),
        )
    };
    let are_found = all.iter().all(|(_, noticed)| noticed.is_some());
    Ok((all.iter().map(line).collect(), if are_found { 0 } else { FOUND }))
}

fn costs<I: FarIndex>() -> LabResult<(String, u8)> {
    Ok((crate::costs::table::<I>()?, 0))
}

/// Compares the costs with a file.
fn compare_costs<I: FarIndex>(file: &Path) -> LabResult<(String, u8)> {
    let (text, _) = costs::<I>()?;
    let before = std::fs::read_to_string(file)
        .map_err(|error| LabError::index(format!("{}: {error}; --bless creates it", file.display())))?;
    if before == text {
        return Ok((text, 0));
    }
    let how = format!("differs from {}; --bless accepts it", file.display());
    Ok((format!("{text}\nThe table {how}. The file has:\n{before}"), FOUND))
}

/// Writes the costs to a file.
fn bless_costs<I: FarIndex>(file: &Path) -> LabResult<(String, u8)> {
    let (text, _) = costs::<I>()?;
    write_file(file, &text)?;
    Ok((text, 0))
}

fn write_file(file: &Path, text: &str) -> LabResult<()> {
    let failed =
        |error| LabError::index(format!("{}: {error}; give a file that can be written", file.display()));
    std::fs::write(file, text).map_err(failed)
}

fn bench<I: FarIndex>(args: &BenchArgs) -> LabResult<(String, u8)> {
    let spec = args.spec::<I>();
    let mut records = vec![crate::bench::measure::<I>(&spec)?];
    for index in &args.beside {
        records.push(simulate(&RunSpec { index: *index, ..spec.clone() }, &mut |_| {})?);
    }
    let line = |record: &Record| record.to_json_line() + "\n";
    Ok((if args.json { records.iter().map(line).collect() } else { table(&records) }, 0))
}

impl BenchArgs {
    fn spec<I: FarIndex>(&self) -> RunSpec {
        RunSpec {
            fabric: FabricKind::Sim,
            nic: self.nic.clone(),
            operation_ns: self.operation_ns,
            workload: self.workload,
            distribution: Distribution::Zipf { theta: self.theta },
            keys: Some(self.keys),
            key_source: KeySource::Integers(I::KEY_BYTES),
            value_bytes: I::VALUE_BYTES,
            memory_nodes: self.memory_nodes,
            compute_nodes: self.compute_nodes,
            clients: Some(self.clients),
            amount: Some(Amount::Seconds(self.seconds)),
            seed: self.seed,
            ..RunSpec::default()
        }
    }
}
