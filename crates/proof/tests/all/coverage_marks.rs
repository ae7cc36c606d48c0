//! Every declared coverage mark is used in its index.

use std::path::Path;

fn sources(folder: &Path, text: &mut String) {
    for entry in
        std::fs::read_dir(folder).expect("the index's sources").map(|entry| entry.expect("an entry").path())
    {
        if entry.is_dir() {
            sources(&entry, text);
        } else if !["marks.rs", "coverage.rs"].iter().any(|file| entry.ends_with(file)) {
            *text += &std::fs::read_to_string(&entry).expect("a source file");
        }
    }
}

/// Checks that the marks that are declared in a folder's `marks.rs` are as many as `marks`, and that the folder uses
/// each.
fn all_are_used(folder: &str, marks: &[&str]) {
    let index = Path::new(env!("CARGO_MANIFEST_DIR")).join("../index/src").join(folder);
    let file =
        ["marks.rs", "coverage.rs"].map(|file| index.join(file)).into_iter().find(|file| file.exists());
    let declared = std::fs::read_to_string(file.expect("a file of marks")).expect("the marks");
    let mut text = String::new();
    sources(&index, &mut text);
    let names: Vec<_> = declared.lines().filter_map(|line| line.trim().split_once(" = \"")).collect();
    assert_eq!(names.len(), marks.len());
    for (name, _) in names {
        let name = name.rsplit("const ").next().unwrap_or_default().trim_end_matches(": &str");
        let paths = ["marks", "coverage"].map(|module| format!("{module}::{name}"));
        let mut words = text.split(|c: char| !c.is_alphanumeric() && !"_:".contains(c));
        assert!(words.any(|word| paths.iter().any(|path| path == word)), "{name} is declared and not used");
    }
}

#[test]
fn every_coverage_mark_is_used() {
    all_are_used("", farwood_index::MARKS);
}

#[test]
fn every_coverage_mark_of_a_system_is_used() {
    use farwood_index::{radix, smart, sphinx};
    // The lists of SMART and Sphinx have marks of the shared tree that only their options reach.
    let all = [smart::MARKS, sphinx::MARKS].concat();
    let (of_tree, own): (Vec<&str>, Vec<&str>) =
        all.into_iter().partition(|mark| mark.starts_with("radix: "));
    let (of_smart, of_sphinx): (Vec<&str>, Vec<&str>) =
        own.into_iter().partition(|mark| mark.starts_with("smart: "));
    all_are_used("smart", &of_smart);
    all_are_used("radix", &[radix::MARKS, &of_tree].concat());
    all_are_used("sphinx", &of_sphinx);
}
