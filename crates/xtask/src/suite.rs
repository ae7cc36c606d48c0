//! `cargo xtask test`: everything that a change must pass.

use std::path::Path;

use crate::steps::{CheckStep, Output, run};

/// The help text.
pub(crate) const HELP: &str = "\
Runs everything that a change must pass: rustfmt, clippy, rustdoc with warnings as errors, and
`cargo test --workspace --locked --no-fail-fast`, which includes tidy and licences. A summary lists the tests that were
skipped and what this machine lacks for them.

Usage: cargo xtask test [CARGO ARGUMENTS]

With arguments, only `cargo test --locked --no-fail-fast` runs, with the arguments in place of `--workspace`.

Environment:
  FARWOOD_STRICT=1                a test whose need is not met fails instead of being skipped
  FARWOOD_STRICT_EXCEPT=NEED,..   needs whose tests are skipped nevertheless

Examples:
  cargo xtask test
  cargo xtask test --package farwood-index
  FARWOOD_STRICT=1 FARWOOD_STRICT_EXCEPT=netns cargo xtask test
";

/// Runs the tests of the tree at `root`; yields the number of failures. `arguments` replace `--workspace`.
///
/// # Errors
/// If `FARWOOD_STRICT` has a value that the tests do not know.
pub(crate) fn test(root: &Path, arguments: &[&str]) -> Result<usize, String> {
    match std::env::var("FARWOOD_STRICT").as_deref() {
        Ok("0" | "1" | "") | Err(_) => {}
        Ok(value) => return Err(format!("FARWOOD_STRICT is '{value}'; set it to 0 or 1")),
    }
    Ok(run(root, &steps(arguments), Output::Shown))
}

/// The steps: format, lints and documentation first, unless `arguments` select a part of the tests.
fn steps(arguments: &[&str]) -> Vec<CheckStep> {
    let tests = |arguments: &[&str]| CheckStep::tests("tests", &[&["--no-fail-fast"], arguments].concat());
    if !arguments.is_empty() {
        return vec![tests(arguments)];
    }
    let lints = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    vec![
        CheckStep::cargo("format", &["fmt", "--all", "--check"]),
        CheckStep::cargo("lints", &lints),
        CheckStep::cargo("docs", &["doc", "--workspace", "--no-deps", "--locked"])
            .with("RUSTDOCFLAGS", "-Dwarnings"),
        tests(&["--workspace"]),
    ]
}
