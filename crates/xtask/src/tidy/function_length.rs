//! Functions are short enough for one screen.

use super::rust::{Rust, Token, closing, head_end};
use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule =
    Rule { name: "function-length", requires: "no function, test or not, is longer than 70 lines", check };

/// Longest function, counted from the line of `fn` to that of its closing brace.
const LINES_MAX: usize = 70;

fn check(tree: &SourceTree) -> Vec<Violation> {
    tree.rust_files().flat_map(|(file, rust)| check_file(file, rust)).collect()
}

fn check_file(file: &File, rust: &Rust) -> Vec<Violation> {
    let tokens = rust.tokens();
    let mut violations = Vec::new();
    for (index, token) in tokens.iter().enumerate().filter(|(_, token)| token.text == "fn") {
        // `fn(` is the type of a function pointer, and `fn $name` is the pattern of a macro.
        let Some(name) = tokens.get(index + 1).filter(|name| name.is_word()) else { continue };
        let Some(lines) = length(&tokens, index) else { continue };
        if lines > LINES_MAX {
            let found = format!("`{}` has {lines} lines", name.text);
            violations.push(Violation::new(file, token.line, found, "split it; 70 lines are the limit"));
        }
    }
    violations
}

/// Lines of the function whose `fn` is at `index`; none if it has no body.
fn length(tokens: &[Token<'_>], index: usize) -> Option<usize> {
    let open = head_end(tokens, index).filter(|end| tokens[*end].text == "{")?;
    Some(tokens[closing(tokens, open)].line - tokens[index].line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    fn found(text: &str) -> Vec<String> {
        found_by(RULE, &[("crates/a/src/a.rs", text)])
    }

    fn function(lines: usize) -> String {
        format!("fn long<const N: usize>(a: [u8; {{ N }}]) -> u8 {{{} \"}}\"; }}\n", "\n".repeat(lines - 1))
    }

    #[test]
    fn seventy_lines_are_allowed_and_one_more_is_not() {
        assert!(found(&function(70)).is_empty());
        assert_eq!(found(&function(71)), ["crates/a/src/a.rs:1 `long` has 71 lines"]);
    }

    #[test]
    fn functions_in_macros_and_tests_count() {
        assert_eq!(found(&format!("proptest! {{ {} }}", function(71))).len(), 1);
        assert_eq!(found(&format!("#[cfg(test)]\nmod t {{ {} }}", function(71))).len(), 1);
    }

    #[test]
    fn functions_without_a_body_do_not() {
        let text = format!("trait A {{ fn f(&self, g: fn(u8) -> u8);{}\n }}", "\n".repeat(80));
        assert!(found(&text).is_empty());
    }
}
