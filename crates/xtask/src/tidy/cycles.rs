//! A crate has no large import cycle between its files.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Modules, crates};
use super::{Rule, SourceTree, Violation};

pub(super) const RULE: Rule = Rule {
    name: "cycles",
    requires: "no more than three files of a crate import each other in a cycle",
    check,
};

/// Largest number of files that may import each other.
const FILES_MAX: usize = 3;

/// Names of a large cycle that a message lists.
const NAMED_MAX: usize = 12;

const REMEDY: &str = "move the shared types or constants to a file that imports none of the others";

type Imports<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn check(tree: &SourceTree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for krate in crates(tree) {
        let modules = Modules::of(tree, krate);
        for cycle in cycles(&modules.imports()).into_iter().filter(|cycle| cycle.len() > FILES_MAX) {
            let sources = format!("crates/{krate}/src/");
            let names: Vec<&str> =
                cycle.iter().take(NAMED_MAX).map(|path| path.trim_start_matches(sources.as_str())).collect();
            let found = format!("a cycle of {} files: {}", cycle.len(), names.join(", "));
            let violation = |path: &&str| Violation {
                path: (*path).to_owned(),
                line: 1,
                found: found.clone(),
                remedy: REMEDY,
            };
            violations.extend(cycle.iter().map(violation));
        }
    }
    violations
}

/// The sets of files that reach each other, each in order of its paths.
fn cycles<'a>(imports: &Imports<'a>) -> Vec<Vec<&'a str>> {
    let reached: Imports<'a> = imports.keys().map(|file| (*file, reachable(imports, file))).collect();
    let mut cycles: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (file, targets) in &reached {
        let returns = |target: &&&str| reached[*target].contains(file);
        let cycle: Vec<&str> = targets.iter().filter(returns).copied().collect();
        if !cycle.is_empty() {
            cycles.insert(cycle);
        }
    }
    cycles.into_iter().collect()
}

fn reachable<'a>(imports: &Imports<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for target in imports.get(file).into_iter().flatten() {
            if reached.insert(*target) {
                open.push(target);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    #[test]
    fn a_cycle_of_four_files_is_found() {
        let files = [
            ("crates/a/src/a.rs", "use crate::b::B;"),
            ("crates/a/src/b.rs", "use crate::c::C;"),
            ("crates/a/src/c.rs", "fn f() { crate::d::g() }"),
            ("crates/a/src/d.rs", "use super::a::A;"),
            ("crates/a/src/e.rs", "use crate::a::A;"),
        ];
        let found = found_by(RULE, &files);
        assert_eq!(found.len(), 4);
        assert_eq!(found[0], "crates/a/src/a.rs:1 a cycle of 4 files: a.rs, b.rs, c.rs, d.rs");
    }

    #[test]
    fn three_files_may_import_each_other() {
        let files = [
            ("crates/a/src/a.rs", "use crate::b::B;"),
            ("crates/a/src/b.rs", "use crate::c::C;"),
            ("crates/a/src/c.rs", "use crate::a::A;"),
        ];
        assert!(found_by(RULE, &files).is_empty());
    }
}
