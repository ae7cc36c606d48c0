//! Writes `docs/benchmarks.md` from `docs/records`. Run it in the root of the repository.

use std::error::Error;
use std::fs;
use std::path::Path;

use farwood_bench::record::Record;
use farwood_bench::record::page::{page, sections};

fn main() -> Result<(), Box<dyn Error>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let folder = docs.join("records");
    let mut filled = Vec::new();
    for section in sections(&fs::read_to_string(folder.join("commands.txt"))?)? {
        let file = folder.join(format!("{}.jsonl", section.name));
        let text = if file.exists() { fs::read_to_string(&file)? } else { String::new() };
        let records =
            Record::from_json_lines(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        filled.push((section, records));
    }
    fs::write(docs.join("benchmarks.md"), page(&filled))?;
    Ok(())
}
