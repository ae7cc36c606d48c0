//! A limit for lines that `rustfmt` does not break: comments, strings, macros.

use super::{Rule, SourceTree, Violation};

pub(super) const RULE: Rule =
    Rule { name: "line-width", requires: "no line of Rust is wider than 120 characters", check };

const CHARACTERS_MAX: usize = 120;

fn check(tree: &SourceTree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (file, _) in tree.rust_files() {
        for (line, text) in file.lines() {
            let characters = text.chars().count();
            if characters > CHARACTERS_MAX {
                let found = format!("a line of {characters} characters");
                violations.push(Violation::new(file, line, found, "break it before 120"));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    #[test]
    fn characters_are_counted_not_bytes() {
        let fits = "é".repeat(120);
        assert!(found_by(RULE, &[("a.rs", &fits)]).is_empty());
        assert_eq!(found_by(RULE, &[("a.rs", &format!("\n{fits}é"))]), ["a.rs:2 a line of 121 characters"]);
    }
}
