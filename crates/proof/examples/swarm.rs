//! Runs counted seeds, given or fresh, and prints the faults and coverage marks that they reached. `cargo xtask swarm`
//! calls it.
//!
//! Exit codes: 0 success; 1 a seed failed, or a given range of 1,000 seeds or more left a coverage mark unhit; 2 wrong
//! command line.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]

use farwood_index::ordered::System;
use farwood_index::{MARKS, radix, smart, sphinx};
use farwood_proof::seeds::simulator::{SimulatorCase, SimulatorReport, outcome, run};
use farwood_proof::seeds::{runner, spatial};
use farwood_sim::{NicModel, Trace, Tracing};
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seeds of a given range after which every coverage mark must be hit. Fresh seeds are exempt: the rarest marks are hit
/// once in about 400 seeds, so a thousand fresh seeds sometimes miss one of them.
const MARKS_SEEDS: u64 = 1_000;
/// Coverage marks of spatial indexes.
const OF_CATFISH: [&str; 4] = [
    "a search that was overtaken",
    "a ring that is full",
    "a commit for several workers",
    "changes that another worker committed",
];
/// A coverage mark of locks in which one local lock guards several global ones: only SMART's baselines have them.
const OF_SMART: &[&str] = &["the lock of another object handed over"];
/// Events of a sequence diagram.
const SEQUENCE_EVENTS: usize = 2_000;

const HELP: &str = "\
Runs seeds in the simulator: an index in every variant, with faults, every answer checked.

Usage: cargo xtask swarm [--seconds N] [--seed A..B] [--index NAME] [--nic NIC] [--trace FOLDER]

  --seconds N      run fresh seeds for N seconds [default: 60, unless --seed is given]
  --seed A..B      run these seeds
  --index NAME     sherman, smart, sphinx, or catfish, which draws its NICs [default: sherman]
  --nic NIC        simulate this NIC in all runs [default: drawn]
  --trace FOLDER   folder for the trace of a failed seed [default: target/swarm]

Examples:
  cargo xtask swarm --seconds 600
  cargo xtask swarm --seed 17..18 --trace /tmp/seventeen
  cargo xtask swarm --index smart --seed 0..1000
";

/// The run of a seed.
fn case_of(system: System, seed: u64) -> SimulatorCase {
    SimulatorCase::swarm(system, seed)
}

/// The coverage marks of a system.
fn marks_of(system: System) -> Vec<&'static str> {
    match system {
        System::Sherman => {
            let is_own = |mark: &&str| !OF_CATFISH.contains(mark) && !OF_SMART.contains(mark);
            MARKS.iter().copied().filter(is_own).collect()
        }
        System::Smart => [radix::tree::MARKS, smart::MARKS, OF_SMART].concat(),
        System::Sphinx => [radix::tree::MARKS, sphinx::MARKS].concat(),
    }
}

