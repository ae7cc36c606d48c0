//! Tells the program of which commit it was built, for its records.

use std::io::{Write as _, stdout};
use std::process::Command;

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Cargo reads what a build script prints.
fn tell(line: &str) {
    writeln!(stdout(), "cargo:{line}").expect("cargo listens");
}

fn main() {
    tell("rerun-if-env-changed=FARWOOD_COMMIT");
    if std::env::var_os("FARWOOD_COMMIT").is_some() {
        return;
    }
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return };
    if let Some(logs) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        tell(&format!("rerun-if-changed={logs}"));
    }
    tell(&format!("rustc-env=FARWOOD_COMMIT={commit}"));
}
