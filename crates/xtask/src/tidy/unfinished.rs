//! Committed code is finished.

use super::rust::Rust;
use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule = Rule {
    name: "unfinished",
    requires: "no `todo!`, `unimplemented!`, `dbg!`, ignored test or note to fix it",
    check,
};

const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Written in two halves, because this file is checked as well.
const NOTE: &str = concat!("FIX", "ME");

const REMEDY: &str = "finish it, or open an issue";

fn check(tree: &SourceTree) -> Vec<Violation> {
    tree.rust_files().flat_map(|(file, rust)| check_file(file, rust)).collect()
}

fn check_file(file: &File, rust: &Rust) -> Vec<Violation> {
    let mut violations = Vec::new();
    let tokens = rust.tokens();
    for pair in tokens.windows(2).filter(|pair| pair[1].text == "!" && MACROS.contains(&pair[0].text)) {
        violations.push(Violation::new(file, pair[0].line, format!("`{}!`", pair[0].text), REMEDY));
    }
    for pair in tokens.windows(2).filter(|pair| pair[0].text == "[" && pair[1].text == "ignore") {
        let remedy = "make the test fast and reliable, or remove it";
        violations.push(Violation::new(file, pair[1].line, "a test that is ignored", remedy));
    }
    for (line, _) in file.lines().filter(|(_, line)| line.contains(NOTE)) {
        violations.push(Violation::new(file, line, format!("`{NOTE}`"), REMEDY));
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
    fn unfinished_work_is_found() {
        assert_eq!(found("fn f() {\n todo!()\n}"), ["crates/a/src/a.rs:2 `todo!`"]);
        assert_eq!(found("dbg!(a); std::unimplemented!()").len(), 2);
        assert_eq!(
            found("#[test]\n#[ignore = \"slow\"]\nfn f() {}"),
            ["crates/a/src/a.rs:2 a test that is ignored"]
        );
        assert_eq!(found(&format!("// {NOTE}: later")).len(), 1);
    }

    #[test]
    fn similar_words_are_allowed() {
        assert!(found("let todo = ignore(\"todo!()\"); // todo!").is_empty());
    }
}
