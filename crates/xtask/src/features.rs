//! `cargo xtask features`: each package compiles on its own, with its default features, without them, and with each
//! feature alone. A build of the whole workspace unifies features, so it compiles a package that uses a feature which
//! only another package enables. The fuzz targets are a workspace of their own, so no other check compiles them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use xtask::metadata::cargo_metadata;

use serde::Deserialize;

/// The help text.
pub(crate) const HELP: &str = "\
Checks that each package of the workspace compiles on its own: with its default features, without them, and with each
feature alone. A build of the whole workspace unifies features and cannot show it. Without PACKAGE, also that the fuzz
targets compile, which needs a C++ compiler.

Usage: cargo xtask features [PACKAGE]

Examples:
  cargo xtask features
  cargo xtask features farwood-transport
";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    features: BTreeMap<String, Vec<String>>,
}

/// Checks all packages of the workspace at `root`, or the one that `only` names; yields the number of failures.
///
/// # Errors
/// If cargo cannot describe the workspace, or has no such package.
pub(crate) fn check(root: &Path, only: Option<&str>) -> Result<usize, String> {
    let metadata: Metadata = serde_json::from_slice(&cargo_metadata(root, &["--no-deps"])?)
        .map_err(|error| format!("cargo metadata is not readable: {error}"))?;
    let selected = |package: &&Package| only.is_none_or(|only| only == package.name);
    let builds: Vec<_> = metadata.packages.iter().filter(selected).flat_map(builds).collect();
    if builds.is_empty() {
        return Err(format!("no package is called '{}'", only.unwrap_or_default()));
    }
    let fuzz = ["--manifest-path", "fuzz/Cargo.toml"].map(str::to_owned).to_vec();
    let fuzz = only.is_none().then_some(fuzz);
    let mut failures = 0;
    for build in builds.iter().chain(&fuzz) {
        println!("== cargo check {}", build.join(" "));
        let status =
            Command::new(env!("CARGO")).args(["check", "--locked"]).args(build).current_dir(root).status();
        failures += usize::from(!status.is_ok_and(|status| status.success()));
    }
    Ok(failures)
}

/// The arguments of each build of a package.
fn builds(package: &Package) -> Vec<Vec<String>> {
    let alone = package.features.keys().filter(|feature| *feature != "default").map(String::as_str);
    let mut builds = vec![vec!["--package", &package.name]];
    if !package.features.is_empty() {
        builds.push(vec!["--package", &package.name, "--no-default-features"]);
    }
    builds.extend(
        alone.map(|feature| vec!["--package", &package.name, "--no-default-features", "--features", feature]),
    );
    builds.into_iter().map(|build| build.into_iter().map(str::to_owned).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_built_alone() {
        let features = ["default", "tcp"].map(|name| (name.to_owned(), Vec::new()));
        let package = |features| Package { name: "p".to_owned(), features };
        let built =
            |features| builds(&package(features)).iter().map(|build| build.join(" ")).collect::<Vec<_>>();
        assert_eq!(built(BTreeMap::new()), ["--package p"]);
        assert_eq!(
            built(BTreeMap::from(features)),
            [
                "--package p",
                "--package p --no-default-features",
                "--package p --no-default-features --features tcp"
            ]
        );
    }
}
