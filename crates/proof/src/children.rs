//! Child processes that run the test program again.

use std::process::Command;

/// A command that runs one test of this program in a separate process. `module` is the `module_path!()` of the test,
/// `test` the name of its function.
///
/// # Panics
/// If the program has no path, or `module` is not below a crate.
pub fn rerun(module: &str, test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test program has a path"));
    command.args(["--exact", &test_name(module, test), "--nocapture"]);
    command
}

/// The name of a test in libtest: its path without the crate.
pub fn test_name(module: &str, test: &str) -> String {
    match module.split_once("::") {
        Some((_, module)) => format!("{module}::{test}"),
        None => test.to_owned(),
    }
}
