//! Decision records are numbered without gaps and have the same three parts.

use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule = Rule {
    name: "decisions",
    requires: "decision records are NNNN-title.md without gaps, with Context, Choice and Consequences",
    check,
};

const FOLDER: &str = "docs/decisions/";

const HEADINGS: &[&str] = &["## Context", "## Choice", "## Consequences"];

fn check(tree: &SourceTree) -> Vec<Violation> {
    let mut records: Vec<&File> = tree.files().filter(|file| file.path.starts_with(FOLDER)).collect();
    records.sort_by_key(|file| &file.path);
    let mut violations = Vec::new();
    let mut last = 0;
    for record in records {
        match number(record.name()) {
            None => {
                let remedy = "name it NNNN-title.md, with a title in lower case and hyphens";
                violations.push(Violation::new(record, 1, "not the name of a decision record", remedy));
            }
            Some(number) => {
                if number != last + 1 {
                    let found = format!("number {number} after {last}");
                    violations.push(Violation::new(record, 1, found, "take the next free number"));
                }
                last = number;
            }
        }
        violations.extend(missing_headings(record));
    }
    violations
}

/// The number of a record whose file name is well formed.
fn number(name: &str) -> Option<usize> {
    let (digits, title) = name.strip_suffix(".md")?.split_once('-')?;
    let is_title = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let well_formed = digits.len() == 4 && !title.is_empty() && title.chars().all(is_title);
    digits.parse().ok().filter(|_| well_formed)
}

fn missing_headings(record: &File) -> impl Iterator<Item = Violation> + '_ {
    let missing =
        HEADINGS.iter().filter(|heading| !record.lines().any(|(_, line)| line.trim_end() == **heading));
    missing.map(|heading| Violation::new(record, 1, format!("no heading `{heading}`"), "give it that part"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    const GOOD: &str = "# T\n\n## Context\n\n## Choice\n\n## Consequences\n";

    #[test]
    fn records_in_order_pass() {
        assert!(
            found_by(RULE, &[("docs/decisions/0002-b.md", GOOD), ("docs/decisions/0001-a.md", GOOD)])
                .is_empty()
        );
    }

    #[test]
    fn gaps_and_doubles_are_found() {
        let files = [("docs/decisions/0001-a.md", GOOD), ("docs/decisions/0003-c.md", GOOD)];
        assert_eq!(found_by(RULE, &files), ["docs/decisions/0003-c.md:1 number 3 after 1"]);
        let files = [("docs/decisions/0001-a.md", GOOD), ("docs/decisions/0001-b.md", GOOD)];
        assert_eq!(found_by(RULE, &files), ["docs/decisions/0001-b.md:1 number 1 after 1"]);
    }

    #[test]
    fn names_and_headings_are_checked() {
        assert_eq!(found_by(RULE, &[("docs/decisions/notes.md", GOOD)]).len(), 1);
        assert_eq!(
            found_by(RULE, &[("docs/decisions/0001-a.md", "## Context\n## Choice\n")]),
            ["docs/decisions/0001-a.md:1 no heading `## Consequences`"]
        );
    }
}
