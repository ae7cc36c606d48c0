//! Every dependency of this workspace has an accepted licence.

use xtask::licences;

#[test]
fn every_dependency_is_licensed() {
    let report = licences::check(&xtask::root()).expect("cargo describes the workspace");
    assert!(report.packages > 1, "cargo named no dependency");
    let refused: Vec<String> = report.refused.iter().map(ToString::to_string).collect();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
