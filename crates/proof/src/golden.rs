//! Tables of golden costs: what every operation of every variant of an index costs, as a page of the docs has it.
//!
//! Costs are counted above the fabric and are the same on every one; they are measured on the loopback fabric, where
//! nothing depends on time. `FARWOOD_BLESS=1` with the test that measures a table writes its page anew: a change of
//! cost is a diff.

use farwood_fabric::Costs;
use std::fmt::Write as _;

/// A page with a table under way.
#[derive(Clone, Debug)]
pub struct Table {
    page: String,
}

impl Table {
    /// A page called `title`, of costs in the circumstances `of`, that `test`, a file of this package, measures.
    pub fn new(title: &str, of: &str, test: &str) -> Self {
        let page = format!(
            "# {title}\n\n\
             Round trips, verbs and payload bytes of one operation: {of}. Written by\n\
             `crates/proof/tests/all/{test}`, which fails when an operation costs anything else. Atomics carry 8\n\
             bytes each way, which are not counted.\n\n\
             | variant | operation | case | round trips | READ | WRITE | atomics | bytes read | bytes written |\n\
             |---|---|---|---:|---:|---:|---:|---:|---:|\n"
        );
        Self { page }
    }

    /// Adds what `operation` of `variant` costs in one case.
    pub fn row(&mut self, variant: &str, operation: &str, case: &str, costs: Costs) {
        let atomics = costs.cas + costs.masked_cas + costs.faa;
        writeln!(
            self.page,
            "| `{variant}` | {operation} | {case} | {} | {} | {} | {atomics} | {} | {} |",
            costs.round_trips,
            costs.reads,
            costs.writes + costs.write_imm,
            costs.bytes_read,
            costs.bytes_written
        )
        .expect("a string takes what it is given");
    }

    /// Compares the rows with those of the same variant, operation and case in `docs/NAME`, but for the bytes: these
    /// depend on how a fabric's copies are checked. Yields how many rows there were.
    ///
    /// # Panics
    /// Where a row is another, or is not there.
    pub fn agree_in_counts_with(&self, name: &str) -> usize {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        let golden = std::fs::read_to_string(&path).expect("the table is there");
        let rows: Vec<_> = self.page.lines().filter(|line| line.starts_with("| `")).collect();
        for row in &rows {
            let (case, counts) = split(row);
            let found = golden.lines().find(|line| line.starts_with(case));
            let found = found.unwrap_or_else(|| panic!("{name} has no row {case}"));
            assert_eq!(counts, split(found).1, "{case}: round trips, READs, WRITEs, atomics");
        }
        rows.len()
    }

    /// Compares the page with `docs/NAME`, or writes it there where that is asked for.
    ///
    /// # Panics
    /// Where they differ.
    pub fn agree_with(&self, name: &str) {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("FARWOOD_BLESS").is_some() {
            std::fs::write(&path, &self.page).expect("the table can be written");
        }
        let golden = std::fs::read_to_string(&path).expect("the table is there; FARWOOD_BLESS=1 writes it");
        for (golden, measured) in golden.lines().zip(self.page.lines()) {
            assert_eq!(measured, golden, "a cost has changed; FARWOOD_BLESS=1 writes the table anew");
        }
        assert_eq!(golden.lines().count(), self.page.lines().count());
    }
}

/// A row's variant, operation and case; its round trips, READs, WRITEs and atomics.
fn split(row: &str) -> (&str, Vec<&str>) {
    let bars: Vec<usize> = row.match_indices('|').map(|(at, _)| at).collect();
    let counts = row[bars[3]..bars[7]].split('|').map(str::trim).collect();
    (&row[..=bars[3]], counts)
}
