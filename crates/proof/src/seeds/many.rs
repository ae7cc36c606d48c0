//! Many seeds, on all processors, until one fails.

use crate::children::test_name;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What runs add up to.
pub trait Sum: Default + Send {
    /// Adds another run's.
    fn add(&mut self, other: &Self);
}

impl Sum for super::Coverage {
    fn add(&mut self, other: &Self) {
        Self::add(self, other);
    }
}

impl Sum for super::laboratory::Report {
    fn add(&mut self, other: &Self) {
        Self::add(self, other);
    }
}

/// A seed that failed, and why.
pub type Failed = (u64, String);

/// The seeds that `FARWOOD_SEEDS` asks for, `17..18` or a count, or the first `count`.
///
/// # Panics
/// Where it asks for something else.
pub fn asked(count: u64) -> Range<u64> {
    let Ok(asked) = std::env::var("FARWOOD_SEEDS") else { return 0..count };
    range(&asked).expect("FARWOOD_SEEDS is a count or a range like 17..18")
}

/// A count, or a range like `17..18`.
pub fn range(text: &str) -> Option<Range<u64>> {
    match text.split_once("..") {
        Some((from, to)) => Some(from.parse().ok()?..to.parse().ok()?),
        None => Some(0..text.parse().ok()?),
    }
}

/// Runs the requested seeds, or the first `count`, of `test` in the module `module` (its `module_path!()`); yields the
/// sum of their reports.
///
/// # Panics
/// With the first seed that fails, and the command that runs it again.
#[expect(clippy::print_stdout, reason = "what was covered is for people who run more seeds")]
pub fn all_right<C: Debug, S: Sum + Debug>(
    (module, test): (&str, &str),
    count: u64,
    case: impl Fn(u64) -> C + Sync,
    outcome: impl Fn(&C) -> Result<S, String> + Sync,
) -> S {
    let (sum, _, failed) = run(asked(count), Duration::MAX, |seed| outcome(&case(seed)));
    println!("{test}: {sum:#?}");
    if let Some((seed, what)) = failed {
        panic!(
            "seed {seed}: {what}\n{:?}\nagain: FARWOOD_SEEDS={seed}..{} cargo test -p farwood-proof --test all {}",
            case(seed),
            seed + 1,
            test_name(module, test)
        );
    }
    sum
}

/// Runs seeds on all processors, within `time`; stops at the first that fails. Yields the sum of all that did not,
/// and the least seed that was not begun.
///
/// # Errors
/// The seed that failed.
pub fn run<S: Sum>(
    seeds: Range<u64>,
    time: Duration,
    each: impl Fn(u64) -> Result<S, String> + Sync,
) -> (S, u64, Option<Failed>) {
    let (next, start) = (AtomicU64::new(seeds.start), Instant::now());
    let (total, failure) = (Mutex::new(S::default()), Mutex::new(None::<Failed>));
    let going_on = || failure.lock().expect("nobody panics with it").is_none() && start.elapsed() < time;
    let work = || {
        while going_on() {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds.end {
                break;
            }
            match each(seed) {
                Ok(sum) => total.lock().expect("nobody panics with it").add(&sum),
                Err(what) => {
                    failure.lock().expect("nobody panics with it").get_or_insert((seed, what));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let total = total.into_inner().expect("nobody panicked with it");
    let end = next.into_inner().min(seeds.end);
    (total, end, failure.into_inner().expect("nobody panicked with it"))
}
