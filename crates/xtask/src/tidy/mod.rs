//! What the compiler cannot see: each rule is a pure function of the [`Tree`], in a file of its own, beside a
//! test that feeds it a violation.

mod decisions;
mod formats;
mod functions;
mod layers;
mod lexer;
mod lines;
mod module_docs;
mod names;
mod paths;
mod references;
mod rust;
mod tree;
mod unfinished;
mod unsafety;
mod words;

use std::fmt;

pub use tree::{File, Tree};

/// A place where the tree breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path relative to the root of the tree.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// What is there.
    pub found: String,
    /// What to do about it.
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

/// One rule of the house.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What it asks, in one line.
    pub asks: &'static str,
    check: fn(&Tree) -> Vec<Violation>,
}

/// Every rule, in the order in which they are checked.
pub const RULES: &[Rule] = &[
    layers::RULE,
    words::RULE,
    module_docs::RULE,
    unsafety::RULE,
    functions::RULE,
    names::RULE,
    formats::RULE,
    unfinished::RULE,
    references::RULE,
    decisions::RULE,
    lines::RULE,
];

/// Checks every rule and returns all violations, by rule and then by file.
pub fn check(tree: &Tree) -> Vec<Violation> {
    RULES.iter().flat_map(|rule| (rule.check)(tree)).collect()
}

/// The rules as a table for people.
pub fn list() -> String {
    let rows: Vec<String> = RULES.iter().map(|rule| format!("{:<12} {}", rule.name, rule.asks)).collect();
    rows.join("\n") + "\n"
}

/// What a rule finds in a tree of these (path, text) pairs: `path:line found`.
#[cfg(test)]
fn found_by(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    let violations = (rule.check)(&Tree::of(files));
    violations.iter().map(|v| format!("{}:{} {}", v.path, v.line, v.found)).collect()
}
