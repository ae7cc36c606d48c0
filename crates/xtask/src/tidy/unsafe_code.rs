//! Unsafe code is in files named `sys.rs`, so that its proofs can be read together.

use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule = Rule {
    name: "unsafe",
    requires: "`unsafe` only in files named sys.rs; a crate without one forbids it",
    check,
};

const FORBID: &str = "#![forbid(unsafe_code)]";

fn check(tree: &SourceTree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (file, rust) in tree.rust_files() {
        for token in rust.tokens().iter().filter(|token| token.text == "unsafe" && file.name() != "sys.rs") {
            let remedy = "move it to a safe function of a sys.rs, with its proof";
            violations.push(Violation::new(file, token.line, "`unsafe` outside sys.rs", remedy));
        }
        if is_crate_root(file) && !has_sys(tree, file) && !file.text.contains(FORBID) {
            let found = "a crate without sys.rs that does not forbid unsafe code";
            violations.push(Violation::new(file, 1, found, "add `#![forbid(unsafe_code)]`"));
        }
    }
    violations
}

fn is_crate_root(file: &File) -> bool {
    let parts: Vec<&str> = file.path.split('/').collect();
    matches!(parts.as_slice(), ["crates", _, "src", "lib.rs" | "main.rs"])
}

/// Whether the package of `root` has a sys.rs.
fn has_sys(tree: &SourceTree, root: &File) -> bool {
    tree.files().any(|file| file.name() == "sys.rs" && file.krate() == root.krate())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    #[test]
    fn unsafe_outside_sys_is_found() {
        let block = "fn f() {\n unsafe { g() }\n}";
        let files =
            [("crates/a/src/shm/sys.rs", block), ("crates/a/src/b.rs", block), ("crates/a/src/lib.rs", "")];
        assert_eq!(found_by(RULE, &files), ["crates/a/src/b.rs:2 `unsafe` outside sys.rs"]);
    }

    #[test]
    fn a_crate_without_sys_forbids() {
        assert!(found_by(RULE, &[("crates/a/src/lib.rs", "#![forbid(unsafe_code)]\n")]).is_empty());
        assert_eq!(found_by(RULE, &[("crates/a/src/lib.rs", "// unsafe\n")]).len(), 1);
        assert_eq!(found_by(RULE, &[("crates/a/src/main.rs", "fn main() {}\n")]).len(), 1);
    }
}
