//! Canaries: what is broken on purpose must be noticed, and what is not broken must be right, on the very same seed.

use std::fmt::Debug;

/// Runs seeds of what `broken` makes of the intact case, until one fails; then the intact case of that seed, which must
/// not.
///
/// # Panics
/// Where none of `seeds` seeds fails: the checks are blind to this kind of fault. And where the intact case fails: it
/// is not the fault that they noticed.
pub fn caught<C: Clone + Debug, R>(
    name: &str,
    seeds: u64,
    outcome: impl Fn(&C) -> Result<R, String>,
    intact: impl Fn(u64) -> C,
    broken: impl Fn(&mut C),
) {
    let noticed = (0..seeds).find_map(|seed| {
        let mut case = intact(seed);
        broken(&mut case);
        outcome(&case).err().map(|what| (seed, what))
    });
    let Some((seed, what)) = noticed else { panic!("{name} is not noticed within {seeds} seeds") };
    report(name, seed, &what);
    if let Err(what) = outcome(&intact(seed)) {
        panic!("{name}: seed {seed} fails without it, too: {what}\n{:?}", intact(seed));
    }
}

#[expect(clippy::print_stdout, reason = "which check noticed is for people who look")]
fn report(name: &str, seed: u64, what: &str) {
    println!("{name}: seed {seed}: {}", what.lines().next().unwrap_or_default());
}
