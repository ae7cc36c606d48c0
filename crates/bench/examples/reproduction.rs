//! Writes `docs/reproduction.md`, the pages of the papers, their charts, and the calibration table of
//! `docs/nic-model.md`, from `docs/records/figures`; and the tables of `docs/validation.md`, which it measures. Run it
//! in the root of the repository.

use std::error::Error;
use std::fs;
use std::path::Path;

use farwood_bench::figures::{
    CalibrationStatus, Comparison, FIGURES, PAGES, ReproducedFigure, VALIDATION_BEGIN, VALIDATION_END,
    between, between_marks, calibration, index, page, validation,
};
use farwood_bench::record::Record;

fn main() -> Result<(), Box<dyn Error>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let (mut parts, mut points) = (Vec::new(), Vec::new());
    for figure in FIGURES {
        let file = docs.join("records/figures").join(format!("{}.jsonl", figure.name));
        if !file.exists() {
            continue;
        }
        let failed = |error| format!("{}: {error}", file.display());
        let records = Record::from_json_lines(&fs::read_to_string(&file)?).map_err(failed)?;
        let comparisons = figure.compare(&records).map_err(failed)?;
        fs::write(file.with_extension("svg"), figure.svg(&comparisons))?;
        // The calibration table leaves out the values of index figures with the status `Reported`: the NIC models
        // do not depend on them.
        let of_nics = |c: &&Comparison| figure.measures_nics() || c.status != CalibrationStatus::Reported;
        points.extend(comparisons.iter().filter(of_nics).cloned());
        parts.push(ReproducedFigure { figure, records, comparisons });
    }
    fs::write(docs.join("reproduction.md"), index(&parts))?;
    let folder = docs.join("reproduction");
    fs::create_dir_all(&folder)?;
    for named in PAGES {
        fs::write(folder.join(format!("{}.md", named.0)), page(named, &parts))?;
    }
    let model = docs.join("nic-model.md");
    fs::write(&model, between_marks(&fs::read_to_string(&model)?, &calibration(&points))?)?;
    let path = docs.join("validation.md");
    let made = between(&fs::read_to_string(&path)?, VALIDATION_BEGIN, VALIDATION_END, &validation()?)?;
    fs::write(&path, made)?;
    Ok(())
}
