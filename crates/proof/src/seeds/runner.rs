//! Runs a randomised test with many seeds on all processors, until one seed fails.

use crate::children::test_name;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A report whose counters can be summed over runs.
pub trait Sum: Default + Send {
    /// Adds another run's report.
    fn add(&mut self, other: &Self);
}

impl Sum for super::RunTotals {
    fn add(&mut self, other: &Self) {
        Self::add(self, other);
    }
}

impl Sum for super::simulator::SimulatorReport {
    fn add(&mut self, other: &Self) {
        Self::add(self, other);
    }
}

/// A seed that failed, and its failure.
pub type FailedSeed = (u64, String);

/// The seeds that `FARWOOD_SEEDS` names (`17..18`, or a count), or the first `count`.
///
/// # Panics
/// If `FARWOOD_SEEDS` is neither a range nor a count.
pub fn requested(count: u64) -> Range<u64> {
    let Ok(requested) = std::env::var("FARWOOD_SEEDS") else { return 0..count };
    range(&requested).expect("FARWOOD_SEEDS is a count or a range like 17..18")
}

/// Parses a count of seeds, which begin at 0, or a range of seeds like `17..18`.
pub fn range(text: &str) -> Option<Range<u64>> {
    match text.split_once("..") {
        Some((from, to)) => Some(from.parse().ok()?..to.parse().ok()?),
        None => Some(0..text.parse().ok()?),
    }
}

/// Runs the requested seeds, or the first `count`, of `test` in the module `module` (its `module_path!()`); prints and
/// yields the sum of their reports.
///
/// # Panics
/// If a seed fails. The message names the seed and the command that repeats it.
#[expect(clippy::print_stdout, reason = "the report is for users who run more seeds")]
pub fn expect_success<C: Debug, S: Sum + Debug>(
    (module, test): (&str, &str),
    count: u64,
    case: impl Fn(u64) -> C + Sync,
    outcome: impl Fn(&C) -> Result<S, String> + Sync,
) -> S {
    let (sum, _, failed) = run(requested(count), Duration::MAX, |seed| outcome(&case(seed)));
    println!("{test}: {sum:#?}");
    if let Some((seed, what)) = failed {
        panic!(
            "seed {seed}: {what}\n{:?}\nrepeat: FARWOOD_SEEDS={seed}..{} cargo test -p farwood-proof --test all {}",
            case(seed),
            seed + 1,
            test_name(module, test)
        );
    }
    sum
}

/// Runs seeds on all processors, within `time`; stops at the first that fails. Yields the sum of the reports, the
/// least seed that did not run, and the seed that failed.
pub fn run<S: Sum>(
    seeds: Range<u64>,
    time: Duration,
    each: impl Fn(u64) -> Result<S, String> + Sync,
) -> (S, u64, Option<FailedSeed>) {
    let (next, start) = (AtomicU64::new(seeds.start), Instant::now());
    let (total, failure) = (Mutex::new(S::default()), Mutex::new(None::<FailedSeed>));
    let continues = || {
        failure.lock().expect("no thread panics while it holds the lock").is_none() && start.elapsed() < time
    };
    let work = || {
        while continues() {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                break;
            }
            match each(seed) {
                Ok(sum) => total.lock().expect("no thread panics while it holds the lock").add(&sum),
                Err(what) => {
                    failure
                        .lock()
                        .expect("no thread panics while it holds the lock")
                        .get_or_insert((seed, what));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let total = total.into_inner().expect("no thread panicked while it held the lock");
    let end = next.into_inner().min(seeds.end);
    (total, end, failure.into_inner().expect("no thread panicked while it held the lock"))
}
