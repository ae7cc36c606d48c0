//! Runs counted seeds, fixed or fresh, and says what they met. `cargo xtask swarm` calls it.
//!
//! Exit codes: 0 where all is right; 1 where a seed failed, or where 1,000 seeds left a mark unhit; 2 where the command
//! line is wrong.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]

use farwood_index::{MARKS, radix, smart, sphinx};
use farwood_proof::seeds::laboratory::{Case, Report, outcome, run};
use farwood_proof::seeds::{many, spatial};
use farwood_sim::{Card, Trace, Tracing};
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seeds after which every mark must have been hit.
const MARKS_SEEDS: u64 = 1_000;
/// Marks on the paths of spatial indexes.
const OF_CATFISH: [&str; 2] = ["a search that was overtaken", "a ring that is full"];
/// Events of a sequence diagram.
const SEQUENCE_EVENTS: usize = 2_000;

const HELP: &str = "\
Runs seeds in the laboratory: an index in every variant, with faults, every answer checked.

Usage: cargo xtask swarm [--seconds N] [--seed A..B] [--index NAME] [--card CARD] [--trace FOLDER]

  --seconds N      fresh seeds for so long [default: 60, unless --seed is given]
  --seed A..B      these seeds
  --index NAME     sherman, smart, sphinx, or catfish, which draws its cards [default: sherman]
  --card CARD      all runs on this card [default: drawn]
  --trace FOLDER   where a failed seed's trace goes [default: target/swarm]

Examples:
  cargo xtask swarm --seconds 600
  cargo xtask swarm --seed 17..18 --trace /tmp/seventeen
  cargo xtask swarm --index smart --seed 0..1000
";

/// What is run.
#[derive(Clone, Copy)]
enum Index {
    Sherman,
    Smart,
    Sphinx,
}

impl Index {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Sherman, "sherman"), (Self::Smart, "smart"), (Self::Sphinx, "sphinx")];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn case(self, seed: u64) -> Case {
        match self {
            Self::Sherman => Case::swarmed(seed),
            Self::Smart => Case::of_smart(seed),
            Self::Sphinx => Case::of_sphinx(seed),
        }
    }

    /// The marks on its race paths.
    fn marks(self) -> Vec<&'static str> {
        let (first, rest) = match self {
            Self::Sherman => (MARKS, &[][..]),
            Self::Smart => (radix::tree::MARKS, smart::MARKS),
            Self::Sphinx => (radix::tree::MARKS, sphinx::MARKS),
        };
        first.iter().chain(rest).copied().filter(|mark| !OF_CATFISH.contains(mark)).collect()
    }
}

struct Asked {
    index: Index,
    /// Spatial indexes instead.
    spatial: bool,
    seconds: Option<u64>,
    seeds: Option<Range<u64>>,
    card: Option<Card>,
    folder: String,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match asked(&words) {
        Ok(asked) if asked.spatial => swarm_spatial(&asked),
        Ok(asked) => swarm(&asked),
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
        Err(_) => many::range(text).filter(|range| !range.is_empty()),
    }
}

