//! Every dependency has an accepted licence, including dependencies of optional features and of other platforms.

use crate::metadata::cargo_metadata;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use spdx::{Expression, Licensee, ParseMode};

/// The file with the accepted licences, which `cargo deny` reads as well.
const DENY_FILE: &str = "deny.toml";

/// The parts of [`DENY_FILE`] that this check needs.
#[derive(Deserialize)]
struct DenyFile {
    licenses: LicenceRules,
}

#[derive(Deserialize)]
struct LicenceRules {
    allow: Vec<String>,
}

/// The accepted licences.
fn allowed(root: &Path) -> Result<Vec<Licensee>, String> {
    let text =
        std::fs::read_to_string(root.join(DENY_FILE)).map_err(|error| format!("{DENY_FILE}: {error}"))?;
    let file: DenyFile = toml::from_str(&text).map_err(|error| format!("{DENY_FILE}: {error}"))?;
    let parse = |name: &String| {
        Licensee::parse(name)
            .map_err(|error| format!("{DENY_FILE}: '{name}' is not an SPDX licence identifier: {error}"))
    };
    file.licenses.allow.iter().map(parse).collect()
}

/// The result of the check.
#[derive(Debug)]
pub struct LicenceReport {
    /// Number of checked packages.
    pub packages: usize,
    /// Refused packages.
    pub refused: Vec<Refusal>,
}

/// A package whose licence is not accepted.
#[derive(Debug)]
pub struct Refusal {
    /// Name and version.
    pub package: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}; replace it, or justify the licence in a decision record",
            self.package, self.reason
        )
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
}

/// Checks the licence of every package that cargo lists for the workspace at `root`.
///
/// # Errors
/// If cargo fails: a package cannot be downloaded, or `Cargo.lock` is outdated.
pub fn check(root: &Path) -> Result<LicenceReport, String> {
    let metadata = cargo_metadata(root, &["--all-features"])?;
    judge(&metadata, &allowed(root)?)
}

/// Checks the packages in the output of `cargo metadata`.
fn judge(metadata: &[u8], allowed: &[Licensee]) -> Result<LicenceReport, String> {
    let metadata: Metadata = serde_json::from_slice(metadata)
        .map_err(|error| format!("cargo metadata is not readable: {error}"))?;
    let refused = metadata.packages.iter().filter_map(|package| {
        let reason = verdict(package.license.as_deref(), allowed).err()?;
        Some(Refusal { package: format!("{} {}", package.name, package.version), reason })
    });
    Ok(LicenceReport { packages: metadata.packages.len(), refused: refused.collect() })
}

/// Whether one licence expression can be satisfied from the accepted licences.
fn verdict(licence: Option<&str>, allowed: &[Licensee]) -> Result<(), String> {
    let licence = licence.ok_or("no licence expression")?;
    // Lax, because many crates use the old form `MIT/Apache-2.0`.
    let expression = Expression::parse_mode(licence, ParseMode::LAX)
        .map_err(|error| format!("`{licence}` is not a licence expression ({})", error.reason))?;
    let failed = match expression
        .evaluate_with_failures(|asked| allowed.iter().any(|licensee| licensee.satisfies(asked)))
    {
        Ok(()) => return Ok(()),
        Err(failed) => failed,
    };
    let failed: Vec<String> = failed.iter().map(|asked| asked.req.to_string()).collect();
    Err(format!("`{licence}` needs {}, not on the allow-list", failed.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Vec<Licensee> {
        allowed(&crate::root()).unwrap()
    }

    #[test]
    fn expressions_that_the_list_satisfies_are_accepted() {
        for licence in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
        ] {
            assert_eq!(verdict(Some(licence), &list()), Ok(()), "{licence}");
        }
    }

    #[test]
    fn expressions_that_need_more_are_refused_with_the_licence() {
        let reason = verdict(Some("MIT AND GPL-3.0-only"), &list()).unwrap_err();
        assert!(reason.contains("needs GPL-3.0-only"), "{reason}");
        assert!(verdict(Some("Apache-2.0 WITH Classpath-exception-2.0"), &list()).is_err());
        assert!(verdict(Some("see LICENSE"), &list()).is_err());
        assert_eq!(verdict(None, &list()), Err("no licence expression".to_string()));
    }

    #[test]
    fn a_refused_package_is_named() {
        let metadata = br#"{"packages": [
            {"name": "good", "version": "1.0.0", "license": "ISC"},
            {"name": "bad", "version": "2.0.0", "license": "AGPL-3.0-only"},
            {"name": "mute", "version": "3.0.0", "license": null}
        ]}"#;
        let report = judge(metadata, &list()).unwrap();
        assert_eq!(report.packages, 3);
        let refused: Vec<&str> = report.refused.iter().map(|refusal| refusal.package.as_str()).collect();
        assert_eq!(refused, ["bad 2.0.0", "mute 3.0.0"]);
    }
}
