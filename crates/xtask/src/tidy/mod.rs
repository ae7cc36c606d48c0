//! Rules of the source tree. Each rule is a pure function of the [`SourceTree`], in its own file, with a test that
//! feeds it a violation.

mod baseline;
mod bool_parameters;
mod cycles;
mod decisions;
mod decoders;
mod expectations;
mod file_names;
mod forbidden_paths;
mod formats;
mod function_length;
mod layers;
mod lexer;
mod line_width;
mod module_docs;
mod modules;
mod paths;
mod prose;
mod references;
mod rust;
mod tree;
mod unfinished;
mod unique_types;
mod unsafe_code;

use std::fmt;

pub use tree::{File, SourceTree};

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path relative to the root of the tree.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// The violation.
    pub found: String,
    /// The remedy.
    pub remedy: &'static str,
}

impl Violation {
    fn new(file: &File, line: usize, found: impl Into<String>, remedy: &'static str) -> Self {
        Self { path: file.path.clone(), line, found: found.into(), remedy }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.found, self.remedy)
    }
}

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name of the rule.
    pub name: &'static str,
    /// The requirement of the rule, in one line.
    pub requires: &'static str,
    check: fn(&SourceTree) -> Vec<Violation>,
}

/// Every rule, in the order in which they are checked.
pub const RULES: &[Rule] = &[
    layers::RULE,
    forbidden_paths::RULE,
    module_docs::RULE,
    unsafe_code::RULE,
    decoders::RULE,
    function_length::RULE,
    file_names::RULE,
    formats::RULE,
    unfinished::RULE,
    references::RULE,
    decisions::RULE,
    line_width::RULE,
    cycles::RULE,
    unique_types::RULE,
    bool_parameters::RULE,
    expectations::RULE,
    prose::RULE,
];

/// Checks every rule and returns the violations that the baseline does not cover, by rule and then by file.
pub fn check(tree: &SourceTree) -> Vec<Violation> {
    let baseline = baseline::of(tree);
    RULES.iter().flat_map(|rule| baseline::beyond(&baseline, rule.name, (rule.check)(tree))).collect()
}

/// All violations of the rule `name`, including those that the baseline covers; `None` if there is no such rule.
pub fn check_one(tree: &SourceTree, name: &str) -> Option<Vec<Violation>> {
    RULES.iter().find(|rule| rule.name == name).map(|rule| (rule.check)(tree))
}

/// Crates with fewer violations than in the baseline, as lines of text.
pub fn lower_than_baseline(tree: &SourceTree) -> Vec<String> {
    baseline::lower(&baseline::of(tree), &baseline::counts(tree))
}

/// The path and the new text of the baseline.
///
/// # Errors
/// If a crate has more violations than before: an existing baseline may only shrink.
pub fn shrunk_baseline(tree: &SourceTree) -> Result<(&'static str, String), String> {
    let (baseline, counts) = (baseline::of(tree), baseline::counts(tree));
    let is_first = !tree.files().any(|file| file.path == baseline::PATH);
    match baseline::refusal(&baseline, &counts) {
        Some(why) if !is_first => Err(why),
        _ => Ok((baseline::PATH, baseline::text(&counts))),
    }
}

/// All violations as a table: crates by rules.
pub fn counts(tree: &SourceTree) -> String {
    baseline::table(&baseline::counts(tree))
}

/// The rules as a table.
pub fn list() -> String {
    let rows: Vec<String> = RULES.iter().map(|rule| format!("{:<16} {}", rule.name, rule.requires)).collect();
    rows.join("\n") + "\n"
}

/// The violations of a rule in a tree of these (path, text) pairs: `path:line found`.
#[cfg(test)]
fn found_by(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    let violations = (rule.check)(&SourceTree::of(files));
    violations.iter().map(|v| format!("{}:{} {}", v.path, v.line, v.found)).collect()
}
