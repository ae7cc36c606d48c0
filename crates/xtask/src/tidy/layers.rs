//! The allowed dependencies between packages, which point down only.

use toml::{Table, Value};

use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule = Rule {
    name: "layers",
    requires: "a package depends only on the layers below it, and takes the workspace's lints",
    check,
};

const FABRIC: &str = "farwood-fabric";
const GEOMETRY: &str = "farwood-geometry";
const INDEX: &str = "farwood-index";
const SIM: &str = "farwood-sim";
const TRANSPORT: &str = "farwood-transport";
const TESTKIT: &str = "farwood-testkit";
const FARWOOD: &str = "farwood";
const BENCH: &str = "farwood-bench";
const LAB: &str = "farwood-lab";
const DEMO: &str = "farwood-demo";
const CLI: &str = "farwood-cli";
const C_LIBRARY: &str = "farwood-c";
const PYTHON: &str = "farwood-python";
const PROOF: &str = "farwood-proof";

/// The packages of the workspace with the packages that their code may use.
const LAYERS: &[(&str, &[&str])] = &[
    (FABRIC, &[]),
    (GEOMETRY, &[]),
    (INDEX, &[FABRIC]),
    (SIM, &[FABRIC]),
    (TRANSPORT, &[FABRIC]),
    (TESTKIT, &[FABRIC]),
    (FARWOOD, &[FABRIC, GEOMETRY, INDEX, TRANSPORT]),
    (BENCH, &[FABRIC, INDEX, SIM, TRANSPORT, FARWOOD]),
    (LAB, &[FABRIC, INDEX, SIM, TESTKIT, BENCH]),
    (DEMO, &[FABRIC, INDEX, SIM, TRANSPORT, FARWOOD, BENCH]),
    (CLI, &[FARWOOD, GEOMETRY, BENCH, DEMO]),
    (C_LIBRARY, &[FARWOOD]),
    (PYTHON, &[FARWOOD, GEOMETRY]),
    (PROOF, &[FABRIC, INDEX, SIM, TRANSPORT, TESTKIT, BENCH, FARWOOD]),
    ("xtask", &[]),
];

/// Packages that tests may use in addition to [`LAYERS`]. Tests of an index on a fabric are in `proof`.
const TEST_LAYERS: &[(&str, &[&str])] = &[
    (INDEX, &[TESTKIT]),
    (SIM, &[TESTKIT]),
    // The package depends on itself so that its own tests run with all of its features.
    (TRANSPORT, &[TESTKIT, TRANSPORT]),
    (TESTKIT, &[INDEX, SIM, TRANSPORT]),
    (FARWOOD, &[TESTKIT, FARWOOD]),
    (BENCH, &[TESTKIT]),
    (CLI, &[FABRIC, TRANSPORT, TESTKIT]),
    (C_LIBRARY, &[TESTKIT]),
];

fn check(tree: &SourceTree) -> Vec<Violation> {
    let manifests = tree.files().filter(|file| file.krate().is_some() && file.name() == "Cargo.toml");
    manifests.flat_map(check_manifest).collect()
}

fn check_manifest(file: &File) -> Vec<Violation> {
    let Ok(manifest) = file.text.parse::<Table>() else {
        return vec![Violation::new(file, 1, "this is not TOML", "write a manifest that cargo can read")];
    };
    let package = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
    let package = package.unwrap_or_default();
    let Some(layers) = allowed(LAYERS, package) else {
        let remedy = "add it to crates/xtask/src/tidy/layers.rs, with a decision record";
        return vec![Violation::new(file, 1, format!("the package `{package}` has no layer"), remedy)];
    };
    let test_layers = allowed(TEST_LAYERS, package).unwrap_or_default();
    let mut violations = Vec::new();
    for (kind, dependency) in dependencies(&manifest) {
        let in_house = dependency == "xtask" || dependency == FARWOOD || dependency.starts_with("farwood-");
        let for_tests = kind == "dev-dependencies" && test_layers.contains(&dependency);
        if in_house && !for_tests && !layers.contains(&dependency) {
            let found = format!("`{package}` must not have `{dependency}` among its {kind}");
            let remedy = "move the code to a package that may, or take the value as a parameter";
            violations.push(Violation::new(file, line_of(file, dependency), found, remedy));
        }
    }
    let lints = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(Value::as_bool);
    if lints != Some(true) {
        let found = format!("`{package}` does not take the workspace's lints");
        violations.push(Violation::new(file, 1, found, "add `[lints]` with `workspace = true`"));
    }
    violations
}

