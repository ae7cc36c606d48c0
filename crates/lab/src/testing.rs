//! The checks as functions for `cargo test`.

use crate::FarIndex;
use crate::case::{CLIENTS, CaseOptions, KEYS, OPERATIONS};
use crate::check::{Explained, explain, run_seeds};
use crate::faults::FaultMix;

/// The command in the texts of findings.
const PROGRAM: &str = "cargo run --release --";

/// The options of the command `check` by default.
fn options(mutant: Option<&'static str>) -> CaseOptions {
    CaseOptions {
        faults: FaultMix::All,
        clients: CLIENTS as usize,
        keys: KEYS,
        operations: OPERATIONS,
        only_faults: None,
        mutant,
    }
}

/// Runs the first `seeds` seeds of `check`.
///
/// # Panics
/// If a seed finds something; the message is that of `check`.
pub fn check<I: FarIndex>(seeds: u64) {
    if let Some(text) = find::<I>(seeds, None) {
        panic!("{}: {text}", I::NAME);
    }
}

/// Runs the first `seeds` seeds of `check`, with a deliberate defect if one is named; yields the text of the finding.
pub fn find<I: FarIndex>(seeds: u64, mutant: Option<&'static str>) -> Option<String> {
    explained::<I>(seeds, mutant).map(|explained| explained.text)
}

/// As [`find`]; yields the trace of the finding, as JSON for Perfetto.
pub fn find_trace<I: FarIndex>(seeds: u64, mutant: Option<&'static str>) -> Option<String> {
    explained::<I>(seeds, mutant).map(|explained| explained.trace.to_json())
}

fn explained<I: FarIndex>(seeds: u64, mutant: Option<&'static str>) -> Option<Explained> {
    let (_, found) = run_seeds::<I>(0..seeds, &options(mutant));
    found.map(|found| explain::<I>(&found, PROGRAM))
}

/// Crashes a client at every verb of every operation.
///
/// # Panics
/// If the other clients find something wrong.
pub fn crashes<I: FarIndex>() {
    let tried = crate::crashes::run_all::<I>(None).unwrap_or_else(|error| panic!("{}: {error}", I::NAME));
    for tried in tried {
        assert!(tried.problems.is_empty(), "{}, {}: {:#?}", I::NAME, tried.call.name(), tried.problems);
    }
}

/// Checks that each deliberate defect is found.
///
/// # Panics
/// If one is not found within 50 seeds.
pub fn canaries<I: FarIndex>() {
    for (name, noticed) in crate::canaries::run_all::<I>(&options(None)) {
        assert!(noticed.is_some(), "{}: {name} is not found", I::NAME);
    }
}

/// The table of costs, as `costs` prints it.
///
/// # Panics
/// If an operation fails.
pub fn costs<I: FarIndex>() -> String {
    crate::costs::table::<I>().unwrap_or_else(|error| panic!("{}: {error}", I::NAME))
}
