//! Files start with module docs.

use super::{Rule, SourceTree, Violation};

pub(super) const RULE: Rule =
    Rule { name: "module-docs", requires: "every Rust file starts with its module docs", check };

fn check(tree: &SourceTree) -> Vec<Violation> {
    let bare = tree.rust_files().filter(|(file, _)| !file.text.trim_start().starts_with("//!"));
    bare.map(|(file, _)| {
        Violation::new(file, 1, "no module docs", "start the file with `//!` and its purpose")
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    #[test]
    fn a_file_without_docs_is_found() {
        let files = [("crates/a/src/a.rs", "//! Docs.\n"), ("crates/a/src/b.rs", "// No docs.\n//! Late.\n")];
        assert_eq!(found_by(RULE, &files), ["crates/a/src/b.rs:1 no module docs"]);
    }
}