fn allowed(table: &[(&str, &'static [&'static str])], package: &str) -> Option<&'static [&'static str]> {
    table.iter().find(|(name, _)| *name == package).map(|(_, layers)| *layers)
}

/// Every dependency with the kind of its table, including those of single targets.
fn dependencies(manifest: &Table) -> Vec<(&'static str, &str)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(|targets| targets.values().filter_map(Value::as_table));
    let mut found = Vec::new();
    for table in std::iter::once(manifest).chain(targets) {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, value) in table.get(kind).and_then(Value::as_table).into_iter().flatten() {
                found.push((kind, value.get("package").and_then(Value::as_str).unwrap_or(name)));
            }
        }
    }
    found
}

/// The line that names a dependency, by its key or by `package`.
fn line_of(file: &File, dependency: &str) -> usize {
    let names = |line: &str| {
        let key = line.split(['=', '.']).next().unwrap_or_default().trim();
        key == dependency || (line.contains("package") && line.contains(&format!("\"{dependency}\"")))
    };
    file.lines().find(|(_, line)| names(line)).map_or(1, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    fn found(package: &str, rest: &str) -> Vec<String> {
        let text = format!("lints.workspace = true\n[package]\nname = \"{package}\"\n{rest}");
        found_by(RULE, &[("crates/a/Cargo.toml", &text)])
    }

    #[test]
    fn a_dependency_on_a_higher_layer_is_found() {
        let violations = found("farwood-index", "[dependencies]\nfarwood-transport.workspace = true\n");
        assert_eq!(
            violations,
            [
                "crates/a/Cargo.toml:5 `farwood-index` must not have `farwood-transport` among its dependencies"
            ]
        );
    }

    #[test]
    fn lower_layers_and_external_crates_are_allowed() {
        let dependencies = "[dependencies]\nfarwood-fabric.workspace = true\nlibc = \"0.2\"\n";
        assert!(found("farwood-index", dependencies).is_empty());
    }

    #[test]
    fn tests_may_use_the_testkit_but_not_the_proof() {
        let tests = |name| format!("[dev-dependencies]\n{name} = \"1\"\n");
        assert!(found("farwood-transport", &tests("farwood-testkit")).is_empty());
        assert_eq!(found("farwood-transport", &tests("farwood-proof")).len(), 1);
        assert_eq!(found("farwood-index", &tests("farwood-transport")).len(), 1);
    }

    #[test]
    fn renamed_dependencies_and_those_of_targets_are_found() {
        assert_eq!(
            found("farwood-sim", "[dependencies]\ntrees = { package = \"farwood-index\" }\n").len(),
            1
        );
        assert_eq!(
            found("farwood-sim", "[target.'cfg(unix)'.dependencies]\nfarwood-index = \"1\"\n").len(),
            1
        );
    }

    #[test]
    fn a_package_has_a_layer_and_the_lints() {
        assert_eq!(
            found("farwood-novel", ""),
            ["crates/a/Cargo.toml:1 the package `farwood-novel` has no layer"]
        );
        let violations = found_by(RULE, &[("crates/a/Cargo.toml", "[package]\nname = \"farwood-sim\"\n")]);
        assert_eq!(violations, ["crates/a/Cargo.toml:1 `farwood-sim` does not take the workspace's lints"]);
    }
}
