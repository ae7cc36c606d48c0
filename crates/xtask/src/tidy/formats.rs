//! Every memory format has one map and compile-time assertions.

use super::rust::Rust;
use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule = Rule {
    name: "formats",
    requires: "a file that lays out remote memory has a box map in its docs and const asserts at its bottom",
    check,
};

/// Suffixes of the names of files that define formats.
const FORMAT_FILES: &[&str] = &["layout.rs", "format.rs", "superblock.rs"];

/// The line of module docs that marks other files with a format.
const MARKER: &str = "//! # Map";

fn check(tree: &SourceTree) -> Vec<Violation> {
    tree.rust_files()
        .filter(|(file, _)| is_format(file))
        .flat_map(|(file, rust)| check_file(file, rust))
        .collect()
}

fn is_format(file: &File) -> bool {
    let in_src = file.krate().is_some() && file.path.split('/').nth(2) == Some("src");
    in_src
        && (FORMAT_FILES.iter().any(|name| file.name().ends_with(name))
            || file.lines().any(|(_, line)| line.trim_end() == MARKER))
}

fn check_file(file: &File, rust: &Rust) -> Vec<Violation> {
    let mut violations = Vec::new();
    if !has_map(file) {
        let remedy = "draw offsets and fields in a ```text block of the module docs";
        violations.push(Violation::new(file, 1, "a format without a box map", remedy));
    }
    match last_assert(rust) {
        None => {
            let remedy = "end the file with `const _: () = assert!(..)` for sizes and offsets";
            violations.push(Violation::new(file, 1, "a format without const asserts", remedy));
        }
        Some(assert) => {
            if let Some(item) = first_item_after(rust, assert) {
                let remedy = "move the const asserts to the bottom of the file";
                violations.push(Violation::new(
                    file,
                    item,
                    "code after the const asserts of a format",
                    remedy,
                ));
            }
        }
    }
    violations
}

/// Whether the module docs contain a ```text block with a line of a box or of a table of offsets.
fn has_map(file: &File) -> bool {
    let mut in_block = false;
    for (_, line) in file.lines().take_while(|(_, line)| line.starts_with("//!") || line.trim().is_empty()) {
        let line = line.trim_start_matches("//!").trim();
        if let Some(fence) = line.strip_prefix("```") {
            in_block = fence == "text";
        } else if in_block
            && line.starts_with(|first: char| "+|┌│├└".contains(first) || first.is_ascii_digit())
        {
            return true;
        }
    }
    false
}

/// The first line of the last `const _: () = ..` item outside tests that contains an assertion.
fn last_assert(rust: &Rust) -> Option<usize> {
    let tokens = rust.tokens_outside_tests();
    let head = ["const", "_", ":", "(", ")", "="];
    let is_assert = |at: &usize| {
        let texts = || tokens[*at..].iter().map(|token| token.text);
        texts().take(head.len()).eq(head) && matches!(texts().nth(head.len()), Some("assert" | "{"))
    };
    (0..tokens.len()).rfind(is_assert).map(|at| tokens[at].line)
}

/// The line of the first item after `line`, outside tests, that is not a constant.
fn first_item_after(rust: &Rust, line: usize) -> Option<usize> {
    let tokens = rust.tokens_outside_tests();
    let below = tokens.iter().filter(|token| token.line > line);
    let mut items = below.filter(|token| matches!(token.text, "fn" | "struct" | "enum" | "impl" | "trait"));
    items.next().map(|token| token.line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    const MAP: &str =
        "//! A node.\n//!\n//! ```text\n//! +--------+\n//! | header |\n//! +--------+\n//! ```\n";
    const ASSERT: &str = "struct A(u8);\nconst _: () = assert!(size_of::<A>() == 1);\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        found_by(RULE, &[(path, text)])
    }

    #[test]
    fn a_format_with_map_and_asserts_passes() {
        let tests = "#[cfg(test)]\nmod tests { fn f() {} }\n";
        assert!(found("crates/a/src/layout.rs", &format!("{MAP}{ASSERT}{tests}")).is_empty());
        assert!(found("crates/a/src/b.rs", "fn not_a_format() {}").is_empty());
    }

    #[test]
    fn a_format_needs_its_map() {
        let violations = found("crates/a/src/x/superblock.rs", &format!("//! Docs.\n{ASSERT}"));
        assert_eq!(violations, ["crates/a/src/x/superblock.rs:1 a format without a box map"]);
        let prose = "//! ```text\n//! only words\n//! ```\n//! | not fenced |\n";
        assert_eq!(found("crates/a/src/layout.rs", &format!("{prose}{ASSERT}")).len(), 1);
    }

    #[test]
    fn a_format_needs_its_asserts_at_the_bottom() {
        let marked = format!("//! # Map\n{MAP}");
        assert_eq!(
            found("crates/a/src/slot.rs", &format!("{marked}struct A(u8);\n")),
            ["crates/a/src/slot.rs:1 a format without const asserts"]
        );
        assert_eq!(
            found("crates/a/src/slot.rs", &format!("{marked}{ASSERT}struct B(u8);\n")),
            ["crates/a/src/slot.rs:11 code after the const asserts of a format"]
        );
    }
}
