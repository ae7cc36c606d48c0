//! Files and modules are named after their contents.

use super::rust::Rust;
use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule = Rule {
    name: "file-names",
    requires: "no file, folder or module has a name like utils, common or misc",
    check,
};

const CATCH_ALLS: &[&str] = &["utils", "util", "common", "helpers", "misc"];

const REMEDY: &str = "name it after its contents";

fn check(tree: &SourceTree) -> Vec<Violation> {
    tree.rust_files().flat_map(|(file, rust)| check_file(file, rust)).collect()
}

fn check_file(file: &File, rust: &Rust) -> Vec<Violation> {
    let mut violations = Vec::new();
    for part in file.path.split('/') {
        let name = part.trim_end_matches(".rs");
        if CATCH_ALLS.contains(&name) {
            violations.push(Violation::new(file, 1, format!("the name `{name}`"), REMEDY));
        }
    }
    let tokens = rust.tokens();
    for pair in tokens.windows(2).filter(|pair| pair[0].text == "mod" && CATCH_ALLS.contains(&pair[1].text)) {
        violations.push(Violation::new(file, pair[1].line, format!("the module `{}`", pair[1].text), REMEDY));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    #[test]
    fn catch_all_names_are_found() {
        let found = |path, text| found_by(RULE, &[(path, text)]);
        assert_eq!(found("crates/a/src/util.rs", ""), ["crates/a/src/util.rs:1 the name `util`"]);
        assert_eq!(
            found("crates/a/tests/common/mod.rs", ""),
            ["crates/a/tests/common/mod.rs:1 the name `common`"]
        );
        assert_eq!(found("crates/a/src/a.rs", "\nmod misc {}"), ["crates/a/src/a.rs:2 the module `misc`"]);
        assert!(found("crates/a/src/common_prefix.rs", "let util = 1;").is_empty());
    }
}
