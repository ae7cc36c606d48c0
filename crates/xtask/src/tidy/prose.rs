//! Comments and documents are written in plain technical English, as far as a program can tell.

use super::rust::Rust;
use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule = Rule {
    name: "prose",
    requires: "comments and documents avoid the habits that STYLE.md lists under Prose",
    check,
};

/// Words that begin a sentence without a concrete subject.
const HEADLESS: &[&str] = &["Who", "Whoever"];
/// Words that begin such a sentence if they follow `What`.
const HEADLESS_VERBS: &[&str] = &["is", "was", "came", "became", "has"];

/// The remedy for such sentences.
const SUBJECT: &str = "begin with the client, the server, the leaf, ..";

/// Phrases, each with its replacement.
const PHRASES: &[(&str, &str)] = &[
    ("is told", "say which component sends what to which"),
    ("are told", "say which component sends what to which"),
    ("let in", "say which component accepts it"),
    ("hears of", "say which component sends what to which"),
    ("the living", "write `live clients`"),
    ("nobody's", "name the owner, or write `unowned`"),
    ("comes free", "write `is released`"),
    ("come free", "write `are released`"),
    ("not to be had", "state what fails: a timeout, a full pool"),
    ("anew", "write `again`"),
    ("in vain", "write `fails`"),
    ("so many", "give the number, or write `that many`"),
    ("as good as", "state the fact"),
    (", for it", "write `because`"),
    (", for they", "write `because`"),
    (", for the", "write `because`, or leave out the comma"),
    ("shall", "write `must` or `will`"),
];

/// Documents that record history: they are not rewritten.
const HISTORY: &[&str] = &["CHANGELOG.md"];

/// The document that lists the habits, and this file.
const EXAMPLES: &[&str] = &["STYLE.md", "crates/xtask/src/tidy/prose.rs"];

fn check(tree: &SourceTree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.files().filter(|file| file.is_markdown() && !HISTORY.contains(&file.path.as_str())) {
        violations.extend(check_lines(file, &file.lines().collect::<Vec<_>>()));
    }
    for (file, rust) in tree.rust_files() {
        violations.extend(check_comments(file, rust));
    }
    violations.retain(|violation| !EXAMPLES.contains(&violation.path.as_str()));
    violations
}

fn check_comments(file: &File, rust: &Rust) -> Vec<Violation> {
    let lines: Vec<(usize, &str)> = rust.comments().map(|(line, text)| (line, strip_marks(text))).collect();
    check_lines(file, &lines)
}

/// A comment's words without the slashes in front of them.
fn strip_marks(comment: &str) -> &str {
    comment.trim().trim_start_matches(['/', '!', '*']).trim()
}

/// Checks consecutive lines: a phrase may begin on one line and end on the next.
fn check_lines(file: &File, lines: &[(usize, &str)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, (line, text)) in lines.iter().enumerate() {
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let next = lines.get(index + 1).map_or("", |(_, next)| next.trim());
        let joined = format!("{text} {next}").to_lowercase();
        let before = index.checked_sub(1).map_or("", |before| lines[before].1);
        for word in headless(before, text) {
            let found = format!("a sentence that begins with `{word}`");
            violations.push(Violation::new(file, *line, found, SUBJECT));
        }
        for (phrase, remedy) in PHRASES {
            for _ in 0..occurrences(&joined, phrase, text.len()) {
                violations.push(Violation::new(file, *line, format!("`{phrase}`"), remedy));
            }
        }
    }
    violations
}

/// Whether a sentence ends with this line.
fn ends_sentence(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.ends_with(['.', ':', ';', '!', '?', '|', '`'])
}

/// The first words of the sentences in `line` that have no subject. A question needs none. `before`: the previous
/// line.
fn headless(before: &str, line: &str) -> Vec<&'static str> {
    let sentences = line.split_inclusive(". ").enumerate();
    let sentences = sentences.filter(|(at, _)| *at > 0 || ends_sentence(before));
    let first_word = |(_, sentence): (usize, &str)| {
        let sentence = sentence.trim_start_matches(['-', '*', '>', '|', ' ']);
        let mut words = sentence.split([' ', ',', '?']);
        let (first, second) = (words.next()?, words.next().unwrap_or_default());
        let is_question = sentence.contains('?');
        match first {
            "What" if HEADLESS_VERBS.contains(&second) && !is_question => Some("What"),
            _ => HEADLESS.iter().copied().find(|word| *word == first && !is_question),
        }
    };
    sentences.filter_map(first_word).collect()
}

/// Counts the occurrences of `phrase` in `text` as whole words that begin before `end`.
fn occurrences(text: &str, phrase: &str, end: usize) -> usize {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let alone = |(at, _): &(usize, &str)| {
        let after = &text[at + phrase.len()..];
        *at < end
            && !(phrase.starts_with(is_letter) && text[..*at].ends_with(is_letter))
            && !after.starts_with(is_letter)
    };
    text.match_indices(phrase).filter(alone).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    fn found(text: &str) -> Vec<String> {
        found_by(RULE, &[("crates/a/src/a.rs", text)])
    }

    #[test]
    fn a_sentence_without_a_subject_is_found() {
        assert_eq!(
            found("/// Whoever waits joins.\n// What is left\n//! Who asks."),
            [
                "crates/a/src/a.rs:1 a sentence that begins with `Whoever`",
                "crates/a/src/a.rs:2 a sentence that begins with `What`",
            ]
        );
        assert_eq!(found("/// What is written stays.").len(), 1);
        assert_eq!(found_by(RULE, &[("a.md", "- Whoever waits joins.")]).len(), 1);
    }

    #[test]
    fn phrases_are_found_across_lines() {
        assert_eq!(
            found("/// The lock comes\n/// free when the server IS TOLD.\n"),
            ["crates/a/src/a.rs:1 `comes free`", "crates/a/src/a.rs:2 `is told`"]
        );
        assert_eq!(found("// It waits, for it shall.").len(), 2);
    }

    #[test]
    fn code_strings_and_longer_words_are_free() {
        assert!(found("let shall = \"whoever\"; // marshalled, forth").is_empty());
        assert!(found("// The client that waits, what is\n// left, and who asks.").is_empty());
        assert!(found_by(RULE, &[("CHANGELOG.md", "It shall.")]).is_empty());
    }
}
