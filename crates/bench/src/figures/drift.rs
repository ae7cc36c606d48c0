//! Small versions of some runs of each figure, compared with their records in `docs/records/small`: a change of the
//! simulator, of a NIC model or of an index that moves a figure fails here.
//!
//! `FARWOOD_BLESS=1` writes the records again. A commit that does so states why the values moved; the full figures have
//! then to be made again as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};

use super::FIGURES;
use super::figure::{Effort, Figure};
use super::run::Run;
use crate::driver::protocol::Amount;
use crate::record::Record;
use crate::run::{RunSpec, SpatialSpec};
use crate::sim_run::micro::LocksSpec;
use crate::workload::Workload;
use crate::workload::rectangles::RectangleSource;

/// The largest relative distance of a value from its record.
const DRIFT_MAX: f64 = 0.03;
/// The largest number of runs of a figure, spread evenly over all of them.
const RUNS_MAX: usize = 3;
/// Keys of a small run of an ordered index.
const KEYS: u64 = 20_000;
/// Keys of a small load, whose clients contend for the first nodes.
const KEYS_OF_LOAD: u64 = 4_000;
/// Rectangles of a small run of a spatial index.
const RECTANGLES: u64 = 2_000;
/// The part of the virtual time of a quick run that a small one takes.
const TIME: f64 = 0.3;

/// The values of a small run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SmallRecord {
    /// The number of the run in its figure, from 1.
    run: usize,
    values: BTreeMap<String, f64>,
}

/// Some runs of a figure with their numbers.
fn small_runs(figure: &Figure) -> Vec<(usize, Run)> {
    let runs = (figure.runs)(Effort::Quick);
    let (count, last) = (runs.len().min(RUNS_MAX), runs.len() - 1);
    let mut positions: Vec<usize> = (0..count).map(|at| at * last / (count - 1).max(1)).collect();
    positions.dedup();
    positions.into_iter().map(|position| (position + 1, small(&runs[position]))).collect()
}

/// A run with fewer keys and less virtual time.
fn small(run: &Run) -> Run {
    match run {
        Run::Index(spec) => Run::Index(Box::new(small_index(spec))),
        Run::Spatial(spec) => Run::Spatial(Box::new(SpatialSpec {
            source: RectangleSource::Uniform(RECTANGLES),
            amount: spec.amount.map(shorter),
            warm_up_seconds: spec.warm_up_seconds.map(|seconds| seconds * TIME),
            ..(**spec).clone()
        })),
        Run::Locks(spec) => Run::Locks(LocksSpec { seconds: spec.seconds * TIME, ..spec.clone() }),
        Run::Verbs(_) => run.clone(),
    }
}

/// A run with caches and warm-ups that shrink with the number of its keys.
fn small_index(spec: &RunSpec) -> RunSpec {
    let all = spec.keys.unwrap_or(KEYS);
    let keys = all.min(if spec.workload == Workload::Load { KEYS_OF_LOAD } else { KEYS });
    let part = |count: u64| count * keys / all;
    RunSpec {
        keys: Some(keys),
        cache_bytes: spec.cache_bytes.map(|bytes| part(bytes as u64) as usize),
        preloaded_keys: part(spec.preloaded_keys),
        warm_up_keys: part(spec.warm_up_keys),
        warm_up_puts: part(spec.warm_up_puts),
        amount: spec.amount.map(shorter),
        warm_up_seconds: spec.warm_up_seconds.map(|seconds| seconds * TIME),
        ..spec.clone()
    }
}

fn shorter(amount: Amount) -> Amount {
    match amount {
        Amount::Seconds(seconds) => Amount::Seconds(seconds * TIME),
        Amount::Operations(operations) => Amount::Operations(operations),
    }
}

/// The values of a record that figures show, with four significant digits.
fn values(record: &Record) -> BTreeMap<String, f64> {
    let mut values = vec![
        ("mops", record.mops),
        ("mean_us", record.latency_us.mean),
        ("p50_us", record.latency_us.p50),
        ("p99_us", record.latency_us.p99),
    ];
    values.extend(record.round_trips.as_ref().map(|trips| ("round_trips", trips.mean)));
    if let Some(bytes) = &record.bytes_per_op {
        values.extend([("bytes_read", bytes.read), ("bytes_written", bytes.written)]);
    }
    values.extend(record.index_bytes.map(|bytes| ("index_bytes", bytes as f64)));
    values.extend(record.spatial.as_ref().map(|spatial| ("share_offloaded", spatial.share_offloaded)));
    values.into_iter().map(|(name, value)| (name.to_owned(), rounded(value))).collect()
}

fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().expect("a number that was just written")
}

/// Executes the small runs of all figures on all processors; for each figure its records, in their order. A run that
/// an earlier figure has as well is left out.
fn small_records() -> Vec<Vec<SmallRecord>> {
    let mut known = BTreeSet::new();
    let todo: Vec<(usize, usize, Run)> = FIGURES
        .iter()
        .enumerate()
        .flat_map(|(at, figure)| small_runs(figure).into_iter().map(move |(number, run)| (at, number, run)))
        .filter(|(_, _, run)| known.insert(run.hash()))
        .collect();
    let (next, made) = (AtomicUsize::new(0), Mutex::new(vec![Vec::new(); FIGURES.len()]));
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((at, number, run)) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let name = FIGURES[*at].name;
                    let record =
                        run.execute().unwrap_or_else(|error| panic!("{name}, run {number}: {error}"));
                    let record = SmallRecord { run: *number, values: values(&record) };
                    made.lock().expect("no thread panicked")[*at].push(record);
                }
            });
        }
    });
    let mut made = made.into_inner().expect("no thread panicked");
    for records in &mut made {
        records.sort_by_key(|record| record.run);
    }
    made
}

/// The values that left their records: figure, run, value and record of each.
fn drifted(figure: &str, recorded: &[SmallRecord], measured: &[SmallRecord]) -> Vec<String> {
    let numbers = |records: &[SmallRecord]| records.iter().map(|record| record.run).collect::<Vec<_>>();
    if numbers(recorded) != numbers(measured) {
        return vec![format!("{figure}: runs {:?}, recorded {:?}", numbers(measured), numbers(recorded))];
    }
    let mut all = Vec::new();
    for (recorded, measured) in recorded.iter().zip(measured) {
        let missing = recorded.values.keys().filter(|name| !measured.values.contains_key(*name));
        all.extend(missing.map(|name| format!("{figure}, run {}: {name} has no value", measured.run)));
        for (name, value) in &measured.values {
            let known = recorded.values.get(name).copied().unwrap_or(f64::NAN);
            if (value - known).abs() <= DRIFT_MAX * known.abs() {
                continue;
            }
            all.push(format!("{figure}, run {}: {name} is {value}, and its record {known}", measured.run));
        }
    }
    all
}

fn path(figure: &Figure) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records/small");
    folder.join(format!("{}.jsonl", figure.name))
}

#[test]
fn small_figures_have_the_values_of_their_records() {
    let measured = small_records();
    if std::env::var_os("FARWOOD_BLESS").is_some() {
        for (figure, records) in FIGURES.iter().zip(&measured) {
            let lines = records.iter().map(|record| serde_json::to_string(record).unwrap() + "\n");
            fs::create_dir_all(path(figure).parent().unwrap()).unwrap();
            fs::write(path(figure), lines.collect::<String>()).unwrap();
        }
    }
    let mut all = Vec::new();
    for (figure, measured) in FIGURES.iter().zip(&measured) {
        let text = fs::read_to_string(path(figure)).unwrap_or_default();
        let recorded: Vec<SmallRecord> =
            text.lines().map(|line| serde_json::from_str(line).expect("a small record")).collect();
        all.extend(drifted(figure.name, &recorded, measured));
    }
    assert!(
        all.is_empty(),
        "{} values left their records in docs/records/small by more than 3 %; if the change is intended, write them \
         again with FARWOOD_BLESS=1, and state the reason in the commit:\n{}",
        all.len(),
        all.join("\n")
    );
}

#[test]
fn a_value_that_leaves_its_record_is_named() {
    let of = |run, mops: f64| SmallRecord { run, values: BTreeMap::from([("mops".to_owned(), mops)]) };
    assert!(drifted("nic", &[of(1, 10.0)], &[of(1, 10.29)]).is_empty());
    assert_eq!(
        drifted("nic", &[of(1, 10.0), of(3, 5.0)], &[of(1, 10.0), of(3, 5.2)]),
        ["nic, run 3: mops is 5.2, and its record 5"]
    );
    assert_eq!(drifted("nic", &[], &[of(1, 1.0)]), ["nic: runs [1], recorded []"]);
    let unnamed = SmallRecord { run: 1, values: BTreeMap::new() };
    assert_eq!(drifted("nic", &[unnamed], &[of(1, 1.0)]).len(), 1, "a value without a record has drifted");
}
