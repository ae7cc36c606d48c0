//! Tests that run alone in a separate process.

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The variable that names the test of a separate process.
const ALONE: &str = "FARWOOD_TEST_ALONE";

/// Returns whether this process is the separate one of the test.
pub(crate) fn is_separate_process(test: &str) -> bool {
    std::env::var_os(ALONE).is_some_and(|name| name == *test)
}

/// A separate process that runs only `test`, with pools in an own directory.
pub(crate) fn separate_process(test: &str) -> (Command, TempDir) {
    let shm = Path::new("/dev/shm");
    let root = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
    let directory = TempDir::with_prefix_in("farwood-alone-", root).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "--test-threads=1", test]);
    command.env(ALONE, test).env("FARWOOD_SHM_DIR", directory.path());
    (command, directory)
}

/// Runs the test in a separate process; returns whether this is that process.
pub(crate) fn is_alone(test: &str) -> bool {
    if is_separate_process(test) {
        return true;
    }
    let (mut command, _directory) = separate_process(test);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "it did not run");
    false
}
