//! The page of benchmarks, `docs/benchmarks.md`, which is generated from records.
//!
//! `docs/records/commands.txt` has a line for each section: its name, its title, and the arguments of `farwood bench`.
//! `docs/records/NAME.jsonl` has the output of the command.

use std::fmt::Write as _;

use crate::record::Record;
use crate::record::table::table;
use crate::{Error, Result};

/// The method, which is the same for all runs.
const METHOD: &str = "\
How to read them:

- Each compute node is a separate process, also if there is only one; memory nodes are files in `/dev/shm`, or one
  process over TCP. Peers get the same keys, the same streams of operations, the same checks and, if they support it,
  the same number of processes.
- The clock is read once per operation if a client has its thread to itself: the end of one operation is the start of
  the next. So a latency includes the work of an application's loop: choosing the key (about 50 ns for zipf 0.99),
  making the value, the operation, and reading the answer. If several clients share a thread, the clock is read again
  after other clients ran.
- Every value identifies its write and its key, and every value that is read is checked.
- The JSON of a record names the consistency scheme. Sherman indexes have checksums by default; records with versions
  are older than this default, which makes a get execute 2.4 % more instructions ([decision
  3](decisions/0003-tearing.md)).
- Keys are bulk-loaded to 80 % fill, except in `load`. The warm-up is a scan of all keys, reads that fill the index
  caches, and then reads of keys from the workload; it changes nothing. After it, the memory of each process, also of
  peers, is moved to pages of 2 MiB if the kernel has some. `--warmup 0` starts with empty caches and unmapped pages.
- With peers, three rounds of each system alternate; the record is the round of median throughput, and the ratio is
  that of the medians.
- Round trips, verbs and bytes are counted per operation, not estimated.
";

/// A section of the page without its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The name of its file of records, without the extension.
    pub name: String,
    /// The heading of the section.
    pub title: String,
    /// The arguments of `farwood bench`.
    pub arguments: String,
}

/// Parses `commands.txt`: each line that is not empty and not a comment is `name | title | arguments`.
///
/// # Errors
/// A line of another form.
pub fn sections(text: &str) -> Result<Vec<Section>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let section = |line: &str| {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, title, arguments] = parts[..] else {
            return Err(Error::Record(format!("'{line}' is not `name | title | arguments`")));
        };
        Ok(Section { name: name.to_owned(), title: title.to_owned(), arguments: arguments.to_owned() })
    };
    lines.map(section).collect()
}

/// Generates the page from its sections and their records.
pub fn page(sections: &[(Section, Vec<Record>)]) -> String {
    let mut page = String::from(
        "# Benchmarks\n\nGenerated from [docs/records](records/commands.txt) by \
         `cargo run -p farwood-bench --example benchmarks`; do not edit.\n\
         `docs/records/measure` measures again.\n\n",
    );
    page.push_str(METHOD);
    for (section, records) in sections {
        let _ = write!(page, "\n## {}\n\n", section.title);
        if let Some(record) = records.first() {
            let _ = writeln!(page, "Commit {}, on {}.\n", record.commit, record.machine);
        }
        let _ = writeln!(page, "```sh\nfarwood bench {}\n```\n", section.arguments);
        if records.is_empty() {
            page.push_str("Not measured yet.\n");
        } else {
            let _ = writeln!(page, "```text\n{}```", table(records));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{peer, sample};

    #[test]
    fn a_page_names_command_commit_and_machine() {
        let text =
            "# comment\n\ngets | Gets of one process | --workload ycsb-c --keys 10M\nnew | New | --seed 2\n";
        let sections = sections(text).unwrap();
        assert_eq!(sections.len(), 2);
        let records = [vec![sample(), peer()], Vec::new()];
        let page = page(&sections.into_iter().zip(records).collect::<Vec<_>>());
        let sample = sample();
        let machine = sample.machine.to_string();
        for part in
            ["## Gets of one process", "farwood bench --workload ycsb-c --keys 10M", &sample.commit, &machine]
        {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert!(page.contains("lmdb on processes") && page.contains("Not measured yet."));
    }

    #[test]
    fn lines_of_another_form_are_refused() {
        assert!(sections("gets | --seed 2").unwrap_err().to_string().contains("name | title"));
    }
}
