//! The page of benchmarks, made from records: `docs/benchmarks.md`.
//!
//! `docs/records/commands.txt` has a line for each section: its name, its title, and what follows `farwood bench`.
//! `docs/records/NAME.jsonl` has what that printed. Nothing on the page comes from anywhere else.

use std::fmt::Write as _;

use crate::record::Record;
use crate::record::table::table;
use crate::{Error, Result};

/// How the numbers came about; true of every run, so it stands on the page.
const METHOD: &str = "\
How to read them:

- Each compute node is a process of its own, also a single one; memory nodes are files in `/dev/shm`, or one process
  over TCP. Peers get the same keys, the same streams of operations, the same checks and, where they can, as many
  processes.
- The clock is read once per operation where a client has its thread to itself: the end of one operation is the start
  of the next. A latency hence holds what a user's loop would hold as well: choosing the key (for zipf 0.99 about
  50 ns), making the value, the operation, and looking at the answer. Where several clients share a thread it is
  read anew after the others have had their turn.
- Every value says which write of which key it is from, and every one that is read is checked.
- Loading is bulk loading at 80 % fill, except in `load`. Warm-up is one pass over all keys, reads that
  fill the index caches, and then reads of the keys that the workload will ask for; it changes nothing. Behind it each
  process's memory is put into pages of 2 MiB, a peer's as well, where the kernel has some. `--warmup 0` starts with
  empty caches and unmapped pages.
- With peers, three rounds of each alternate; the record is the round of median throughput, and the ratio is that of
  the medians.
- Round trips, verbs and bytes are counted per operation, not estimated.
";

/// A section of the page, before its records are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The name of its file of records.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What follows `farwood bench`.
    pub arguments: String,
}

/// Reads `commands.txt`: `name | title | arguments` on each line that is not empty and no comment.
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

/// The page, from its sections and their records.
pub fn page(sections: &[(Section, Vec<Record>)]) -> String {
    let mut page = String::from(
        "# Benchmarks\n\nMade from [docs/records](records/commands.txt) by \
         `cargo run -p farwood-bench --example benchmarks`; do not edit.\n\
         To measure again: `docs/records/measure`.\n\n",
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
