//! The tree that this crate was built from has no violations beyond the baseline.

use xtask::tidy;

#[test]
fn the_tree_is_tidy() {
    let tree = tidy::SourceTree::load(&xtask::root()).expect("the tree is readable");
    assert!(tree.files().any(|file| file.path == "crates/xtask/tests/tidy.rs"), "the tree was not read");
    let violations: Vec<String> = tidy::check(&tree).iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
}