fn asked(words: &[String]) -> Result<Asked, String> {
    let folder = "target/swarm".to_owned();
    let mut asked =
        Asked { index: Index::Sherman, spatial: false, seconds: None, seeds: None, card: None, folder };
    for pair in words.chunks(2) {
        let [flag, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        match flag.as_str() {
            "--seconds" => {
                asked.seconds = Some(value.parse().map_err(|_| format!("'{value}' is no number"))?);
            }
            "--seed" => {
                asked.seeds = Some(
                    one_or_range(value)
                        .ok_or(format!("'{value}' is neither a seed nor a range like 17..18"))?,
                );
            }
            "--index" if value == "catfish" => asked.spatial = true,
            "--index" => {
                let known = Index::ALL.into_iter().find(|(_, name)| name == value);
                asked.index = known
                    .ok_or(format!("no index '{value}'; there are sherman, smart, sphinx and catfish"))?
                    .0;
            }
            "--card" => asked.card = Some(Card::named(value).map_err(|error| error.to_string())?),
            "--trace" => asked.folder.clone_from(value),
            _ => return Err(format!("no flag '{flag}'")),
        }
    }
    Ok(asked)
}

fn case(asked: &Asked, seed: u64) -> Case {
    let mut case = asked.index.case(seed);
    if let Some(card) = &asked.card {
        case.spec.card = card.clone();
    }
    case
}

impl Asked {
    /// The seeds, and for how long.
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
fn swarm_spatial(asked: &Asked) -> ExitCode {
    let (seeds, time) = asked.range();
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let (report, _, failed) =
        many::run(seeds.clone(), time, |seed| spatial::outcome(&spatial::Case::swarmed(seed)));
    let spatial::Report { runs, counted, searches, raced, commits, successors, excused, met, marks, .. } =
        report;
    println!(
        "catfish: {runs} seeds from {}, {counted} counted, {:.0} s",
        seeds.start,
        start.elapsed().as_secs_f64()
    );
    println!("  searches     {searches} answered, {raced} beside changes, {excused} failed as faults excuse");
    println!("  commits      {commits}; {successors} servers took the place of one that crashed");
    println!("  faults       {}", met.faults());
    for (mark, times) in marks.iter().filter(|(mark, _)| OF_CATFISH.contains(mark)) {
        println!("    {times:>10}  {mark}");
    }
    match failed {
        None => ExitCode::SUCCESS,
        Some((seed, what)) => {
            let mut again = spatial::Case::swarmed(seed);
            again.spec.tracing = Tracing::Full;
            fail("catfish", (seed, &what), &spatial::run(&again).1, asked)
        }
    }
}

fn swarm(asked: &Asked) -> ExitCode {
    let (seeds, time) = asked.range();
    // A panic is a failure like any other, and is told once.
    std::panic::set_hook(Box::new(|_| {}));
    let start = Instant::now();
    let (report, _, failed) = many::run(seeds.clone(), time, |seed| outcome(&case(asked, seed)));
    let unhit = tell(asked.index, &report, seeds.start, start.elapsed());
    if let Some((seed, what)) = failed {
        let mut again = case(asked, seed);
        again.spec.tracing = Tracing::Full;
        return fail(asked.index.name(), (seed, &what), &run(&again).trace, asked);
    }
    if report.coverage.runs >= MARKS_SEEDS && unhit > 0 {
        println!("{unhit} marks are unhit after {} seeds", report.coverage.runs);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Prints what was met; yields how many marks were not.
fn tell(index: Index, report: &Report, first: u64, elapsed: Duration) -> usize {
    let Report { coverage, met, counts, excused, counted, .. } = report;
    println!(
        "{}: {} seeds from {first}, {counted} counted, {:.0} s",
        index.name(),
        coverage.runs,
        elapsed.as_secs_f64()
    );
    println!("  operations   {} answered, {excused} failed as faults excuse", coverage.operations);
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
    let own = index.marks();
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

/// Tells of a failed seed, and keeps its trace.
fn fail(index: &str, (seed, what): (u64, &str), trace: &Trace, asked: &Asked) -> ExitCode {
    println!("\nseed {seed} FAILED: {what}");
    let card = asked.card.as_ref().map_or(String::new(), |card| format!(" --card {}", card.name));
    println!("again: cargo xtask swarm --index {index} --seed {seed}..{}{card}", seed + 1);
    let base = format!("{}/seed-{seed}", asked.folder);
    let written = std::fs::create_dir_all(&asked.folder)
        .and_then(|()| std::fs::write(format!("{base}.json"), trace.to_json()))
        .and_then(|()| std::fs::write(format!("{base}.txt"), trace.to_sequence(SEQUENCE_EVENTS)));
    match written {
        Ok(()) => println!("trace: {base}.json (chrome://tracing, Perfetto), {base}.txt (sequence)"),
        Err(error) => println!("no trace in {}: {error}", asked.folder),
    }
    ExitCode::FAILURE
}
