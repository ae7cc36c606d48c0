//! `cargo xtask msrv`: the library compiles with the oldest Rust release that its manifest names.

use serde::Deserialize;
use std::path::Path;
use std::process::Command;
use xtask::metadata::cargo_metadata;

/// The help text.
pub(crate) const HELP: &str = "\
Checks that the library compiles, with all its features, with the oldest Rust release that its `rust-version` names.
rustup installs the release if it is missing.

Usage: cargo xtask msrv

Examples:
  cargo xtask msrv
";

/// The package that other programs use. Cargo fails if this package depends on a package of the workspace with a newer
/// `rust-version`.
const LIBRARY: &str = "farwood";
/// The target directory, because another compiler would replace the output of the pinned one.
const TARGET: &str = "target/msrv";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    rust_version: Option<String>,
}

/// Checks the library of the workspace at `root`; yields the number of failures.
///
/// # Errors
/// If cargo cannot describe the workspace, the library names no release, or rustup does not have the release.
pub(crate) fn check(root: &Path) -> Result<usize, String> {
    let release = oldest_release(&cargo_metadata(root, &["--no-deps"])?)?;
    install(&release)?;
    println!("== Rust {release}: cargo check --package {LIBRARY} --all-features");
    // `cargo xtask` sets variables that select the pinned release.
    let status = Command::new("rustup")
        .args(["run", &release, "cargo", "check", "--locked", "--package", LIBRARY, "--all-features"])
        .args(["--target-dir", TARGET])
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO")
        .env_remove("RUSTC")
        .current_dir(root)
        .status();
    let status = status.map_err(|error| format!("cannot run rustup: {error}"))?;
    Ok(usize::from(!status.success()))
}

/// Returns the release that the library names in the output of `cargo metadata`.
fn oldest_release(metadata: &[u8]) -> Result<String, String> {
    let metadata: Metadata = serde_json::from_slice(metadata)
        .map_err(|error| format!("cargo metadata is not readable: {error}"))?;
    let library = metadata.packages.into_iter().find(|package| package.name == LIBRARY);
    let release = library.and_then(|package| package.rust_version);
    release.ok_or_else(|| format!("the package '{LIBRARY}' has no `rust-version`"))
}

/// Installs the release, unless it is there.
fn install(release: &str) -> Result<(), String> {
    let is_there = Command::new("rustup").args(["run", release, "rustc", "--version"]).output();
    let is_there = is_there.map_err(|error| format!("cannot run rustup: {error}; see https://rustup.rs"))?;
    if is_there.status.success() {
        return Ok(());
    }
    let installed =
        Command::new("rustup").args(["toolchain", "install", release, "--profile", "minimal"]).status();
    match installed {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("rustup cannot install Rust {release}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_that_of_the_library() {
        let metadata = r#"{"packages": [{"name": "farwood-cli", "rust_version": "1.95"},
            {"name": "farwood", "rust_version": "1.91"}]}"#;
        assert_eq!(oldest_release(metadata.as_bytes()).unwrap(), "1.91");
    }

    #[test]
    fn a_library_without_a_release_is_refused() {
        for metadata in
            [r#"{"packages": []}"#, r#"{"packages": [{"name": "farwood", "rust_version": null}]}"#]
        {
            assert!(oldest_release(metadata.as_bytes()).unwrap_err().contains("no `rust-version`"));
        }
    }
}