/// The command line.
struct Arguments {
    index: System,
    /// Whether to run spatial indexes instead.
    spatial: bool,
    seconds: Option<u64>,
    seeds: Option<Range<u64>>,
    nic: Option<NicModel>,
    folder: String,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match parse(&words) {
        Ok(arguments) if arguments.spatial => swarm_spatial(&arguments),
        Ok(arguments) => swarm(&arguments),
        Err(what) => {
            eprintln!("{what}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

/// A seed, or a range of seeds that is not empty.
fn one_or_range(text: &str) -> Option<Range<u64>> {
    match text.parse::<u64>() {
        Ok(seed) => Some(seed..seed.checked_add(1)?),
        Err(_) => runner::range(text).filter(|range| !range.is_empty()),
    }
}

fn parse(words: &[String]) -> Result<Arguments, String> {
    let folder = "target/swarm".to_owned();
    let mut arguments =
        Arguments { index: System::Sherman, spatial: false, seconds: None, seeds: None, nic: None, folder };
    for pair in words.chunks(2) {
        let [flag, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        match flag.as_str() {
            "--seconds" => {
                arguments.seconds = Some(value.parse().map_err(|_| format!("'{value}' is not a number"))?);
            }
            "--seed" => {
                arguments.seeds = Some(
                    one_or_range(value)
                        .ok_or(format!("'{value}' is neither a seed nor a range like 17..18"))?,
                );
            }
            "--index" if value == "catfish" => arguments.spatial = true,
            "--index" => {
                let known = System::ALL.into_iter().find(|system| system.name() == value);
                arguments.index = known
                    .ok_or(format!("no index '{value}'; there are sherman, smart, sphinx and catfish"))?;
            }
            "--nic" => arguments.nic = Some(NicModel::named(value).map_err(|error| error.to_string())?),
            "--trace" => arguments.folder.clone_from(value),
            _ => return Err(format!("no flag '{flag}'")),
        }
    }
    Ok(arguments)
}

fn case(arguments: &Arguments, seed: u64) -> SimulatorCase {
    let mut case = case_of(arguments.index, seed);
    if let Some(nic) = &arguments.nic {
        case.spec.card = nic.clone();
    }
    case
}

impl Arguments {
    /// The seeds, and the time limit.
    fn range(&self) -> (Range<u64>, Duration) {
        let fresh = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            now << 20..u64::MAX
        };
        let seconds = self.seconds.or(self.seeds.is_none().then_some(60));
        let seeds = self.seeds.clone().unwrap_or_else(fresh);
        (seeds, seconds.map_or(Duration::MAX, Duration::from_secs))
    }
}

/// Runs seeds of spatial indexes.
fn swarm_spatial(arguments: &Arguments) -> ExitCode {
    let (seeds, time) = arguments.range();
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let (report, _, failed) =
        runner::run(seeds.clone(), time, |seed| spatial::outcome(&spatial::SpatialCase::swarm(seed)));
    let spatial::SpatialReport {
        runs,
        counted,
        searches,
        raced,
        commits,
        successors,
        explained_errors,
        met,
        marks,
        ..
    } = report;
    println!(
        "catfish: {runs} seeds from {}, {counted} counted, {:.0} s",
        seeds.start,
        start.elapsed().as_secs_f64()
    );
    println!(
        "  searches     {searches} answered, {raced} during changes, {explained_errors} failed because of faults"
    );
    println!("  commits      {commits}; {successors} servers replaced a crashed one");
    println!("  faults       {}", met.faults());
    for (mark, times) in marks.iter().filter(|(mark, _)| OF_CATFISH.contains(mark)) {
        println!("    {times:>10}  {mark}");
    }
    match failed {
        None => ExitCode::SUCCESS,
        Some((seed, what)) => {
            let mut again = spatial::SpatialCase::swarm(seed);
            again.spec.tracing = Tracing::Full;
            fail("catfish", (seed, &what), &spatial::run(&again).1, arguments)
        }
    }
}

fn swarm(arguments: &Arguments) -> ExitCode {
    let (seeds, time) = arguments.range();
    // A panic is a failure, and is reported once.
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let (report, _, failed) = runner::run(seeds.clone(), time, |seed| outcome(&case(arguments, seed)));
    let unhit = print(arguments.index, &report, seeds.start, start.elapsed());
    if let Some((seed, what)) = failed {
        let mut again = case(arguments, seed);
        again.spec.tracing = Tracing::Full;
        return fail(arguments.index.name(), (seed, &what), &run(&again).trace, arguments);
    }
    if arguments.seeds.is_some() && report.totals.runs >= MARKS_SEEDS && unhit > 0 {
        println!("FAILED: {} seeds left {unhit} coverage marks unhit", report.totals.runs);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Prints a report; yields the number of coverage marks that were not hit.
fn print(index: System, report: &SimulatorReport, first: u64, elapsed: Duration) -> usize {
    let SimulatorReport { totals, met, counts, explained_errors, counted, .. } = report;
    println!(
        "{}: {} seeds from {first}, {counted} counted, {:.0} s",
        index.name(),
        totals.runs,
        elapsed.as_secs_f64()
    );
    println!("  operations   {} answered, {explained_errors} failed because of faults", totals.operations);
    println!("  verbs        {}", counts.verbs());
    println!(
        "  faults       {}: {} crashes, {} freezes, {} delays, {} memory nodes down, {} slow, {} partitions; {} verbs \
         lost",
        met.faults(),
        met.crashes,
        met.freezes,
        met.delays,
        met.downs,
        met.slow,
        met.partitions,
        met.lost
    );
    let own = marks_of(index);
    let unhit: Vec<_> = own.iter().filter(|mark| !report.marks.contains_key(**mark)).collect();
    println!("  marks        {} of {} hit", own.len() - unhit.len(), own.len());
    for (mark, times) in &report.marks {
        println!("    {times:>10}  {mark}");
    }
    for mark in &unhit {
        println!("         unhit  {mark}");
    }
    unhit.len()
}

/// Prints a failed seed, and writes its trace.
fn fail(index: &str, (seed, what): (u64, &str), trace: &Trace, arguments: &Arguments) -> ExitCode {
    println!("\nseed {seed} FAILED: {what}");
    let nic = arguments.nic.as_ref().map_or(String::new(), |nic| format!(" --nic {}", nic.name));
    println!("repeat: cargo xtask swarm --index {index} --seed {seed}..{}{nic}", seed + 1);
    let base = format!("{}/seed-{seed}", arguments.folder);
    let written = std::fs::create_dir_all(&arguments.folder)
        .and_then(|()| std::fs::write(format!("{base}.json"), trace.to_json()))
        .and_then(|()| std::fs::write(format!("{base}.txt"), trace.to_sequence(SEQUENCE_EVENTS)));
    match written {
        Ok(()) => println!("trace: {base}.json (chrome://tracing, Perfetto), {base}.txt (sequence)"),
        Err(error) => println!("no trace in {}: {error}", arguments.folder),
    }
    ExitCode::FAILURE
}
