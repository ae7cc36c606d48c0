//! Mutation tests: the checks must notice a mutant (an index or fabric that is broken deliberately), and must accept
//! the intact version on the same seed.

use std::fmt::Debug;

/// Runs seeds of the mutant that `mutate` makes of the intact case, until one fails; then the intact case of that
/// seed, which must succeed.
///
/// # Panics
/// If none of `seeds` seeds fails, because the checks do not notice this kind of fault, and if the intact case fails,
/// because the checks noticed another fault.
pub fn expect_noticed<C: Clone + Debug, R>(
    name: &str,
    seeds: u64,
    outcome: impl Fn(&C) -> Result<R, String>,
    intact: impl Fn(u64) -> C,
    mutate: impl Fn(&mut C),
) {
    let noticed = (0..seeds).find_map(|seed| {
        let mut case = intact(seed);
        mutate(&mut case);
        outcome(&case).err().map(|what| (seed, what))
    });
    let Some((seed, what)) = noticed else { panic!("{name} is not noticed within {seeds} seeds") };
    report(name, seed, &what);
    if let Err(what) = outcome(&intact(seed)) {
        panic!("{name}: seed {seed} fails without the mutant, too: {what}\n{:?}", intact(seed));
    }
}

#[expect(clippy::print_stdout, reason = "the output names the check that noticed the mutant")]
fn report(name: &str, seed: u64, what: &str) {
    println!("{name}: seed {seed}: {}", what.lines().next().unwrap_or_default());
}
