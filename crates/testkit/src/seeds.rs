//! Runs a randomised test with many seeds on all processors, until one seed fails.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A report whose counters can be summed over runs.
pub trait Sum: Default + Send {
    /// Adds another run's report.
    fn add(&mut self, other: &Self);
}

/// Parses a count of seeds, which begin at 0, or a range of seeds like `17..18`.
pub fn range(text: &str) -> Option<Range<u64>> {
    match text.split_once("..") {
        Some((from, to)) => Some(from.parse().ok()?..to.parse().ok()?),
        None => Some(0..text.parse().ok()?),
    }
}

/// Runs `run`; a panic becomes an error with its message.
///
/// # Errors
/// The message of the panic.
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        format!("panic: {}", text.unwrap_or_default())
    })
}

/// Runs seeds on all processors, within `time`, until one fails. Yields the sum of the reports, the least seed that did
/// not run, and the least seed of those that failed, with its failure.
pub fn run<S: Sum, E: Send>(
    seeds: Range<u64>,
    time: Duration,
    each: impl Fn(u64) -> Result<S, E> + Sync,
) -> (S, u64, Option<(u64, E)>) {
    let (next, start) = (AtomicU64::new(seeds.start), Instant::now());
    let (total, failure) = (Mutex::new(S::default()), Mutex::new(None::<(u64, E)>));
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
                    let mut least = failure.lock().expect("no thread panics while it holds the lock");
                    if least.as_ref().is_none_or(|(failed, _)| seed < *failed) {
                        *least = Some((seed, what));
                    }
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
