//! `cargo xtask quick`: the checks of the inner loop.

use std::path::Path;

use crate::changes::changed_packages;
use crate::steps::{CheckStep, Output, run};
use xtask::tidy;

/// The help text.
pub(crate) const HELP: &str = "\
Runs the checks of the inner loop: a few minutes from a warm build. `cargo xtask test` runs everything.

Usage: cargo xtask quick [--verbose]

  --verbose   show the output of steps that pass as well

Steps:
  format   rustfmt
  tidy     the project checks
  lints    clippy on the packages that changed since the merge base with the main branch
  units    unit tests of fabric, geometry, index, sim and testkit
  seeds    a few seeds of each system, on the loopback fabric and in the simulator with faults
  costs    the golden cost tables
  mutants  two mutants that the seeds must detect

Examples:
  cargo xtask quick
  cargo xtask quick --verbose
";

/// Packages whose unit tests run: the layers below the transports. None of them starts a process.
const UNITS: &[&str] =
    &["farwood-fabric", "farwood-geometry", "farwood-index", "farwood-sim", "farwood-testkit"];

/// Seeds of each system and fabric.
const SEEDS: u64 = 4;

/// Tests that run seeds.
const SEED_TESTS: &[&str] = &[
    "sherman::interleavings::every_answer",
    "smart::interleavings::every_answer",
    "sphinx::interleavings::every_answer",
    "sherman::simulator::with_faults",
    "smart::simulator::with_faults",
    "sphinx::simulator::with_faults",
    "catfish::simulator::with_faults",
];

/// The golden cost tables of all systems.
const COST_TESTS: &[&str] = &["::costs::"];

/// One mutant of the fabric and one of the tree.
const MUTANT_TESTS: &[&str] =
    &["sherman::fabric_mutants::unlocks_before", "sphinx::mutants::an_unlock_before"];

/// Runs the steps on the tree at `root`; yields the number of failures.
///
/// # Errors
/// If the tree cannot be read or compared with the main branch.
pub(crate) fn quick(root: &Path, output: Output) -> Result<usize, String> {
    let tree = tidy::SourceTree::load(root).map_err(|error| error.to_string())?;
    let violations = tidy::check(&tree);
    for violation in &violations {
        println!("{violation}");
    }
    println!("tidy: {} violations", violations.len());
    let mut steps = vec![CheckStep::cargo("format", &["fmt", "--all", "--check"])];
    steps.extend(lints(&changed_packages(root)?));
    let units: Vec<&str> = UNITS.iter().flat_map(|package| ["--package", package]).collect();
    steps.push(CheckStep::tests("units", &[&units[..], &["--lib"]].concat()));
    steps.push(proofs("seeds", SEED_TESTS).with("FARWOOD_SEEDS", SEEDS));
    steps.push(proofs("costs", COST_TESTS));
    steps.push(proofs("mutants", MUTANT_TESTS));
    Ok(run(root, &steps, output) + violations.len())
}

/// Runs clippy on these packages, if there are any.
fn lints(packages: &[String]) -> Option<CheckStep> {
    let packages: Vec<&str> = packages.iter().flat_map(|package| ["--package", package]).collect();
    let arguments =
        [&["clippy", "--all-targets", "--locked"], &packages[..], &["--", "-D", "warnings"]].concat();
    (!packages.is_empty()).then(|| CheckStep::cargo("lints", &arguments))
}

/// The tests of indexes on fabrics whose names contain one of `filters`.
fn proofs(name: &'static str, filters: &[&str]) -> CheckStep {
    CheckStep::tests(name, &[&["--package", "farwood-proof", "--test", "all", "--"], filters].concat())
}
