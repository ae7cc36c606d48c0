//! Every declared mark stands on some path of the index.

use std::path::Path;

fn sources(folder: &Path, text: &mut String) {
    for entry in
        std::fs::read_dir(folder).expect("the index's sources").map(|entry| entry.expect("an entry").path())
    {
        if entry.is_dir() {
            sources(&entry, text);
        } else if !entry.ends_with("marks.rs") {
            *text += &std::fs::read_to_string(&entry).expect("a source file");
        }
    }
}

#[test]
fn every_mark_is_used() {
    let index = Path::new(env!("CARGO_MANIFEST_DIR")).join("../index/src");
    let declared = std::fs::read_to_string(index.join("marks.rs")).expect("the marks");
    let mut text = String::new();
    sources(&index, &mut text);
    let names: Vec<_> =
        declared.lines().filter_map(|line| line.trim().split_once(" = \"")).map(|(name, _)| name).collect();
    assert_eq!(names.len(), farwood_index::MARKS.len());
    for name in names {
        assert!(text.contains(&format!("marks::{name}")), "{name} is declared and not used");
    }
}
