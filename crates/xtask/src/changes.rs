//! Packages that differ from the main branch.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The branches that a change starts from, in order of preference.
const BASES: &[&str] = &["origin/main", "main"];

/// Packages with files that changed since the merge base with the main branch, in the order of their names. Changes
/// that are not committed count as well.
///
/// # Errors
/// If git fails, or a manifest cannot be read.
pub(crate) fn changed_packages(root: &Path) -> Result<Vec<String>, String> {
    let git = |arguments: &[&str]| git(root, arguments);
    let base = BASES.iter().find_map(|branch| git(&["merge-base", branch, "HEAD"]).ok());
    let base = base.unwrap_or_else(|| "HEAD".to_owned());
    let tracked = git(&["diff", "--name-only", base.trim()])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    let folders = folders(tracked.lines().chain(new.lines()));
    let manifests = folders.iter().map(|folder| root.join("crates").join(folder).join("Cargo.toml"));
    manifests.filter(|manifest| manifest.exists()).map(|manifest| package_name(&manifest)).collect()
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).current_dir(root).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git {}: {}", arguments.join(" "), why.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The folders below `crates` that hold these files.
fn folders<'a>(files: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    files.filter_map(|file| file.strip_prefix("crates/")?.split_once('/').map(|(folder, _)| folder)).collect()
}

fn package_name(manifest: &Path) -> Result<String, String> {
    let text =
        std::fs::read_to_string(manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
    let table: toml::Table = text.parse().map_err(|error| format!("{}: {error}", manifest.display()))?;
    let name = table.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
    name.map(str::to_owned).ok_or_else(|| format!("{} names no package", manifest.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lead_to_their_packages() {
        let files = ["crates/index/src/lib.rs", "README.md", "crates/index/Cargo.toml", "crates/sim/a.rs"];
        assert_eq!(folders(files.into_iter()).into_iter().collect::<Vec<_>>(), ["index", "sim"]);
        let manifest = xtask::root().join("crates/index/Cargo.toml");
        assert_eq!(package_name(&manifest), Ok("farwood-index".to_owned()));
    }

    #[test]
    fn this_tree_can_be_compared() {
        // A copy of the sources without git has nothing to compare with.
        let has_git = git(&xtask::root(), &["rev-parse", "HEAD"]).is_ok();
        assert_eq!(changed_packages(&xtask::root()).is_ok(), has_git);
    }
}
