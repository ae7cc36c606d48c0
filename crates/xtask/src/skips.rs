//! Tests that were skipped because the machine does not have what they need.
//!
//! `farwood_testkit::need` appends a line to a file for each of them: the test, the need and the reason, separated by
//! tabs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The file that skipped tests are recorded in, emptied at the start of a run.
pub(crate) struct Skips(PathBuf);

impl Skips {
    /// The environment variable that names the file.
    pub(crate) const VARIABLE: &'static str = "FARWOOD_SKIPS";

    /// Empties the file in the target folder of `root`.
    pub(crate) fn new(root: &Path) -> Self {
        let path = root.join("target/farwood-skips.tsv");
        // A file that is not there is empty.
        let _ = std::fs::remove_file(&path);
        Self(path)
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The needs that were not met, each with the number of its tests and the reason.
    pub(crate) fn report(&self) -> String {
        report(&std::fs::read_to_string(&self.0).unwrap_or_default())
    }
}

fn report(lines: &str) -> String {
    let mut needs: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for line in lines.lines() {
        let mut fields = line.split('\t');
        let (Some(_), Some(need), Some(why)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        needs.entry(need).or_insert((0, why)).0 += 1;
    }
    if needs.is_empty() {
        return "no test was skipped\n".to_owned();
    }
    let mut report = String::new();
    for (need, (tests, why)) in needs {
        let tests_of_it = if tests == 1 { "1 test was".to_owned() } else { format!("{tests} tests were") };
        let _ = writeln!(report, "{tests_of_it} skipped for lack of {need}: {why}");
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_counted_by_need() {
        let lines = "a\tnetns\tnot permitted\nb\tetcd\tno program\nc\tnetns\tnot permitted\n";
        assert_eq!(
            report(lines),
            "1 test was skipped for lack of etcd: no program\n2 tests were skipped for lack of netns: not permitted\n"
        );
        assert_eq!(report(""), "no test was skipped\n");
    }
}
