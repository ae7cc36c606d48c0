//! The folder of `farwood reproduce`: one folder for each figure, with its results, and until its last run has ended
//! with the records of the finished runs.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use farwood_bench::figures::{Comparison, Figure, report};
use farwood_bench::record::Record;

use super::super::bench::failure;
use super::super::{Failure, out_folder};

/// The records of a complete figure.
const RECORDS: &str = "records.jsonl";
/// The records of the finished runs of a figure that is not complete.
const UNFINISHED: &str = "unfinished.jsonl";

const SVG: &str = "figure.svg";
const PNG: &str = "figure.png";
const REPORT: &str = "report.md";
/// The option of the folder, as errors name it.
const OUT: &str = "reproduce: --out";

/// The folder of all figures.
pub(super) struct FigureFolder<'p>(pub(super) &'p Path);

impl FigureFolder<'_> {
    /// The folder of a figure.
    pub(super) fn of(&self, figure: &Figure) -> PathBuf {
        self.0.join(figure.name)
    }

    /// Creates the folder of a figure, and checks that its files can be written.
    pub(super) fn create(&self, figure: &Figure) -> Result<(), Failure> {
        out_folder::prepare(OUT, &self.of(figure), &[RECORDS, UNFINISHED, SVG, PNG, REPORT])
    }

    /// The records of all finished runs. Lines that are no records are skipped: an interruption can cut the last line
    /// off, and other versions of Farwood write other fields.
    pub(super) fn records(&self) -> Vec<Record> {
        let Ok(folders) = fs::read_dir(self.0) else { return Vec::new() };
        let files =
            folders.flatten().flat_map(|folder| [RECORDS, UNFINISHED].map(|name| folder.path().join(name)));
        let texts: Vec<String> = files.filter_map(|file| fs::read_to_string(file).ok()).collect();
        texts
            .iter()
            .flat_map(|text| text.lines())
            .filter_map(|line| Record::from_json_line(line).ok())
            .collect()
    }

    /// Adds the record of a finished run.
    pub(super) fn add(&self, figure: &Figure, record: &Record) -> Result<(), Failure> {
        let path = self.of(figure).join(UNFINISHED);
        // An interruption may have cut the last line off.
        let is_cut = fs::read(&path).is_ok_and(|text| !text.is_empty() && !text.ends_with(b"\n"));
        let line = if is_cut { "\n" } else { "" }.to_owned() + &record.to_json_line() + "\n";
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|source| Failure::file(OUT, "write", &path, source))
    }

    /// Writes the results of a complete figure.
    pub(super) fn complete(
        &self,
        figure: &Figure,
        records: &[Record],
        comparisons: &[Comparison],
        command: &str,
    ) -> Result<(), Failure> {
        let folder = self.of(figure);
        let report = report(figure, records, comparisons, command);
        let lines: String = records.iter().map(|record| record.to_json_line() + "\n").collect();
        save(&folder, RECORDS, lines.as_bytes())?;
        save(&folder, SVG, figure.svg(comparisons).as_bytes())?;
        save(&folder, PNG, &figure.png(comparisons).map_err(failure)?)?;
        save(&folder, REPORT, report.as_bytes())?;
        // The file is absent if all records were reused.
        let _ = fs::remove_file(folder.join(UNFINISHED));
        Ok(())
    }
}

fn save(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let path = folder.join(name);
    fs::write(&path, bytes).map_err(|source| Failure::file(OUT, "write", &path, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farwood_bench::figures::figure;

    #[test]
    fn a_line_that_an_interruption_cut_off_is_skipped() {
        let made = tempfile::tempdir().unwrap();
        let folder = FigureFolder(made.path());
        let nic = figure("nic").unwrap();
        assert!(folder.records().is_empty());
        folder.create(nic).unwrap();
        let record = Record { spec_hash: "1".to_owned(), ..Record::default() };
        folder.add(nic, &record).unwrap();
        folder.add(nic, &Record { spec_hash: "2".to_owned(), ..record.clone() }).unwrap();
        let path = folder.of(nic).join(UNFINISHED);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 9]).unwrap();
        assert_eq!(folder.records(), [record]);
    }
}
