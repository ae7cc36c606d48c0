//! Tables of golden costs: the costs of every operation of every variant of an index, compared with a page of `docs`.
//!
//! Costs are counted above the fabric and are the same on every fabric. They are measured on the loopback fabric,
//! where nothing depends on time. `FARWOOD_BLESS=1` with the test that measures a table rewrites its page: a change of
//! cost is a diff.

use farwood_fabric::Costs;
use std::fmt::Write as _;

/// The text of a page of `docs` with a table of costs.
#[derive(Clone, Debug)]
pub struct CostTable {
    page: String,
}

impl CostTable {
    /// Begins a page with the title `title`. `conditions` are sentences about the measured tree; `test` is the file
    /// of the test that compares the page with measured costs.
    pub fn new(title: &str, conditions: &str, test: &str) -> Self {
        let page = format!(
            "# {title}\n\n\
             Each row has the round trips, verbs and payload bytes of one operation. {conditions}.\n\
             The operands and results of atomics are not counted. The test `crates/proof/tests/all/{test}`\n\
             fails when an operation has different costs, and `FARWOOD_BLESS=1` lets it write this page.\n\n\
             | variant | operation | case | round trips | READ | WRITE | atomics | bytes read | bytes written |\n\
             |---|---|---|---:|---:|---:|---:|---:|---:|\n"
        );
        Self { page }
    }

    /// Adds the costs of `operation` of `variant` in one case.
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
        .expect("writing to a string succeeds");
    }

    /// Compares the round trips and verbs of each row with those of the same variant, operation and case in
    /// `docs/NAME`. It ignores bytes, because they depend on how the fabric lets an index check copies. Yields the
    /// number of rows.
    ///
    /// # Panics
    /// If a row differs or is missing.
    pub fn agree_in_counts_with(&self, name: &str) -> usize {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        let golden = std::fs::read_to_string(&path).expect("the page exists");
        let rows: Vec<_> = self.page.lines().filter(|line| line.starts_with("| `")).collect();
        for row in &rows {
            let (case, counts) = split(row);
            let found = golden.lines().find(|line| line.starts_with(case));
            let found = found.unwrap_or_else(|| panic!("{name} has no row {case}"));
            assert_eq!(counts, split(found).1, "{case}: round trips, READs, WRITEs, atomics");
        }
        rows.len()
    }

    /// Compares the page with `docs/NAME`; with `FARWOOD_BLESS` it writes the page first.
    ///
    /// # Panics
    /// If they differ.
    pub fn agree_with(&self, name: &str) {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("FARWOOD_BLESS").is_some() {
            std::fs::write(&path, &self.page).expect("the page is written");
        }
        let golden = std::fs::read_to_string(&path).expect("the page exists; FARWOOD_BLESS=1 writes it");
        for (golden, measured) in golden.lines().zip(self.page.lines()) {
            assert_eq!(measured, golden, "a cost has changed; FARWOOD_BLESS=1 rewrites the table");
        }
        assert_eq!(golden.lines().count(), self.page.lines().count());
    }
}

/// Splits a row into its variant, operation and case, and its round trips, READs, WRITEs and atomics.
fn split(row: &str) -> (&str, Vec<&str>) {
    let bars: Vec<usize> = row.match_indices('|').map(|(at, _)| at).collect();
    let counts = row[bars[3]..bars[7]].split('|').map(str::trim).collect();
    (&row[..=bars[3]], counts)
}
