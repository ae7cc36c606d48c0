//! Arguments of a call are self-explanatory: `read(Order::Upward)`, not `read(true)`.

use super::rust::{Rust, Token, closing};
use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule =
    Rule { name: "bool-parameters", requires: "no function outside tests takes a `bool`", check };

const REMEDY: &str = "take an enum of two words, or write two functions";

fn check(tree: &SourceTree) -> Vec<Violation> {
    tree.rust_files()
        .filter(|(file, _)| file.krate().is_some())
        .flat_map(|(file, rust)| check_file(file, rust))
        .collect()
}

fn check_file(file: &File, rust: &Rust) -> Vec<Violation> {
    let tokens = rust.tokens_outside_tests();
    let mut violations = Vec::new();
    for (index, _) in tokens.iter().enumerate().filter(|(_, token)| token.text == "fn") {
        let Some(name) = tokens.get(index + 1).filter(|name| name.is_word()) else { continue };
        let Some(parameters) = parameters(&tokens, index + 2) else { continue };
        for parameter in bool_parameters(parameters) {
            let found = format!("`{}` takes the `bool` `{}`", name.text, parameter.text);
            violations.push(Violation::new(file, parameter.line, found, REMEDY));
        }
    }
    violations
}

/// The tokens between the parentheses of a function whose generic parameters, if any, begin at `from`.
fn parameters<'t, 'a>(tokens: &'t [Token<'a>], from: usize) -> Option<&'t [Token<'a>]> {
    let mut depth = 0_usize;
    for index in from..tokens.len() {
        match tokens[index].text {
            "<" => depth += 1,
            // The arrow of `Fn() -> T` closes nothing.
            ">" if tokens[index - 1].text != "-" => depth = depth.saturating_sub(1),
            "(" if depth == 0 => return Some(&tokens[index + 1..closing(tokens, index)]),
            "{" | ";" if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The names of parameters of type `bool`.
fn bool_parameters<'a>(parameters: &[Token<'a>]) -> Vec<Token<'a>> {
    let ends = |at: usize| parameters.get(at).is_none_or(|token| token.text == ",");
    let is_bool = |at: &usize| {
        let types = [&parameters[*at + 1].text, &parameters[*at + 2].text];
        parameters[*at].is_word() && *types[0] == ":" && *types[1] == "bool" && ends(at + 3)
    };
    (0..parameters.len().saturating_sub(2)).filter(is_bool).map(|at| parameters[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    fn found(text: &str) -> Vec<String> {
        found_by(RULE, &[("crates/a/src/a.rs", text)])
    }

    #[test]
    fn a_bool_parameter_is_found() {
        assert_eq!(
            found("fn f<F: Fn(bool) -> u8>(\n  &self,\n  quick: bool,\n) {}"),
            ["crates/a/src/a.rs:3 `f` takes the `bool` `quick`"]
        );
        assert_eq!(found("fn f(a: bool, b: u8, c: bool);").len(), 2);
    }

    #[test]
    fn other_bools_are_free() {
        assert!(
            found("fn f(a: &bool, b: impl Fn(bool) -> bool) -> bool { let c: bool = g(a); c }").is_empty()
        );
        assert!(found("struct A { b: bool, c: bool }").is_empty());
        assert!(found("#[cfg(test)]\nmod t { fn f(a: bool) {} }").is_empty());
    }
}
