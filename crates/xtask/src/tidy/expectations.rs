//! A lint is silenced only where it would fire.

use super::rust::Rust;
use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule = Rule {
    name: "expectations",
    requires: "a lint is silenced by `#[expect]`, which fails when it no longer fires, not by `#[allow]`",
    check,
};

/// Lints that may be allowed: a module for unsafe code may allow it, even if some builds have no unsafe code.
const EXCEPTIONS: &[&str] = &["unsafe_code"];

const REMEDY: &str = "write `#[expect(.., reason = \"..\")]`";

fn check(tree: &SourceTree) -> Vec<Violation> {
    tree.rust_files().flat_map(|(file, rust)| check_file(file, rust)).collect()
}

fn check_file(file: &File, rust: &Rust) -> Vec<Violation> {
    let tokens = rust.tokens();
    let mut violations = Vec::new();
    for three in tokens
        .windows(4)
        .filter(|four| matches!(four[0].text, "[" | ",") && four[1].text == "allow" && four[2].text == "(")
    {
        let lint = three[3];
        if !EXCEPTIONS.contains(&lint.text) {
            let found = format!("`{}` is allowed", lint.text);
            violations.push(Violation::new(file, three[1].line, found, REMEDY));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    fn found(text: &str) -> Vec<String> {
        found_by(RULE, &[("crates/a/src/a.rs", text)])
    }

    #[test]
    fn an_allowed_lint_is_found() {
        assert_eq!(found("\n#[allow(dead_code)]\nfn f() {}"), ["crates/a/src/a.rs:2 `dead_code` is allowed"]);
        assert_eq!(found("#![allow(clippy::print_stdout)]").len(), 1);
        assert_eq!(found("#[cfg_attr(test, allow(dead_code))]").len(), 1);
    }

    #[test]
    fn expectations_and_exceptions_are_free() {
        assert!(
            found("#![expect(dead_code, reason = \"allow(x)\")]\n#[allow(unsafe_code)]\nmod sys;").is_empty()
        );
        assert!(found("fn f() { allow(dead_code) }").is_empty());
    }
}
