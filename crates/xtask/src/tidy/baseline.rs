//! Known violations. Their number may decrease and never increase.
//!
//! `crates/xtask/tidy-baseline.tsv` holds one line for each rule and file: the rule, the path, and how many
//! violations the file has. A rule compares the sums of crates (or folders), so that a file may be renamed or split.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{RULES, SourceTree, Violation};

/// The file that holds the baseline.
pub(super) const PATH: &str = "crates/xtask/tidy-baseline.tsv";

/// Number of violations, by the name of the rule and by the path of the file.
type Counts = BTreeMap<(String, String), usize>;

/// The baseline of a tree; empty if the tree has none.
pub(super) fn of(tree: &SourceTree) -> Counts {
    let text = tree.files().find(|file| file.path == PATH).map_or("", |file| &file.text);
    let entry = |line: &str| {
        let mut fields = line.split('\t');
        let (rule, path, count) = (fields.next()?, fields.next()?, fields.next()?);
        Some(((rule.to_owned(), path.to_owned()), count.parse().ok()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(entry).collect()
}

/// The violations of a tree, by rule and path.
pub(super) fn counts(tree: &SourceTree) -> Counts {
    let mut counts = Counts::new();
    for rule in RULES {
        for violation in (rule.check)(tree) {
            *counts.entry((rule.name.to_owned(), violation.path)).or_default() += 1;
        }
    }
    counts
}

/// The scope of a path: its crate, its folder, or the root.
fn scope(path: &str) -> &str {
    let end = match path.strip_prefix("crates/") {
        Some(rest) => rest.find('/').map(|at| at + "crates/".len()),
        None => path.find('/'),
    };
    end.map_or(".", |end| &path[..end])
}

/// Sums by rule and scope.
fn by_scope(counts: &Counts) -> BTreeMap<(&str, &str), usize> {
    let mut sums = BTreeMap::new();
    for ((rule, path), count) in counts {
        *sums.entry((rule.as_str(), scope(path))).or_default() += count;
    }
    sums
}

/// Violations of one rule that the baseline does not cover: in each scope with more violations than its baseline, the
/// violations of the files with more violations than theirs.
pub(super) fn beyond(baseline: &Counts, rule: &str, violations: Vec<Violation>) -> Vec<Violation> {
    let mut counts = Counts::new();
    for violation in &violations {
        *counts.entry((rule.to_owned(), violation.path.clone())).or_default() += 1;
    }
    let (known, found) = (by_scope(baseline), by_scope(&counts));
    let has_more = |path: &str| {
        let scope = (rule, scope(path));
        let file = (rule.to_owned(), path.to_owned());
        found[&scope] > known.get(&scope).copied().unwrap_or(0)
            && counts[&file] > baseline.get(&file).copied().unwrap_or(0)
    };
    violations.into_iter().filter(|violation| has_more(&violation.path)).collect()
}

/// Rules and scopes with fewer violations than in the baseline, as lines of text.
pub(super) fn lower(baseline: &Counts, counts: &Counts) -> Vec<String> {
    let found = by_scope(counts);
    let mut lines = Vec::new();
    for (scope, known) in by_scope(baseline) {
        let now = found.get(&scope).copied().unwrap_or(0);
        if now < known {
            lines.push(format!("{} in {}: {now}, and {known} in the baseline", scope.0, scope.1));
        }
    }
    lines
}

/// Describes why the counts may not become the baseline (a scope has more than before); returns `None` if they may.
pub(super) fn refusal(baseline: &Counts, counts: &Counts) -> Option<String> {
    let known = by_scope(baseline);
    let grown =
        by_scope(counts).into_iter().find(|(scope, now)| *now > known.get(scope).copied().unwrap_or(0));
    grown
        .map(|((rule, scope), now)| format!("{rule} in {scope} has {now} violations, more than its baseline"))
}

/// The baseline file with these counts.
pub(super) fn text(counts: &Counts) -> String {
    let mut text =
        "# Known violations: rule, file, count. `cargo xtask tidy --shrink` lowers the counts.\n".to_owned();
    for ((rule, path), count) in counts {
        let _ = writeln!(text, "{rule}\t{path}\t{count}");
    }
    text
}

/// A table of violations: one line for each crate or folder, one column for each rule that has any.
pub(super) fn table(counts: &Counts) -> String {
    let sums = by_scope(counts);
    let rules: Vec<&str> =
        RULES.iter().map(|rule| rule.name).filter(|rule| sums.keys().any(|(of, _)| of == rule)).collect();
    let mut scopes: Vec<&str> = sums.keys().map(|(_, scope)| *scope).collect();
    scopes.sort_unstable();
    scopes.dedup();
    let cell = |text: &str| format!("{text:>17}");
    let mut table = format!("{:<18}{}\n", "", rules.iter().map(|rule| cell(rule)).collect::<String>());
    let count = |rule: &str, scope: &str| sums.get(&(rule, scope)).copied().unwrap_or(0);
    for scope in scopes {
        let cells = rules.iter().map(|rule| cell(&count(rule, scope).to_string()));
        let _ = writeln!(table, "{scope:<18}{}", cells.collect::<String>());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts_of(entries: &[(&str, &str, usize)]) -> Counts {
        entries.iter().map(|(rule, path, count)| (((*rule).into(), (*path).into()), *count)).collect()
    }

    fn violations(paths: &[&str]) -> Vec<Violation> {
        let violation =
            |path: &&str| Violation { path: (*path).into(), line: 1, found: String::new(), remedy: "" };
        paths.iter().map(violation).collect()
    }

    #[test]
    fn a_scope_may_not_have_more_violations_than_its_baseline() {
        let baseline = counts_of(&[("prose", "crates/a/src/a.rs", 2), ("prose", "crates/a/src/b.rs", 1)]);
        let known = ["crates/a/src/a.rs", "crates/a/src/a.rs", "crates/a/src/renamed.rs"];
        assert!(beyond(&baseline, "prose", violations(&known)).is_empty());
        let more = [&known[..], &["crates/a/src/b.rs"]].concat();
        let found = beyond(&baseline, "prose", violations(&more));
        assert_eq!(found.iter().map(|v| v.path.as_str()).collect::<Vec<_>>(), ["crates/a/src/renamed.rs"]);
        assert_eq!(beyond(&baseline, "cycles", violations(&known)).len(), 3);
        assert_eq!(beyond(&baseline, "prose", violations(&["docs/a.md", "README.md"])).len(), 2);
    }

    #[test]
    fn a_baseline_only_shrinks() {
        let before = counts_of(&[("prose", "crates/a/src/a.rs", 2)]);
        let moved = counts_of(&[("prose", "crates/a/src/b.rs", 2)]);
        let fewer = counts_of(&[("prose", "crates/a/src/b.rs", 1)]);
        assert_eq!(refusal(&before, &moved), None);
        assert_eq!(lower(&before, &moved), Vec::<String>::new());
        assert_eq!(lower(&before, &fewer), ["prose in crates/a: 1, and 2 in the baseline"]);
        assert!(refusal(&fewer, &before).is_some());
    }

    #[test]
    fn a_baseline_is_read_back() {
        let counts = counts_of(&[("prose", "docs/a.md", 2), ("cycles", "crates/a/src/b.rs", 4)]);
        let tree = SourceTree::of(&[(PATH, &text(&counts))]);
        assert_eq!(of(&tree), counts);
    }
}
