//! Passes the commit and the build profile to the compiler, because each record of a benchmark contains them.

use std::io::{Write as _, stdout};
use std::path::PathBuf;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The sources of this package and of those that it depends on. A commit is marked if one of them differs from it.
const SOURCES: [&str; 11] = [
    "src",
    "Cargo.toml",
    "../fabric",
    "../farwood",
    "../index",
    "../sim",
    "../transport",
    "build.rs",
    "../../Cargo.lock",
    "../../Cargo.toml",
    "../../rust-toolchain.toml",
];

/// Whether a source differs from the commit.
fn is_changed() -> bool {
    git(&[&["status", "--porcelain", "--"], &SOURCES[..]].concat()).is_none_or(|list| !list.is_empty())
}

/// Prints an instruction to cargo.
fn instruct(line: &str) {
    writeln!(stdout(), "cargo:{line}").expect("cargo reads the output");
}

/// The cargo profile: the folder of the target directory that holds the build, `target/PROFILE/build/CRATE/out`.
fn profile() -> Option<String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR")?);
    let folder = out.ancestors().nth(3)?.file_name()?.to_string_lossy().into_owned();
    // Only the profile `dev` has a folder of another name.
    Some(if folder == "debug" { "dev".to_owned() } else { folder })
}

fn main() {
    if let Some(profile) = profile() {
        instruct(&format!("rustc-env=FARWOOD_PROFILE={profile}"));
    }
    instruct("rerun-if-env-changed=FARWOOD_COMMIT");
    if std::env::var_os("FARWOOD_COMMIT").is_some() {
        return;
    }
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return };
    if let Some(logs) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        instruct(&format!("rerun-if-changed={logs}"));
    }
    for source in SOURCES {
        instruct(&format!("rerun-if-changed={source}"));
    }
    let mark = if is_changed() { "+" } else { "" };
    instruct(&format!("rustc-env=FARWOOD_COMMIT={commit}{mark}"));
}
