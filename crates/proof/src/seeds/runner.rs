//! Runs a randomised test with many seeds on all processors, until one seed fails.

use crate::children::test_name;
pub use farwood_testkit::seeds::{Sum, range, run};
use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

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

/// The seeds that `FARWOOD_SEEDS` names (`17..18`, or a count), or the first `count`.
///
/// # Panics
/// If `FARWOOD_SEEDS` is neither a range nor a count.
pub fn requested(count: u64) -> Range<u64> {
    let Ok(requested) = std::env::var("FARWOOD_SEEDS") else { return 0..count };
    range(&requested).expect("FARWOOD_SEEDS is a count or a range like 17..18")
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
