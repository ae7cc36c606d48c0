//! A type name has one meaning.

use std::collections::BTreeMap;

use super::rust::Token;
use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule = Rule {
    name: "unique-types",
    requires: "no type name that other modules see is defined in more than two modules of the workspace",
    check,
};

/// Modules that may define types of one name.
const MODULES_MAX: usize = 2;

/// Names that stand for the same thing everywhere: the arguments of a command.
const CONVENTIONAL: &[&str] = &["Args"];

const REMEDY: &str = "add the name of its owner, as in `LeafState`";

fn check(tree: &SourceTree) -> Vec<Violation> {
    let mut definitions: BTreeMap<&str, Vec<(&File, usize)>> = BTreeMap::new();
    for (file, rust) in tree.rust_files().filter(|(file, _)| file.krate().is_some()) {
        for (name, line) in visible_types(&rust.tokens_outside_tests()) {
            let of_name = definitions.entry(name).or_default();
            if of_name.iter().all(|(other, _)| other.path != file.path) {
                of_name.push((file, line));
            }
        }
    }
    let mut violations = Vec::new();
    for (name, files) in definitions {
        if files.len() > MODULES_MAX && !CONVENTIONAL.contains(&name) {
            let found = format!("`{name}` is defined in {} modules", files.len());
            let violation = |(file, line): (&File, usize)| Violation::new(file, line, found.clone(), REMEDY);
            violations.extend(files.into_iter().map(violation));
        }
    }
    violations
}

/// Names and lines of the types that a file shows to other modules.
fn visible_types<'a>(tokens: &[Token<'a>]) -> Vec<(&'a str, usize)> {
    let mut types = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if !matches!(token.text, "struct" | "enum" | "trait" | "type" | "union") {
            continue;
        }
        let before: Vec<&str> = tokens[..index].iter().rev().take(5).map(|token| token.text).collect();
        // `pub(in a::b)` is not used here.
        let is_visible =
            matches!(before.as_slice(), ["pub", ..] | ["unsafe", "pub", ..] | [")", _, "(", "pub", ..]);
        if let Some(name) = tokens.get(index + 1).filter(|name| name.is_word() && is_visible) {
            types.push((name.text, name.line));
        }
    }
    types
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    fn found(texts: [&str; 3]) -> Vec<String> {
        let paths = ["crates/a/src/a.rs", "crates/a/src/b.rs", "crates/b/src/c.rs"];
        found_by(RULE, &[(paths[0], texts[0]), (paths[1], texts[1]), (paths[2], texts[2])])
    }

    #[test]
    fn a_name_of_three_modules_is_found() {
        let types = ["pub struct State;", "pub(crate) enum State {}", "\npub(super) type State = u8;"];
        assert_eq!(
            found(types),
            [
                "crates/a/src/a.rs:1 `State` is defined in 3 modules",
                "crates/a/src/b.rs:1 `State` is defined in 3 modules",
                "crates/b/src/c.rs:2 `State` is defined in 3 modules",
            ]
        );
    }

    #[test]
    fn private_types_tests_and_conventions_are_free() {
        assert!(found(["pub struct State;", "pub struct State;", "struct State;"]).is_empty());
        assert!(
            found(["pub struct A;", "pub struct A;", "#[cfg(test)]\nmod t { pub struct A; }"]).is_empty()
        );
        assert!(found(["pub struct Args;"; 3]).is_empty());
    }
}
