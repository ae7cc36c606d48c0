//! The output of `cargo metadata`.

use std::path::Path;
use std::process::Command;

/// Runs `cargo metadata` with these options on the workspace at `root`; returns its JSON.
///
/// # Errors
/// If cargo cannot be run or fails: a package cannot be downloaded, or `Cargo.lock` is outdated.
pub fn cargo_metadata(root: &Path, options: &[&str]) -> Result<Vec<u8>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(options)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
