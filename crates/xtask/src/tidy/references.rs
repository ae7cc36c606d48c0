//! References are valid in every copy of the tree: they name no path that exists on one machine only, and no missing
//! document or source file.

use super::rust::Rust;
use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule = Rule {
    name: "references",
    requires: "no path of one machine; documents and source files that are named exist",
    check,
};

/// Roots of private files of people and build machines.
const PRIVATE_ROOTS: &[&str] = &["/home/", "/root/", "/work/", "/Users/"];

/// The folder of source files, as documents name them.
const SOURCES: &str = "crates/";

/// Documents of history, which may name removed files.
const HISTORY: &[&str] = &["CHANGELOG.md", "docs/decisions/"];

/// The placeholder in names that stand for several files.
const PLACEHOLDER: &str = "NNNN";

fn check(tree: &SourceTree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.files() {
        violations.extend(file.lines().filter_map(|(line, text)| {
            let path = private_path(text)?;
            let remedy = "name its purpose, or a path inside the tree";
            Some(Violation::new(file, line, format!("`{path}`, a path of one machine"), remedy))
        }));
        if file.is_markdown() {
            violations.extend(file.lines().filter_map(|(line, text)| dead_reference(tree, file, line, text)));
        }
    }
    for (file, rust) in tree.rust_files() {
        violations.extend(check_comments(tree, file, rust));
    }
    violations
}

fn check_comments<'a>(
    tree: &'a SourceTree,
    file: &'a File,
    rust: &'a Rust,
) -> impl Iterator<Item = Violation> + 'a {
    rust.comments().filter_map(move |(line, text)| dead_reference(tree, file, line, text))
}

/// The path in `line` that begins at one of [`PRIVATE_ROOTS`].
fn private_path(line: &str) -> Option<&str> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    PRIVATE_ROOTS.iter().find_map(|root| {
        let at = line.find(root)?;
        let after = at + root.len();
        let alone = !line[..at].ends_with(is_word) && line[after..].starts_with(is_word);
        let length = line[after..].find(|c| !is_word(c)).unwrap_or(line.len() - after);
        alone.then(|| &line[at..after + length])
    })
}

/// The first missing document or source file that a line names.
fn dead_reference(tree: &SourceTree, file: &File, line: usize, text: &str) -> Option<Violation> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"._-/".contains(c));
    let mut words = words.map(|word| word.trim_end_matches(['.', '/', '-']));
    let is_history = HISTORY.iter().any(|history| file.path.starts_with(history));
    let dead = words.find(|word| {
        let names_source = !is_history && word.starts_with(SOURCES);
        (names_document(word) && !is_document(tree, word)) || (names_source && !is_source(tree, word))
    })?;
    let remedy = "add the file, or remove the reference";
    Some(Violation::new(file, line, format!("`{dead}` is not in the tree"), remedy))
}

fn names_document(word: &str) -> bool {
    let is_url_or_absolute = word.starts_with('/');
    let stem = word.strip_suffix(".md").unwrap_or_default();
    stem.ends_with(|c: char| c.is_ascii_alphanumeric()) && !is_url_or_absolute && !word.contains(PLACEHOLDER)
}

/// Whether some file's path ends in `word`.
fn is_document(tree: &SourceTree, word: &str) -> bool {
    let word = word.trim_start_matches("../").trim_start_matches("./");
    tree.files()
        .any(|file| file.path.strip_suffix(word).is_some_and(|rest| rest.is_empty() || rest.ends_with('/')))
}

/// Whether `word` is the path of a file or a folder.
fn is_source(tree: &SourceTree, word: &str) -> bool {
    tree.files()
        .any(|file| file.path.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    fn found(path: &str, text: &str) -> Vec<String> {
        found_by(RULE, &[(path, text), ("docs/costs.md", "")])
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let text = concat!("//! See ", "/home", "/ann/notes.txt.");
        let expected = concat!("crates/a/src/a.rs:1 `", "/home", "/ann`, a path of one machine");
        assert_eq!(found("crates/a/src/a.rs", text), [expected]);
        assert!(found("a.md", "docs/work/a and /homes/b and the root /root/").is_empty());
    }

    #[test]
    fn a_missing_document_is_found() {
        assert!(found("docs/a.md", "See [costs](costs.md), `docs/costs.md`, ../docs/costs.md.").is_empty());
        let files = [("a.md", "x\nsee gone.md.")];
        assert_eq!(found_by(RULE, &files), ["a.md:2 `gone.md` is not in the tree"]);
        let files = [("src/a.rs", "// gone.md\nlet a = \"also-gone.md\";")];
        assert_eq!(found_by(RULE, &files), ["src/a.rs:1 `gone.md` is not in the tree"]);
    }

    #[test]
    fn a_missing_source_file_is_found() {
        let text = "See `crates/a/src/a.rs`, crates/a/ and crates/b.";
        let source = ("crates/a/src/a.rs", "");
        assert_eq!(found_by(RULE, &[("a.md", text), source]), ["a.md:1 `crates/b` is not in the tree"]);
        assert!(found_by(RULE, &[("docs/decisions/0001-a.md", text), source]).is_empty());
    }

    #[test]
    fn urls_and_placeholders_are_not_references() {
        assert!(found("a.md", "https://example.org/gone.md, NNNN-title.md, *.md").is_empty());
    }
}
